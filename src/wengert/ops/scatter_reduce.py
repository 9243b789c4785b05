"""Combining values by index: sums, products, means, maxima and minima, with or without the original values.

All are compositions. Sums and means add along the index. For the others the values are sorted so that the wanted value
for each index comes last, and written: of several values for one index the last wins. A product is a running product
that restarts at each index, in doubling steps, so its derivatives are correct with zeros among the factors. Values in
the order of a mask's true elements are numbered by a running sum of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import INTEGER, REAL, bool_, int64
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.addressing import (
    ADD_ALONG,
    GATHER,
    PUT_ALONG,
    TAKE_ALONG,
    as_index,
    check_range,
    put_slice,
    values_for,
)
from wengert.ops.comparison import maximum
from wengert.ops.core import as_node, cast, stop_gradient
from wengert.ops.creation import arange, full, ones, zeros
from wengert.ops.elementwise import equal, floor_divide, greater_equal, isfinite, logical_and, negative, where
from wengert.ops.movement import broadcast_to, concat, normalize_axis, reshape, slice_axis, take_slice
from wengert.ops.recorders import broadcast_shapes
from wengert.ops.running import cumsum
from wengert.ops.sorting import argsort

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def scatter_reduce(x: Any, axis: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Node:
    """`x` with the values of `src` combined into the elements that `gather` reads.

    `reduce` is "sum", "prod", "mean", "amax" or "amin".
    Without `include_self`, the original values at the indexed elements are not included. Values that tie for the
    largest or the smallest share the derivative equally.

    >>> import wengert as wg
    >>> index, src = wg.tensor([0, 1, 0]), wg.tensor([1.0, 2.0, 3.0])
    >>> wg.scatter_reduce(wg.zeros(3), 0, index, src, "amax").tolist()
    [3.0, 2.0, 0.0]
    """
    x, index = as_node(x), as_index(index, "scatter_reduce")
    src = values_for(x, src)
    if not x.ndim:
        whole = scatter_reduce(
            reshape(x, (1,)), 0, reshape(index, (-1,)), reshape(src, (-1,)), reduce, include_self=include_self
        )
        return reshape(whole, ())
    at = normalize_axis(axis, x.ndim, "scatter_reduce")
    too_large = any(m > n for i, (m, n) in enumerate(zip(index.shape, x.shape)) if i != at)
    if index.ndim != x.ndim or src.ndim != x.ndim or too_large:
        raise ShapeError(
            f"scatter_reduce: a value of shape {x.shape}, an index of shape {index.shape} and a src of shape "
            f"{src.shape}: they must have the same number of axes, and the index cannot be longer than the value "
            f"except along axis {at}"
        )
    if any(m < n for m, n in zip(src.shape, index.shape)):
        raise ShapeError(
            f"scatter_reduce: src of shape {src.shape} does not have a value for each index of {index.shape}"
        )
    check_range(index, x.shape[at], "scatter_reduce")
    return _into_corner("scatter_reduce", x, at, index, _corner(src, index.shape), reduce, include_self)


def index_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Node:
    """`x` with the slices of `source` combined into the slices at the indices in a 1-d index along an axis.

    `reduce` is "prod", "mean", "amax", "amin" or "sum".

    >>> import wengert as wg
    >>> wg.index_reduce(wg.ones((2, 2)), 0, wg.tensor([0, 0]), wg.tensor([[2.0, 3.0], [4.0, 5.0]]), "prod").tolist()
    [[8.0, 15.0], [1.0, 1.0]]
    """
    x, index = as_node(x), as_index(index, "index_reduce")
    source = values_for(x, source)
    if index.ndim > 1:
        raise ShapeError(
            f"index_reduce: the index must have one axis, not shape {index.shape}; scatter_reduce takes others"
        )
    at = normalize_axis(axis, max(x.ndim, 1), "index_reduce")
    if not x.ndim:
        whole = index_reduce(reshape(x, (1,)), 0, index, reshape(source, (-1,)), reduce, include_self=include_self)
        return reshape(whole, ())
    index = reshape(index, (-1,))
    fits = (*x.shape[:at], index.shape[0], *x.shape[at + 1 :])
    if source.shape != fits:
        raise ShapeError(f"index_reduce: the source has shape {source.shape}, but {fits[at]} indices need {fits}")
    check_range(index, x.shape[at], "index_reduce")
    laid = reshape(index, (*(1,) * at, -1, *(1,) * (x.ndim - 1 - at)))
    return _into_corner("index_reduce", x, at, broadcast_to(laid, fits), source, reduce, include_self)


def _corner(x: Node, shape: Shape) -> Node:
    return take_slice(x, (0,) * x.ndim, (1,) * x.ndim, shape)


def _into_corner(name: str, x: Node, axis: int, index: Node, src: Node, reduce: str, include_self: bool) -> Node:
    """The part of `x` that the index can name, with the values combined into it, in its place."""
    if reduce not in REDUCTIONS:
        raise ArgumentError(f'{name}: reduce must be "sum", "prod", "mean", "amax" or "amin", not {reduce!r}')
    if not index.size:
        return x
    part = _corner(x, (*index.shape[:axis], x.shape[axis], *index.shape[axis + 1 :]))
    index = cast(index, int64)
    index = where(index < 0, index + x.shape[axis], index)
    if reduce in ("sum", "mean"):
        found = _added(part, axis, index, src, reduce == "mean", include_self)
    elif reduce == "prod":
        found = _multiplied(part, axis, index, src, include_self)
    else:
        found = extreme_along(name, part, axis, index, src, reduce == "amax", include_self)
    return put_slice(x, found, (0,) * x.ndim, (1,) * x.ndim)


# --- sums and means -------------------------------------------------------------------------------------------------


def counts_along(shape: Shape, axis: int, index: Node, dtype: Any, start: int = 0) -> Node:
    """How often each position occurs in the index, plus `start`."""
    begin = full(shape, start, dtype=dtype, device=index.device)
    return ADD_ALONG(begin, ones(index.shape, dtype=dtype, device=index.device), index, axis=axis)


def _added(x: Node, axis: int, index: Node, src: Node, mean: bool, include_self: bool) -> Node:
    if include_self and not mean:
        return ADD_ALONG(x, src, index, axis=axis)
    named = counts_along(x.shape, axis, index, int64)
    base = x if include_self else where(named > 0, zeros((), dtype=x.dtype, device=x.device), x)
    total = ADD_ALONG(base, src, index, axis=axis)
    if not mean:
        return total
    counts = cast(named + 1 if include_self else maximum(named, 1), x.dtype)
    return floor_divide(total, counts) if x.dtype in INTEGER else total / counts


# --- products -------------------------------------------------------------------------------------------------------


def _multiplied(x: Node, axis: int, index: Node, src: Node, include_self: bool) -> Node:
    """The values ordered by the places they go to; the running product of each place, of which the last is written."""
    order = argsort(index, axis=axis, stable=True)
    index, product = TAKE_ALONG(index, order, axis=axis), TAKE_ALONG(src, order, axis=axis)
    length, step = index.shape[axis], 1
    while step < length:
        same = equal(slice_axis(index, axis, step, length), slice_axis(index, axis, 0, length - step))
        late = slice_axis(product, axis, step, length)
        both = where(same, slice_axis(product, axis, 0, length - step) * late, late)
        product = concat([slice_axis(product, axis, 0, step), both], axis=axis)
        step *= 2
    named = counts_along(x.shape, axis, index, int64)
    one = ones(x.shape, dtype=x.dtype, device=x.device)
    products = PUT_ALONG(one, product, index, axis=axis)
    return x * products if include_self else where(named > 0, products, x)


# --- the largest and the smallest -----------------------------------------------------------------------------------


def extreme_along(name: str, x: Node, axis: int, index: Node, src: Node, largest: bool, include_self: bool) -> Node:
    """The largest (or smallest) of the values for each position, and with `include_self` of the original value."""
    if x.dtype not in REAL:
        raise DTypeError(f"{name}: {x.dtype} is not ordered, so there is no largest; use real(x) or abs(x)")
    if include_self:
        own = reshape(arange(x.shape[axis], device=x.device), (*(1,) * axis, -1, *(1,) * (x.ndim - 1 - axis)))
        src, index = concat([src, x], axis=axis), concat([index, broadcast_to(own, x.shape)], axis=axis)
    held = stop_gradient(src)
    # A NaN comes last when ascending; so the order of the smallest of floating values is that of their negatives.
    if largest or x.dtype in INTEGER:
        order = argsort(held, axis=axis, descending=not largest)
    else:
        order = argsort(negative(held), axis=axis)
    writers = PUT_ALONG(
        full(x.shape, -1, dtype=int64, device=x.device), order, TAKE_ALONG(index, order, axis=axis), axis=axis
    )
    best = TAKE_ALONG(src, maximum(writers, 0), axis=axis)
    found = greater_equal(writers, 0)
    if src.tracked:
        best = best + _shared(best, axis, index, src, held)
    return best if include_self else where(found, best, x)


def _shared(best: Node, axis: int, index: Node, src: Node, held: Node) -> Node:
    """Zero, with the derivative that turns one winner's into the mean of all that tie with it."""
    there = TAKE_ALONG(best, index, axis=axis)
    ties = logical_and(equal(held, stop_gradient(there)), isfinite(held))
    ones_of = where(ties, ones((), dtype=src.dtype, device=src.device), zeros((), dtype=src.dtype, device=src.device))
    nothing = zeros(best.shape, dtype=src.dtype, device=src.device)
    counts = ADD_ALONG(nothing, ones_of, index, axis=axis)
    apart = ADD_ALONG(nothing, where(ties, src - there, 0), index, axis=axis)
    return where(counts > 1, apart / where(counts > 1, counts, 1), 0)


# --- by a mask ------------------------------------------------------------------------------------------------------


def masked_scatter(x: Any, mask: Any, source: Any) -> Node:
    """`x` with the elements where the mask is true replaced by those of `source`, in order.

    `source` has at least as many elements as the mask has true ones.

    >>> import wengert as wg
    >>> mask = wg.tensor([True, False, True])
    >>> wg.masked_scatter(wg.zeros(3), mask, wg.tensor([5.0, 6.0])).tolist()
    [5.0, 0.0, 6.0]
    """
    x, mask = as_node(x), as_node(mask)
    if mask.dtype is not bool_:
        raise DTypeError(f"masked_scatter: the mask must be boolean, not {mask.dtype}; compare first, as in x > 0")
    shape = broadcast_shapes("masked_scatter", x.shape, mask.shape)
    x, mask = broadcast_to(x, shape), broadcast_to(mask, shape)
    values = reshape(values_for(x, source), (-1,))
    if isinstance(mask.buffer, np.ndarray) and np.count_nonzero(mask.buffer) > values.size:
        raise ShapeError(
            f"masked_scatter: the mask has {np.count_nonzero(mask.buffer)} true elements, but the source has only "
            f"{values.size}"
        )
    if not x.size or not values.size:
        return x
    chosen = reshape(mask, (-1,))
    places = where(chosen, cumsum(cast(chosen, int64), axis=0) - 1, 0)
    return where(mask, reshape(GATHER(values, places, axis=0), shape), x)
