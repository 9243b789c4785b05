"""Embeddings: rows of a table looked up by index, individually or combined in bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import INTEGER, int64
from wengert.core.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.addressing import SCATTER, SCATTER_ADD
from wengert.ops.comparison import maximum
from wengert.ops.core import as_node, cast, stop_gradient
from wengert.ops.creation import arange, full, ones, zeros
from wengert.ops.elementwise import equal, greater, logical_not, where
from wengert.ops.gather import take
from wengert.ops.movement import broadcast_to, expand_dims, reshape, slice_axis
from wengert.ops.reduce import norm
from wengert.ops.scatter_reduce import extreme_along
from wengert.ops.sorting import searchsorted


def _table(name: str, x: Any, weight: Any) -> tuple[Node, Node]:
    """Row numbers and a table, checked against each other where the numbers are known."""
    x, weight = as_node(x), as_node(weight)
    if x.dtype not in INTEGER:
        raise DTypeError(f"{name}: the input must hold row indices, integers, not {x.dtype}")
    if weight.ndim != 2:
        raise ShapeError(f"{name}: the weight must be (rows, features); its shape is {weight.shape}")
    rows, known = weight.shape[0], x.buffer
    if isinstance(known, np.ndarray) and known.size and not 0 <= known.min() <= known.max() < rows:
        wrong = known.min() if known.min() < 0 else known.max()
        raise OutOfRangeError(f"{name}: there is no row {wrong} in a weight of shape {weight.shape}")
    if np.iinfo(x.dtype).max < rows:
        x = cast(x, int64)
    # a negative number counts from the back for a gather; here it is as wrong as one that is too large
    return where(x < 0, rows, x), weight


def _padding_row(name: str, padding_idx: int | None, weight: Node) -> int | None:
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise OutOfRangeError(f"{name}: padding_idx {padding_idx} is not a row of a weight of shape {weight.shape}")
    return None if padding_idx is None else padding_idx % rows


def _rows(x: Node, weight: Node, by_frequency: bool) -> Node:
    """The rows; `by_frequency`, the derivative of each is divided by how often it is named."""
    y = take(weight, x, axis=0)
    if not by_frequency:
        return y
    flat = reshape(x, (-1,))
    counts = SCATTER_ADD(
        zeros((weight.shape[0],), dtype=y.dtype, device=y.device),
        ones(flat.shape, dtype=y.dtype, device=y.device),
        flat,
        axis=0,
    )
    held = stop_gradient(y)
    return held + (y - held) / expand_dims(take(counts, x, axis=0), axis=-1)


def embedding(x: Any, weight: Any, padding_idx: int | None = None, scale_grad_by_freq: bool = False) -> Node:
    """Look up rows of `weight` by the integers `x`; the public function is in `wengert.api.tables`."""
    x, weight = _table("embedding", x, weight)
    padding_idx = _padding_row("embedding", padding_idx, weight)
    y = _rows(x, weight, scale_grad_by_freq)
    if padding_idx is None:
        return y
    return where(expand_dims(equal(x, padding_idx), axis=-1), stop_gradient(y), y)


def shortened(name: str, x: Any, weight: Any, max_norm: float, norm_type: float) -> Node:
    """The table with the rows that `x` looks up scaled down to a p-norm of at most `max_norm`."""
    x, weight = _table(name, x, weight)
    flat = reshape(x, (-1,))
    rows = take(weight, flat, axis=0)
    lengths = norm(rows, norm_type, axis=-1, keepdims=True)
    long = greater(lengths, max_norm)
    factor = where(long, max_norm / (where(long, lengths, 1) + 1e-7), 1)
    return SCATTER(weight, cast(rows * factor, weight.dtype), flat, axis=0)  # a row named twice is the same twice


# --- bags -----------------------------------------------------------------------------------------------------------


def embedding_bag(
    x: Any,
    weight: Any,
    offsets: Any = None,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Node:
    """Sums, means or maxima of bags of rows; the public function, with all options, is in `wengert.api.tables`."""
    name = "embedding_bag"
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f'{name}: mode must be "sum", "mean" or "max", not {mode!r}')
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(f'{name}: per_sample_weights require mode "sum", not "{mode}"')
    if mode == "max" and scale_grad_by_freq:
        raise ArgumentError(f'{name}: scale_grad_by_freq cannot be used with mode "max"')
    x, weight = _table(name, x, weight)
    padding_idx = _padding_row(name, padding_idx, weight)
    bags, bag_count = _bags(name, x, offsets, include_last_offset)
    flat = reshape(x, (-1,))
    rows = _rows(flat, weight, scale_grad_by_freq)
    if per_sample_weights is not None:
        shares = cast(as_node(per_sample_weights), weight.dtype)
        if shares.shape != x.shape:
            raise ShapeError(
                f"{name}: per_sample_weights must have the shape of the input, {x.shape}, not {shares.shape}"
            )
        rows = rows * reshape(shares, (-1, 1))
    counted = None if padding_idx is None else logical_not(equal(flat, padding_idx))
    if mode == "max":
        return _largest(rows, bags, bag_count, counted)
    if counted is not None:
        rows = where(expand_dims(counted, axis=-1), rows, 0)
    nothing = zeros((bag_count + 1, weight.shape[1]), dtype=rows.dtype, device=rows.device)
    total = slice_axis(SCATTER_ADD(nothing, rows, bags, axis=0), 0, 0, bag_count)
    if mode == "sum":
        return total
    one = ones(flat.shape, dtype=rows.dtype, device=rows.device)
    each = one if counted is None else where(counted, one, 0)
    counts = SCATTER_ADD(zeros((bag_count + 1,), dtype=rows.dtype, device=rows.device), each, bags, axis=0)
    return total / expand_dims(maximum(slice_axis(counts, 0, 0, bag_count), 1), axis=-1)


def _bags(name: str, x: Node, offsets: Any, include_last: bool) -> tuple[Node, int]:
    """Which bag each row goes to, flat, and how many bags there are."""
    if x.ndim == 2:
        if offsets is not None:
            raise ArgumentError(f"{name}: with an input (bags, length) each row is a bag, so offsets cannot be given")
        number = reshape(arange(x.shape[0], device=x.device), (-1, 1))
        return reshape(broadcast_to(number, x.shape), (-1,)), x.shape[0]
    if x.ndim != 1:
        raise ShapeError(f"{name}: the input must be (bags, length), or (rows,) with offsets; its shape is {x.shape}")
    if offsets is None:
        raise ArgumentError(f"{name}: an input with one axis needs offsets, where each bag begins")
    begins = as_node(offsets)
    if begins.dtype not in INTEGER or begins.ndim != 1 or (include_last and not begins.size):
        raise ShapeError(f"{name}: offsets must be integers along one axis, not {begins.dtype} of shape {begins.shape}")
    _check_offsets(name, begins, x.shape[0])
    positions = arange(x.shape[0], dtype=int64, device=x.device)
    bags = searchsorted(cast(begins, int64), positions, side="right") - 1
    return bags, begins.shape[0] - include_last  # rows behind the last offset, where it is included, are in a bag more


def _check_offsets(name: str, begins: Node, length: int) -> None:
    known = begins.buffer
    if not isinstance(known, np.ndarray) or not known.size:
        return
    if known[0] != 0 or (np.diff(known) < 0).any() or known[-1] > length:
        raise ArgumentError(
            f"{name}: offsets must begin with 0 and increase to at most {length}; they are {known.tolist()}"
        )


def _largest(rows: Node, bags: Node, bag_count: int, counted: Node | None) -> Node:
    """The largest elements of each bag's rows; zeros of a bag without any. What does not count goes to one bag more."""
    if counted is not None:
        bags = where(counted, bags, bag_count)
    nothing = full((bag_count + 1, rows.shape[1]), 0, dtype=rows.dtype, device=rows.device)
    if not rows.size:
        return slice_axis(nothing, 0, 0, bag_count)
    places = broadcast_to(expand_dims(bags, axis=-1), rows.shape)
    found = extreme_along("embedding_bag", nothing, 0, places, rows, largest=True, include_self=False)
    return slice_axis(found, 0, 0, bag_count)
