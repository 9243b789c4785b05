"""Distinct values and counts: unique, bincount, histograms, combinations. The size of a result depends on the data."""

from __future__ import annotations

import builtins
import itertools
from typing import Any

import numpy as np

from wengert.api import data_dependent
from wengert.core.dtypes import COMPLEX, FLOATING, bool_, int64
from wengert.core.graph import Node
from wengert.ops import comparison as c
from wengert.ops import reduce as r
from wengert.ops.addressing import GATHER, SCATTER_ADD
from wengert.ops.core import cast, literal, operand
from wengert.ops.creation import linspace
from wengert.ops.elementwise import floor
from wengert.ops.movement import broadcast_to, concat, moveaxis, reshape, slice_axis, stack
from wengert.ops.running import cumsum
from wengert.ops.sorting import searchsorted
from wengert.tensor import Tensor as Base
from wengert.tensor import engine
from wengert.torch import dtypes, return_types
from wengert.torch.arguments import axes_of, over_nodes
from wengert.torch.registry import torch_function
from wengert.torch.tensor import Tensor


def _parts(values: Node, inverse: Node | None, counts: Node | None, one: bool) -> Any:
    found = [Tensor(part) for part in (values, inverse, counts) if part is not None]
    return found[0] if one and len(found) == 1 else tuple(found)


@torch_function()
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements in order, or slices along an axis; and which one each is, and how many of each."""
    node, axis = input.node, None if dim is None else axes_of(dim, input.node)[0]
    if not node.size:
        return _unique_of_nothing(node, axis, return_inverse, return_counts)
    array = engine.value(node)
    if axis is None and node.dtype in FLOATING and np.isnan(np.asarray(array, np.float64)).any():
        found = data_dependent.unique_all(Base(node))  # each NaN is one of its own
        values, _, inverse, counts = (part.node for part in found)
    else:
        found = data_dependent.unique(Base(node), return_inverse=True, return_counts=True, axis=axis)
        values, inverse, counts = (part.node for part in found)
    return _parts(values, inverse if return_inverse else None, counts if return_counts else None, True)


def _unique_of_nothing(x: Node, axis: int | None, inverse: bool, counts: bool) -> Any:
    if axis is not None and x.shape[axis]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    none = operand(np.zeros(0, np.int64), None, x.device)
    values = reshape(x, (-1,)) if axis is None else x
    where = reshape(none, x.shape) if axis is None else none
    return _parts(values, where if inverse else None, none if counts else None, True)


@torch_function()
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements, or slices along an axis, that differ from the one before; and which each is, and how many."""
    node, axis = input.node, 0 if dim is None else axes_of(dim, input.node)[0]
    rows = reshape(node, (-1,)) if dim is None else moveaxis(node, axis, 0)
    if not rows.shape[0]:
        return _unique_of_nothing(node, None if dim is None else axis, return_inverse, return_counts)
    other = c.not_equal(slice_axis(rows, 0, 1, rows.shape[0]), slice_axis(rows, 0, 0, rows.shape[0] - 1))
    starts = r.any(other, axis=tuple(builtins.range(1, len(rows.shape))))
    starts = concat([broadcast_to(literal(True, bool_, node.device), (1,)), starts])
    places = data_dependent.nonzero(Base(starts))[0].node
    inverse = cumsum(cast(starts, int64), axis=0) - 1
    ends = concat([slice_axis(places, 0, 1, places.shape[0]), broadcast_to(literal(rows.shape[0], int64), (1,))])
    values = moveaxis(GATHER(rows, places, axis=0), 0, axis)
    inverse = reshape(inverse, node.shape) if dim is None else inverse
    return _parts(values, inverse if return_inverse else None, ends - places if return_counts else None, True)


@torch_function(out=True)
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each of the numbers 0, 1, ... occurs; with weights, their sum for each number."""
    node = input.node
    if node.dtype.kind not in "iub":
        raise NotImplementedError(f'"bincount_cpu" not implemented for {dtypes.scalar_name(node.dtype)!r}')
    if len(node.shape) != 1 or node.dtype is bool_:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    held = None if weights is None else Base(weights.node)
    return Tensor(data_dependent.bincount(Base(node), held, minlength).node)


@torch_function(out=True)
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of this many bins between two bounds; between the extremes if those are equal."""
    node = input.node
    if node.dtype in COMPLEX or node.dtype is bool_:
        raise NotImplementedError(f'"histogram_cpu" not implemented for {dtypes.of(node.dtype).name!r}')
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    if max < min:
        raise RuntimeError("max must be larger than min")
    low, high = _bounds(node, min, max)
    return Tensor(cast(_counted(cast(node, dtypes.d.float64), bins, low, high, None), node.dtype))


def _bounds(x: Node, low: Any, high: Any, beside: float = 1.0) -> tuple[float, float]:
    """The range of a histogram: the extremes where it has none, and something beside where they are equal."""
    if low == high and x.size:
        low, high = (float(engine.value(found(x)).item()) for found in (r.min, r.max))
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    return (low - beside, high + beside) if low == high else (float(low), float(high))


def _counted(x: Node, bins: int, low: float, high: float, weight: Node | None) -> Node:
    """The number (or total weight) of elements in each bin; the last bin includes its upper bound."""
    flat = reshape(x, (-1,))
    place = floor((flat - low) / (high - low) * bins)
    inside = c.logical_and(c.greater_equal(flat, low), c.less_equal(flat, high))
    bounded = c.where(inside, c.minimum(place, float(bins - 1)), 0.0)
    hit = cast(inside, flat.dtype) if weight is None else c.where(inside, reshape(weight, (-1,)), 0)
    return SCATTER_ADD(broadcast_to(literal(0, hit.dtype, x.device), (bins,)), hit, cast(bounded, int64), axis=0)


def _edges(x: Node, bins: Any, given: Any) -> Node:
    """The edges of the bins of a histogram."""
    if isinstance(bins, Node):
        return bins
    low, high = (0.0, 0.0) if given is None else given
    low, high = _bounds(x, low, high, 0.5) if x.size or given is not None else (0.0, 1.0)
    return linspace(low, high, bins + 1, dtype=x.dtype)


@torch_function(out=True)
@over_nodes()
def histogram(input: Node, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """The number (or total weight) of elements between neighbouring edges, and the edges."""
    edges = _edges(input, bins, range)
    found = _between_edges([reshape(input, (-1,))], [edges], weight, input)
    if density:
        found = found / (r.sum(found) * (slice_axis(edges, 0, 1, edges.size) - slice_axis(edges, 0, 0, edges.size - 1)))
    return return_types.histogram(found, edges)


@torch_function(method=False)
@over_nodes()
def histogramdd(input: Node, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """The histogram of points, whose coordinates are the last axis; and the edges along each."""
    points = reshape(input, (-1, input.shape[-1]))
    columns = [reshape(slice_axis(points, 1, i, i + 1), (-1,)) for i in builtins.range(points.shape[1])]
    sizes = [bins] * len(columns) if isinstance(bins, int) else list(bins)
    if len(sizes) != len(columns):
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input. "
            f"Got {len(sizes)} and {len(columns)}"
        )
    limits = [None] * len(columns) if range is None else list(zip(range[::2], range[1::2]))
    edges = [_edges(x, n, limit) for x, n, limit in zip(columns, sizes, limits)]
    found = _between_edges(columns, edges, weight, input)
    if density:
        found = found / r.sum(found)
        for i, edge in enumerate(edges):
            width = slice_axis(edge, 0, 1, edge.size) - slice_axis(edge, 0, 0, edge.size - 1)
            found = found / reshape(width, tuple(-1 if j == i else 1 for j in builtins.range(len(edges))))
    return return_types.histogramdd(found, list(edges))


def _between_edges(columns: list[Node], edges: list[Node], weight: Any, like: Node) -> Node:
    shape = tuple(edge.size - 1 for edge in edges)
    place: Any = literal(0, int64)
    inside: Any = literal(True, bool_)
    for x, edge, n in zip(columns, edges, shape):
        at = searchsorted(edge, x, side="right") - 1
        at = c.where(c.equal(x, slice_axis(edge, 0, n, n + 1)), n - 1, at)
        inside = c.logical_and(inside, c.logical_and(c.greater_equal(at, 0), c.less(at, n)))
        place = place * n + c.minimum(c.maximum(at, 0), n - 1)
    hit = cast(inside, like.dtype) if weight is None else c.where(inside, reshape(weight, (-1,)), 0)
    hit = broadcast_to(hit, columns[0].shape)
    zeros = broadcast_to(literal(0, hit.dtype, like.device), (int(np.prod(shape)),))
    return reshape(SCATTER_ADD(zeros, hit, broadcast_to(place, columns[0].shape), axis=0), shape)


# --- all choices ----------------------------------------------------------------------------------------------------


@torch_function()
@over_nodes()
def combinations(input: Node, r: int = 2, with_replacement: bool = False) -> Node:
    """All choices of `r` elements of a vector, one a row, in order."""
    if len(input.shape) != 1:
        raise RuntimeError("Expect a 1D vector, but got shape " + str(list(input.shape)))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(builtins.range(input.shape[0]), r)), np.int64).reshape(-1, r)
    if not places.size:
        return broadcast_to(literal(0, input.dtype, input.device), (0, r) if r else (0,))
    return GATHER(input, operand(places, None, input.device), axis=0)


@torch_function(method=False)
@over_nodes()
def cartesian_prod(*tensors: Any) -> Node:
    """All choices of an element of each vector, one a row."""
    nodes = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else list(tensors)
    if len(nodes) == 1:
        return nodes[0]
    sizes = tuple(node.shape[0] for node in nodes)
    spread = [
        broadcast_to(reshape(node, tuple(-1 if j == i else 1 for j in builtins.range(len(nodes)))), sizes)
        for i, node in enumerate(nodes)
    ]
    return stack([reshape(x, (-1,)) for x in spread], axis=1)
