"""Batch norm folded into the layer before it, for evaluation: its scale goes into the weight, its shift to the bias."""

from __future__ import annotations

import copy
from typing import Any

import wengert as wg
from wengert.nn.parameter import Parameter


def _scale_and_shift(bias: Any, mean: Any, var: Any, eps: float, weight: Any, shift: Any) -> tuple[Any, Any]:
    """By what each channel is multiplied, and the new bias."""
    factor = 1 / wg.sqrt(var + eps)
    factor = factor if weight is None else factor * weight
    moved = ((0 if bias is None else bias) - mean) * factor
    return factor, moved if shift is None else moved + shift


def _parameters(weight: wg.Tensor, bias: wg.Tensor, like: wg.Tensor) -> tuple[Parameter, Parameter]:
    wanted = like.requires_grad
    return Parameter(weight.to(like.dtype), wanted), Parameter(bias.to(like.dtype), wanted)


def fuse_conv_bn_weights(
    conv_w: wg.Tensor,
    conv_b: wg.Tensor | None,
    bn_rm: wg.Tensor,
    bn_rv: wg.Tensor,
    bn_eps: float,
    bn_w: wg.Tensor | None,
    bn_b: wg.Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and the bias of a convolution with a batch norm behind it; of a transposed one if so.

    >>> import wengert as wg
    >>> conv, norm = wg.nn.Conv2d(1, 2, 3), wg.nn.BatchNorm2d(2)
    >>> statistics = norm.running_mean, norm.running_var, norm.eps
    >>> w, b = wg.nn.utils.fuse_conv_bn_weights(conv.weight, conv.bias, *statistics, norm.weight, norm.bias)
    >>> w.shape, b.shape
    ((2, 1, 3, 3), (2,))
    """
    factor, bias = _scale_and_shift(conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    laid = (1, -1) if transpose else (-1, 1)
    return _parameters(conv_w * wg.reshape(factor, (*laid, *(1,) * (conv_w.ndim - 2))), bias, conv_w)


def fuse_linear_bn_weights(
    linear_w: wg.Tensor,
    linear_b: wg.Tensor | None,
    bn_rm: wg.Tensor,
    bn_rv: wg.Tensor,
    bn_eps: float,
    bn_w: wg.Tensor | None,
    bn_b: wg.Tensor | None,
) -> tuple[Parameter, Parameter]:
    """The weight and the bias of a linear layer with a batch norm behind it.

    >>> import wengert as wg
    >>> linear, norm = wg.nn.Linear(3, 2), wg.nn.BatchNorm1d(2)
    >>> statistics = norm.running_mean, norm.running_var, norm.eps
    >>> w, b = wg.nn.utils.fuse_linear_bn_weights(linear.weight, linear.bias, *statistics, norm.weight, norm.bias)
    >>> w.shape, b.shape
    ((2, 3), (2,))
    """
    factor, bias = _scale_and_shift(linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    return _parameters(linear_w * wg.expand_dims(factor, -1), bias, linear_w)


def _check(name: str, layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise wg.errors.ArgumentError(
            f"{name}: a batch norm can be folded in evaluation only; call eval() on both first"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise wg.errors.ArgumentError(f"{name}: a batch norm without running statistics normalises by each batch")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what `conv` and then `bn`, both in evaluation, do; they stay as they are.

    >>> import wengert as wg
    >>> conv, bn = wg.nn.Conv1d(2, 3, 1).eval(), wg.nn.BatchNorm1d(3).eval()
    >>> x = wg.ones((1, 2, 4))
    >>> bool(wg.allclose(wg.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5))
    True
    """
    _check("fuse_conv_bn_eval", conv, bn)
    with wg.no_grad():
        made = copy.deepcopy(conv)
        made.weight, made.bias = fuse_conv_bn_weights(
            conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
        )
    return made


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what `linear` and then `bn`, both in evaluation, do; they stay as they are.

    >>> import wengert as wg
    >>> wg.nn.utils.fuse_linear_bn_eval(wg.nn.Linear(3, 2).eval(), wg.nn.BatchNorm1d(2).eval())(wg.ones((4, 3))).shape
    (4, 2)
    """
    _check("fuse_linear_bn_eval", linear, bn)
    if linear.out_features != bn.num_features:
        raise wg.errors.ShapeError(
            f"fuse_linear_bn_eval: the layer gives {linear.out_features} features; the norm takes {bn.num_features}"
        )
    with wg.no_grad():
        made = copy.deepcopy(linear)
        made.weight, made.bias = fuse_linear_bn_weights(
            linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
    return made
