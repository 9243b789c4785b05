"""Normalisation that keeps running statistics: functions over Tensors that also assign the slots they are given."""

from __future__ import annotations

from typing import Any

from wengert.errors import DTypeError
from wengert.graph import Node, recorded_as, recording
from wengert.ops import normalize as _ops
from wengert.ops.core import stop_gradient
from wengert.tensor import Tensor, unwrap


def _assign(name: str, slot: Any, value: Node | None) -> None:
    """Give a running statistic its new value, through which no derivative passes."""
    if value is None:
        return
    if not isinstance(slot, Tensor):
        raise DTypeError(f"{name}: a running statistic is a Tensor, since it is assigned, not a {type(slot).__name__}")
    with recorded_as(recording.location, False):
        slot.assign(Tensor(stop_gradient(value)))


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
    x, average, variance, scale, shift = unwrap((x, running_mean, running_var, weight, bias))
    y, new_mean, new_var = _ops.batch_norm(x, average, variance, scale, shift, training, unwrap(momentum), eps)
    if training:
        _assign("batch_norm", running_mean, new_mean)
        _assign("batch_norm", running_var, new_var)
    return Tensor(y)


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
    """
    x, average, variance, scale, shift = unwrap((x, running_mean, running_var, weight, bias))
    y, new_mean, new_var = _ops.instance_norm(
        x, average, variance, scale, shift, use_input_stats, unwrap(momentum), eps
    )
    if use_input_stats:
        _assign("instance_norm", running_mean, new_mean)
        _assign("instance_norm", running_var, new_var)
    return Tensor(y)
