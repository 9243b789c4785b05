"""Samples of elementwise ops: operands that the registry's tests call them with. Nothing else imports this.

Shapes are the same for all: 0-d, empty, with axes of size 1, transposed, strided, broadcast. Values are uniform over
the op's domain, and small integers for ops that take nothing else.
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
    """Calls of an op of one operand or of two."""
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


def _uniform(seed: int, shapes: tuple[tuple[int, ...], ...], low: float, high: float) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(low, high, shape), float64) for shape in shapes]
