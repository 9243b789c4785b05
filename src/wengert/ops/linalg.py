"""Matrix products, and linear algebra over them. Matrices are the last two axes; the axes before them are a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.dtypes import promote
from wengert.errors import ShapeError
from wengert.graph import Node
from wengert.ops.core import cast, operands
from wengert.ops.elementwise import broadcast, with_rank
from wengert.ops.movement import matrix_transpose, reshape
from wengert.ops.op import Op


def _matmul_infer(a: Node, b: Node) -> tuple[Any, Any]:
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit: the first has {a.shape[-1]} columns, "
            f"the second {b.shape[-2]} rows" + _transpose_hint(a, b)
        )
    batch = broadcast(a.shape[:-2], b.shape[:-2], "matmul")
    return (*batch, a.shape[-2], b.shape[-1]), a.dtype


def _transpose_hint(a: Node, b: Node) -> str:
    if a.shape[-1] == b.shape[-1]:
        return ". a @ b.mT would fit"
    return ". a.mT @ b would fit" if a.shape[-2] == b.shape[-2] else ""


def _matmul_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    rank = len(y.shape)
    return MATMUL(*[with_rank(s, rank) if b else s for s, b in zip(sources, batched)])


MATMUL = Op(
    "matmul",
    infer=_matmul_infer,
    numpy=np.matmul,
    vjp=(lambda g, y, a, b: g @ matrix_transpose(b), lambda g, y, a, b: matrix_transpose(a) @ g),
    multilinear=(0, 1),
    batch=_matmul_batch,
    expensive=True,
)


def matmul(x1: Any, x2: Any, /) -> Node:
    """The matrix product `x1 @ x2`. A vector on the left is a row, on the right a column; batches broadcast."""
    a, b = operands(x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}: a number is no matrix; multiply with *")
    meet = promote(a.dtype, b.dtype)
    left = cast(reshape(a, (1, a.shape[0])) if a.ndim == 1 else a, meet)
    right = cast(reshape(b, (b.shape[0], 1)) if b.ndim == 1 else b, meet)
    y = MATMUL(left, right)
    if a.ndim > 1 and b.ndim > 1:
        return y
    shape = y.shape[:-2] + (y.shape[-2:-1] if a.ndim > 1 else ()) + (y.shape[-1:] if b.ndim > 1 else ())
    return reshape(y, shape)
