"""Pooling as in PyTorch: the largest or the mean of each window over the last one to three axes; unfold and fold.

The work is done by the primitives in `window`; here are the arguments, and how many windows there are. Windows of a
given number are in `adaptive_pool`, what undoes a pooling and other kinds of it in `unpool`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.core.dtypes import REAL
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.addressing import zeros
from wengert.ops.autocast import autocast
from wengert.ops.conv import per_axis
from wengert.ops.convolve import Pairs, extent
from wengert.ops.core import as_node, data, require_floating
from wengert.ops.movement import broadcast_to, moveaxis, normalize_axis, place, reshape, take_slice
from wengert.ops.op import pick
from wengert.ops.reduce import SUM
from wengert.ops.window import FOLD, MAX_POOL, SUM_POOL, UNFOLD, padded_sizes, window_counts

# --- arguments ------------------------------------------------------------------------------------------------------


_LAYOUTS = {1: "C, L", 2: "C, H, W", 3: "C, D, H, W"}


def check_axes(name: str, axes: int, x: Any) -> Node:
    """A value of so many axes behind the channels, with or without a batch."""
    x = as_node(x)
    if x.ndim not in (axes + 1, axes + 2):
        layout = _LAYOUTS[axes]
        raise ShapeError(f"{name}: the input is (N, {layout}) or, unbatched, ({layout}); its shape is {x.shape}")
    return x


class _Windows:
    """The windows of a pooling: their kernel, stride, padding and dilation, one for each axis, and how many fit."""

    def __init__(
        self, name: str, sizes: Shape, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> None:
        axes = len(sizes)
        self.kernel = per_axis(kernel, axes, name, "kernel_size")
        self.stride = self.kernel if stride in (None, (), []) else per_axis(stride, axes, name, "stride")
        self.dilation = per_axis(dilation, axes, name, "dilation")
        self.around = per_axis(padding, axes, name, "padding", least=0)
        counts, pairs = [], []
        for size, k, s, p, d in zip(sizes, self.kernel, self.stride, self.around, self.dilation):
            if 2 * p > extent(k, d):
                raise ArgumentError(f"{name}: padding {p} is more than half of the kernel, which spans {extent(k, d)}")
            count = _window_count(size, extent(k, d), s, p, ceil_mode)
            if count < 1:
                raise ShapeError(
                    f"{name}: a kernel that spans {extent(k, d)} does not fit into {size} elements with padding {p}"
                )
            counts.append(count)
            pairs.append((p, max(p, (count - 1) * s + extent(k, d) - size - p)))
        self.positions: Shape = tuple(counts)
        self.padding: Pairs = tuple(pairs)


def _window_count(size: int, span: int, stride: int, padding: int, ceil_mode: bool) -> int:
    room = size + 2 * padding - span
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    # the last window of ceil_mode must begin inside the input or its left padding
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


# --- pooling --------------------------------------------------------------------------------------------------------


def _max(
    name: str,
    axes: int,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    x = check_axes(name, axes, x)
    if x.dtype not in REAL:
        raise DTypeError(f"{name} takes real numbers, not {x.dtype}")
    w = _Windows(name, x.shape[x.ndim - axes :], kernel, stride, padding, dilation, ceil_mode)
    pooled = MAX_POOL(x, kernel=w.kernel, stride=w.stride, padding=w.padding, dilation=w.dilation)
    return (pick(pooled, 0), pick(pooled, 1)) if return_indices else pick(pooled, 0)


def max_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over the last axis; with `return_indices` also where it is.

    >>> import wengert as wg
    >>> wg.max_pool1d(wg.tensor([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[3.0, 2.0]]
    """
    return _max("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over the last two axes. The stride is the kernel's size if not given.

    The derivative goes to the first of elements that tie. With `return_indices` also the place of each in its plane.

    >>> import wengert as wg
    >>> wg.max_pool2d(wg.reshape(wg.arange(16.0), (1, 1, 4, 4)), 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    return _max("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over the last three axes, and with `return_indices` its place in the volume.

    >>> import wengert as wg
    >>> wg.max_pool3d(wg.reshape(wg.arange(8.0), (1, 2, 2, 2)), 2).item()
    7.0
    """
    return _max("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _average(
    name: str,
    axes: int,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Node:
    x = check_axes(name, axes, x)
    require_floating(name, x)
    if divisor == 0:
        raise ArgumentError(f"{name}: divisor_override cannot be 0")
    lead, sizes = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    w = _Windows(name, sizes, kernel, stride, padding, 1, ceil_mode)
    starts = (*(0,) * len(lead), *w.around)
    padded = place(x, (*lead, *padded_sizes(sizes, w.padding)), starts, (1,) * x.ndim)
    if padded.shape[len(lead) :] == w.kernel:  # one window is all there is: a sum, whose derivative is a broadcast
        with autocast(enabled=False):  # as other windows are, and as PyTorch's
            total = SUM(padded, axes=tuple(range(len(lead), x.ndim)), keepdims=True)
    else:
        total = SUM_POOL(padded, kernel=w.kernel, stride=w.stride)
    if divisor is not None:
        return total / divisor
    counts = _element_counts(w, sizes, count_include_pad)
    if (counts == counts.flat[0]).all():
        return total / float(counts.flat[0])
    return total / data(counts.astype(x.dtype), x.device)


def _element_counts(w: _Windows, sizes: Shape, count_include_pad: bool) -> Any:
    """By how much each window's sum is divided; what lies beyond the padding, in ceil_mode, never counts."""
    total: Any = np.ones(())
    for size, k, s, p, count in zip(sizes, w.kernel, w.stride, w.around, w.positions):
        starts = np.arange(count) * s - p
        ends = np.minimum(starts + k, size + p)
        inside = ends - starts if count_include_pad else np.minimum(ends, size) - np.maximum(starts, 0)
        total = np.multiply.outer(total, inside)
    return total


def avg_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Node:
    """The mean of each window over the last axis; the padding's zeros count unless `count_include_pad` is False.

    >>> import wengert as wg
    >>> wg.avg_pool1d(wg.tensor([[[1.0, 3.0, 5.0, 7.0]]]), 2).tolist()
    [[[2.0, 6.0]]]
    """
    return _average("avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Node:
    """The mean of each window over the last two axes; with `divisor_override` the sum over that number.

    >>> import wengert as wg
    >>> wg.avg_pool2d(wg.ones((1, 3, 8, 8)), 2).shape
    (1, 3, 4, 4)
    """
    return _average("avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Node:
    """The mean of each window over the last three axes; with `divisor_override` the sum over that number.

    >>> import wengert as wg
    >>> wg.avg_pool3d(wg.reshape(wg.arange(8.0), (1, 2, 2, 2)), 2).item()
    3.5
    """
    return _average("avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


# --- windows as columns ---------------------------------------------------------------------------------------------


def unfold(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Node:
    """The windows of `x` (N, C, H, W) as columns: (N, C * KH * KW, windows).

    >>> import wengert as wg
    >>> wg.unfold(wg.ones((1, 2, 4, 4)), 2).shape
    (1, 8, 9)
    """
    x = check_axes("unfold", 2, x)
    kernel, apart = per_axis(kernel_size, 2, "unfold", "kernel_size"), per_axis(dilation, 2, "unfold", "dilation")
    around = per_axis(padding, 2, "unfold", "padding", least=0)
    steps = per_axis(stride, 2, "unfold", "stride")
    *lead, height, width = x.shape
    padded = place(
        x, (*lead, height + 2 * around[0], width + 2 * around[1]), (*(0,) * len(lead), *around), (1,) * x.ndim
    )
    if not all(window_counts(padded.shape[-2:], kernel, steps, apart)):
        raise ShapeError(f"unfold: a kernel of {kernel} with dilation {apart} does not fit into {padded.shape[-2:]}")
    windows = UNFOLD(padded, kernel=kernel, stride=steps, dilation=apart)
    return reshape(windows, (*lead[:-1], lead[-1] * math.prod(kernel), math.prod(windows.shape[-2:])))


def fold(x: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Node:
    """The sum of overlapping windows given as columns (N, C * KH * KW, windows): the transpose of `unfold`.

    >>> import wengert as wg
    >>> wg.fold(wg.ones((1, 4, 4)), output_size=(4, 4), kernel_size=2, stride=2).shape
    (1, 1, 4, 4)
    """
    x = as_node(x)
    sizes, kernel = per_axis(output_size, 2, "fold", "output_size"), per_axis(kernel_size, 2, "fold", "kernel_size")
    apart, steps = per_axis(dilation, 2, "fold", "dilation"), per_axis(stride, 2, "fold", "stride")
    around = per_axis(padding, 2, "fold", "padding", least=0)
    full = tuple(n + 2 * p for n, p in zip(sizes, around))
    positions, taps = window_counts(full, kernel, steps, apart), math.prod(kernel)
    if x.ndim not in (2, 3) or x.shape[-2] % taps or x.shape[-1] != math.prod(positions):
        raise ShapeError(
            f"fold: the input is (N, C * {taps}, {math.prod(positions)}) for a kernel of {kernel} at {positions} "
            f"positions; its shape is {x.shape}"
        )
    lead = (*x.shape[:-2], x.shape[-2] // taps)
    windows = reshape(x, (*lead, *kernel, *positions))
    folded = FOLD(windows, sizes=full, kernel=kernel, stride=steps, dilation=apart)
    return take_slice(folded, (*(0,) * len(lead), *around), (1,) * folded.ndim, (*lead, *sizes))


def sliding_window(x: Any, axis: int, size: int, step: int = 1) -> Node:
    """The windows of `size` elements along an axis, `step` apart; what is in a window is a new last axis.

    The method `Tensor.unfold` is this function, as in PyTorch, where the function `unfold` is of images.

    >>> import wengert as wg
    >>> wg.sliding_window(wg.arange(5), 0, 3, step=2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    x = as_node(x)
    if not x.ndim and axis in (0, -1) and size in (0, 1):
        return reshape(x, (1,))
    at = normalize_axis(axis, x.ndim, "sliding_window")
    if not isinstance(size, int) or not isinstance(step, int) or size < 0 or step < 1:
        raise ArgumentError(f"sliding_window: size is not negative and step at least 1; they are {size!r}, {step!r}")
    if size > x.shape[at]:
        raise ShapeError(f"sliding_window: a window of {size} does not fit into axis {at} of shape {x.shape}")
    if size == 0:
        count = x.shape[at] // step + 1
        return broadcast_to(zeros((), x), (*x.shape[:at], count, *x.shape[at + 1 :], 0))
    windows = UNFOLD(moveaxis(x, at, -1), kernel=(size,), stride=(step,), dilation=(1,))
    return moveaxis(windows, -1, at)
