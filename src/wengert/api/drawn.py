"""Layers' functions that draw random numbers, beside dropout: noisy choices, random slopes, pooling at random places.

They draw from a generator of one's own or from the default one, as everything in `random` does.
"""

from __future__ import annotations

import math
from typing import Any

from wengert.api.creation import asarray
from wengert.api.lift import as_a_whole
from wengert.api.random import Generator, bernoulli, gumbel, uniform
from wengert.api.stateful import SATURATION, checked, scaled_mask
from wengert.core.dtypes import FLOATING
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.ops.activation import softmax
from wengert.ops.conv import per_axis
from wengert.ops.core import cast, stop_gradient
from wengert.ops.creation import iota
from wengert.ops.elementwise import equal, where
from wengert.ops.movement import normalize_axis, reshape
from wengert.ops.reduce import argmax
from wengert.ops.unpool import fractional_max
from wengert.tensor import Tensor, wrap

__all__ = ["feature_alpha_dropout", "fractional_max_pool2d", "fractional_max_pool3d", "gumbel_softmax", "rrelu"]

_softmax = as_a_whole(softmax, "full")


def feature_alpha_dropout(
    x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None
) -> Tensor:
    """`alpha_dropout` of whole channels: `x` is (N, C, ...).

    >>> import wengert as wg
    >>> wg.feature_alpha_dropout(wg.ones((1, 2, 3)), 0.5, training=False).tolist()
    [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]
    """
    x = checked("feature_alpha_dropout", x, p)
    if x.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout: the input is (N, C, ...); its shape is {x.shape}")
    if not training or not p:
        return x
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2))
    if p == 1:
        return scaled_mask(x, p, shape, generator)
    scale = 1 / math.sqrt((1 - p) * (1 + p * SATURATION**2))
    keep = bernoulli(1.0 - p, shape, device=x.device, generator=generator)
    return x.family(where(keep.node, x.node, SATURATION)) * scale - SATURATION * p * scale


def rrelu(
    x: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`x` where it is positive, elsewhere times a random slope between two bounds, or their mean when not training.

    >>> import wengert as wg
    >>> wg.rrelu(wg.tensor([-2.0, 3.0]), 0.25, 0.75).tolist()
    [-1.0, 3.0]
    """
    x = asarray(x)
    if x.dtype not in FLOATING:
        raise DTypeError(f"rrelu takes floating-point values, not {x.dtype}")
    if not lower <= upper:
        raise ArgumentError(f"rrelu: lower {lower!r} is more than upper {upper!r}")
    slope: Any = (lower + upper) / 2
    if training:
        slope = uniform(x.shape, lower, upper, dtype=x.dtype, device=x.device, generator=generator)
    return x.family(where((x > 0).node, x.node, (x * slope).node))


def gumbel_softmax(
    logits: Any, tau: float = 1.0, hard: bool = False, dim: int = -1, *, generator: Generator | None = None
) -> Tensor:
    """Random weights along an axis that are nearly a choice of one: `softmax((logits + noise) / tau)`.

    With `hard` it is a choice, a 1 among zeros, with the derivative of the weights.

    >>> import wengert as wg
    >>> sorted(wg.gumbel_softmax(wg.zeros(4), hard=True).tolist())
    [0.0, 0.0, 0.0, 1.0]
    """
    logits = asarray(logits)
    if logits.dtype not in FLOATING:
        raise DTypeError(f"gumbel_softmax takes floating-point values, not {logits.dtype}")
    if not tau > 0:
        raise ArgumentError(f"gumbel_softmax: the temperature tau is positive, not {tau!r}")
    at = normalize_axis(dim, logits.ndim, "gumbel_softmax")
    noise = gumbel(logits.shape, dtype=logits.dtype, device=logits.device, generator=generator)
    soft = _softmax(((logits + noise) / tau).node, axis=at)
    if not hard:
        return logits.family(soft)
    numbers = reshape(iota(logits.shape[at]), (-1, *(1,) * (logits.ndim - 1 - at)))
    chosen = cast(equal(argmax(soft, axis=at, keepdims=True), numbers), soft.dtype)
    held = stop_gradient(soft)
    return logits.family(chosen + (soft - held))


# --- pooling --------------------------------------------------------------------------------------------------------


def fractional_max_pool2d(
    x: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
    *,
    generator: Generator | None = None,
) -> Any:
    """The largest element of each of `output_size` windows at random places (Graham, "Fractional max-pooling", 2014).

    Instead of the size its ratio to the input's may be given. With `return_indices` also each one's place in its plane.

    >>> import wengert as wg
    >>> wg.fractional_max_pool2d(wg.zeros((1, 3, 9, 9)), 2, output_ratio=0.5).shape
    (1, 3, 4, 4)
    """
    return _fractional(2, x, kernel_size, output_size, output_ratio, return_indices, _random_samples, generator)


def fractional_max_pool3d(
    x: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
    *,
    generator: Generator | None = None,
) -> Any:
    """`fractional_max_pool2d` over the last three axes.

    >>> import wengert as wg
    >>> wg.fractional_max_pool3d(wg.ones((1, 1, 8, 8, 8)), 2, output_size=4).shape
    (1, 1, 4, 4, 4)
    """
    return _fractional(3, x, kernel_size, output_size, output_ratio, return_indices, _random_samples, generator)


def _fractional(
    axes: int,
    x: Any,
    kernel: Any,
    output_size: Any,
    output_ratio: Any,
    return_indices: bool,
    samples: Any,
    generator: Generator | None,
) -> Any:
    name, x = f"fractional_max_pool{axes}d", asarray(x)
    if x.dtype not in FLOATING or x.ndim not in (axes + 1, axes + 2):
        raise ShapeError(
            f"{name}: the input is floating-point, (N, C) or (C,) and {axes} axes; it is {x.dtype} {x.shape}"
        )
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(f"{name}: give either output_size or output_ratio")
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * axes
        if len(ratios) != axes or not all(0 < ratio < 1 for ratio in ratios):
            raise ArgumentError(f"{name}: output_ratio is {axes} numbers between 0 and 1, not {output_ratio!r}")
        output_size = tuple(int(n * ratio) for n, ratio in zip(x.shape[-axes:], ratios))
    counts = per_axis(output_size, axes, name, "output_size")
    lead = x.shape[: x.ndim - axes]
    if samples is None:
        samples = uniform((*lead, axes), dtype=x.dtype, device=x.device, generator=generator)
    places = asarray(samples)
    if places.size != math.prod(lead) * axes:
        raise ShapeError(f"{name}: the random samples are {(*lead, axes)}; their shape is {places.shape}")
    at = stop_gradient(reshape(places.node, (*lead, axes)))
    return wrap(fractional_max(name, axes, x.node, kernel, counts, at, return_indices), x.family)
