"""Updates in progress: their inputs, and values that arrive while later updates are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import wengert as wg
from wengert.core.devices import is_host
from wengert.core.errors import ComputationError, OutOfRangeError


class Update(NamedTuple):
    """An update of the parameters: number, batches, the random state before it, and values on their way."""

    step: int
    batches: list[Any]
    random: dict[str, wg.Tensor]
    values: list[dict[str, Any]]


def on_their_way(values: dict[str, wg.Tensor]) -> dict[str, Any]:
    """Values that can be read while a GPU continues with later updates."""
    return {name: value if is_host(value.device) else wg.cuda.download(value) for name, value in values.items()}


@contextmanager
def errors_at(step: int) -> Iterator[None]:
    """A context in which errors mention the number of the step."""
    try:
        yield
    except (ComputationError, OutOfRangeError) as error:
        hint = "; are all labels (or tokens) in the model's range?" if "out of range" in error.message else ""
        raise type(error)(f"step {step}: {error.message}{hint}", error.location) from error


def means_of(window: list[dict[str, float]]) -> dict[str, float]:
    """The means of the values of several updates, by name."""
    return {name: sum(values[name] for values in window) / len(window) for name in window[0]}
