"""Diagonals and triangles of matrices, and their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.dtypes import as_dtype, int64
from wengert.core.graph import Node
from wengert.ops import creation, diagonals
from wengert.ops.addressing import SCATTER
from wengert.ops.core import cast, operand
from wengert.ops.elementwise import floor_divide, remainder
from wengert.ops.movement import broadcast_to, reshape, stack
from wengert.torch.arguments import int_of, over_nodes
from wengert.torch.registry import torch_function
from wengert.torch.tensor import Tensor


@torch_function(out=True)
@over_nodes()
def diag(input: Node, diagonal: int = 0) -> Node:
    """The matrix with a vector on a diagonal; for a matrix, its diagonal."""
    if len(input.shape) not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {len(input.shape)}D")
    return diagonals.diag(input, diagonal)


@torch_function()
@over_nodes()
def diagflat(input: Node, offset: int = 0) -> Node:
    """The matrix with the flattened tensor on a diagonal."""
    return diagonals.diagflat(input, offset)


@torch_function()
@over_nodes()
def diag_embed(input: Node, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Node:
    """Matrices with the last axis of a tensor on a diagonal, along two axes of the result."""
    rank = len(input.shape) + 1
    for dim in (dim1, dim2):
        if not -rank <= dim < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
            )
    if dim1 % rank == dim2 % rank:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return diagonals.diag_embed(input, offset, dim1, dim2)


@torch_function(in_place=True, out=True)
@over_nodes()
def tril(input: Node, diagonal: int = 0) -> Node:
    """The lower triangle of matrices; zeros above the diagonal."""
    _require_matrix("tril", input)
    return creation.tril(input, k=diagonal)


@torch_function(in_place=True, out=True)
@over_nodes()
def triu(input: Node, diagonal: int = 0) -> Node:
    """The upper triangle of matrices; zeros below the diagonal."""
    _require_matrix("triu", input)
    return creation.triu(input, k=diagonal)


def _require_matrix(name: str, x: Node) -> None:
    if len(x.shape) < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


def _triangle(places: Callable[..., Any], row: int, col: int, offset: int, dtype: Any) -> Tensor:
    if row < 0 or col < 0:
        raise RuntimeError(f"row and col must be non-negative, got {row}, {col}")
    found = stack(list(places(int_of(row), int_of(col), k=int_of(offset))), axis=0)
    return Tensor(cast(found, int64 if dtype is None else as_dtype(dtype)))


@torch_function(method=False)
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """The indices of the lower triangle of a matrix: row indices above column indices."""
    return _triangle(diagonals.tril_indices, row, col, offset, dtype)


@torch_function(method=False)
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """The indices of the upper triangle of a matrix: row indices above column indices."""
    return _triangle(diagonals.triu_indices, row, col, offset, dtype)


@torch_function(in_place=True)
def fill_diagonal(input: Any, fill_value: Any, wrap: bool = False) -> Tensor:
    """Fill the diagonal of a matrix, or of a hypercube, with a number."""
    node = input.node
    n = min(node.shape)
    places = operand(np.arange(n), None)
    if wrap and len(node.shape) == 2 and node.shape[0] > node.shape[1]:
        return _wrapped_diagonal(node, fill_value)
    value = broadcast_to(operand(fill_value, node.dtype), (n,))
    return Tensor(SCATTER(node, cast(value, node.dtype), *[places] * len(node.shape), axis=0))


def _wrapped_diagonal(x: Node, value: Any) -> Tensor:
    columns = x.shape[1]
    flat = np.arange(0, x.size, columns + 1)
    values = broadcast_to(cast(operand(value, x.dtype), x.dtype), (len(flat),))
    return Tensor(reshape(SCATTER(reshape(x, (-1,)), values, operand(flat, None), axis=0), x.shape))


@torch_function(method=False)
@over_nodes()
def unravel_index(indices: Node, shape: Any) -> Any:
    """Convert flat indices into a tensor of this shape to an index along each axis."""
    sizes = (shape,) if isinstance(shape, int) else tuple(int_of(n) for n in shape)
    found: list[Node] = []
    rest = indices
    for n in reversed(sizes):
        found.append(remainder(rest, n))
        rest = floor_divide(rest, n)
    return tuple(reversed(found))
