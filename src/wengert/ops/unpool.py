"""What undoes a max pooling, the power mean of windows, and pooling over windows at irregular places.

`max_unpool` puts values back where the indices of a max pooling say; `lp_pool` is a mean of powers; `fractional` pools
windows whose places follow from random numbers, which the public functions draw (`wengert.api.drawn`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.core.dtypes import INTEGER, int64
from wengert.core.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.addressing import PUT_ALONG, TAKE_ALONG, zeros
from wengert.ops.conv import per_axis
from wengert.ops.core import as_node, cast, data, require_floating
from wengert.ops.elementwise import absolute, floor, pow, sign
from wengert.ops.movement import broadcast_to, concat, expand_dims, reshape, slice_axis
from wengert.ops.pool import avg_pool1d, avg_pool2d, avg_pool3d, check_axes
from wengert.ops.reduce import argmax

# --- values back to their places ------------------------------------------------------------------------------------


def _sizes_before(name: str, sizes: Shape, kernel: Any, stride: Any, padding: Any, output_size: Any) -> Shape:
    """What the sizes were before the pooling: as small as they can have been, unless `output_size` says."""
    axes = len(sizes)
    kernel = per_axis(kernel, axes, name, "kernel_size")
    stride = kernel if stride in (None, (), []) else per_axis(stride, axes, name, "stride")
    around = per_axis(padding, axes, name, "padding", least=0)
    least = tuple((n - 1) * s + k - 2 * p for n, k, s, p in zip(sizes, kernel, stride, around))
    if output_size is None:
        return least
    given = tuple(output_size)
    wanted = given[-axes:] if len(given) == axes + 2 else given
    if len(wanted) != axes:
        raise ShapeError(f"{name}: output_size has {axes} or {axes + 2} numbers, not {given}")
    for want, n, s in zip(wanted, least, stride):
        if not n - s < want < n + s:
            raise ShapeError(f"{name}: output_size {given}: a size is between {n - s + 1} and {n + s - 1}, not {want}")
    return tuple(int(n) for n in wanted)


def _unpool(
    name: str, axes: int, x: Any, indices: Any, kernel: Any, stride: Any, padding: Any, output_size: Any
) -> Node:
    x, places = check_axes(name, axes, x), as_node(indices)
    if places.dtype not in INTEGER:
        raise DTypeError(f"{name}: the indices are integers, as max pooling gives them, not {places.dtype}")
    if places.shape != x.shape:
        raise ShapeError(f"{name}: indices of shape {places.shape} for values of shape {x.shape}: they are equal")
    lead = x.shape[: x.ndim - axes]
    sizes = _sizes_before(name, x.shape[x.ndim - axes :], kernel, stride, padding, output_size)
    count = math.prod(sizes)
    known = places.buffer
    if isinstance(known, np.ndarray) and known.size and not 0 <= known.min() <= known.max() < count:
        wrong = known.min() if known.min() < 0 else known.max()
        raise OutOfRangeError(f"{name}: index {wrong} is not a place in {sizes}, which has {count}")
    flat = math.prod(x.shape[x.ndim - axes :])
    values, at = reshape(x, (*lead, flat)), reshape(places, (*lead, flat))
    return reshape(PUT_ALONG(zeros((*lead, count), x), values, at, axis=len(lead)), (*lead, *sizes))


def max_unpool1d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Node:
    """Zeros, with the values `x` of a `max_pool1d` at the places that it gave; its options say how many there were.

    >>> import wengert as wg
    >>> values, indices = wg.max_pool1d(wg.tensor([[1.0, 3.0, 2.0, 0.0]]), 2, return_indices=True)
    >>> wg.max_unpool1d(values, indices, 2).tolist()
    [[0.0, 3.0, 2.0, 0.0]]
    """
    return _unpool("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Node:
    """Zeros, with the values `x` of a `max_pool2d` at the places that it gave. Of two for one place the last stays.

    >>> import wengert as wg
    >>> values, indices = wg.max_pool2d(wg.ones((1, 1, 4, 4)), 2, return_indices=True)
    >>> wg.max_unpool2d(values, indices, 2).shape
    (1, 1, 4, 4)
    """
    return _unpool("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Node:
    """Zeros, with the values `x` of a `max_pool3d` at the places that it gave. Of two for one place the last stays.

    >>> import wengert as wg
    >>> values, indices = wg.max_pool3d(wg.ones((1, 1, 4, 4, 4)), 2, return_indices=True)
    >>> wg.max_unpool3d(values, indices, 2).shape
    (1, 1, 4, 4, 4)
    """
    return _unpool("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size)


# --- means of powers ------------------------------------------------------------------------------------------------


def _power_mean(axes: int, x: Any, p: float, kernel: Any, stride: Any, ceil_mode: bool) -> Node:
    name = f"lp_pool{axes}d"
    x = check_axes(name, axes, x)
    require_floating(name, x)
    if not p:
        raise ArgumentError(f"{name}: norm_type is a number other than 0, whose root is taken")
    kernel = per_axis(kernel, axes, name, "kernel_size")
    average = (avg_pool1d, avg_pool2d, avg_pool3d)[axes - 1]
    means: Node = average(pow(x, float(p)), kernel, stride, 0, ceil_mode)
    total = sign(means) * absolute(means) * float(math.prod(kernel))
    return pow(total, 1.0 / p)


def lp_pool1d(x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Node:
    """The root of the sum of powers of each window over the last axis: `(sum of x ** p) ** (1 / p)`.

    >>> import wengert as wg
    >>> wg.lp_pool1d(wg.tensor([[3.0, 4.0]]), 2, 2).tolist()
    [[5.0]]
    """
    return _power_mean(1, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Node:
    """The root of the sum of powers of each window over the last two axes.

    >>> import wengert as wg
    >>> wg.lp_pool2d(wg.ones((1, 1, 4, 4)), 2, 2).tolist()
    [[[[2.0, 2.0], [2.0, 2.0]]]]
    """
    return _power_mean(2, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Node:
    """The root of the sum of powers of each window over the last three axes.

    >>> import wengert as wg
    >>> wg.lp_pool3d(wg.ones((1, 1, 4, 4, 4)), 2, 2).shape
    (1, 1, 2, 2, 2)
    """
    return _power_mean(3, x, norm_type, kernel_size, stride, ceil_mode)


# --- windows at irregular places ------------------------------------------------------------------------------------


def _starts(samples: Node, size: int, kernel: int, count: int) -> Node:
    """Where `count` windows along an axis begin, for random numbers of shape (...,): (..., count) integers.

    Graham, "Fractional max-pooling" (2014), the pseudorandom kind; the last window ends where the axis does.
    """
    last = broadcast_to(data(np.array([size - kernel]), samples.device), (*samples.shape, 1))
    if count == 1:
        return last
    step = (size - kernel) / (count - 1)
    shift = expand_dims(samples, axis=-1)
    numbers = data(np.arange(count - 1).astype(samples.dtype), samples.device)
    begins = floor((numbers + shift) * step) - floor(shift * step)
    return concat([cast(begins, int64), last], axis=-1)


def fractional_max(
    name: str, axes: int, x: Any, kernel_size: Any, counts: Shape, samples: Node, return_indices: bool
) -> Any:
    """The largest element of each of `counts` windows, whose places `samples` (N, C, axes) say."""
    x = check_axes(name, axes, x)
    lead, sizes = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    kernel = per_axis(kernel_size, axes, name, "kernel_size")
    for size, k, count in zip(sizes, kernel, counts):
        if count + k - 1 > size:
            raise ShapeError(f"{name}: {count} windows of {k} elements do not fit into {size}, one further on each")
    # PyTorch's samples go with the axes from the first to the last in 3-d, and from the last to the first in 2-d
    order = range(axes) if axes == 3 else range(axes - 1, -1, -1)
    flat: Any = 0
    for axis, sample in enumerate(order):
        at = reshape(slice_axis(samples, samples.ndim - 1, sample, sample + 1), lead)
        begins = _starts(at, sizes[axis], kernel[axis], counts[axis])
        inside = expand_dims(begins, axis=-1) + data(np.arange(kernel[axis]), x.device)
        laid = [1] * (2 * axes)
        laid[axis], laid[axes + axis] = counts[axis], kernel[axis]
        flat = flat * sizes[axis] + reshape(inside, (*lead, *laid))
    windows = (*lead, math.prod(counts), math.prod(kernel))
    flat = reshape(flat, (*lead, -1))
    taken = reshape(TAKE_ALONG(reshape(x, (*lead, -1)), flat, axis=len(lead)), windows)
    best = argmax(taken, axis=-1, keepdims=True)
    values = reshape(TAKE_ALONG(taken, best, axis=len(lead) + 1), (*lead, *counts))
    if not return_indices:
        return values
    return values, reshape(TAKE_ALONG(reshape(flat, windows), best, axis=len(lead) + 1), (*lead, *counts))
