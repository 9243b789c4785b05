"""A function recorded on abstract numbers: its inputs and its result as nodes of a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wengert.core.dtypes import float64
from wengert.core.errors import ArgumentError
from wengert.core.graph import Node, tracing
from wengert.ops.core import alias, placeholder
from wengert.tensor import Tensor

Function = Callable[..., Any]


class RecordedFunction(NamedTuple):
    """The nodes of a function's arguments, and of its result."""

    inputs: list[Node]
    output: Node


def record(function: Function, count: int, shape: tuple[int, ...] = ()) -> RecordedFunction:
    """Record a function of `count` numbers, or of arrays of a shape in their place, number by number."""
    inputs = [placeholder(shape, float64) for _ in range(count)]
    _require_arguments(function, count)
    with tracing("compare"):
        result = function(*map(Tensor, inputs))
    if not isinstance(result, Tensor) or result.shape != shape:
        gave = f"shape {result.shape}" if isinstance(result, Tensor) else f"{result!r}, which depends on no argument"
        raise ArgumentError(f"compare: from a number for each argument the function must compute one; it gave {gave}")
    return RecordedFunction(inputs, alias(result.node) if result.node in inputs else result.node)


def _require_arguments(function: Function, count: int) -> None:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        numbers = "1 number, so 1 argument" if count == 1 else f"{count} numbers, one for each argument"
        raise ArgumentError(f"compare: x has {numbers}; the function takes others: {error}") from None
    except ValueError:  # built-in functions do not tell
        return


def argument_names(function: Function, point: Sequence[float]) -> list[str]:
    """What the function calls its arguments."""
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:  # built-in functions do not tell
        names = []
    return [names[i] if i < len(names) else f"x{i + 1}" for i in range(len(point))]
