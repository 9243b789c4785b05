"""Losses: Wengert's, with PyTorch's order of arguments and its retired `size_average` and `reduce`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.nn.accepted import require_classes


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction for the legacy arguments `size_average` and `reduce`."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def _check_weight(input: Any, weight: Any) -> None:
    if tuple(weight.shape) != tuple(input.shape):
        raise ValueError("Weights and input must have the same size.")


def _between(name: str) -> Callable[..., Any]:
    """A loss of predictions and targets, with weights of the elements, if they are given."""
    function = getattr(wg, name)

    def loss(
        input: Any,
        target: Any,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        weight: Any = None,
    ) -> Any:
        how = reduction_of(size_average, reduce, reduction)
        input, target = _broadcast(input, target)
        if weight is None:
            return function(input, target, reduction=how)
        _check_weight(input, weight)
        each = function(input, target, reduction="none") * weight
        if how == "none":
            return each
        return each.sum() if how == "sum" else each.sum() / wg.broadcast_to(weight, each.shape).sum()

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = function.__doc__
    return loss


mse_loss, l1_loss = _between("mse_loss"), _between("l1_loss")


def _broadcast(input: Any, target: Any) -> tuple[Any, Any]:
    """Both in one shape, with PyTorch's warning where they had two: it is mostly a mistake."""
    if tuple(input.shape) == tuple(target.shape):
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely "
        "lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        stacklevel=3,
    )
    shape = np.broadcast_shapes(tuple(input.shape), tuple(target.shape))
    return wg.broadcast_to(input, shape), wg.broadcast_to(target, shape)


def smooth_l1_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
) -> Any:
    """The squared difference where it is below `beta`, else the absolute one."""
    how = reduction_of(size_average, reduce, reduction)
    input, target = _broadcast(input, target)
    if beta == 0:
        return wg.l1_loss(input, target, reduction=how)
    return wg.smooth_l1_loss(input, target, reduction=how, beta=beta)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    """The squared difference where it is below `delta`, otherwise linear."""
    input, target = _broadcast(input, target)
    if weight is None:
        return wg.huber_loss(input, target, reduction=reduction, delta=delta)
    _check_weight(input, weight)
    each = wg.huber_loss(input, target, reduction="none", delta=delta) * weight
    return each if reduction == "none" else each.sum() if reduction == "sum" else each.mean()


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The cross-entropy of scores and classes, or probabilities of classes."""
    require_classes(target)
    how = reduction_of(size_average, reduce, reduction)
    return wg.cross_entropy(
        input, target, weight=weight, ignore_index=ignore_index, reduction=how, label_smoothing=label_smoothing
    )


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """The negative log-likelihood of classes."""
    require_classes(target)
    how = reduction_of(size_average, reduce, reduction)
    return wg.nll_loss(input, target, weight=weight, ignore_index=ignore_index, reduction=how)


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """The binary cross-entropy of probabilities."""
    how = reduction_of(size_average, reduce, reduction)
    return wg.binary_cross_entropy(input, target, weight=weight, reduction=how)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """The binary cross-entropy of logits."""
    how = reduction_of(size_average, reduce, reduction)
    return wg.binary_cross_entropy_with_logits(input, target, weight=weight, reduction=how, pos_weight=pos_weight)


def kl_div(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """The Kullback-Leibler divergence; the input is a log-probability."""
    how = reduction_of(size_average, reduce, reduction)
    return wg.kl_div(input, target, reduction=how, log_target=log_target)


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """The negative log-likelihood of counts."""
    how = reduction_of(size_average, reduce, reduction)
    return wg.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=how)


def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """The input where the target is 1, and its distance below the margin where the target is -1."""
    return wg.hinge_embedding_loss(input, target, margin, reduction=reduction_of(size_average, reduce, reduction))


def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """The margin ranking loss: how far two values are from the order given by the target."""
    how = reduction_of(size_average, reduce, reduction)
    return wg.margin_ranking_loss(input1, input2, target, margin, reduction=how)


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """The cosine embedding loss of vectors that match (target 1) or do not (-1)."""
    how = reduction_of(size_average, reduce, reduction)
    return wg.cosine_embedding_loss(input1, input2, target, margin, reduction=how)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """The triplet margin loss of anchors, positives and negatives."""
    how = reduction_of(size_average, reduce, reduction)
    return wg.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=how)


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """The multi-class margin loss."""
    return wg.multi_margin_loss(input, target, p, margin, weight, reduction_of(size_average, reduce, reduction))


def multilabel_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """The multi-label margin loss."""
    return wg.multilabel_margin_loss(input, target, reduction_of(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """The mean over classes of the cross-entropy of each, yes or no."""
    return wg.multilabel_soft_margin_loss(input, target, weight, reduction_of(size_average, reduce, reduction))


def soft_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """`log(1 + exp(-target * input))`."""
    return wg.soft_margin_loss(input, target, reduction_of(size_average, reduce, reduction))


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with any distance."""
    return wg.triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance_function, margin=margin, swap=swap, reduction=reduction
    )
