"""Sorting, and what follows from an order: the k largest, medians, quantiles, places in a sorted row.

The primitives say where elements go and have no derivative of their own; values are gathered from there, so their
derivative is the gather's. NaNs come last, and first in descending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import COMPLEX, INEXACT, default_float, float64, int64, promote
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.addressing import GATHER, TAKE_ALONG, as_index
from wengert.ops.comparison import zero_where
from wengert.ops.core import as_node, cast, operands
from wengert.ops.elementwise import floor, greater_equal, isnan, less_equal, logical_and, minimum, where
from wengert.ops.factors import Factors, other_axes
from wengert.ops.gather import take
from wengert.ops.movement import broadcast_to, moveaxis, normalize_axes, normalize_axis, reshape, slice_axis
from wengert.ops.op import Op, behind_lanes


class ValuesAndIndices(NamedTuple):
    """Elements, and where along the axis they were."""

    values: Node
    indices: Node


# --- sort -----------------------------------------------------------------------------------------------------------


def _argsort(x: Any, axis: int, descending: bool) -> Any:
    if not descending:
        return np.argsort(x, axis, stable=True)
    # equal elements keep their order: turn round, sort, and turn the order round again
    turned = np.argsort(np.flip(x, axis), axis, stable=True)
    return x.shape[axis] - 1 - np.flip(turned, axis)


def _infer_argsort(x: Node, axis: int, descending: bool) -> tuple[Any, Any]:
    if x.dtype in COMPLEX:
        raise DTypeError("sort: complex numbers have no order; sort by abs(x) or real(x)")
    return x.shape, int64


ARGSORT: Op = Op(
    "argsort",
    infer=_infer_argsort,
    numpy=_argsort,
    differentiable=False,
    batch=behind_lanes,
    factors=other_axes,
    expensive=True,
)


def _sort(x: Any, axis: int, descending: bool) -> Any:
    if not descending:
        return np.sort(x, axis, stable=True)
    return np.take_along_axis(x, _argsort(x, axis, True), axis)  # zeros of both signs keep their order


def _gathered(x: Node, axis: int, descending: bool) -> Node:
    """`x` sorted, by where its elements go: this has a derivative."""
    return TAKE_ALONG(x, ARGSORT(x, axis=axis, descending=descending), axis=axis)


SORT: Op = Op(
    "sort",
    infer=lambda x, axis, descending: (x.shape, x.dtype),
    numpy=_sort,
    composition=_gathered,
    batch=behind_lanes,
    factors=other_axes,
    expensive=True,
    can_fail=False,
)


def argsort(x: Any, /, axis: int = -1, descending: bool = False, stable: bool = True) -> Node:
    """The indices that sort `x` along an axis. Equal elements keep their order, `stable` or not.

    >>> import wengert as wg
    >>> wg.argsort(wg.tensor([3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    x = as_node(x)
    return ARGSORT(x, axis=normalize_axis(axis, x.ndim, "argsort"), descending=bool(descending))


def sort(x: Any, /, axis: int = -1, descending: bool = False, stable: bool = True) -> Node:
    """`x` sorted along an axis.

    >>> import wengert as wg
    >>> wg.sort(wg.tensor([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    x = as_node(x)
    at = normalize_axis(axis, x.ndim, "sort")
    if x.tracked or x.dtype in COMPLEX:
        return _gathered(x, at, bool(descending))
    return SORT(x, axis=at, descending=bool(descending))


def _first(x: Any, k: int, axis: int, descending: bool) -> Any:
    return np.take(_argsort(x, axis, descending), np.arange(k), axis)


def _infer_first(x: Node, k: int, axis: int, descending: bool) -> tuple[Any, Any]:
    shape, dtype = _infer_argsort(x, axis, descending)
    return (*shape[:axis], k, *shape[axis + 1 :]), dtype


TOPK: Op = Op(
    "topk",
    infer=_infer_first,
    numpy=_first,
    differentiable=False,
    batch=behind_lanes,
    factors=other_axes,
    expensive=True,
    can_fail=False,
)
"""Where the first `k` elements in an order along an axis are: what ARGSORT begins with."""


def topk(x: Any, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndIndices:
    """The `k` largest (or smallest) elements along an axis and their indices, always in order.

    >>> import wengert as wg
    >>> values, indices = wg.topk(wg.tensor([1.0, 5.0, 3.0]), 2)
    >>> values.tolist(), indices.tolist()
    ([5.0, 3.0], [1, 2])
    """
    x = as_node(x)
    at = normalize_axis(axis, x.ndim, "topk")
    if not isinstance(k, (int, np.integer)) or not 0 <= k <= x.shape[at]:
        raise ArgumentError(f"topk: k={k!r} of the {x.shape[at]} elements along axis {at} of shape {x.shape}")
    indices = TOPK(x, k=int(k), axis=at, descending=bool(largest))
    return ValuesAndIndices(TAKE_ALONG(x, indices, axis=at), indices)


def kthvalue(x: Any, k: int, axis: int = -1, keepdims: bool = False) -> ValuesAndIndices:
    """The `k`-th smallest element along an axis, counted from 1, and its index.

    >>> import wengert as wg
    >>> value, index = wg.kthvalue(wg.tensor([3.0, 1.0, 2.0]), 2)
    >>> value.item(), index.item()
    (2.0, 2)
    """
    x = as_node(x)
    at = normalize_axis(axis, x.ndim, "kthvalue")
    if not isinstance(k, (int, np.integer)) or not 1 <= k <= x.shape[at]:
        raise ArgumentError(f"kthvalue: k={k!r} of the {x.shape[at]} elements along axis {at}; k counts from 1")
    indices = slice_axis(TOPK(x, k=int(k), axis=at, descending=False), at, int(k) - 1, int(k))
    values = TAKE_ALONG(x, indices, axis=at)
    shape = values.shape if keepdims else (*x.shape[:at], *x.shape[at + 1 :])
    return ValuesAndIndices(reshape(values, shape), reshape(indices, shape))


# --- quantiles ------------------------------------------------------------------------------------------------------


def quantile(x: Any, q: Any, axis: Any = None, keepdims: bool = False) -> Node:
    """The values below which the fractions `q` of the elements along some axes lie, interpolated linearly.

    The axes of `q` come first in the result. A NaN among the elements makes the result NaN.

    >>> import wengert as wg
    >>> wg.quantile(wg.tensor([0.0, 10.0, 20.0]), 0.75).item()
    15.0
    """
    row, kept = _with_last_axis("quantile", as_node(x), axis, keepdims)
    fraction = _fraction(q)
    rank, n = row.ndim - 1, row.shape[-1]
    ordered = sort(row)
    # where between two elements the quantile lies is worked out in float64, whatever the dtype of x
    place = cast(fraction, float64) * float(n - 1)
    below = minimum(cast(floor(place), int64), max(n - 2, 0))
    if not isinstance(fraction.buffer, np.ndarray):
        is_fraction = logical_and(greater_equal(fraction, 0), less_equal(fraction, 1))
        below = below + zero_where(is_fraction, "quantile: q lies between 0 and 1")
    low = _last_in_front(GATHER(ordered, below, axis=rank), fraction.ndim)
    high = _last_in_front(GATHER(ordered, minimum(below + 1, n - 1), axis=rank), fraction.ndim)
    weight = reshape(cast(place - cast(below, float64), row.dtype), (*fraction.shape, *(1,) * rank))
    last = reshape(slice_axis(ordered, rank, n - 1, n), row.shape[:-1])
    result = where(isnan(last), last, low + (high - low) * weight)
    return reshape(result, (*fraction.shape, *kept))


def _last_in_front(x: Node, count: int) -> Node:
    return moveaxis(x, list(range(x.ndim - count, x.ndim)), list(range(count)))


def _fraction(q: Any) -> Node:
    node = as_node(np.asarray(q, np.float64)) if isinstance(q, (int, float, list, tuple)) else as_node(q)
    known = node.buffer
    if isinstance(known, np.ndarray) and known.size and not (known.min() >= 0 and known.max() <= 1):
        raise ArgumentError(f"quantile: q lies between 0 and 1, not {known.tolist()}")
    return node


def _with_last_axis(name: str, x: Node, axis: Any, keepdims: bool) -> tuple[Node, tuple[int, ...]]:
    """`x` with the named axes made one, the last; and the shape that is left when it is reduced."""
    x = x if x.dtype in INEXACT else cast(x, default_float)
    axes = normalize_axes(axis, x.ndim, name)
    others = [i for i in range(x.ndim) if i not in axes]
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    if not count:
        raise ShapeError(f"{name}: shape {x.shape} has no elements along axes {axes}")
    row = reshape(moveaxis(x, list(axes), list(range(len(others), x.ndim))), (*(x.shape[i] for i in others), count))
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes)
    return row, kept


def median(x: Any, /, axis: Any = None, keepdims: bool = False) -> Node:
    """The middle element along some axes; the mean of the two middle ones if their number is even (as in NumPy).

    >>> import wengert as wg
    >>> wg.median(wg.tensor([3.0, 1.0, 2.0])).item()
    2.0
    """
    return quantile(x, 0.5, axis=axis, keepdims=keepdims)


# --- places in a sorted row -----------------------------------------------------------------------------------------


def _searchsorted(rows: Any, values: Any, side: Any) -> Any:
    if rows.ndim == 1:
        return np.searchsorted(rows, values, side)
    result = np.empty(values.shape, np.int64)
    for lane in np.ndindex(rows.shape[:-1]):
        result[lane] = np.searchsorted(rows[lane], values[lane], side)
    return result


def _searchsorted_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    rows, values = sources
    if rows.ndim == 1 and not batched[0]:
        return SEARCHSORTED(rows, values, **y.attrs)
    lanes = (values if batched[1] else rows).shape[0]
    full = [s if b else broadcast_to(s, (lanes, *s.shape)) for s, b in zip(sources, batched)]
    return SEARCHSORTED(*full, **y.attrs)


def _searchsorted_factors(node: Node) -> Factors:
    """Every axis of the values; rows have the axes before their last, or are one row for all values."""
    labels = tuple(range(len(node.shape)))
    return Factors(((*labels[: node.sources[0].ndim - 1], None), labels), (labels,))


SEARCHSORTED = Op(
    "searchsorted",
    infer=lambda rows, values, side: (values.shape, int64),
    numpy=_searchsorted,
    differentiable=False,
    batch=_searchsorted_batch,
    factors=_searchsorted_factors,
)


def searchsorted(x1: Any, x2: Any, /, side: str = "left", sorter: Any = None) -> Node:
    """Where in the sorted `x1` the elements of `x2` would go; before equal ones, or behind them with side="right".

    `x1` has one axis; or it has several, sorted along the last, and `x2` has the same before its last.

    >>> import wengert as wg
    >>> wg.searchsorted(wg.tensor([1.0, 3.0, 5.0]), wg.tensor([3.0, 4.0])).tolist()
    [1, 2]
    """
    if side not in ("left", "right"):
        raise ArgumentError(f'searchsorted: side is "left" or "right", not {side!r}')
    rows, values = operands(x1, x2)
    if rows.ndim == 0 or (rows.ndim > 1 and rows.shape[:-1] != values.shape[:-1]):
        raise ShapeError(f"searchsorted: x1 of shape {rows.shape} for values of shape {values.shape}; x1 has one axis")
    if sorter is not None:
        order = as_index(sorter, "searchsorted")
        rows = take(rows, order, axis=0) if rows.ndim == 1 else TAKE_ALONG(rows, order, axis=rows.ndim - 1)
    meet = promote(rows.dtype, values.dtype)
    return SEARCHSORTED(cast(rows, meet), cast(values, meet), side=side)
