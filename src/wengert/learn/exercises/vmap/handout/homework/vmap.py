"""vmap for a small language: a rule for each op says what it does to many examples at once.

A value is a pair `(array, axis)`. The axis is where the examples lie; None means that all examples share the array. A
rule takes its operands as such pairs and returns one. Where no operand has examples, neither has the result; otherwise
the examples of the result lie on axis 0.

The examples of one op are computed at once: a loop in Python over examples is no batching, and is too slow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a NumPy array
Batched = tuple[Array, int | None]


def to_front(value: Batched) -> Array:
    """The array of a value with examples, with these on axis 0."""
    raise NotImplementedError("TODO: to_front")


def unary(function: Any, x: Batched) -> Batched:
    """A function of each element, such as np.sin."""
    raise NotImplementedError("TODO: unary")


def add(a: Batched, b: Batched) -> Batched:
    """a + b of each example, where the arrays of an example may have different ranks and are broadcast."""
    raise NotImplementedError("TODO: add")


def total(x: Batched, axis: int) -> Batched:
    """The sum along an axis of each example's array. The axis may be negative."""
    raise NotImplementedError("TODO: total")


def transpose(x: Batched) -> Batched:
    """The axes of each example's array in reverse order."""
    raise NotImplementedError("TODO: transpose")


def matmul(a: Batched, b: Batched) -> Batched:
    """a @ b of two matrices of each example."""
    raise NotImplementedError("TODO: matmul")


def take(x: Batched, index: Batched) -> Batched:
    """x[index], a row of each example's array; the index is an integer, perhaps another one for each example."""
    raise NotImplementedError("TODO: take")


def run(program: list[tuple[Any, ...]], inputs: list[Batched]) -> Batched:
    """Run a program on batched inputs; its last line is the result.

    A line is `(op, operand, ...)`. An operand is the number of a value: inputs come first, then the lines in order.
    The ops are ("sin", x), ("exp", x), ("add", a, b), ("total", x, axis), ("transpose", x), ("matmul", a, b) and
    ("take", x, i).
    """
    raise NotImplementedError("TODO: run")


def _rank(value: Batched) -> int:
    """How many axes an example has."""
    raise NotImplementedError("TODO: _rank")


def _aligned(value: Batched, rank: int) -> Array:
    """An array whose examples are on axis 0, and whose other axes line up with those of an example of this rank."""
    raise NotImplementedError("TODO: _aligned")
