"""Cross-entropy: minus the log-probability of the right class, from scores (`cross_entropy`) or from log-probabilities.

Scores are (N, C, ...) or (C,), and targets class numbers of that shape without C, or probabilities of the whole shape.
A target that is not a class raises while recording if its value is known by then, and otherwise when it is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import INTEGER, int64, is_floating
from wengert.core.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.activation import log_softmax
from wengert.ops.core import as_node, cast, require_floating, widened
from wengert.ops.creation import full
from wengert.ops.elementwise import equal, where
from wengert.ops.gather import take, take_along_axis
from wengert.ops.movement import expand_dims, reshape
from wengert.ops.reduce import sum


def _class_axis(name: str, x: Node) -> int:
    if not x.ndim:
        raise ShapeError(f"{name}: the input is (N, C, ...) or (C,), with C classes; it is a single number")
    return 0 if x.ndim == 1 else 1


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def class_weights(name: str, weight: Any, classes: int) -> Node | None:
    if weight is None:
        return None
    weight = as_node(weight)
    require_floating(name, weight)
    if weight.shape != (classes,):
        raise ShapeError(f"{name}: the weight has shape {weight.shape}; {classes} classes take ({classes},)")
    return widened(weight)


def check_reduction(name: str, reduction: Any) -> None:
    """Raise unless the reduction is one of the three."""
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentError(f'{name}: reduction is "none", "mean" or "sum", not {reduction!r}')


class _Targets:
    """Class numbers, checked against the input: which of them count, and each one's weight."""

    def __init__(self, name: str, x: Node, target: Node, weight: Node | None, ignore_index: int | None) -> None:
        self.axis = _class_axis(name, x)
        classes, expected = x.shape[self.axis], _without(x.shape, self.axis)
        if target.shape != expected:
            raise ShapeError(
                f"{name}: an input of shape {x.shape} has {classes} classes on axis {self.axis} and takes a target of "
                f"shape {expected}, not {target.shape}"
            )
        self._check_known(name, target, classes, ignore_index)
        target = cast(target, int64)
        self.ignored = None if ignore_index is None else equal(target, ignore_index)
        # a negative number counts from the back for a gather; here it is as wrong as one that is too large
        self.classes = self.counted(where(target < 0, classes, target))
        weights = self.counted(full(expected, 1, dtype=x.dtype, device=x.device))
        if weight is not None:
            weights = weights * cast(take(weight, self.classes, axis=0), x.dtype)
        self.weights = weights

    def counted(self, values: Node) -> Node:
        """A value for each target; 0 where it is ignored."""
        return values if self.ignored is None else where(self.ignored, 0, values)

    @staticmethod
    def _check_known(name: str, target: Node, classes: int, ignore_index: int | None) -> None:
        known = target.buffer
        if not isinstance(known, np.ndarray):
            return
        counted = known if ignore_index is None else known[known != ignore_index]
        wrong = counted[(counted < 0) | (counted >= classes)]
        if wrong.size:
            raise OutOfRangeError(
                f"{name}: target {int(wrong[0])} is not one of the {classes} classes, 0 to {classes - 1}"
                + (f", nor ignore_index {ignore_index}" if ignore_index not in (-100, None) else "")
            )

    def picked(self, x: Node) -> Node:
        """Each target's element of `x`; 0 where it is ignored."""
        found = take_along_axis(x, expand_dims(self.classes, axis=self.axis), axis=self.axis)
        return self.counted(reshape(found, self.classes.shape))

    def reduce(self, losses: Node, reduction: str) -> Node:
        """Losses that carry their weights; the mean is over the sum of these."""
        if reduction == "none":
            return losses
        return sum(losses) / sum(self.weights) if reduction == "mean" else sum(losses)


def _scores(name: str, x: Any, reduction: str) -> Node:
    check_reduction(name, reduction)
    x = as_node(x)
    require_floating(name, x)
    return x


def nll_loss(x: Any, target: Any, weight: Any = None, ignore_index: int | None = -100, reduction: str = "mean") -> Node:
    """Minus the log-probability that `x` (N, C, ...) gives to each target class (N, ...), times the class's weight.

    Targets equal to `ignore_index` count for nothing (None: all count); "mean" is over the sum of the others' weights.

    >>> import wengert as wg
    >>> wg.nll_loss(wg.tensor([[-0.5, -1.0]]), wg.tensor([1])).item()
    1.0
    """
    x, target = _scores("nll_loss", x, reduction), as_node(target)
    if target.dtype not in INTEGER:
        raise DTypeError(f"nll_loss: the target holds class numbers, integers, not {target.dtype}")
    wide = widened(x)
    weights = class_weights("nll_loss", weight, x.shape[_class_axis("nll_loss", x)])
    targets = _Targets("nll_loss", wide, target, weights, ignore_index)
    return cast(targets.reduce(-targets.picked(wide) * targets.weights, reduction), x.dtype)


def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Node:
    """Minus the log-softmax of the scores `x` (N, C, ...) at the target classes, or its mean under probabilities.

    `target` holds class numbers (N, ...), or probabilities of the shape of `x`. `label_smoothing` is the share of the
    target that is spread over all classes. `weight` has a number for each class. Targets equal to `ignore_index` count
    for nothing; where it is None all count, and the mean need not wait for how many they are.

    >>> import wengert as wg
    >>> f"{wg.cross_entropy(wg.tensor([[2.0, 0.0]]), wg.tensor([0])).item():.4f}"
    '0.1269'
    """
    x, target = _scores("cross_entropy", x, reduction), as_node(target)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy: label_smoothing is between 0 and 1, not {label_smoothing!r}")
    axis = _class_axis("cross_entropy", x)
    weights = class_weights("cross_entropy", weight, x.shape[axis])
    logs = log_softmax(widened(x), axis=axis)
    if target.dtype in INTEGER:
        losses = _by_class(logs, target, weights, ignore_index, reduction, label_smoothing)
    else:
        losses = _by_probability(logs, target, weights, reduction, label_smoothing)
    return cast(losses, x.dtype)


def _over_classes(logs: Node, weights: Node | None, axis: int) -> Node:
    if weights is None:
        return logs
    return logs * reshape(cast(weights, logs.dtype), (-1, *(1,) * (logs.ndim - 1 - axis)))


def _by_class(
    logs: Node, target: Node, weights: Node | None, ignore_index: int | None, reduction: str, smoothing: float
) -> Node:
    targets = _Targets("cross_entropy", logs, target, weights, ignore_index)
    losses = -targets.picked(logs) * targets.weights
    if smoothing:
        spread = -sum(_over_classes(logs, weights, targets.axis), axis=targets.axis)
        share = smoothing / logs.shape[targets.axis]
        losses = losses * (1 - smoothing) + targets.counted(spread) * share
    return targets.reduce(losses, reduction)


def _by_probability(logs: Node, target: Node, weights: Node | None, reduction: str, smoothing: float) -> Node:
    if not is_floating(target.dtype):
        raise DTypeError(f"cross_entropy: the target holds class numbers or probabilities, not {target.dtype}")
    if target.shape != logs.shape:
        raise ShapeError(
            f"cross_entropy: target probabilities have the input's shape {logs.shape}, not {target.shape}; "
            "class numbers are integers"
        )
    axis = _class_axis("cross_entropy", logs)
    target = cast(widened(target), logs.dtype)
    if smoothing:
        target = target * (1 - smoothing) + smoothing / logs.shape[axis]
    losses = -sum(_over_classes(logs, weights, axis) * target, axis=axis)
    if reduction == "none":
        return losses
    return sum(losses) / float(losses.size or np.nan) if reduction == "mean" else sum(losses)
