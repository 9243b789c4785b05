"""Norms of vectors and matrices, and distances."""

from __future__ import annotations

import math
from typing import Any

from wengert.core.dtypes import INEXACT
from wengert.core.graph import Node
from wengert.ops import comparison as c
from wengert.ops import matrix_norms
from wengert.ops import reduce as r
from wengert.ops.core import cast
from wengert.torch import dtypes
from wengert.torch.arguments import any_empty, as_asked, axes_of, in_floats, over_nodes
from wengert.torch.registry import torch_function
from wengert.torch.tensor import axis_of, together


def of_matrices(x: Node, ord: Any, dim: Any, keepdim: Any) -> Node:
    """The norm of matrices that lie along two axes."""
    if len(x.shape) < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    axes = tuple(axis_of(d, len(x.shape)) for d in dim)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple of different axes. Got {tuple(dim)}")
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    return matrix_norms.matrix_norm(x, ord=ord, axis=axes, keepdims=bool(keepdim))


@torch_function()
@over_nodes("full")
def norm(input: Node, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    """The p-norm along some axes; by default the Frobenius norm, which is the 2-norm; or "nuc"."""
    x = as_asked(input, dtype)
    if x.dtype not in INEXACT:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {dtypes.scalar_name(x.dtype)}"
        )
    if p == "nuc":
        return of_matrices(x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    return of_vectors(x, 2.0 if p in ("fro", None) else float(p), dim, keepdim)


def of_vectors(x: Node, order: float, dim: Any, keepdim: Any) -> Node:
    """The norm of all elements along some axes."""
    axes = axes_of(dim, x)
    if not axes and len(x.shape):
        axes = tuple(range(len(x.shape)))
    if any_empty(x, axes) and (order < 0 or order == float("inf")):
        raise RuntimeError(f"linalg.vector_norm cannot compute the {order} norm on an empty tensor")
    return r.norm(x, ord=order, axis=axes, keepdims=bool(keepdim))


@torch_function()
@over_nodes("full")
def dist(input: Node, other: Node, p: float = 2) -> Node:
    """The p-norm of the difference."""
    a, b = together(input, other)
    return of_vectors(in_floats(a - b), float(p), None, False)


@torch_function(in_place=True)
@over_nodes("full")
def renorm(input: Node, p: float, dim: int, maxnorm: float) -> Node:
    """`input` with each slice along `dim` scaled down so that its norm is at most `maxnorm`."""
    if len(input.shape) < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {len(input.shape)} dimensions")
    axis = axes_of(dim, input)[0]
    others = tuple(i for i in range(len(input.shape)) if i != axis)
    size = r.norm(input, ord=float(p), axis=others, keepdims=True)
    return input * cast(c.where(c.greater(size, float(maxnorm)), float(maxnorm) / (size + 1e-7), 1.0), size.dtype)
