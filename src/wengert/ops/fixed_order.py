"""Ops with a fixed order of additions, independent of their surroundings; `compiler.fixed_order` records them.

Each is an op of `reduce`, `linalg`, `convolve` or `addressing` with the order of its sums written down. The elements of
a sum are numbered in the order of memory and cut into blocks of BLOCK. A block is added up in LANES lanes (element i
goes to lane i % LANES), the lanes by halving; blocks are the leaves of a binary tree: neighbours 2i and 2i + 1 are
added, then pairs of these, until one is left. So half of the blocks, if their number is a power of two, are half of the
tree, and the sums of two halves of a batch, added, have the bits of the sum over the batch.

A matrix product adds up blocks of BLOCK steps of its depth by multiply-adds in order, and the blocks by the same tree.
A convolution's weight gradient has images as the leaves. Rows that are added at one index are those of their blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.graph import Node
from wengert.ops.addressing import SCATTER_ADD
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT
from wengert.ops.linalg import MATMUL
from wengert.ops.op import Op
from wengert.ops.reduce import MAX, MIN, PROD, SUM, reduced

BLOCK = 32
"""Elements of a leaf of the tree."""

LANES = 16
"""Sums that a leaf is added up in."""


def tree_reduce(x: Any, axes: tuple[int, ...], combine: Callable[[Any, Any], Any], neutral: float) -> Any:
    """A reduction over some axes in tree order. Combining with `neutral` changes nothing, not even the sign of a
    zero."""
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    count = math.prod(x.shape[a] for a in axes)
    rows = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim)).reshape(*kept, count)
    leaves = 1 << max(0, -(-count // BLOCK) - 1).bit_length()
    filled = np.full((*kept, leaves * BLOCK), neutral, x.dtype)
    filled[..., :count] = rows
    blocks = filled.reshape(*kept, leaves, BLOCK // LANES, LANES)
    total = blocks[..., 0, :]
    for i in range(1, BLOCK // LANES):
        total = combine(total, blocks[..., i, :])
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = combine(total[..., :half], total[..., half:])
    total = total[..., 0]
    while total.shape[-1] > 1:
        total = combine(total[..., 0::2], total[..., 1::2])
    return total[..., 0]


def tree_matmul(a: Any, b: Any) -> Any:
    """A matrix product in tree order, for cases without a kernel: BLAS uses a different order for every shape."""
    sums = [_block(a, b, k) for k in range(0, a.shape[-1], BLOCK)]
    while len(sums) > 1:
        pairs = [x + y for x, y in zip(sums[0::2], sums[1::2])]
        sums = [*pairs, *sums[2 * len(pairs) :]]
    return sums[0] if sums else np.matmul(a, b)


def _block(a: Any, b: Any, first: int) -> Any:
    """The sum over a block of the depth, one step after the other."""
    total = a[..., first, None] * b[..., None, first, :]
    for k in range(first + 1, min(first + BLOCK, a.shape[-1])):
        total = total + a[..., k, None] * b[..., None, k, :]
    return total


def _tree(op: Op, combine: Callable[[Any, Any], Any], neutral: float) -> Op:
    def compute(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        if any(x.shape[a] == 0 for a in axes):
            return op.numpy(x, axes=axes, keepdims=keepdims)
        return tree_reduce(x, axes, combine, neutral).reshape(reduced(x.shape, axes, keepdims))

    return Op(
        f"tree_{op.name}",
        infer=op.infer,
        numpy=compute,
        composition=lambda x, **attrs: op(x, **attrs),
        expensive=True,
        can_fail=False,
        flops=lambda node: node.sources[0].size,
    )


def _same(op: Op, reference: Callable[..., Any] | None = None) -> Op:
    """An op of which only the kernel differs, and the reference perhaps."""

    def composed(*sources: Node, **attrs: Any) -> Node:
        return op(*sources, **attrs)

    return Op(
        f"tree_{op.name}",
        infer=op.infer,
        numpy=reference or op.numpy,
        composition=composed,
        expensive=True,
        can_fail=op.can_fail,
        checks=op.checks,
        flops=op.flops,
    )


TREE_SUM = _tree(SUM, np.add, -0.0)
TREE_PROD = _tree(PROD, np.multiply, 1.0)
TREE_MAX = _tree(MAX, np.maximum, -math.inf)
TREE_MIN = _tree(MIN, np.minimum, math.inf)
TREE_MATMUL = _same(MATMUL, tree_matmul)
TREE_SCATTER_ADD = _same(SCATTER_ADD)
TREE_CONVOLVE, TREE_CONVOLVE_INPUT, TREE_CONVOLVE_WEIGHT = map(_same, (CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT))

FIXED: dict[Op, Op] = {
    **{SUM: TREE_SUM, PROD: TREE_PROD, MAX: TREE_MAX, MIN: TREE_MIN, MATMUL: TREE_MATMUL},
    SCATTER_ADD: TREE_SCATTER_ADD,
    **{CONVOLVE: TREE_CONVOLVE, CONVOLVE_INPUT: TREE_CONVOLVE_INPUT, CONVOLVE_WEIGHT: TREE_CONVOLVE_WEIGHT},
}
"""By op the one that has a fixed order."""
