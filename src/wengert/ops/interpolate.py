"""Interpolation to another size, an axis at a time.

Along an axis a new element is a weighted sum of a few old ones (their indices and weights are known while recording):
one for the nearest, two for linear, four for cubic interpolation. With `antialias`, when an axis shrinks, the weights
reach over as many more; that is a product with a matrix. The area mode is adaptive pooling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.adaptive_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from wengert.ops.conv import per_axis
from wengert.ops.core import as_node, data, require_floating
from wengert.ops.gather import take
from wengert.ops.linalg import matmul
from wengert.ops.movement import broadcast_to, matrix_transpose, moveaxis, reshape

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_SMOOTH = {**_LINEAR, "bicubic": 2}
_AREA: dict[int, Callable[..., Node]] = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
MODES = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area")

# --- sizes ----------------------------------------------------------------------------------------------------------


def _sizes_and_steps(
    sizes: Shape, size: Any, scale_factor: Any, align_corners: bool | None, recompute: bool | None
) -> list[tuple[int, float]]:
    """For each axis its new size, and how many elements of the old one a step in the new one is."""
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: give either size or scale_factor")
    if size is not None:
        if recompute:
            raise ArgumentError("interpolate: recompute_scale_factor requires a scale_factor, not a size")
        targets = per_axis(size, len(sizes), "interpolate", "size")
        steps = [n / t for n, t in zip(sizes, targets)]
    else:
        factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * len(sizes)
        if len(factors) != len(sizes) or not all(isinstance(f, (int, float)) and f > 0 for f in factors):
            raise ArgumentError(
                f"interpolate: scale_factor must be a positive number or {len(sizes)} of them, not {scale_factor!r}"
            )
        targets = tuple(math.floor(n * f) for n, f in zip(sizes, factors))
        if 0 in targets:
            raise ShapeError(f"interpolate: scale_factor {scale_factor!r} leaves nothing of {sizes}")
        steps = [n / t for n, t in zip(sizes, targets)] if recompute else [1 / f for f in factors]
    if align_corners:
        steps = [(n - 1) / (t - 1) if t > 1 else 0.0 for n, t in zip(sizes, targets)]
    return list(zip(targets, steps))


# --- along an axis --------------------------------------------------------------------------------------------------


def _nearest(x: Node, axis: int, target: int, step: float, exact: bool) -> Node:
    size = x.shape[axis]
    # in float32, as PyTorch has it: where a step lands next to a whole number, its rounding decides
    begins = np.arange(target, dtype=np.float32) + np.float32(0.5 if exact else 0)
    places = np.minimum(np.floor(begins * np.float32(step)).astype(np.int64), size - 1)
    if target % size == 0 and (places == np.arange(target) // (target // size)).all():
        return _each_repeated(x, axis, target // size)
    return take(x, places, axis=axis)


def _each_repeated(x: Node, axis: int, times: int) -> Node:
    before, after = x.shape[: axis + 1], x.shape[axis + 1 :]
    wide = broadcast_to(reshape(x, (*before, 1, *after)), (*before, times, *after))
    return reshape(wide, (*before[:-1], before[-1] * times, *after))


def _beside(x: Node, axis: int, weights: Any) -> Node:
    """Weights of the new elements along an axis, laid out to multiply `x`."""
    return data(weights.astype(x.dtype).reshape(-1, *(1,) * (x.ndim - 1 - axis)), x.device)


def _between(x: Node, axis: int, target: int, step: float, align_corners: bool) -> Node:
    """Weighted means of neighbours along an axis."""
    size = x.shape[axis]
    centres = np.arange(target) * step if align_corners else np.maximum((np.arange(target) + 0.5) * step - 0.5, 0)
    low = np.minimum(np.floor(centres).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    weight = _beside(x, axis, np.clip(centres - low, 0, 1))
    return take(x, low, axis=axis) * (1 - weight) + take(x, high, axis=axis) * weight


def cubic_weights(t: Any, a: float = -0.75) -> list[Any]:
    """The weights of the four neighbours of a point `t` past the second one, for an array or a node (Keys, 1981)."""

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(x: Node, axis: int, target: int, step: float, align_corners: bool) -> Node:
    """A cubic through four neighbours along an axis; beyond the ends the last element goes on."""
    size = x.shape[axis]
    centres = np.arange(target) * step if align_corners else (np.arange(target) + 0.5) * step - 0.5
    if (centres == np.arange(target)).all() and target == size:
        return x
    low = np.floor(centres)
    total: Any = 0.0
    for k, weights in enumerate(cubic_weights(centres - low), -1):
        places = np.clip(low.astype(np.int64) + k, 0, size - 1)
        total = take(x, places, axis=axis) * _beside(x, axis, weights) + total
    return total


def _triangle(d: Any) -> Any:
    return np.maximum(1 - np.abs(d), 0)


def _smoother_cubic(d: Any) -> Any:
    """The cubic filter that Pillow has, with a = -0.5."""
    d = np.abs(d)
    a = -0.5
    return np.where(d < 1, ((a + 2) * d - (a + 3)) * d * d + 1, np.where(d < 2, (((d - 5) * d + 8) * d - 4) * a, 0.0))


def _antialiased(x: Node, axis: int, target: int, step: float, cubic: bool) -> Node:
    """Each new element a mean over as much of the axis as it stands for, as in Pillow: a product with a matrix."""
    size, wide = x.shape[axis], max(step, 1.0)
    reach = (2.0 if cubic else 1.0) * wide
    weights = np.zeros((target, size))
    for i in range(target):
        centre = step * (i + 0.5)
        first, last = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), size)
        row = (_smoother_cubic if cubic else _triangle)((np.arange(first, last) - centre + 0.5) / wide)
        weights[i, first:last] = row / row.sum() if row.sum() else row
    matrix = matrix_transpose(data(weights.astype(x.dtype), x.device))
    return moveaxis(matmul(moveaxis(x, axis, -1), matrix), -1, axis)


# --- along all axes -------------------------------------------------------------------------------------------------


def _check_mode(x: Node, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if x.ndim < 3 or 0 in x.shape[2:]:
        raise ShapeError(f"interpolate: the input must be (N, C, *spatial) and not empty; its shape is {x.shape}")
    if mode not in MODES:
        raise ArgumentError(f"interpolate: mode must be one of {', '.join(MODES)}, not {mode!r}")
    if mode not in _SMOOTH and align_corners is not None:
        raise ArgumentError(f'interpolate: align_corners requires a linear mode or bicubic, not "{mode}"')
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f'interpolate: antialias requires "bilinear" or "bicubic", not "{mode}"')
    if mode in _SMOOTH and x.ndim - 2 != _SMOOTH[mode]:
        raise ShapeError(f'interpolate: mode "{mode}" takes {_SMOOTH[mode]} spatial axes; the shape is {x.shape}')
    if mode == "area" and x.ndim > 5:
        raise ShapeError(f'interpolate: mode "area" takes one to three spatial axes; the shape is {x.shape}')


def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Node:
    """Resize `x` (N, C, *spatial) to `size`, or by `scale_factor`: one number, or one for each spatial axis.

    `mode` is "nearest", "nearest-exact", "area", or "linear", "bilinear", "trilinear" for one, two, three spatial axes,
    or "bicubic" for two. With `align_corners` the centres of the corner elements are aligned, so they keep their
    values; without it, the outer edges are aligned. With `recompute_scale_factor` the factor is computed from the
    sizes, which are integers. `antialias` downsizes as Pillow does, for "bilinear" and "bicubic".

    >>> import wengert as wg
    >>> wg.interpolate(wg.tensor([[[0.0, 1.0]]]), size=4, mode="linear").tolist()
    [[[0.0, 0.25, 0.75, 1.0]]]
    """
    x = as_node(x)
    _check_mode(x, mode, align_corners, antialias)
    if mode in _SMOOTH or mode == "area":
        require_floating("interpolate", x)
    targets = _sizes_and_steps(x.shape[2:], size, scale_factor, align_corners, recompute_scale_factor)
    if mode == "area":
        return _AREA[x.ndim - 2](x, tuple(target for target, _ in targets))
    for axis, (target, step) in enumerate(targets, 2):
        if antialias:
            x = _antialiased(x, axis, target, step, mode == "bicubic")
        elif mode in ("nearest", "nearest-exact"):
            x = x if target == x.shape[axis] else _nearest(x, axis, target, step, mode == "nearest-exact")
        elif mode == "bicubic":
            x = _cubic(x, axis, target, step, bool(align_corners))
        elif target != x.shape[axis]:
            x = _between(x, axis, target, step, bool(align_corners))
    return x
