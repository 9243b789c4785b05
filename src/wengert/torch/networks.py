"""What layers compute, where `torch` has it with other arguments than `nn.functional`."""

from __future__ import annotations

from typing import Any

from wengert.core.graph import Node
from wengert.ops import reduce as r
from wengert.ops.elementwise import reciprocal, square
from wengert.ops.exponential import sqrt
from wengert.ops.movement import reshape
from wengert.ops.pad import pad
from wengert.torch.arguments import over_nodes
from wengert.torch.registry import torch_function

REDUCTIONS = ("none", "mean", "sum")
"""The reductions of losses by the numbers they have here."""


def _functional() -> Any:
    from wengert.torch.nn import functional

    return functional


@torch_function(method=False)
def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Any:
    """Normalise over the last axes: subtract the mean and divide by the standard deviation."""
    return _functional().layer_norm(input, normalized_shape, weight, bias, eps)


@torch_function(method=False)
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-05, cudnn_enabled: bool = True
) -> Any:
    """Normalise each group of channels: subtract the mean and divide by the standard deviation."""
    return _functional().group_norm(input, num_groups, weight, bias, eps)


@torch_function(method=False)
def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """Normalise each channel: subtract the mean and divide by the standard deviation."""
    return _functional().batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@torch_function(method=False)
def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """Normalise each channel of each sample: subtract the mean and divide by the standard deviation."""
    return _functional().instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@torch_function(method=False)
def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    """The rows of `weight` at these indices."""
    padding = None if padding_idx == -1 else padding_idx
    return _functional().embedding(
        indices, weight, padding_idx=padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


@torch_function(method=False)
def dropout(input: Any, p: float, train: bool) -> Any:
    """`input` with elements set to 0 with probability `p`, and the others scaled up."""
    return _functional().dropout(input, p, train)


@torch_function(method=False)
def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """Dropout that keeps the mean and variance of selu activations."""
    return _functional().alpha_dropout(input, p, train)


@torch_function(method=False)
def feature_alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """`alpha_dropout` of whole channels."""
    return _functional().feature_alpha_dropout(input, p, train)


@torch_function(method=False)
@over_nodes()
def constant_pad_nd(input: Node, pad_: Any, value: Any = 0) -> Node:
    """`input` padded with a number: two sizes for each axis, starting with the last one."""
    return pad(input, tuple(pad_), value=value)


# --- losses -----------------------------------------------------------------------------------------------------------


@torch_function(method=False)
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    """The binary cross entropy of logits."""
    return _functional().binary_cross_entropy_with_logits(
        input, target, weight, reduction=REDUCTIONS[reduction], pos_weight=pos_weight
    )


@torch_function(method=False)
def kl_div(input: Any, target: Any, reduction: int = 1, *, log_target: bool = False) -> Any:
    """The Kullback-Leibler divergence, for log-probabilities."""
    return _functional().kl_div(input, target, reduction=REDUCTIONS[reduction], log_target=log_target)


@torch_function(method=False)
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 1) -> Any:
    """The cosine embedding loss of pairs of vectors."""
    return _functional().cosine_embedding_loss(input1, input2, target, margin, reduction=REDUCTIONS[reduction])


@torch_function(method=False)
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 1) -> Any:
    """The hinge embedding loss of distances."""
    return _functional().hinge_embedding_loss(input, target, margin, reduction=REDUCTIONS[reduction])


@torch_function(method=False)
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 1) -> Any:
    """The margin ranking loss of pairs of scores."""
    return _functional().margin_ranking_loss(input1, input2, target, margin, reduction=REDUCTIONS[reduction])


@torch_function(method=False)
def poisson_nll_loss(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    """The negative log likelihood of counts."""
    return _functional().poisson_nll_loss(
        input, target, log_input=log_input, full=full, eps=eps, reduction=REDUCTIONS[reduction]
    )


# --- with the statistics ----------------------------------------------------------------------------------------------


def _normalized(x: Node, axes: tuple[int, ...], eps: float) -> tuple[Node, Node, Node]:
    """Values less their mean along some axes, over their deviation; the mean; one over the deviation."""
    mean = r.mean(x, axis=axes, keepdims=True)
    scale = reciprocal(sqrt(r.mean(square(x - mean), axis=axes, keepdims=True) + eps))
    return (x - mean) * scale, mean, scale


@torch_function(method=False)
@over_nodes("full")
def native_layer_norm(input: Node, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """`layer_norm`, with the means and the reciprocal standard deviations."""
    rank, sizes = len(input.shape), tuple(normalized_shape)
    if not sizes or input.shape[rank - len(sizes) :] != sizes:
        raise RuntimeError(f"Given normalized_shape={list(sizes)}, the last axes of {list(input.shape)} are others")
    found, mean, scale = _normalized(input, tuple(range(rank - len(sizes), rank)), eps)
    found = found if weight is None else found * weight
    return (found if bias is None else found + bias), mean, scale


@torch_function(method=False)
@over_nodes("full")
def native_group_norm(input: Node, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    """`group_norm`, with the means and the reciprocal standard deviations."""
    if input.size != N * C * HxW:
        raise RuntimeError(f"native_group_norm: {input.size} elements are not {N} x {C} x {HxW}")
    found, mean, scale = _normalized(reshape(input, (N, group, C // group * HxW)), (2,), eps)
    found, wide = reshape(found, input.shape), (1, C, *(1,) * (len(input.shape) - 2))
    found = found if weight is None else found * reshape(weight, wide)
    found = found if bias is None else found + reshape(bias, wide)
    return found, reshape(mean, (N, group)), reshape(scale, (N, group))
