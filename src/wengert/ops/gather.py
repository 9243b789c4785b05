"""Gather and scatter by the names NumPy and PyTorch have for them, and masks and classes.

Each checks its arguments, lines them up, and records one of the primitives of `addressing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import as_dtype, bool_, int64
from wengert.core.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.addressing import (
    ADD_ALONG,
    GATHER,
    PUT_ALONG,
    SCATTER,
    SCATTER_ADD,
    TAKE_ALONG,
    as_index,
    check_range,
    gather_shape,
    put_slice,
    values_for,
)
from wengert.ops.comparison import zero_where
from wengert.ops.core import as_node, cast, data
from wengert.ops.elementwise import equal, greater_equal, less, logical_and, where
from wengert.ops.movement import broadcast_to, expand_dims, normalize_axis, reshape, take_slice
from wengert.ops.op import Op, check_size
from wengert.ops.recorders import broadcast_shapes

# --- as NumPy has them ----------------------------------------------------------------------------------------------


def take(x: Any, indices: Any, /, axis: int | None = None) -> Node:
    """The elements of `x` at these indices along an axis; of the flattened `x` without one.

    >>> import wengert as wg
    >>> wg.take(wg.tensor([10, 20, 30]), [2, 0]).tolist()
    [30, 10]
    """
    x, index = as_node(x), as_index(indices, "take")
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    at = normalize_axis(axis, x.ndim, "take")
    check_range(index, x.shape[at], "take")
    return GATHER(x, index, axis=at)


def index_select(x: Any, axis: int, index: Any) -> Node:
    """The slices of `x` at the places of a 1-d index along an axis, in the index's order.

    >>> import wengert as wg
    >>> wg.index_select(wg.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, wg.tensor([1])).tolist()
    [[2.0], [4.0]]
    """
    return take(x, _vector("index_select", index), axis=axis)


def index_add(x: Any, axis: int, index: Any, source: Any, alpha: float = 1) -> Node:
    """`x` with `alpha` times the slices of `source` added at the places of a 1-d index along an axis.

    >>> import wengert as wg
    >>> wg.index_add(wg.zeros(3), 0, wg.tensor([0, 2, 0]), wg.ones(3)).tolist()
    [2.0, 0.0, 1.0]
    """
    x, index = as_node(x), _vector("index_add", index)
    at = normalize_axis(axis, x.ndim, "index_add")
    check_range(index, x.shape[at], "index_add")
    values = values_for(x, source)
    fits = gather_shape(x, index, axis=at)
    if values.shape != fits:
        raise ShapeError(f"index_add: the source has shape {values.shape}; {fits} would fit {index.shape[0]} indices")
    return SCATTER_ADD(x, values if alpha == 1 else values * alpha, index, axis=at)


def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Node:
    """`x` with `x[indices]` replaced by `values`, or with them added: an integer array for each of the first axes.

    >>> import wengert as wg
    >>> wg.index_put(wg.tensor([1, 2, 3]), (wg.tensor([0, 0]),), wg.tensor([5, 6]), accumulate=True).tolist()
    [12, 2, 3]
    """
    x = as_node(x)
    arrays = [as_index(index, "index_put") for index in indices]
    if not 0 < len(arrays) <= x.ndim:
        raise ArgumentError(
            f"index_put: {len(arrays)} index arrays for shape {x.shape}: one for each of its first axes"
        )
    for index, size in zip(arrays, x.shape):
        check_range(index, size, "index_put")
    places = broadcast_to(values_for(x, values), gather_shape(x, *arrays, axis=0))
    return (SCATTER_ADD if accumulate else SCATTER)(x, places, *arrays, axis=0)


def _vector(name: str, index: Any) -> Node:
    node = as_index(index, name)
    if node.ndim != 1:
        raise ShapeError(f"{name}: the index has one axis, not shape {node.shape}; take handles other shapes")
    return node


def take_along_axis(x: Any, indices: Any, /, axis: int = -1) -> Node:
    """For each index the element of `x` at that place along an axis; the other axes go together and broadcast.

    >>> import wengert as wg
    >>> wg.take_along_axis(wg.tensor([[3, 1], [2, 5]]), wg.tensor([[1], [0]]), axis=1).tolist()
    [[1], [2]]
    """
    x, index, at = _aligned("take_along_axis", as_node(x), indices, axis)
    return TAKE_ALONG(x, index, axis=at)


def put_along_axis(x: Any, indices: Any, values: Any, /, axis: int = -1) -> Node:
    """`x` with the elements that `take_along_axis` reads replaced by `values`.

    >>> import wengert as wg
    >>> wg.put_along_axis(wg.zeros((2, 2)), wg.tensor([[1], [0]]), wg.tensor([[5.0], [6.0]]), 1).tolist()
    [[0.0, 5.0], [6.0, 0.0]]
    """
    x = as_node(x)
    wide, index, at = _aligned("put_along_axis", x, indices, axis)
    if wide.shape != x.shape:
        raise ShapeError(f"put_along_axis: indices of shape {as_node(indices).shape} are too many for shape {x.shape}")
    values = broadcast_to(values_for(x, values), index.shape)
    return PUT_ALONG(x, values, index, axis=at)


def _aligned(name: str, x: Node, indices: Any, axis: int) -> tuple[Node, Node, int]:
    """A value and an index broadcast against each other on all axes but one."""
    index = as_index(indices, name)
    if index.ndim != x.ndim:
        raise ShapeError(
            f"{name}: indices of shape {index.shape} for a value of shape {x.shape}: as many axes are needed"
        )
    at = normalize_axis(axis, x.ndim, name)
    check_range(index, x.shape[at], name)
    others = broadcast_shapes(name, _with_size(x.shape, at, 1), _with_size(index.shape, at, 1))
    wide = broadcast_to(x, _with_size(others, at, x.shape[at]))
    return wide, broadcast_to(index, _with_size(others, at, index.shape[at])), at


def _with_size(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


# --- gather and scatter as PyTorch has them: the index says which corner of the other axes is meant ------------------


def gather(x: Any, axis: int, index: Any) -> Node:
    """For each index the element of `x` at that place along an axis. The index may be shorter along the others.

    >>> import wengert as wg
    >>> wg.gather(wg.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, wg.tensor([[1], [0]])).tolist()
    [[2.0], [3.0]]
    """
    x, index, at = _corner("gather", as_node(x), axis, index)
    return TAKE_ALONG(_cut(x, _with_size(index.shape, at, x.shape[at])), index, axis=at)


def scatter(x: Any, axis: int, index: Any, src: Any) -> Node:
    """`x` with the elements that `gather` reads replaced by those of `src`, an array or a number.

    >>> import wengert as wg
    >>> wg.scatter(wg.zeros(3), 0, wg.tensor([2, 0]), wg.tensor([5.0, 6.0])).tolist()
    [6.0, 0.0, 5.0]
    """
    return _write(PUT_ALONG, "scatter", x, axis, index, src)


def scatter_add(x: Any, axis: int, index: Any, src: Any) -> Node:
    """`x` with `src` added to the elements that `gather` reads; a place that is named twice gets both.

    >>> import wengert as wg
    >>> wg.scatter_add(wg.tensor([0.0, 0.0]), 0, wg.tensor([1, 1, 0]), wg.tensor([1.0, 2.0, 3.0])).tolist()
    [3.0, 3.0]
    """
    return _write(ADD_ALONG, "scatter_add", x, axis, index, src)


def _write(op: Op, name: str, x: Any, axis: int, index: Any, src: Any) -> Node:
    x, index, at = _corner(name, as_node(x), axis, index)
    source = values_for(x, src)
    if source.ndim and (source.ndim != x.ndim or any(m < n for m, n in zip(source.shape, index.shape))):
        raise ShapeError(f"{name}: src of shape {source.shape} does not hold a value for each index of {index.shape}")
    values = _cut(source, index.shape) if source.ndim else broadcast_to(source, index.shape)
    part = _with_size(index.shape, at, x.shape[at])
    written = op(_cut(x, part), values, index, axis=at)
    return put_slice(x, written, (0,) * x.ndim, (1,) * x.ndim)


def _corner(name: str, x: Node, axis: int, index: Any) -> tuple[Node, Node, int]:
    index = as_index(index, name)
    if x.ndim == 0 and index.ndim <= 1:
        raise ShapeError(f"{name}: a 0-d value has no axis to index")
    at = normalize_axis(axis, x.ndim, name)
    larger = any(m > n for i, (m, n) in enumerate(zip(index.shape, x.shape)) if i != at)
    if index.ndim != x.ndim or larger:
        raise ShapeError(
            f"{name}: an index of shape {index.shape} for a value of shape {x.shape}: it needs as many axes, and none "
            f"longer than the value's but axis {at}"
        )
    check_range(index, x.shape[at], name)
    return x, index, at


def _cut(x: Node, shape: Shape) -> Node:
    return take_slice(x, (0,) * x.ndim, (1,) * x.ndim, shape)


# --- masks and classes ----------------------------------------------------------------------------------------------


def masked_fill(x: Any, mask: Any, value: Any) -> Node:
    """`x` with a number in the places where the mask is true.

    >>> import wengert as wg
    >>> wg.masked_fill(wg.tensor([1.0, 2.0]), wg.tensor([True, False]), 0.0).tolist()
    [0.0, 2.0]
    """
    x, mask = as_node(x), as_node(mask)
    if mask.dtype is not bool_:
        raise DTypeError(f"masked_fill: the mask is boolean, not {mask.dtype}; compare first, as in x > 0")
    return where(mask, values_for(x, value), x)


def one_hot(x: Any, num_classes: int, dtype: Any = int64) -> Node:
    """For each class number a vector with a 1 in its place and 0 elsewhere.

    >>> import wengert as wg
    >>> wg.one_hot(wg.tensor([2, 0]), 3).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    x = as_index(x, "one_hot")
    if not isinstance(num_classes, (int, np.integer)) or num_classes < 1:
        raise ArgumentError(f"one_hot: num_classes is a positive integer, not {num_classes!r}")
    known = x.buffer
    if isinstance(known, np.ndarray) and known.size and not 0 <= known.min() <= known.max() < num_classes:
        raise OutOfRangeError(f"one_hot: classes from {known.min()} to {known.max()}, with num_classes={num_classes}")
    check_size("one_hot", (*x.shape, num_classes), as_dtype(dtype))
    x = cast(x, int64)
    if not isinstance(known, np.ndarray):
        is_class = logical_and(greater_equal(x, 0), less(x, num_classes))
        x = x + zero_where(is_class, f"one_hot: a class is not one of 0 to {num_classes - 1}")
    classes = data(np.arange(num_classes), x.device)
    return cast(equal(expand_dims(x, axis=-1), classes), as_dtype(dtype))
