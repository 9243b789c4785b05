"""Normalisation: values with mean 0 and variance 1, or of length 1, along some axes; compositions of reductions.

Statistics are computed in float32 where the values are of half precision (a square overflows float16 beyond 256), and
the result is rounded once to the values' dtype. Batch norm and instance norm also give the new running statistics;
the public functions, in `wengert.api.stateful`, assign them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.core.dtypes import INEXACT, result_dtype
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.core import as_node, cast, operands, require_floating, widened
from wengert.ops.elementwise import clip, greater, reciprocal, sqrt, square, where
from wengert.ops.movement import as_shape, broadcast_to, moveaxis, normalize_axis, reshape
from wengert.ops.pad import pad
from wengert.ops.recorders import broadcast_shapes
from wengert.ops.reduce import mean, norm, sum
from wengert.ops.window import SUM_POOL


def _floating(name: str, x: Any) -> Node:
    x = as_node(x)
    require_floating(name, x)
    return x


def _standardized(x: Node, average: Node, variance: Node, eps: float) -> Node:
    return (x - average) * reciprocal(sqrt(variance + eps))


def _moments(x: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
    """Mean and variance along some axes, which stay, of size 1."""
    average = mean(x, axis=axes, keepdims=True)
    return average, mean(square(x - average), axis=axes, keepdims=True)


def _scaled(name: str, y: Node, weight: Any, bias: Any, shape: tuple[int, ...], laid: tuple[int, ...]) -> Node:
    """`y * weight + bias`, both checked to be of this shape and laid out to broadcast."""
    for what, parameter in (("weight", weight), ("bias", bias)):
        if parameter is None:
            continue
        parameter = _floating(name, parameter)
        if parameter.shape != shape:
            raise ShapeError(f"{name}: the {what} has shape {parameter.shape}; {shape} would fit")
        parameter = reshape(parameter, laid)
        y = y * parameter if what == "weight" else y + parameter
    return y


# --- over the last axes ---------------------------------------------------------------------------------------------


def _last_axes(name: str, x: Node, normalized_shape: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = as_shape(normalized_shape, name)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ShapeError(f"{name}: normalized_shape {shape} is not how the shape {x.shape} ends")
    return shape, tuple(range(x.ndim - len(shape), x.ndim))


def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Node:
    """`x` with mean 0 and variance 1 over its last axes, which have this shape; then times `weight` plus `bias`.

    >>> import wengert as wg
    >>> wg.layer_norm(wg.tensor([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x = _floating("layer_norm", x)
    shape, axes = _last_axes("layer_norm", x, normalized_shape)
    wide = widened(x)
    y = _standardized(wide, *_moments(wide, axes), eps)
    return cast(_scaled("layer_norm", y, weight, bias, shape, shape), x.dtype)


def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Node:
    """`x` over its root mean square along the last axes, then times `weight`; `eps` is the precision if not given.

    >>> import wengert as wg
    >>> print(wg.rms_norm(wg.tensor([3.0, 4.0]), (2,)).numpy().round(4))
    [0.8485 1.1314]
    """
    x = _floating("rms_norm", x)
    shape, axes = _last_axes("rms_norm", x, normalized_shape)
    wide = widened(x)
    small = float(np.finfo(wide.dtype).eps) if eps is None else eps
    y = wide * reciprocal(sqrt(mean(square(wide), axis=axes, keepdims=True) + small))
    return cast(_scaled("rms_norm", y, weight, None, shape, shape), x.dtype)


# --- by channel -----------------------------------------------------------------------------------------------------


def _by_channel(x: Node) -> tuple[int, ...]:
    """The shape in which a value for each channel broadcasts against `x`."""
    return (x.shape[1], *(1,) * (x.ndim - 2))


def _with_channels(name: str, x: Any) -> Node:
    x = _floating(name, x)
    if x.ndim < 2:
        raise ShapeError(f"{name}: the input is (N, C, ...); its shape is {x.shape}")
    return x


def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Node:
    """`x` (N, C, ...) with mean 0 and variance 1 over each of `num_groups` groups of channels.

    >>> import wengert as wg
    >>> wg.group_norm(wg.ones((2, 6, 4)), 3).shape
    (2, 6, 4)
    """
    x = _with_channels("group_norm", x)
    channels = x.shape[1]
    if not isinstance(num_groups, int) or num_groups < 1 or channels % num_groups:
        raise ArgumentError(f"group_norm: {channels} channels do not divide into num_groups={num_groups!r}")
    rest = channels // num_groups * math.prod(x.shape[2:])
    grouped = reshape(widened(x), (x.shape[0], num_groups, rest))
    y = reshape(_standardized(grouped, *_moments(grouped, (2,)), eps), x.shape)
    return cast(_scaled("group_norm", y, weight, bias, (channels,), _by_channel(x)), x.dtype)


def _check_running(name: str, x: Node, running_mean: Any, running_var: Any) -> list[Node | None]:
    found: list[Node | None] = []
    for what, statistic in (("running_mean", running_mean), ("running_var", running_var)):
        node = None if statistic is None else _floating(name, statistic)
        if node is not None and node.shape != (x.shape[1],):
            raise ShapeError(f"{name}: {what} has shape {node.shape}; {x.shape[1]} channels take ({x.shape[1]},)")
        found.append(node)
    return found


def _moved(running: Node | None, new: Node, momentum: float) -> Node | None:
    """A running statistic a step of `momentum` towards a new one."""
    return None if running is None else running * (1 - momentum) + cast(new, running.dtype) * momentum


def normalized_by_channel(
    name: str,
    x: Any,
    running: tuple[Any, Any],
    weight: Any,
    bias: Any,
    by_input: bool,
    over_batch: bool,
    momentum: float,
    eps: float,
) -> tuple[Node, Node | None, Node | None]:
    """Batch norm (`over_batch`) or instance norm, each sample by its own; and the new running statistics."""
    x = _with_channels(name, x)
    running_mean, running_var = _check_running(name, x, *running)
    wide, channels, laid = widened(x), (x.shape[1],), _by_channel(x)
    if by_input:
        axes = (*((0,) if over_batch else ()), *range(2, x.ndim))
        count = math.prod(x.shape[a] for a in axes)
        if count == 1:
            raise ShapeError(f"{name}: shape {x.shape} has one value a channel, and one value has no variance")
        average, variance = _moments(wide, axes)
        y = _standardized(wide, average, variance, eps)
        unbiased = variance * (count / (count - 1) if count else math.nan)
        new = [mean(reshape(s, s.shape[:2]), axis=0) for s in (average, unbiased)]
        running_mean, running_var = _moved(running_mean, new[0], momentum), _moved(running_var, new[1], momentum)
    else:
        if running_mean is None or running_var is None:
            raise ArgumentError(f"{name}: without the input's own statistics it needs running_mean and running_var")
        y = _standardized(wide, reshape(running_mean, laid), reshape(running_var, laid), eps)
    y = cast(_scaled(name, y, weight, bias, channels, laid), x.dtype)
    return y, running_mean, running_var


def local_response_norm(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Node:
    """`x` (N, C, ...) over a power of the mean square of `size` neighbouring channels.

    >>> import wengert as wg
    >>> wg.local_response_norm(wg.ones((1, 4, 2)), 2).shape
    (1, 4, 2)
    """
    x = _with_channels("local_response_norm", x)
    if not isinstance(size, int) or size < 1:
        raise ArgumentError(f"local_response_norm: size is an integer of at least 1, not {size!r}")
    wide = widened(x)
    squares = pad(moveaxis(square(wide), 1, -1), (size // 2, (size - 1) // 2))
    near = moveaxis(SUM_POOL(squares, kernel=(size,), stride=(1,)), -1, 1) / size
    return cast(wide / (near * alpha + k) ** float(beta), x.dtype)


# --- lengths --------------------------------------------------------------------------------------------------------


def normalize(x: Any, p: float = 2.0, axis: Any = 1, eps: float = 1e-12) -> Node:
    """`x` over its p-norm along an axis, or over `eps` where the norm is less.

    >>> import wengert as wg
    >>> wg.normalize(wg.tensor([[3.0, 4.0]])).numpy().round(3).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    x = _floating("normalize", x)
    wide = widened(x)
    return cast(wide / clip(norm(wide, p, axis=axis, keepdims=True), min=eps), x.dtype)


def renorm(x: Any, p: float, axis: int, maxnorm: float) -> Node:
    """`x` with each slice along an axis scaled down so that its p-norm is at most `maxnorm`.

    >>> import wengert as wg
    >>> wg.renorm(wg.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0).numpy().round(4).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.30000001192092896, 0.4000000059604645]]
    """
    x = as_node(x)
    if x.dtype not in INEXACT:
        raise DTypeError(f"renorm takes floating-point values, not {x.dtype}; cast with astype(wg.float32)")
    at = normalize_axis(axis, x.ndim, "renorm")
    if x.ndim < 2:
        raise ShapeError(f"renorm takes slices of at least two axes; the shape is {x.shape}")
    if not p > 0 or not maxnorm >= 0:
        raise ArgumentError(f"renorm: p is positive and maxnorm not negative; they are {p!r} and {maxnorm!r}")
    wide = widened(x)
    lengths = norm(wide, p, axis=tuple(i for i in range(x.ndim) if i != at), keepdims=True)
    long = greater(lengths, maxnorm)
    factor = where(long, maxnorm / (where(long, lengths, 1) + 1e-7), 1)
    return cast(wide * factor, x.dtype)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Node:
    """The p-norm of `x1 - x2 + eps` along the last axis.

    >>> import wengert as wg
    >>> wg.pairwise_distance(wg.tensor([[3.0, 4.0]]), wg.zeros((1, 2)), eps=0.0).tolist()
    [5.0]
    """
    a, b = operands(x1, x2)
    require_floating("pairwise_distance", a, b)
    return norm(a - b + eps, p, axis=-1, keepdims=keepdim)


def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8) -> Node:
    """The cosine of the angle between vectors along an axis; a vector shorter than `eps` counts as that long.

    >>> import wengert as wg
    >>> wg.cosine_similarity(wg.tensor([[1.0, 0.0]]), wg.tensor([[3.0, 0.0]])).tolist()
    [1.0]
    """
    a, b = operands(x1, x2)
    require_floating("cosine_similarity", a, b)
    at = normalize_axis(axis, max(a.ndim, b.ndim), "cosine_similarity") - max(a.ndim, b.ndim)
    dtype = result_dtype(a.dtype, b.dtype)
    if a.ndim < -at or b.ndim < -at:
        raise ShapeError(f"cosine_similarity: axis {axis} is not in both shapes, {a.shape} and {b.shape}")
    a, b = widened(a), widened(b)
    if a.shape[at] != b.shape[at]:  # an element that is repeated along the axis counts as often in the vector's length
        a, b = (broadcast_to(v, broadcast_shapes("cosine_similarity", a.shape, b.shape)) for v in (a, b))
    unit = [v / clip(norm(v, 2, axis=at, keepdims=True), min=eps) for v in (a, b)]
    return cast(sum(unit[0] * unit[1], axis=at), dtype)
