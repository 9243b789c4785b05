"""Histograms, and the most frequent element. Sums of weights are differentiable with respect to the weights; counts are
not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import INEXACT, default_float, float64, int64
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.addressing import TAKE_ALONG
from wengert.ops.comparison import greater_equal, less_equal, logical_and, minimum
from wengert.ops.core import as_node, beside, cast, operand, stop_gradient
from wengert.ops.creation import linspace, zeros
from wengert.ops.elementwise import equal, where
from wengert.ops.factors import other_axes
from wengert.ops.gather import index_add
from wengert.ops.movement import normalize_axis, reshape, slice_axis, squeeze
from wengert.ops.op import Op, behind_lanes
from wengert.ops.reduce import max as max_along
from wengert.ops.reduce import min as min_along
from wengert.ops.reduce import sum as sum_along
from wengert.ops.sorting import ValuesAndIndices, searchsorted


class Histogram(NamedTuple):
    """The number of values in each bin, and the bins' edges."""

    hist: Any
    bin_edges: Any


def _edges(x: Node, bins: Any, span: Any, name: str) -> Node:
    """The edges of the bins: given, or this many bins of one width over a range, that of the values without one."""
    if not isinstance(bins, (int, np.integer)):
        edges = beside(x, bins)
        if edges.ndim != 1 or edges.shape[0] < 2:
            raise ShapeError(f"{name}: the edges of bins must be a vector of two or more, not shape {edges.shape}")
        return stop_gradient(edges if edges.dtype in INEXACT else cast(edges, default_float))
    if bins < 1 or isinstance(bins, bool):
        raise ArgumentError(f"{name}: the number of bins must be positive, not {bins!r}")
    wide = x.dtype if x.dtype in INEXACT else float64
    if span is not None:
        low, high = (float(end) for end in span)
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ArgumentError(
                f"{name}: the range must go from a finite number up to a larger one, not from {low} to {high}"
            )
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        return linspace(low, high, int(bins) + 1, dtype=wide, device=x.device)
    if not x.size:
        return linspace(0.0, 1.0, int(bins) + 1, dtype=wide, device=x.device)
    first, last = cast(min_along(x), wide), cast(max_along(x), wide)
    alone = equal(first, last)
    return stop_gradient(linspace(where(alone, first - 0.5, first), where(alone, last + 0.5, last), int(bins) + 1))


def _bins_of(x: Node, edges: Node) -> tuple[Node, Node]:
    """In which bin each value is, and whether it is in one; the last bin has its upper edge too."""
    count = edges.shape[0] - 1
    values = cast(x, edges.dtype)
    inside = logical_and(
        greater_equal(values, slice_axis(edges, 0, 0, 1)), less_equal(values, slice_axis(edges, 0, count, count + 1))
    )
    found = minimum(searchsorted(edges, values, side="right") - 1, count - 1)
    return where(inside, found, 0), inside


def _counted(places: Node, inside: Node, size: int, weights: Any, name: str) -> Node:
    if weights is None:
        amounts = cast(inside, int64)
    else:
        given = as_node(weights)
        if given.shape != inside.shape:
            raise ShapeError(f"{name}: weights of shape {given.shape} do not match values of shape {inside.shape}")
        amounts = where(inside, given, 0)
    empty = zeros((size,), dtype=amounts.dtype, device=places.device)
    return index_add(empty, 0, cast(places, int64), amounts)


def _density(counts: Node, widths: Node) -> Node:
    wide = widths.dtype
    return cast(counts, wide) / (sum_along(cast(counts, wide)) * widths)


def histogram(x: Any, /, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False) -> Histogram:
    """Count the elements of `x` in each bin; returns the counts and the bins' edges, as in NumPy.

    `bins` is their number, or the edges. `range` is the interval that equal bins cover, by default from the smallest to
    the largest element. With `weights`, the counts are sums of weights, differentiable with respect to them; with
    `density`, the integral over the bins is 1.

    >>> import wengert as wg
    >>> wg.histogram(wg.tensor([1.0, 2.0, 4.0]), bins=3).hist.tolist()
    [1, 1, 1]
    """
    x = reshape(stop_gradient(as_node(x)), (-1,))
    weights = None if weights is None else reshape(as_node(weights), (-1,))
    edges = _edges(x, bins, range, "histogram")
    count = edges.shape[0] - 1
    found = _counted(*_bins_of(x, edges), count, weights, "histogram")
    if density:
        found = _density(found, slice_axis(edges, 0, 1, count + 1) - slice_axis(edges, 0, 0, count))
    return Histogram(found, edges)


def histc(x: Any, /, bins: int = 100, min: float = 0, max: float = 0) -> Node:
    """Count the elements of `x` in each of `bins` equal bins between `min` and `max`, in the dtype of `x`.

    If both are equal, the smallest and the largest element are used.

    >>> import wengert as wg
    >>> wg.histc(wg.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    x = as_node(x)
    if min > max:
        raise ArgumentError(f"histc: the bins must go from min up to max, not from {min} to {max}")
    span = None if min == max else (min, max)
    return cast(histogram(x, bins=bins, range=span).hist, x.dtype)


class HistogramOfPoints(NamedTuple):
    """The number of points in each cell, and the edges along each axis."""

    hist: Any
    bin_edges: Any


def histogramdd(
    sample: Any, /, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> HistogramOfPoints:
    """Count the points (the rows of `sample`) in each cell of a grid; returns the counts and the edges along each axis.

    `bins` is a number, or for each axis a number or the edges; `range` a pair for each axis.

    >>> import wengert as wg
    >>> wg.histogramdd(wg.tensor([[0.0, 0.0], [1.0, 1.0], [1.0, 0.9]]), bins=2).hist.tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    x = stop_gradient(as_node(sample))
    if x.ndim != 2:
        raise ShapeError(f"histogramdd takes points as the rows of a matrix, not shape {x.shape}")
    dimensions = x.shape[1]
    each = [bins] * dimensions if isinstance(bins, (int, np.integer)) else list(bins)
    spans = [None] * dimensions if range is None else list(range)
    if len(each) != dimensions or len(spans) != dimensions:
        raise ArgumentError(f"histogramdd: {len(each)} bins and {len(spans)} ranges for points of {dimensions} axes")
    edges, places, inside, sizes = [], None, None, []
    for axis, (number, span) in enumerate(zip(each, spans)):
        column = reshape(slice_axis(x, 1, axis, axis + 1), (-1,))
        edges.append(_edges(column, number, span, "histogramdd"))
        sizes.append(edges[-1].shape[0] - 1)
        found, within = _bins_of(column, edges[-1])
        places = found if places is None else places * sizes[-1] + found
        inside = within if inside is None else logical_and(inside, within)
    if places is None or inside is None:
        raise ShapeError("histogramdd: points of no axes have no cells")
    counts = _counted(where(inside, places, 0), inside, math.prod(sizes), weights, "histogramdd")
    counts = reshape(counts, tuple(sizes))
    counts = counts if counts.dtype in INEXACT else cast(counts, edges[0].dtype)
    if density:
        volume = _volumes(edges)
        counts = counts / (sum_along(counts) * volume)
    return HistogramOfPoints(counts, tuple(edges))


def _volumes(edges: Sequence[Node]) -> Node:
    total: Node | None = None
    for axis, one in enumerate(edges):
        count = one.shape[0] - 1
        widths = slice_axis(one, 0, 1, count + 1) - slice_axis(one, 0, 0, count)
        shaped = reshape(widths, (*(1,) * axis, count, *(1,) * (len(edges) - axis - 1)))
        total = shaped if total is None else total * shaped
    assert total is not None
    return total


# --- the most frequent element --------------------------------------------------------------------------------------


def _mode_numpy(x: Any, axis: int) -> Any:
    """The last place of the smallest of the most frequent elements: the end of the longest run of sorted ones."""
    order = np.argsort(x, axis, kind="stable")
    values = np.moveaxis(np.take_along_axis(np.asarray(x), order, axis), axis, -1)
    n = values.shape[-1]
    same = np.concatenate([np.zeros((*values.shape[:-1], 1), bool), values[..., 1:] == values[..., :-1]], -1)
    start = np.maximum.accumulate(np.where(same, 0, np.arange(n)), -1)
    longest = (np.arange(n) - start).argmax(-1)
    place = np.take_along_axis(np.moveaxis(order, axis, -1), longest[..., None], -1)
    return np.moveaxis(place, -1, axis)


MODE: Op = Op(
    "mode",
    infer=lambda x, axis: ((*x.shape[:axis], 1, *x.shape[axis + 1 :]), int64),
    numpy=_mode_numpy,
    differentiable=False,
    batch=behind_lanes,
    factors=other_axes,
    expensive=True,
    can_fail=False,
)


def mode(x: Any, /, axis: int = -1, keepdims: bool = False) -> ValuesAndIndices:
    """The most frequent element along an axis (the smallest of several), and its last index.

    >>> import wengert as wg
    >>> wg.mode(wg.tensor([3.0, 1.0, 3.0, 1.0, 2.0])).values.item()
    1.0
    """
    x = as_node(x)
    if x.dtype.kind == "c":
        raise DTypeError("mode takes real numbers: complex ones are not ordered")
    if x.ndim == 0:
        return ValuesAndIndices(x, operand(np.int64(0), int64, x.device))
    at = normalize_axis(axis, x.ndim, "mode")
    if x.shape[at] == 0:
        raise ShapeError(f"mode: axis {axis} of shape {x.shape} has no elements")
    places = MODE(x, axis=at)
    values = TAKE_ALONG(x, places, axis=at)
    return ValuesAndIndices(*(y if keepdims else squeeze(y, axis=at) for y in (values, places)))
