"""Distinct elements, by sorting; `api.data_dependent` uses it for values that are not on the host.

Equal elements lie side by side once sorted: an element is the first of its kind where it differs from the one before.
Their number is the only value that is read. Small numbers are counted instead of sorted: on an H200
the counts of 10^7 take 30 us, and their order 400.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wengert.core.dtypes import INEXACT, bool_, int64
from wengert.core.graph import Node
from wengert.ops.addressing import GATHER, SCATTER, zeros
from wengert.ops.core import cast, literal
from wengert.ops.counting import BINCOUNT, flat_places
from wengert.ops.creation import arange
from wengert.ops.elementwise import isnan, logical_and, logical_not, not_equal
from wengert.ops.movement import broadcast_to, concat, moveaxis, reshape, slice_axis
from wengert.ops.reduce import any as any_of
from wengert.ops.running import CUMSUM, diff
from wengert.ops.sorting import ARGSORT

MOST_COLUMNS = 64
"""Elements of a slice up to which slices are sorted here: each takes a sort of its own."""


FEW_NUMBERS = 8192
"""Numbers up to which counts are kept in shared memory."""


class Distinct(NamedTuple):
    """The distinct slices along the first axis: the index of each one's first occurrence, the inverse indices, the
    counts."""

    indices: Node
    inverse: Node
    counts: Node


def distinct_numbers(x: Node, size: int, look: Callable[[Node], Any]) -> tuple[Node, Distinct]:
    """The distinct ones of integers from 0 to `size - 1` along one axis. `look` returns the value of a node."""
    counts = BINCOUNT(x, size=size)
    values = flat_places(counts, look)
    own = GATHER(counts, values, axis=0)
    number = CUMSUM(cast(not_equal(counts, 0), int64), axis=0, backwards=False) - 1
    before = CUMSUM(own, axis=0, backwards=False) - own  # in order
    first = GATHER(ARGSORT(x, axis=0, descending=False), before, axis=0)
    return cast(values, x.dtype), Distinct(first, GATHER(number, cast(x, int64), axis=0), own)


def distinct(x: Node, equal_nan: bool, look: Callable[[Node], Any]) -> Distinct:
    """The distinct slices of `x` along its first axis, in order. `look` returns the value of a node.

    NaNs are distinct unless elements are single numbers and `equal_nan` is set, as in NumPy.
    """
    n, order = x.shape[0], _order(x)
    ordered = GATHER(x, order, axis=0)
    later, earlier = slice_axis(ordered, 0, 1, n), slice_axis(ordered, 0, 0, n - 1)
    differs = not_equal(later, earlier)
    if equal_nan and x.ndim == 1 and x.dtype in INEXACT:
        differs = logical_and(differs, logical_not(logical_and(isnan(later), isnan(earlier))))
    if x.ndim > 1:
        differs = any_of(differs, axis=tuple(range(1, x.ndim)))
    is_first = concat([broadcast_to(literal(True, bool_, x.device), (1,)), differs], axis=0)
    starts = flat_places(is_first, look)
    number = CUMSUM(cast(is_first, int64), axis=0, backwards=False) - 1
    end = broadcast_to(literal(n, int64, x.device), (1,))
    return Distinct(
        GATHER(order, starts, axis=0),
        SCATTER(zeros((n,), number), number, order, axis=0),
        diff(concat([starts, end], axis=0)),
    )


def _order(x: Node) -> Node:
    """The places of the slices along the first axis in order, equal ones as they came: by their last elements first."""
    if x.ndim == 1:
        return ARGSORT(x, axis=0, descending=False)
    n = x.shape[0]
    columns = moveaxis(reshape(x, (n, x.size // n)), 1, 0)
    order = None
    for k in reversed(range(columns.shape[0])):
        column = reshape(slice_axis(columns, 0, k, k + 1), (n,))
        if order is None:
            order = ARGSORT(column, axis=0, descending=False)
        else:
            order = GATHER(order, ARGSORT(GATHER(column, order, axis=0), axis=0, descending=False), axis=0)
    return cast(arange(n, device=x.device), int64) if order is None else order
