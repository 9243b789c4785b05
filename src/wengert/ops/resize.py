"""Resizing: interpolation to another size, an axis at a time, and the exchange of channels for pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.conv import per_axis
from wengert.ops.core import as_node, data, require_floating
from wengert.ops.gather import take
from wengert.ops.movement import broadcast_to, permute_dims, reshape

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}


def _sizes_and_scales(
    sizes: Shape, size: Any, scale_factor: Any, align_corners: bool | None
) -> list[tuple[int, float]]:
    """For each axis its new size, and how many elements of the old one a step in the new one is."""
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: give either size or scale_factor")
    if size is not None:
        targets = per_axis(size, len(sizes), "interpolate", "size")
        steps = [n / t for n, t in zip(sizes, targets)]
    else:
        factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * len(sizes)
        if len(factors) != len(sizes) or not all(isinstance(f, (int, float)) and f > 0 for f in factors):
            raise ArgumentError(
                f"interpolate: scale_factor is a positive number or {len(sizes)} of them, not {scale_factor!r}"
            )
        targets = tuple(math.floor(n * f) for n, f in zip(sizes, factors))
        if 0 in targets:
            raise ShapeError(f"interpolate: scale_factor {scale_factor!r} leaves nothing of {sizes}")
        steps = [1 / f for f in factors]
    if align_corners:
        steps = [(n - 1) / (t - 1) if t > 1 else 0.0 for n, t in zip(sizes, targets)]
    return list(zip(targets, steps))


def _nearest(x: Node, axis: int, target: int, step: float) -> Node:
    size = x.shape[axis]
    # in float32, as PyTorch has it: where a step lands next to a whole number, its rounding decides
    places = np.minimum(np.floor(np.arange(target, dtype=np.float32) * np.float32(step)).astype(np.int64), size - 1)
    if target == 2 * size or (target % size == 0 and (places == np.arange(target) // (target // size)).all()):
        return _each_repeated(x, axis, target // size)
    return take(x, places, axis=axis)


def _each_repeated(x: Node, axis: int, times: int) -> Node:
    before, after = x.shape[: axis + 1], x.shape[axis + 1 :]
    wide = broadcast_to(reshape(x, (*before, 1, *after)), (*before, times, *after))
    return reshape(wide, (*before[:-1], before[-1] * times, *after))


def _between(x: Node, axis: int, target: int, step: float, align_corners: bool) -> Node:
    """Weighted means of neighbours along an axis."""
    size = x.shape[axis]
    centres = np.arange(target) * step if align_corners else np.maximum((np.arange(target) + 0.5) * step - 0.5, 0)
    low = np.minimum(np.floor(centres).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    share = np.clip(centres - low, 0, 1).astype(x.dtype).reshape(target, *(1,) * (x.ndim - 1 - axis))
    weight = data(share, x.device)
    return take(x, low, axis=axis) * (1 - weight) + take(x, high, axis=axis) * weight


def interpolate(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Node:
    """`x` (N, C, *spatial) resized to `size`, or by `scale_factor`: numbers or one for each spatial axis.

    `mode` is "nearest", or "linear", "bilinear", "trilinear" for one, two, three spatial axes. With `align_corners` the
    corner elements keep their values; without it, pixels are areas and their centres are what is aligned.

    >>> import wengert as wg
    >>> wg.interpolate(wg.tensor([[[0.0, 1.0]]]), size=4, mode="linear").tolist()
    [[[0.0, 0.25, 0.75, 1.0]]]
    """
    x = as_node(x)
    if x.ndim < 3 or 0 in x.shape[2:]:
        raise ShapeError(f"interpolate: the input is (N, C, *spatial) and not empty; its shape is {x.shape}")
    if mode not in ("nearest", *_LINEAR):
        raise ArgumentError(f'interpolate: mode is "nearest", "linear", "bilinear" or "trilinear", not {mode!r}')
    if mode == "nearest" and align_corners is not None:
        raise ArgumentError('interpolate: align_corners goes with the linear modes, not with "nearest"')
    if mode in _LINEAR:
        require_floating("interpolate", x)
        if x.ndim - 2 != _LINEAR[mode]:
            raise ShapeError(f'interpolate: mode "{mode}" takes {_LINEAR[mode]} spatial axes; the shape is {x.shape}')
    for axis, (target, step) in enumerate(_sizes_and_scales(x.shape[2:], size, scale_factor, align_corners), 2):
        if target == x.shape[axis]:
            continue
        x = (
            _nearest(x, axis, target, step)
            if mode == "nearest"
            else _between(x, axis, target, step, bool(align_corners))
        )
    return x


# --- channels and pixels --------------------------------------------------------------------------------------------


def _factor(name: str, x: Node, factor: Any) -> int:
    if not isinstance(factor, int) or factor < 1:
        raise DTypeError(f"{name}: the factor is an integer of at least 1, not {factor!r}")
    if x.ndim < 3:
        raise ShapeError(f"{name}: the input is (..., C, H, W); its shape is {x.shape}")
    return factor


def _regrouped(x: Node, split: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> Node:
    """The last three axes split, put in another order and joined again."""
    lead = x.ndim - 3
    parts = reshape(x, (*x.shape[:lead], *split))
    moved = permute_dims(parts, (*range(lead), *(lead + axis for axis in order)))
    return reshape(moved, (*x.shape[:lead], *shape))


def pixel_shuffle(x: Any, upscale_factor: int) -> Node:
    """Channels become pixels: (..., C * r * r, H, W) to (..., C, H * r, W * r)."""
    x = as_node(x)
    r = _factor("pixel_shuffle", x, upscale_factor)
    channels, height, width = x.shape[-3:]
    if channels % (r * r):
        raise ShapeError(f"pixel_shuffle: {channels} channels do not divide by {r} * {r}")
    c = channels // (r * r)
    return _regrouped(x, (c, r, r, height, width), (0, 3, 1, 4, 2), (c, height * r, width * r))


def pixel_unshuffle(x: Any, downscale_factor: int) -> Node:
    """Pixels become channels: (..., C, H * r, W * r) to (..., C * r * r, H, W)."""
    x = as_node(x)
    r = _factor("pixel_unshuffle", x, downscale_factor)
    channels, height, width = x.shape[-3:]
    if height % r or width % r:
        raise ShapeError(f"pixel_unshuffle: {height} x {width} pixels do not divide by {r}")
    h, w = height // r, width // r
    return _regrouped(x, (channels, h, r, w, r), (0, 2, 4, 1, 3), (channels * r * r, h, w))
