"""The activations that are functions of `torch` itself, or methods."""

from __future__ import annotations

from typing import Any

from wengert.core.dtypes import INEXACT
from wengert.core.graph import Node
from wengert.ops import activation as a
from wengert.ops import comparison as c
from wengert.ops.movement import reshape
from wengert.torch import dtypes
from wengert.torch.arguments import as_asked, over_nodes, row_of
from wengert.torch.registry import torch_function


def _along(of: Any, name: str, input: Node, dim: Any, dtype: Any) -> Node:
    x = as_asked(input, dtype)
    if x.dtype not in INEXACT:
        raise NotImplementedError(f'"{name}_lastdim_kernel_impl" not implemented for {dtypes.scalar_name(x.dtype)!r}')
    row, axis = row_of(x, dim)
    return reshape(of(row, axis=axis), x.shape)


@torch_function(out=True)
@over_nodes("full")
def softmax(input: Node, dim: int, dtype: Any = None) -> Node:
    """Exponentials along an axis, scaled so that their sum is 1."""
    return _along(a.softmax, "softmax", input, dim, dtype)


@torch_function(out=True)
@over_nodes("full")
def log_softmax(input: Node, dim: int, dtype: Any = None) -> Node:
    """The logarithm of `softmax`."""
    return _along(a.log_softmax, "log_softmax", input, dim, dtype)


@torch_function(in_place=True)
@over_nodes()
def relu(input: Node) -> Node:
    """`input` where it is positive, else 0."""
    return a.relu(input)


@torch_function(method=False, in_place=True)
@over_nodes("same")
def selu(input: Node) -> Node:
    """The scaled exponential linear unit."""
    return a.selu(input)


@torch_function(method=False, in_place=True)
@over_nodes("same")
def celu(input: Node, alpha: float = 1.0) -> Node:
    """The continuously differentiable exponential linear unit."""
    return a.celu(input, alpha)


@torch_function(method=False, in_place=True)
@over_nodes("same")
def threshold(input: Node, threshold: float, value: float) -> Node:
    """`input` where it is above the threshold, else `value`."""
    return a.threshold(input, threshold, value)


@torch_function()
@over_nodes("full")
def prelu(input: Node, weight: Node) -> Node:
    """`input` where it is positive, else `weight` times it; a weight for each channel, or one."""
    if weight.dtype is not input.dtype:
        raise RuntimeError("prelu: Type promoting not supported.")
    return reshape(a.prelu(input, weight), input.shape)


@torch_function()
@over_nodes("same")
def hardshrink(input: Node, lambd: float = 0.5) -> Node:
    """0 where the size is at most `lambd`, else `input`."""
    return c.where(c.logical_and(c.greater_equal(input, -lambd), c.less_equal(input, lambd)), 0, input)
