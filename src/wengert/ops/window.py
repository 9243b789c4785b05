"""Sliding windows over the last axes of a value: the maximum of each, the sum of each, and the windows themselves.

MAX_POOL returns the values and the index of each in its plane; its derivative goes to that element, the first of
several that tie. SUM_POOL, UNFOLD and FOLD are linear. Values may have any rank, so that lanes are one axis more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import int64
from wengert.core.graph import Node, Shape
from wengert.ops.addressing import ADD_ALONG, TAKE_ALONG, zeros
from wengert.ops.convolve import Pairs, extent, windows_of
from wengert.ops.factors import first_axes
from wengert.ops.movement import place, reshape
from wengert.ops.op import Op, pick


def _on_last_axes(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    return y.op(sources[0], **y.attrs)


def _window_axes(node: Node) -> int:
    return len(node.attrs["kernel"])


def window_counts(sizes: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    return tuple(max(0, (n - extent(k, d)) // s + 1) for n, k, s, d in zip(sizes, kernel, stride, dilation))


def _taps(kernel: Shape, stride: Shape, dilation: Shape, positions: Shape) -> list[tuple[Any, ...]]:
    """For each element of the kernel, what it reads at all positions: a key into the last axes of an array."""
    axes = [
        [slice(t * d, t * d + extent(n, s), s) for t in range(k)]
        for k, s, d, n in zip(kernel, stride, dilation, positions)
    ]
    return [(..., *key) for key in itertools.product(*axes)]


# --- the largest ----------------------------------------------------------------------------------------------------


def padded_sizes(sizes: Shape, padding: Pairs) -> Shape:
    return tuple(n + low + high for n, (low, high) in zip(sizes, padding))


def _max_pool_infer(x: Node, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> tuple[Any, Any]:
    lead = x.ndim - len(kernel)
    positions = window_counts(padded_sizes(x.shape[lead:], padding), kernel, stride, dilation)
    shape = (*x.shape[:lead], *positions)
    return (shape, shape), (x.dtype, int64)


def _max_pool(x: Any, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> tuple[Any, Any]:
    lead = x.ndim - len(kernel)
    sizes = x.shape[lead:]
    full = padded_sizes(sizes, padding)
    positions = window_counts(full, kernel, stride, dilation)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    padded = np.full((*x.shape[:lead], *full), lowest, x.dtype)
    inside: Any = tuple(slice(low, low + n) for n, (low, _) in zip(sizes, padding))
    padded[(..., *inside)] = x
    best = np.full((*x.shape[:lead], *positions), lowest, x.dtype)
    places = np.broadcast_to(_first_places(sizes, stride, padding, dilation, positions), best.shape).copy()
    numbers = np.zeros(full, np.int64)
    numbers[inside] = np.arange(math.prod(sizes)).reshape(sizes)
    for key in _taps(kernel, stride, dilation, positions):
        candidate = padded[key]
        better = (candidate > best) | (candidate != candidate)
        np.copyto(best, candidate, where=better)
        np.copyto(places, numbers[key], where=better)
    return best, places


def _first_places(sizes: Shape, stride: Shape, padding: Pairs, dilation: Shape, positions: Shape) -> Any:
    """Where each window's first element inside the plane is, for windows in which no element is above the lowest."""
    total: Any = 0
    for size, s, (low, _), d, count in zip(sizes, stride, padding, dilation, positions):
        starts = np.arange(count) * s - low
        starts = np.where(starts < 0, starts % d, starts).clip(0, max(0, size - 1))
        total = np.add.outer(total * size, starts)
    return total


def _as_planes(x: Node, axes: int) -> Node:
    """`x` with its last axes made one."""
    lead = x.ndim - axes
    return reshape(x, (*x.shape[:lead], math.prod(x.shape[lead:])))


def _max_pool_vjp(g: list[Node | None], y: Node, x: Node) -> Node | None:
    if g[0] is None:
        return None
    axes = len(y.attrs["kernel"])
    planes = _as_planes(x, axes)
    spread = ADD_ALONG(
        zeros(planes.shape, g[0]), _as_planes(g[0], axes), _as_planes(pick(y, 1), axes), axis=planes.ndim - 1
    )
    return reshape(spread, x.shape)


def _max_pool_jvp(tangents: Sequence[Any], y: Node, x: Node) -> list[Node | None]:
    axes = len(y.attrs["kernel"])
    planes = _as_planes(tangents[0], axes)
    taken = TAKE_ALONG(planes, _as_planes(pick(y, 1), axes), axis=planes.ndim - 1)
    return [reshape(taken, y.shape[0]), None]


MAX_POOL = Op(
    "max_pool",
    infer=_max_pool_infer,
    numpy=_max_pool,
    vjp=(_max_pool_vjp,),
    jvp=_max_pool_jvp,
    batch=_on_last_axes,
    factors=first_axes(_window_axes),
    expensive=True,
    can_fail=False,
)

# --- the sum --------------------------------------------------------------------------------------------------------


def _sum_pool_infer(x: Node, kernel: Shape, stride: Shape) -> tuple[Any, Any]:
    lead = x.ndim - len(kernel)
    return (*x.shape[:lead], *window_counts(x.shape[lead:], kernel, stride, (1,) * len(kernel))), x.dtype


def _sum_pool(x: Any, kernel: Shape, stride: Shape) -> Any:
    """The sum over a window is one over its rows of those over its columns."""
    lead = x.ndim - len(kernel)
    for axis, (k, s) in enumerate(zip(kernel, stride), lead):
        (count,) = window_counts(x.shape[axis : axis + 1], (k,), (s,), (1,))
        parts = [x[(*(slice(None),) * axis, slice(t, t + extent(count, s), s))] for t in range(k)]
        x = sum(parts[1:], parts[0])
    return x


def _sum_pool_vjp(g: Node, y: Node, x: Node) -> Node:
    """Each element gets the cotangents of the windows it is in: the sum over a window of the spread-out cotangent."""
    kernel, stride = y.attrs["kernel"], y.attrs["stride"]
    lead = x.ndim - len(kernel)
    shape = (*x.shape[:lead], *(n + k - 1 for n, k in zip(x.shape[lead:], kernel)))
    spread = place(g, shape, (*(0,) * lead, *(k - 1 for k in kernel)), (*(1,) * lead, *stride))
    return SUM_POOL(spread, kernel=kernel, stride=(1,) * len(kernel))


SUM_POOL = Op(
    "sum_pool",
    infer=_sum_pool_infer,
    numpy=_sum_pool,
    vjp=(_sum_pool_vjp,),
    linear=(0,),
    batch=_on_last_axes,
    factors=first_axes(_window_axes),
    expensive=True,
    can_fail=False,
)

# --- unfold and fold ------------------------------------------------------------------------------------------------


def _unfold_infer(x: Node, kernel: Shape, stride: Shape, dilation: Shape) -> tuple[Any, Any]:
    lead = x.ndim - len(kernel)
    return (*x.shape[:lead], *kernel, *window_counts(x.shape[lead:], kernel, stride, dilation)), x.dtype


def _unfold(x: Any, kernel: Shape, stride: Shape, dilation: Shape) -> Any:
    n, lead = len(kernel), x.ndim - len(kernel)
    windows = windows_of(x, kernel, stride, dilation, window_counts(x.shape[lead:], kernel, stride, dilation))
    return windows.transpose(*range(lead), *range(lead + n, lead + 2 * n), *range(lead, lead + n))


def _fold(x: Any, sizes: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Any:
    n = len(kernel)
    lead = x.ndim - 2 * n
    result = np.zeros((*x.shape[:lead], *sizes), x.dtype)
    parts = x.reshape(*x.shape[:lead], math.prod(kernel), *x.shape[lead + n :])
    for tap, key in enumerate(_taps(kernel, stride, dilation, x.shape[lead + n :])):
        result[key] += parts[(..., tap, *(slice(None),) * n)]
    return result


UNFOLD = Op(
    "unfold",
    infer=_unfold_infer,
    numpy=_unfold,
    vjp=(lambda g, y, x: FOLD(g, sizes=x.shape[x.ndim - len(y.attrs["kernel"]) :], **y.attrs),),
    linear=(0,),
    batch=_on_last_axes,
    factors=first_axes(_window_axes),
    moves=True,
)
FOLD: Op = Op(
    "fold",
    infer=lambda x, sizes, kernel, stride, dilation: ((*x.shape[: x.ndim - 2 * len(kernel)], *sizes), x.dtype),
    numpy=_fold,
    vjp=(lambda g, y, x: UNFOLD(g, **{key: y.attrs[key] for key in ("kernel", "stride", "dilation")}),),
    linear=(0,),
    complex=True,
    batch=_on_last_axes,
    factors=first_axes(lambda node: 2 * _window_axes(node)),
)
