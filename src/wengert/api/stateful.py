"""Functions that change more than they return: dropout moves a generator on, batch norm its running statistics.

They take and give Tensors, and assign the slots they are given. What is drawn is drawn again where a backward pass
needs it (see `ops.random`), so a mask is never stored.
"""

from __future__ import annotations

import math
from typing import Any

from wengert.api.creation import asarray
from wengert.api.random import Generator, bernoulli
from wengert.core.dtypes import FLOATING
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, recorded_as, recording
from wengert.ops.core import stop_gradient
from wengert.ops.elementwise import where
from wengert.ops.normalize import normalized_by_channel
from wengert.tensor import Tensor, family_of, unwrap

__all__ = ["alpha_dropout", "batch_norm", "dropout", "dropout1d", "dropout2d", "dropout3d", "instance_norm"]

# --- dropout --------------------------------------------------------------------------------------------------------


def dropout(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """`x` with each element set to 0 with probability `p`, and the others scaled by 1 / (1 - p) to keep the mean.

    When not `training`, `x` as it is.

    >>> import wengert as wg
    >>> sorted(set(wg.dropout(wg.ones(100), 0.5).tolist()))
    [0.0, 2.0]
    """
    x = checked("dropout", x, p)
    return scaled_mask(x, p, x.shape, generator) if training and p else x


def dropout1d(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """`x` of shape (batch, channels, length) or (channels, length) with whole channels dropped.

    >>> import wengert as wg
    >>> wg.dropout1d(wg.ones((2, 3, 4)), 0.5, training=False).shape
    (2, 3, 4)
    """
    return _drop_channels("dropout1d", 1, x, p, training, generator)


def dropout2d(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """`x` of shape (batch, channels, height, width) or (channels, height, width) with whole channels dropped.

    >>> import wengert as wg
    >>> wg.dropout2d(wg.ones((2, 3, 4, 4)), 0.5, training=False).shape
    (2, 3, 4, 4)
    """
    return _drop_channels("dropout2d", 2, x, p, training, generator)


def dropout3d(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """`x` of shape (batch, channels, depth, height, width), or without the batch, with whole channels dropped.

    >>> import wengert as wg
    >>> wg.dropout3d(wg.ones((2, 3, 2, 4, 4)), 0.5, training=False).shape
    (2, 3, 2, 4, 4)
    """
    return _drop_channels("dropout3d", 3, x, p, training, generator)


SATURATION = -1.7580993408473766
"""What selu tends to on the left, -scale * alpha: the value that alpha dropout sets elements to."""


def alpha_dropout(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """Dropout for selu networks, keeping mean 0 and variance 1 (Klambauer et al., "Self-normalizing networks").

    >>> import wengert as wg
    >>> wg.alpha_dropout(wg.ones(4), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    x = checked("alpha_dropout", x, p)
    if not training or not p:
        return x
    if p == 1:
        return scaled_mask(x, p, x.shape, generator)
    scale = 1 / math.sqrt((1 - p) * (1 + p * SATURATION**2))
    keep = bernoulli(1.0 - p, x.shape, device=x.device, generator=generator)
    return x.family(where(keep.node, x.node, SATURATION)) * scale - SATURATION * p * scale


def _drop_channels(name: str, spatial: int, x: Any, p: float, training: bool, generator: Generator | None) -> Tensor:
    x = checked(name, x, p)
    if x.ndim - spatial not in (1, 2):
        raise ShapeError(f"{name} takes {spatial + 1} or {spatial + 2} axes; the shape is {x.shape}")
    mask = x.shape[: x.ndim - spatial] + (1,) * spatial
    return scaled_mask(x, p, mask, generator) if training and p else x


def scaled_mask(x: Tensor, p: float, shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    """`x` with parts dropped, by a mask of this shape, and the rest scaled up.

    A choice instead of a product, so that a dropped infinity or NaN is 0 too.
    """
    keep = bernoulli(1.0 - p, shape, device=x.device, generator=generator)
    scaled = x * (1.0 / (1.0 - p) if p < 1 else 1.0)
    return x.family(where(keep.node, scaled.node, 0))


def checked(name: str, x: Any, p: float) -> Tensor:
    """A floating-point Tensor, and that `p` is a probability."""
    x = asarray(x)
    if x.dtype not in FLOATING:
        raise DTypeError(f"{name} takes floating-point values, not {x.dtype}")
    if not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise ArgumentError(f"{name}: p is {p!r}; the probability to drop is a number between 0 and 1")
    return x


# --- running statistics ---------------------------------------------------------------------------------------------


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`x` (N, C, ...) with mean 0 and variance 1 in each channel, then times `weight` plus `bias`.

    When `training`, by the statistics of `x` itself, and the running ones (if given) move a step of `momentum` (a
    number, or a 0-d tensor for one that changes) towards them; else by the running ones.

    >>> import wengert as wg
    >>> mean, var = wg.tensor([0.0]), wg.tensor([1.0])
    >>> wg.batch_norm(wg.tensor([[1.0], [3.0]]), mean, var, training=True, momentum=0.5, eps=0.0).tolist()
    [[-1.0], [1.0]]
    >>> mean.item(), var.item()
    (1.0, 1.5)
    """
    running = (running_mean, running_var)
    return _normalized("batch_norm", x, running, weight, bias, training, True, momentum, eps)


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`x` (N, C, ...) with mean 0 and variance 1 in each channel of each sample, then times `weight` plus `bias`.

    With `use_input_stats` the running statistics (if given) move towards the mean of those over the samples; without it
    `x` is normalised by them.

    >>> import wengert as wg
    >>> wg.instance_norm(wg.ones((2, 3, 4))).shape
    (2, 3, 4)
    """
    running = (running_mean, running_var)
    return _normalized("instance_norm", x, running, weight, bias, use_input_stats, False, momentum, eps)


def _normalized(
    name: str,
    x: Any,
    running: tuple[Any, Any],
    weight: Any,
    bias: Any,
    by_input: bool,
    over_batch: bool,
    momentum: Any,
    eps: float,
) -> Tensor:
    """`x` normalised; by its own statistics, the running ones move towards them."""
    family = family_of((x, weight, bias))
    x, statistics, weight, bias, momentum = unwrap((x, running, weight, bias, momentum))
    y, *moved = normalized_by_channel(name, x, statistics, weight, bias, by_input, over_batch, momentum, eps)
    if by_input:
        for slot, value in zip(running, moved):
            _assign(name, slot, value)
    return family(y)


def _assign(name: str, slot: Any, value: Node | None) -> None:
    """Give a running statistic its new value, through which no derivative passes."""
    if value is None:
        return
    if not isinstance(slot, Tensor):
        raise DTypeError(f"{name}: a running statistic is a Tensor, since it is assigned, not a {type(slot).__name__}")
    with recorded_as(recording.location, False):
        slot.assign(Tensor(stop_gradient(value)))
