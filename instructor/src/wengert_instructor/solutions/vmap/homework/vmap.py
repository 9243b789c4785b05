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
    return np.moveaxis(value[0], value[1], 0)


def unary(function: Any, x: Batched) -> Batched:
    """A function of each element, such as np.sin."""
    return (function(x[0]), None) if x[1] is None else (function(to_front(x)), 0)


def add(a: Batched, b: Batched) -> Batched:
    """a + b of each example, where the arrays of an example may have different ranks and are broadcast."""
    if a[1] is None and b[1] is None:
        return a[0] + b[0], None
    rank = max(_rank(a), _rank(b))
    return _aligned(a, rank) + _aligned(b, rank), 0


def total(x: Batched, axis: int) -> Batched:
    """The sum along an axis of each example's array. The axis may be negative."""
    if x[1] is None:
        return x[0].sum(axis=axis), None
    front = to_front(x)
    return front.sum(axis=axis if axis < 0 else axis + 1), 0


def transpose(x: Batched) -> Batched:
    """The axes of each example's array in reverse order."""
    if x[1] is None:
        return x[0].T, None
    front = to_front(x)
    return front.transpose(0, *range(front.ndim - 1, 0, -1)), 0


def matmul(a: Batched, b: Batched) -> Batched:
    """a @ b of two matrices of each example."""
    if a[1] is None and b[1] is None:
        return a[0] @ b[0], None
    return (a[0] if a[1] is None else to_front(a)) @ (b[0] if b[1] is None else to_front(b)), 0


def take(x: Batched, index: Batched) -> Batched:
    """x[index], a row of each example's array; the index is an integer, perhaps another one for each example."""
    if x[1] is None and index[1] is None:
        return x[0][index[0]], None
    if x[1] is None:
        return x[0][index[0]], 0
    front = to_front(x)
    return front[np.arange(len(front)), index[0]], 0


def run(program: list[tuple[Any, ...]], inputs: list[Batched]) -> Batched:
    """Run a program on batched inputs; its last line is the result.

    A line is `(op, operand, ...)`. An operand is the number of a value: inputs come first, then the lines in order.
    The ops are ("sin", x), ("exp", x), ("add", a, b), ("total", x, axis), ("transpose", x), ("matmul", a, b) and
    ("take", x, i).
    """
    values = list(inputs)
    rules = {"add": add, "transpose": transpose, "matmul": matmul, "take": take}
    for op, *operands in program:
        if op in ("sin", "exp"):
            values.append(unary(getattr(np, op), values[operands[0]]))
        elif op == "total":
            values.append(total(values[operands[0]], operands[1]))
        else:
            values.append(rules[op](*(values[k] for k in operands)))
    return values[-1]


def _rank(value: Batched) -> int:
    """How many axes an example has."""
    return np.ndim(value[0]) - (value[1] is not None)


def _aligned(value: Batched, rank: int) -> Array:
    """An array whose examples are on axis 0, and whose other axes line up with those of an example of this rank."""
    if value[1] is None:
        return value[0]
    front = to_front(value)
    return front.reshape(len(front), *[1] * (rank + 1 - front.ndim), *front.shape[1:])
