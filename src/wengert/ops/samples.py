"""Samples of elementwise ops and of reductions: the inputs of the registry's tests. Nothing else imports this.

Shapes are the same for all ops of a kind: 0-d, empty, with axes of size 1, transposed, strided, broadcast. Values are
uniform over the op's domain, and small integers for ops that take nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from wengert.core.dtypes import INEXACT, float64
from wengert.ops.facts import Sample
from wengert.ops.recorders import Elementwise

Array = np.ndarray[Any, Any]

ONE = ((), (0, 3), (1, 3, 1), (3, 2), (7,))
TWO = ((2, 3), (2, 3), (3, 1), (2,), (), (0, 3), (1, 1))
ONE_OF_INTEGERS = ((), (0,), (1, 2), (3, 2), (5,))
TWO_OF_INTEGERS = (((), ()), ((2, 3), (3,)), ((0, 2), (1,)), ((1, 3), (2, 1)), ((4,), (4,)))


def samples_of(op: Elementwise, operands: int) -> Iterator[Sample]:
    """Sample calls of an op with one or two operands."""
    seed = zlib.crc32(op.name.encode())  # the same in every process, another for each op
    if not any(dtype in INEXACT for dtype in op.table):
        rng = np.random.default_rng(seed)
        for shapes in TWO_OF_INTEGERS if operands == 2 else ((shape,) for shape in ONE_OF_INTEGERS):
            yield tuple(rng.integers(-9 if operands == 1 else 0, 8, shape) for shape in shapes), {}
        return
    for number, (low, high) in enumerate(op.domain):
        found = of_one(seed + number, low, high) if operands == 1 else of_two(seed + number, low, high)
        yield from ((values, {}) for values in found)


def of_one(seed: int, low: float, high: float) -> Iterator[tuple[Array]]:
    """Single operands: 0-d, empty, with axes of size 1, transposed, strided."""
    number, empty, thin, matrix, long = _uniform(seed, ONE, low, high)
    yield from ((number,), (empty,), (thin,), (matrix.T,), (long[::2],))


def of_two(seed: int, low: float, high: float) -> Iterator[tuple[Array, Array]]:
    """Pairs: of equal shapes, both broadcast, 0-d beside a matrix, empty, transposed beside strided."""
    a, b, column, row, number, empty, thin = _uniform(seed, TWO, low, high)
    yield from ((a, b), (column, row), (number, a), (empty, thin), (a.T, np.repeat(b.T, 2, axis=0)[::2]))


def of_where() -> Iterator[Sample]:
    """Conditions and two values."""
    rng = np.random.default_rng(0)
    for a, b in of_two(1, -2.0, 2.0):
        yield (rng.random(np.broadcast_shapes(a.shape, b.shape)) < 0.5, a, b), {}


# --- reductions -----------------------------------------------------------------------------------------------------


def of_axes(empty: bool = False) -> Iterator[Sample]:
    """Values reduced over all axes, one or several; also over axes without elements, if `empty`."""
    a, b, thin, nothing, no_rows = _uniform(11, ((3, 4), (2, 3, 2), (1, 3, 1), (0, 3), (2, 0, 3)), -2.0, 2.0)
    turned, every_other = _transposed_and_strided()
    yield from (((np.array(1.25),), {}), ((a,), {}), ((a,), {"axis": 0}))
    yield (b,), {"axis": (0, -1), "keepdims": True}
    yield from (((turned,), {"axis": -1}), ((every_other,), {"axis": 0, "keepdims": True}))
    yield from (((thin,), {"axis": (0, 2)}), ((no_rows,), {"axis": 2}))
    if empty:
        yield from (((nothing,), {}), ((nothing,), {"axis": 0}))
        yield (no_rows,), {"axis": (1, 2), "keepdims": True}


def of_one_axis() -> Iterator[Sample]:
    """Values reduced along one axis, or flattened."""
    a, thin = _uniform(11, ((3, 4), (1, 3, 1)), -2.0, 2.0)
    turned, every_other = _transposed_and_strided()
    yield from (((np.array(1.25),), {}), ((a,), {}), ((a,), {"axis": 0}))
    yield (turned,), {"axis": -1, "keepdims": True}
    yield from (((every_other,), {"axis": 0}), ((thin,), {"axis": 1}))


def of_truths() -> Iterator[Sample]:
    """Booleans reduced, including over no elements."""
    truths = np.array([[True, False, True], [True, True, False]])
    yield from (((np.array(True),), {}), ((truths,), {}), ((truths,), {"axis": 0}))
    yield (truths.T,), {"axis": -1, "keepdims": True}
    yield (np.zeros((0, 2), np.bool_),), {"axis": 0}


def _transposed_and_strided() -> tuple[Array, Array]:
    (matrix,), (long,) = _uniform(12, ((4, 3),), -2.0, 2.0), _uniform(13, ((7, 2),), -2.0, 2.0)
    return matrix.T, long[::2]


def _uniform(seed: int, shapes: tuple[tuple[int, ...], ...], low: float, high: float) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(low, high, shape), float64) for shape in shapes]
