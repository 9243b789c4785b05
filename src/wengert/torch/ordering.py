"""What follows from an order along an axis: sorting, the k largest, medians, modes, quantiles, places in a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, bool_, float64, int32, int64, uint8
from wengert.core.graph import Node
from wengert.ops import comparison as c
from wengert.ops import reduce as r
from wengert.ops import sorting as s
from wengert.ops.addressing import TAKE_ALONG
from wengert.ops.core import as_node, cast, operand
from wengert.ops.elementwise import ceil, floor, floor_divide, round
from wengert.ops.movement import broadcast_to, moveaxis, reshape
from wengert.torch import dtypes, return_types
from wengert.torch.arguments import along, axes_of, int_of, over_nodes, row_of
from wengert.torch.registry import torch_function
from wengert.torch.tensor import together


def _ordered(x: Node) -> Node:
    """A value as it is compared: booleans as numbers."""
    return cast(x, uint8) if x.dtype is bool_ else x


@torch_function(out=True)
@over_nodes()
def sort(input: Node, dim: Any = -1, descending: bool = False, stable: bool | None = None) -> Any:
    """Sort the elements along an axis; also returns their indices. Equal elements keep their order."""
    if isinstance(dim, bool):  # sort(x, stable, dim, descending) is never written by place
        dim, descending = -1, dim
    row, axis = row_of(input, dim)
    order = s.argsort(_ordered(row), axis=axis, descending=bool(descending))
    values = TAKE_ALONG(row, order, axis=axis)
    return return_types.sort(reshape(values, input.shape), reshape(order, input.shape))


@torch_function(out=True)
@over_nodes()
def argsort(input: Node, dim: Any = -1, descending: bool = False, *, stable: bool = False) -> Node:
    """The indices that sort a tensor along an axis."""
    row, axis = row_of(input, dim)
    return reshape(s.argsort(_ordered(row), axis=axis, descending=bool(descending)), input.shape)


@torch_function(out=True)
@over_nodes()
def msort(input: Node) -> Node:
    """Sort the elements along the first axis."""
    row, _ = row_of(input, 0)
    return reshape(s.sort(row, axis=0), input.shape)


@torch_function(out=True)
@over_nodes()
def topk(input: Node, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The `k` largest (or smallest) elements along an axis, in order, and their indices."""
    row, axis = row_of(input, dim)
    count = int_of(k)
    if not 0 <= count <= row.shape[axis]:
        raise RuntimeError("selected index k out of range")
    where = s.TOPK(_ordered(row), k=count, axis=axis, descending=bool(largest))
    values = TAKE_ALONG(row, where, axis=axis)
    if not input.shape:
        values, where = reshape(values, (count,) if count != 1 else ()), reshape(where, (count,) if count != 1 else ())
    return return_types.topk(values, where)


@torch_function(out=True)
@over_nodes()
def kthvalue(input: Node, k: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The `k`-th smallest element along an axis, counted from 1, and its index."""
    row, axis = row_of(input, dim)
    count = int_of(k)
    if not 1 <= count <= row.shape[axis]:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")
    return along(
        lambda x, a: s.kthvalue(x, count, axis=a, keepdims=True)[1], input, dim, keepdim, return_types.kthvalue
    )


# --- medians and modes ----------------------------------------------------------------------------------------------


def _middle(row: Node, axis: int) -> Node:
    """Where the lower of the middle elements is, or a NaN if there is one."""
    n = row.shape[axis]
    place = s.kthvalue(row, (n + 1) // 2, axis=axis, keepdims=True)[1]
    if row.dtype.kind not in "fV":
        return place
    missing = c.isnan(row)
    return c.where(
        r.any(missing, axis=axis, keepdims=True), r.argmax(cast(missing, uint8), axis=axis, keepdims=True), place
    )


def _middle_without_nan(row: Node, axis: int) -> Node:
    """Where the lower of the middle elements among those that are numbers is."""
    if row.dtype.kind not in "fV":
        return _middle(row, axis)
    count = r.sum(cast(c.logical_not(c.isnan(row)), int64), axis=axis, keepdims=True)
    order = s.argsort(row, axis=axis)
    return TAKE_ALONG(order, c.maximum(floor_divide(count - 1, 2), 0), axis=axis)


def _of_all(places: Any, x: Node) -> Node:
    if not x.size:
        return (
            operand(np.asarray(np.nan, np.float32), None)
            if x.dtype.kind != "f"
            else cast(as_node(float("nan")), x.dtype)
        )
    flat = reshape(x, (-1,))
    return reshape(TAKE_ALONG(flat, places(flat, 0), axis=0), ())


@torch_function(out=True)
@over_nodes()
def median(input: Node, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median (the lower of two middle elements); along an axis with its index. NaN if any element is NaN."""
    if dim is None:
        return _of_all(_middle, input)
    return along(_middle, input, dim, keepdim, return_types.median)


@torch_function(out=True)
@over_nodes()
def nanmedian(input: Node, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN (the lower of two middle elements); along an axis with its index."""
    if dim is None:
        return _of_all(_middle_without_nan, input)
    return along(_middle_without_nan, input, dim, keepdim, return_types.nanmedian)


def _most_frequent(row: Node, axis: int) -> Node:
    """Where the element that occurs most often is, the smallest of several: its last place."""
    last = len(row.shape) - 1
    lanes = moveaxis(row, axis, last)
    order = s.argsort(_ordered(lanes), axis=last)
    ordered = TAKE_ALONG(_ordered(lanes), order, axis=last)
    ends = s.SEARCHSORTED(ordered, ordered, side="right")
    counts = ends - s.SEARCHSORTED(ordered, ordered, side="left")
    first = r.argmax(counts, axis=last, keepdims=True)
    place = TAKE_ALONG(order, TAKE_ALONG(ends, first, axis=last) - 1, axis=last)
    return moveaxis(place, last, axis)


@torch_function(out=True)
@over_nodes()
def mode(input: Node, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along an axis, and its index."""
    return along(_most_frequent, input, dim, keepdim, return_types.mode)


# --- quantiles ------------------------------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@torch_function(out=True)
@over_nodes("full")
def quantile(input: Node, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Node:
    """The values below which the fractions `q` of the elements lie; NaN if any element is NaN. An axis for several `q`
    comes first."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@torch_function(out=True)
@over_nodes("full")
def nanquantile(input: Node, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Node:
    """The values below which the fractions `q` of the elements that are not NaN lie."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _quantile(name: str, x: Node, q: Any, dim: Any, keepdim: Any, interpolation: str, skip: bool) -> Node:
    if x.dtype.kind != "f":
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    fraction = _fractions(name, q, x)
    axes, kept = axes_of(dim, x), r.reduced(x.shape, axes_of(dim, x), bool(keepdim))
    if 0 in [x.shape[a] for a in axes]:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    others = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    row = reshape(moveaxis(x, list(axes), list(range(len(others), len(x.shape)))), (*others, -1))
    ordered = TAKE_ALONG(row, s.argsort(row, axis=len(others)), axis=len(others))
    found = _between(ordered, reshape(fraction, (-1,)), interpolation, skip)
    return reshape(moveaxis(found, len(others), 0), (*fraction.shape, *kept))


def _between(ordered: Node, fraction: Node, interpolation: str, skip: bool) -> Node:
    """The quantiles of sorted rows, along the last axis."""
    last, wide = len(ordered.shape) - 1, (*ordered.shape[:-1], fraction.shape[0])
    missing = c.isnan(ordered)
    count = r.sum(cast(c.logical_not(missing), float64), axis=last, keepdims=True)
    top = count - 1 if skip else float(ordered.shape[-1] - 1)
    place = broadcast_to(c.maximum(cast(fraction, float64) * top, 0.0), wide)
    if interpolation != "linear" and interpolation != "midpoint":
        place = {"lower": floor, "higher": ceil, "nearest": round}[interpolation](place)
    below, above = floor(place), ceil(place)
    low = TAKE_ALONG(ordered, cast(below, int64), axis=last)
    high = TAKE_ALONG(ordered, cast(above, int64), axis=last)
    weight = 0.5 * cast(c.not_equal(above, below), float64) if interpolation == "midpoint" else place - below
    found = low + (high - low) * cast(weight, low.dtype)
    return found if skip else c.where(r.any(missing, axis=last, keepdims=True), float("nan"), found)


def _fractions(name: str, q: Any, x: Node) -> Node:
    fraction = operand(np.asarray(q, np.float64), None) if isinstance(q, (int, float)) else as_node(q)
    if isinstance(q, Node) and q.dtype is not x.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if len(fraction.shape) > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    known = fraction.buffer
    if isinstance(known, np.ndarray) and known.size and not (known.min() >= 0 and known.max() <= 1):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    return fraction


# --- places in a sorted row -----------------------------------------------------------------------------------------


@torch_function(method=False, out=True)
@over_nodes()
def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Node:
    """The indices at which to insert values into a sorted tensor: before equal elements, or after them with `right`."""
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites")
    rows = as_node(sorted_sequence)
    values = input if isinstance(input, Node) else operand(input, rows.dtype)
    meet = dtypes.meet(rows, values)
    if meet in COMPLEX:
        raise RuntimeError("torch.searchsorted(): complex numbers have no order")
    found = s.searchsorted(
        cast(rows, meet), cast(values, meet), side=side or ("right" if right else "left"), sorter=sorter
    )
    return cast(found, int32 if out_int32 else int64)


@torch_function(method=False, out=True)
@over_nodes()
def bucketize(input: Any, boundaries: Node, *, out_int32: bool = False, right: bool = False) -> Node:
    """The bucket between sorted boundaries that each value falls into."""
    values = input if isinstance(input, Node) else operand(input, boundaries.dtype)
    if len(boundaries.shape) != 1:
        raise RuntimeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    a, b = together(boundaries, values)
    return cast(s.searchsorted(a, b, side="right" if right else "left"), int32 if out_int32 else int64)
