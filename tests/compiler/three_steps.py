"""Three training steps run in each way that Wengert runs them, and how far apart what they give may be.

What is interpreted in float64 is the truth. Compiled float64 agrees with it to 1e-11 of each tensor's largest number:
sums are added up in another order, and nothing else. Compiled float32 may be off by no more than a few times what the
float32 references are off themselves, and a few roundings of the largest number: how many depends on how those who
compute add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

Array = np.ndarray[Any, Any]
STEPS = 3


class Training(NamedTuple):
    """What is trained: a step that returns tensors by name, and the tensors by name that it changes."""

    step: Callable[[], dict[str, wg.Tensor]]
    state: dict[str, wg.Tensor]


Build = Callable[..., Training]  # of a dtype, and of a device: the same training with the same numbers each time


def assert_compiled_as_interpreted(
    way: Callable[[Training], dict[str, Array]], build: Build, dtype: str, device: str = "cpu", roundings: int = 16
) -> None:
    """What `way` gives in this dtype on a device is what the references give."""
    truth = interpreted(build("float64"))
    rough = interpreted(build(dtype)) if dtype == "float32" else truth
    found = way(build(dtype, device))
    assert found.keys() == truth.keys()
    for name, expected in truth.items():
        assert np.isfinite(expected).all(), name
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(found[name], expected, err_msg=name)
            continue
        assert found[name].dtype == dtype, name
        largest = np.abs(expected).max(initial=0.0)
        bound = 1e-11 * largest
        if dtype == "float32":
            bound = 4 * _off(rough[name], expected) + roundings * np.finfo(np.float32).eps * largest
        off = _off(found[name], expected)
        assert off <= bound, f"{name} is {off:.2g} off, and may be {bound:.2g} ({largest:.2g} is the largest)"


def _off(found: Array, expected: Array) -> float:
    return float(np.abs(found.astype(np.float64) - expected).max(initial=0.0))


def interpreted(training: Training) -> dict[str, Array]:
    """By the references."""
    with tier("interpret"):
        return _values(training, training.step)


def replayed(training: Training) -> dict[str, Array]:
    """As one program, by `wg.compile`."""
    with tier("auto"):
        step = wg.compile(training.step)
        values = _values(training, step)
    assert step.why() == ["it is the first call"]
    return values


def dynamic(training: Training) -> dict[str, Array]:
    """Without annotation, each flush of a step compiled."""
    with tier("compile"):
        return _values(training, training.step)


def _values(training: Training, step: Callable[[], dict[str, wg.Tensor]]) -> dict[str, Array]:
    """What every step returned, and the state after the last."""
    values: dict[str, Array] = {}
    for number in range(STEPS):
        returned = step()
        values |= {f"{name}, step {number}": value.detach().numpy() for name, value in returned.items()}
    with tier("interpret"):  # the last update alone would be one more program
        return values | {f"{name}, at the end": value.detach().numpy() for name, value in training.state.items()}


@contextmanager
def tier(name: str) -> Iterator[None]:
    """Dynamic code runs in this tier."""
    before, wg.config.tier = wg.config.tier, name
    try:
        yield
    finally:
        wg.config.tier = before
