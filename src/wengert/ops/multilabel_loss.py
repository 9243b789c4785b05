"""Margin losses between classes, for one or several correct classes, as in PyTorch.

Scores are (N, C) or (C,). `reduction` is as in `loss`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import INTEGER, int64
from wengert.core.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.activation import logsigmoid, softplus
from wengert.ops.addressing import TAKE_ALONG, zeros
from wengert.ops.core import as_node, cast, data, require_floating
from wengert.ops.cross_entropy import class_weights
from wengert.ops.elementwise import equal, greater_equal, less, logical_and, logical_not, square, where
from wengert.ops.gather import take
from wengert.ops.loss import pair, positive_part, reduce, weighted
from wengert.ops.movement import expand_dims, reshape
from wengert.ops.reduce import any, mean, sum
from wengert.ops.running import cumsum


def soft_margin_loss(x: Any, target: Any, reduction: str = "mean") -> Node:
    """`log(1 + exp(-target * x))` for targets 1 and -1, accurate for scores of any size.

    >>> import wengert as wg
    >>> wg.soft_margin_loss(wg.tensor([1000.0, -1000.0]), wg.tensor([1.0, 1.0]), reduction="none").tolist()
    [0.0, 1000.0]
    """
    x, target = pair("soft_margin_loss", x, target)
    return reduce("soft_margin_loss", softplus(-target * x, threshold=1e30), reduction)


def multilabel_soft_margin_loss(x: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Node:
    """The binary cross-entropy of each class independently, with the sigmoid of its score, averaged over the classes.

    `target` is 1 for each correct class and 0 for the others; `weight` has a weight for each class.

    >>> import wengert as wg
    >>> f"{wg.multilabel_soft_margin_loss(wg.zeros((1, 3)), wg.tensor([[1.0, 0.0, 1.0]])).item():.4f}"
    '0.6931'
    """
    name = "multilabel_soft_margin_loss"
    x, target = pair(name, x, target)
    if not x.ndim:
        raise ShapeError(f"{name}: the input must be (*, C), with C classes; it is a single number")
    losses = -(target * logsigmoid(x) + (1 - target) * logsigmoid(-x))
    return reduce(name, mean(weighted(name, losses, weight), axis=-1), reduction)


def _scores(name: str, x: Any) -> tuple[Node, bool]:
    """The scores as (N, C), and whether there was no N."""
    x = as_node(x)
    require_floating(name, x)
    if x.ndim not in (1, 2) or not x.shape[-1]:
        raise ShapeError(f"{name}: the input must be (N, C) or (C,), with C classes; its shape is {x.shape}")
    return (x, False) if x.ndim == 2 else (reshape(x, (1, -1)), True)


def multi_margin_loss(
    x: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Node:
    """The sum over wrong classes of `max(0, margin - x[right] + x[wrong]) ** p`, over the number of classes.

    `p` is 1 or 2; `weight` has a weight for each class, and the correct class's weight applies.

    >>> import wengert as wg
    >>> wg.multi_margin_loss(wg.tensor([[0.0, 0.5]]), wg.tensor([1])).item()
    0.25
    """
    name = "multi_margin_loss"
    if p not in (1, 2):
        raise ArgumentError(f"{name}: p must be 1 or 2, not {p!r}")
    x, alone = _scores(name, x)
    count, classes = x.shape
    target = _class_numbers(name, target, classes, -1)
    if target.size != count or target.ndim > 1:
        raise ShapeError(f"{name}: an input of shape {x.shape} needs a target of shape ({count},), not {target.shape}")
    right = reshape(target, (count, 1))
    over = positive_part(margin - TAKE_ALONG(x, right, axis=1) + x)
    wrong = logical_not(equal(data(np.arange(classes), x.device), right))
    losses = where(wrong, square(over) if p == 2 else over, 0)
    weights = class_weights(name, weight, classes)
    if weights is not None:
        losses = losses * reshape(take(cast(weights, x.dtype), reshape(right, (-1,)), axis=0), (count, 1))
    found = sum(losses, axis=1) / float(classes)
    return reduce(name, reshape(found, ()) if alone else found, reduction)


def multilabel_margin_loss(x: Any, target: Any, reduction: str = "mean") -> Node:
    """The sum of `max(0, 1 - x[right] + x[wrong])` over all pairs of right and wrong classes, divided by the number of
    classes.

    Each row of `target` lists the right classes; everything after the first -1 is ignored.

    >>> import wengert as wg
    >>> wg.multilabel_margin_loss(wg.tensor([[0.1, 0.2, 0.4, 0.8]]), wg.tensor([[3, 0, -1, 1]])).numpy().round(3).item()
    0.8500000238418579
    """
    name = "multilabel_margin_loss"
    x, alone = _scores(name, x)
    classes = x.shape[1]
    target = _class_numbers(name, target, classes, None)
    if target.size != x.size or target.ndim > 2:
        raise ShapeError(f"{name}: the target must have the shape of the input, {x.shape}, not {target.shape}")
    target = reshape(target, x.shape)
    named = equal(cumsum(cast(less(target, 0), int64), axis=1), 0)
    right = where(named, target, 0)
    every = data(np.arange(classes), x.device)
    is_right = any(logical_and(equal(expand_dims(right, axis=-1), every), expand_dims(named, axis=-1)), axis=1)
    over = positive_part(1 - expand_dims(TAKE_ALONG(x, right, axis=1), axis=-1) + expand_dims(x, axis=1))
    counts = logical_and(expand_dims(named, axis=-1), expand_dims(logical_not(is_right), axis=1))
    found = sum(where(counts, over, zeros((), x)), axis=(1, 2)) / float(classes)
    return reduce(name, reshape(found, ()) if alone else found, reduction)


def _class_numbers(name: str, target: Any, classes: int, below: int | None) -> Node:
    """Targets as class numbers, checked where they are known; those below 0 are `below` the classes or mean an end."""
    target = as_node(target)
    if target.dtype not in INTEGER:
        raise DTypeError(f"{name}: the target must hold class indices, integers, not {target.dtype}")
    known = target.buffer
    if isinstance(known, np.ndarray) and known.size:
        low = 0 if below is not None else -1
        if known.min() < low or known.max() >= classes:
            wrong = int(known.min() if known.min() < low else known.max())
            raise OutOfRangeError(f"{name}: target {wrong} is not one of the {classes} classes, 0 to {classes - 1}")
    target = cast(target, int64)
    # a negative number counts from the back for a gather; here it is as wrong as one that is too large
    return where(greater_equal(target, 0), target, classes) if below is not None else target
