"""Convolutions and pools over values that have their channels as the last axis: what `compiler.layout` records.

Each is an op of `convolve` or `window` between two permutations of the axes, and is differentiated as that. Weights are
permuted as values are: (outs, *kernel, ins). MAX_POOL_LAST gives indices in as few bytes as a plane needs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import int32, int64, uint16
from wengert.core.graph import Node, Shape
from wengert.ops.addressing import ADD_ALONG, zeros
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT
from wengert.ops.core import cast
from wengert.ops.movement import permute_dims, reshape
from wengert.ops.op import PACK, Op, pick
from wengert.ops.window import MAX_POOL, SUM_POOL


def last_order(rank: int) -> tuple[int, ...]:
    """The axes of a value with channels first, in the order with channels last.

    >>> last_order(4), first_order(4)
    ((0, 2, 3, 1), (0, 3, 1, 2))
    """
    return (0, *range(2, rank), 1)


def first_order(rank: int) -> tuple[int, ...]:
    """The axes of a value with channels last, in the order with channels first."""
    return (0, rank - 1, *range(1, rank - 1))


def permuted(shape: Shape, order: tuple[int, ...]) -> Shape:
    """A shape with its axes in another order."""
    return tuple(shape[axis] for axis in order)


def channels_first(x: Node) -> Node:
    """A value with its channels moved last."""
    return permute_dims(x, first_order(x.ndim))


def channels_last(x: Node) -> Node:
    """A value with its channels moved first."""
    return permute_dims(x, last_order(x.ndim))


class _Type(NamedTuple):
    shape: Shape
    dtype: Any
    ndim: int


def _between_permutations(op: Op) -> Op:
    """The op over values with channels last."""

    def infer(*sources: Node, **attrs: Any) -> tuple[Any, Any]:
        types = [_Type(permuted(x.shape, first_order(x.ndim)), x.dtype, x.ndim) for x in sources]
        shape, dtype = op.infer(*types, **attrs)
        return permuted(shape, last_order(len(shape))), dtype

    def compute(*arrays: Any, **attrs: Any) -> Any:
        result = op.numpy(*(np.moveaxis(x, -1, 1) for x in arrays), **attrs)
        return np.ascontiguousarray(np.moveaxis(result, 1, -1))

    def composed(*sources: Node, **attrs: Any) -> Node:
        return channels_last(op(*map(channels_first, sources), **attrs))

    return Op(
        f"{op.name}_last",
        infer=infer,
        numpy=compute,
        composition=composed,
        expensive=True,
        can_fail=False,
        flops=op.flops,
    )


CONVOLVE_LAST, CONVOLVE_INPUT_LAST, CONVOLVE_WEIGHT_LAST, SUM_POOL_LAST = map(
    _between_permutations, (CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT, SUM_POOL)
)


# --- the largest of each window -------------------------------------------------------------------------------------


def place_dtype(sizes: Shape) -> np.dtype[Any]:
    """The dtype for indices within a plane."""
    return uint16 if math.prod(sizes) <= 1 << 16 else int32


def _max_pool_infer(x: Node, **windows: Any) -> tuple[Any, Any]:
    (shape, _), _ = MAX_POOL.infer(_Type(permuted(x.shape, first_order(x.ndim)), x.dtype, x.ndim), **windows)
    values = permuted(shape, last_order(x.ndim))
    return (values, values), (x.dtype, place_dtype(x.shape[1:-1]))


def _max_pool(x: Any, **windows: Any) -> tuple[Any, Any]:
    values, places = MAX_POOL.numpy(np.moveaxis(x, -1, 1), **windows)
    return np.moveaxis(values, 1, -1), np.moveaxis(places, 1, -1).astype(place_dtype(x.shape[1:-1]))


def _max_pool_composed(x: Node, **windows: Any) -> Node:
    pooled = MAX_POOL(channels_first(x), **windows)
    return PACK(channels_last(pick(pooled, 0)), cast(channels_last(pick(pooled, 1)), place_dtype(x.shape[1:-1])))


def _max_pool_back(g: Any, places: Any, sizes: Shape, **windows: Any) -> Any:
    batch, channels = g.shape[0], g.shape[-1]
    result = np.zeros((batch, math.prod(sizes), channels), g.dtype)
    at = places.reshape(batch, -1, channels).astype(np.int64)
    images, lanes = np.arange(batch)[:, None, None], np.arange(channels)
    np.add.at(result, (images, at, lanes), g.reshape(at.shape))
    return result.reshape(batch, *sizes, channels)


def _max_pool_back_composed(g: Node, places: Node, sizes: Shape, **windows: Any) -> Node:
    batch, channels = g.shape[0], g.shape[-1]
    flat = (batch, math.prod(g.shape[1:-1]), channels)
    planes = zeros((batch, math.prod(sizes), channels), g)
    spread = ADD_ALONG(planes, reshape(g, flat), cast(reshape(places, flat), int64), axis=1)
    return reshape(spread, (batch, *sizes, channels))


MAX_POOL_LAST = Op(
    "max_pool_last",
    infer=_max_pool_infer,
    numpy=_max_pool,
    composition=_max_pool_composed,
    expensive=True,
    can_fail=False,
)
MAX_POOL_BACK_LAST = Op(
    "max_pool_back_last",
    infer=lambda g, places, sizes, **windows: ((g.shape[0], *sizes, g.shape[-1]), g.dtype),
    numpy=_max_pool_back,
    composition=_max_pool_back_composed,
    expensive=True,
    can_fail=False,
)
"""What the elements of a pool's input get of the cotangents of the windows that they are the largest of."""
