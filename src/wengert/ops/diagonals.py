"""Extracting and setting diagonals of matrices, composed of other ops."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from wengert.core.dtypes import promote
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node
from wengert.ops.comparison import equal, where
from wengert.ops.contract import diagonal
from wengert.ops.core import as_node, cast, data
from wengert.ops.creation import diagonals
from wengert.ops.formulas import zero_like
from wengert.ops.movement import broadcast_to, concat, expand_dims, moveaxis, normalize_axis, place, reshape


def diag(x: Any, /, k: int = 0) -> Node:
    """The k-th diagonal of a matrix; of a vector, the matrix that has it on its k-th diagonal.

    >>> import wengert as wg
    >>> wg.diag(wg.tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    >>> wg.diag(wg.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    x = as_node(x)
    if x.ndim == 1:
        return diag_embed(x, k)
    if x.ndim != 2:
        raise ShapeError(
            f"diag takes a vector or a matrix, not shape {x.shape}; for batches use wg.diagonal or wg.diag_embed"
        )
    return diagonal(x, offset=k)


def diagflat(x: Any, /, k: int = 0) -> Node:
    """The matrix with the elements of `x`, in one row, on its k-th diagonal.

    >>> import wengert as wg
    >>> wg.diagflat(wg.tensor([[1], [2]])).tolist()
    [[1, 0], [0, 2]]
    """
    return diag_embed(reshape(as_node(x), (-1,)), k)


def diag_embed(x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Node:
    """Matrices, along two new axes, with the vectors along the last axis of `x` on a diagonal and zeros elsewhere.

    >>> import wengert as wg
    >>> wg.diag_embed(wg.tensor([[1, 2], [3, 4]])).tolist()
    [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]
    """
    x = as_node(x)
    if x.ndim == 0:
        raise ShapeError("diag_embed takes vectors along the last axis, not a single number")
    first, second = (normalize_axis(axis, x.ndim + 1, "diag_embed") for axis in (axis1, axis2))
    if first == second:
        raise ArgumentError(f"diag_embed: the axes {axis1} and {axis2} are one and the same")
    k = int(offset)
    side = x.shape[-1] + abs(k)
    ones = (1,) * x.ndim
    spread = place(x, (*x.shape[:-1], side), (0,) * (x.ndim - 1) + (max(k, 0),), ones) if k else x
    rows = broadcast_to(expand_dims(spread, axis=-2), (*x.shape[:-1], side, side))
    return moveaxis(where(equal(diagonals(side, side), k), rows, zero_like(x)), (-2, -1), (first, second))


def block_diag(*arrays: Any) -> Node:
    """The matrix with these matrices along its diagonal and zeros elsewhere; a vector is a matrix of one row.

    >>> import wengert as wg
    >>> wg.block_diag(wg.tensor([[1, 2]]), wg.tensor([3])).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    blocks = [_block(as_node(x)) for x in arrays]
    if not blocks:
        raise ArgumentError("block_diag takes at least one matrix")
    width = sum(block.shape[1] for block in blocks)
    dtype = functools.reduce(promote, [block.dtype for block in blocks])
    rows, start = [], 0
    for block in blocks:
        rows.append(place(cast(block, dtype), (block.shape[0], width), (0, start), (1, 1)))
        start += block.shape[1]
    return concat(rows)


def _block(x: Node) -> Node:
    if x.ndim > 2:
        raise ShapeError(f"block_diag takes matrices, not shape {x.shape}")
    return x if x.ndim == 2 else reshape(x, (1, -1))


def tril_indices(n_rows: int, n_cols: int | None = None, /, *, k: int = 0) -> tuple[Node, Node]:
    """The rows and the columns of the elements on and below the k-th diagonal: indices for `x[rows, columns]`.

    >>> import wengert as wg
    >>> [places.tolist() for places in wg.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _places(np.tri(n_rows, n_cols, int(k), dtype=bool))


def triu_indices(n_rows: int, n_cols: int | None = None, /, *, k: int = 0) -> tuple[Node, Node]:
    """The rows and the columns of the elements on and above the k-th diagonal: indices for `x[rows, columns]`.

    >>> import wengert as wg
    >>> [places.tolist() for places in wg.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _places(~np.tri(n_rows, n_cols, int(k) - 1, dtype=bool))


def _places(mask: Any) -> tuple[Node, Node]:
    rows, columns = np.nonzero(mask)
    return data(rows), data(columns)
