"""Losses: how far predictions are from targets, as PyTorch has them; compositions in their stable forms.

`reduction` is "none" (a loss for each element), "sum" or "mean". Predictions and targets have the same shape unless it
is said otherwise: a column against a row would broadcast to a matrix, and train quietly to nonsense.
"""

from __future__ import annotations

import math
from typing import Any

from wengert.core.dtypes import is_floating, result_dtype
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node
from wengert.ops.activation import logsigmoid
from wengert.ops.core import as_node, cast, operands, require_floating, stop_gradient, widened
from wengert.ops.cross_entropy import check_reduction
from wengert.ops.elementwise import absolute, clip, equal, exp, less, log, log1p, square, where
from wengert.ops.movement import broadcast_to, reshape
from wengert.ops.normalize import cosine_similarity
from wengert.ops.recorders import broadcast_shapes
from wengert.ops.reduce import mean, norm, sum


def reduce(name: str, losses: Node, reduction: str) -> Node:
    """The losses themselves, their mean or their sum. Half precision is added up, and divided, in float32."""
    check_reduction(name, reduction)
    if reduction == "none":
        return losses
    return cast((mean if reduction == "mean" else sum)(widened(losses)), losses.dtype)


def pair(name: str, x: Any, target: Any) -> tuple[Node, Node]:
    """Predictions and targets of one shape and one floating dtype; the targets may be integers."""
    x, target = operands(x, target)
    require_floating(name, x)
    if x.shape != target.shape:
        hint = ""
        if x.size == target.size:
            hint = f"; reshape one of them, as in target.reshape({x.shape})"
        raise ShapeError(f"{name}: the input has shape {x.shape}, the target {target.shape}{hint}")
    dtype = result_dtype(x.dtype, target.dtype) if is_floating(target.dtype) else x.dtype
    return cast(x, dtype), cast(target, dtype)


def weighted(name: str, losses: Node, weight: Any) -> Node:
    """Losses times weights that broadcast to them."""
    if weight is None:
        return losses
    weight = as_node(weight)
    aligned = (1,) * (losses.ndim - weight.ndim) + weight.shape
    if weight.ndim > losses.ndim or any(m not in (1, n) for m, n in zip(aligned, losses.shape)):
        raise ShapeError(f"{name}: a weight of shape {weight.shape} does not broadcast to the losses' {losses.shape}")
    return losses * cast(weight, losses.dtype)


# --- distances ------------------------------------------------------------------------------------------------------


def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Node:
    """The squared difference.

    >>> import wengert as wg
    >>> wg.mse_loss(wg.tensor([1.0, 2.0]), wg.tensor([1.0, 4.0])).item()
    2.0
    """
    x, target = pair("mse_loss", x, target)
    return reduce("mse_loss", square(x - target), reduction)


def l1_loss(x: Any, target: Any, reduction: str = "mean") -> Node:
    """The absolute difference.

    >>> import wengert as wg
    >>> wg.l1_loss(wg.tensor([1.0, 2.0]), wg.tensor([0.0, 0.0])).item()
    1.5
    """
    x, target = pair("l1_loss", x, target)
    return reduce("l1_loss", absolute(x - target), reduction)


def smooth_l1_loss(x: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Node:
    """`d**2 / (2 * beta)` where the absolute difference d is below `beta`, `d - beta / 2` from there on.

    >>> import wengert as wg
    >>> wg.smooth_l1_loss(wg.tensor([0.0, 3.0]), wg.tensor([0.0, 0.0])).item()
    1.25
    """
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta is not negative, as {beta!r} is")
    if beta == 0:
        return l1_loss(x, target, reduction)
    x, target = pair("smooth_l1_loss", x, target)
    d = absolute(x - target)
    near = less(d, beta)
    return reduce("smooth_l1_loss", where(near, square(where(near, d, 0)) * (0.5 / beta), d - 0.5 * beta), reduction)


def huber_loss(x: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Node:
    """`d**2 / 2` where the absolute difference d is at most `delta`, `delta * (d - delta / 2)` beyond.

    >>> import wengert as wg
    >>> wg.huber_loss(wg.tensor([0.0, 3.0]), wg.tensor([0.0, 0.0])).item()
    1.25
    """
    if not delta > 0:
        raise ArgumentError(f"huber_loss: delta is positive, not {delta!r}")
    return smooth_l1_loss(x, target, reduction, delta) * delta


# --- probabilities --------------------------------------------------------------------------------------------------


def binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Node:
    """`-(t log p + (1 - t) log(1 - p))` for probabilities p; each logarithm is held at -100 or above.

    >>> import wengert as wg
    >>> print(wg.binary_cross_entropy(wg.tensor([0.5, 0.5]), wg.tensor([0.0, 1.0])).numpy().round(4))
    0.6931
    """
    x, target = pair("binary_cross_entropy", x, target)
    wide = widened(x)
    yes, no = clip(log(wide), min=-100.0), clip(log1p(-wide), min=-100.0)
    losses = cast(-(target * yes + (1 - target) * no), x.dtype)
    return reduce("binary_cross_entropy", weighted("binary_cross_entropy", losses, weight), reduction)


def binary_cross_entropy_with_logits(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Node:
    """`binary_cross_entropy(sigmoid(x), target)`, exact for logits of any size; positive targets weigh `pos_weight`.

    >>> import wengert as wg
    >>> print(wg.binary_cross_entropy_with_logits(wg.tensor([0.0, 0.0]), wg.tensor([0.0, 1.0])).numpy().round(4))
    0.6931
    """
    name = "binary_cross_entropy_with_logits"
    x, target = pair(name, x, target)
    yes = target if pos_weight is None else weighted(name, target, pos_weight)
    losses = -(yes * logsigmoid(x) + (1 - target) * logsigmoid(-x))
    return reduce(name, weighted(name, losses, weight), reduction)


def kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Node:
    """`t * (log t - x)` for log-probabilities `x`; targets are probabilities, or their logarithms with `log_target`.

    `reduction` may also be "batchmean": the sum over the size of the first axis, which is the divergence itself.

    >>> import wengert as wg
    >>> wg.kl_div(wg.log(wg.tensor([0.5, 0.5])), wg.tensor([0.5, 0.5]), reduction="sum").item()
    0.0
    """
    x, target = pair("kl_div", x, target)
    if log_target:
        losses = exp(target) * (target - x)
    else:
        zero = equal(target, 0)
        losses = where(zero, 0, target * log(where(zero, 1, target))) - target * x
    if reduction == "batchmean":
        return reduce("kl_div", losses, "sum") / (x.shape[0] if x.ndim else 1)
    return reduce("kl_div", losses, reduction)


def poisson_nll_loss(
    x: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Node:
    """The negative log-likelihood of counts under a Poisson distribution of rate exp(x), or `x` without `log_input`.

    Without `full` the term that depends on the target alone is left out; with it, Stirling's formula above 1.

    >>> import wengert as wg
    >>> wg.poisson_nll_loss(wg.tensor([0.0]), wg.tensor([2.0])).item()
    1.0
    """
    x, target = pair("poisson_nll_loss", x, target)
    losses = exp(x) - target * x if log_input else x - target * log(x + eps)
    if full:
        large = target > 1
        t = where(large, target, 1)
        losses = losses + where(large, t * log(t) - t + 0.5 * log(2 * math.pi * t), 0)
    return reduce("poisson_nll_loss", losses, reduction)


def gaussian_nll_loss(
    x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Node:
    """The negative log-likelihood of targets under normal distributions of mean `x` and variance `var`, at least `eps`.

    `var` has the input's shape with some sizes 1, or lacks the last axis, or is a number. One below the bound still has
    the derivative it would have at it. Without `full` the constant is left out.

    >>> import wengert as wg
    >>> print(wg.gaussian_nll_loss(wg.tensor([1.0]), wg.tensor([3.0]), wg.tensor([2.0])).numpy().round(4))
    1.3466
    """
    x, target = operands(x, target)
    shape = broadcast_shapes("gaussian_nll_loss", x.shape, target.shape)
    x, target = pair("gaussian_nll_loss", broadcast_to(x, shape), broadcast_to(target, shape))
    var = cast(operands(x, var)[1], x.dtype)
    if var.shape == x.shape[:-1] and x.ndim:
        var = reshape(var, (*var.shape, 1))
    if var.ndim and (var.ndim != x.ndim or any(m not in (1, n) for m, n in zip(var.shape, x.shape))):
        raise ShapeError(f"gaussian_nll_loss: a variance of shape {var.shape} does not go with the input's {x.shape}")
    var = var + stop_gradient(clip(var, min=eps) - var)
    losses = 0.5 * (log(var) + square(x - target) / var)
    return reduce("gaussian_nll_loss", losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


# --- margins --------------------------------------------------------------------------------------------------------


def positive_part(x: Node) -> Node:
    return where(x > 0, x, 0)


def hinge_embedding_loss(x: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Node:
    """`x` where the target is 1, `max(0, margin - x)` where it is -1.

    >>> import wengert as wg
    >>> wg.hinge_embedding_loss(wg.tensor([0.5, 0.25]), wg.tensor([1, -1])).item()
    0.625
    """
    x, target = pair("hinge_embedding_loss", x, target)
    apart = where(equal(target, 1), 0, positive_part(margin - x))
    return reduce("hinge_embedding_loss", where(equal(target, -1), 0, x) + apart, reduction)


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Node:
    """`max(0, margin - target * (input1 - input2))`: a target of 1 wants the first larger, -1 the second.

    >>> import wengert as wg
    >>> wg.margin_ranking_loss(wg.tensor([1.0]), wg.tensor([3.0]), wg.tensor([1])).item()
    2.0
    """
    x1, x2 = pair("margin_ranking_loss", input1, input2)
    x1, target = pair("margin_ranking_loss", x1, target)
    return reduce("margin_ranking_loss", positive_part(margin - target * (x1 - x2)), reduction)


def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Node:
    """1 minus the cosine of vectors along the last axis where the target is 1, `max(0, cosine - margin)` where -1.

    >>> import wengert as wg
    >>> wg.cosine_embedding_loss(wg.tensor([[1.0, 0.0]]), wg.tensor([[0.0, 1.0]]), wg.tensor([1])).item()
    1.0
    """
    x1, x2 = pair("cosine_embedding_loss", input1, input2)
    if x1.ndim not in (1, 2):
        raise ShapeError(f"cosine_embedding_loss: vectors are (N, D) or (D,); their shape is {x1.shape}")
    cosine = cosine_similarity(x1, x2, axis=-1, eps=1e-12)
    cosine, target = pair("cosine_embedding_loss", cosine, target)
    losses = where(equal(target, 1), 1 - cosine, 0) + where(equal(target, -1), positive_part(cosine - margin), 0)
    return reduce("cosine_embedding_loss", losses, reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Node:
    """`max(0, margin + |anchor - positive| - |anchor - negative|)`, p-norms along the last axis.

    With `swap` the negative's distance is the smaller of those to the anchor and to the positive.

    >>> import wengert as wg
    >>> wg.triplet_margin_loss(wg.zeros((1, 2)), wg.zeros((1, 2)), wg.tensor([[3.0, 4.0]])).item()
    0.0
    """
    anchor, positive = pair("triplet_margin_loss", anchor, positive)
    anchor, negative = pair("triplet_margin_loss", anchor, negative)
    near = norm(anchor - positive + eps, p, axis=-1)
    far = norm(anchor - negative + eps, p, axis=-1)
    if swap:
        other = norm(positive - negative + eps, p, axis=-1)
        far = where(other < far, other, far)
    return reduce("triplet_margin_loss", positive_part(near - far + margin), reduction)
