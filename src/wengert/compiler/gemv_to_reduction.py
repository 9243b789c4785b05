"""Thin: a matrix product with an axis of one becomes a loop.

In: a graph. Out: the graph in which a product with a row or a column (a layer with one output, its gradients) is a
multiplication and a sum, and one over a depth of one a multiplication. Such a product moves each number once, as a loop
does, but a loop is one kernel with what comes before and after it, where a product is a call of its own.

The sums are the same, added up in another order. On a GPU one row by a matrix is a loop in half precision, too, as a
token of a text that is being generated is: its products stay float32 until they are summed. And so is attention of one
query: a block for each head, which looks at one key after the other, would leave most of the device idle.
"""

from __future__ import annotations

import math

from wengert.compiler.rewrite import made_by, rewrite
from wengert.compiler.target import HOST, Target
from wengert.core.dtypes import HALF, bool_, float32, float64
from wengert.core.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.attention import ATTENTION
from wengert.ops.core import cast
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import PERMUTE, reshape
from wengert.ops.reduce import MAX, SUM


def gemv_to_reduction(graph: Graph, target: Target = HOST) -> Graph:
    """The graph with thin products as loops; the graph itself where there are none.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> a, b = (placeholder(shape, wg.float32) for shape in ((5, 3), (3, 1)))
    >>> [node.op.name for node in gemv_to_reduction(Graph([a, b], [MATMUL(a, b)])).nodes]
    ['reshape', 'multiply', 'sum']
    """
    return rewrite(graph, _rule)


def _rule(node: Node) -> Node | None:
    if node.op is ATTENTION and node.device != "cpu":
        return _one_query(node)
    if node.op is not MATMUL:
        return None
    if node.dtype in HALF:
        return _one_row(node) if node.device != "cpu" else None
    if node.dtype not in (float32, float64):
        return None
    a, b = node.sources
    if not (a.ndim == b.ndim == 2 and a.dtype is b.dtype is node.dtype):
        return None
    (rows, depth), columns = a.shape, b.shape[1]
    if depth == 1:
        return e.multiply(a, b)
    if not depth or 1 not in (rows, columns):
        return None
    return _summed(node, a, b, 1) if columns == 1 else _summed(node, b, a, 0)


def _one_row(node: Node) -> Node | None:
    """A product of one row in half precision by a matrix."""
    a, b = node.sources
    if b.ndim != 2 or not a.size or a.size != a.shape[-1] or b.shape[1] == 1 or not a.dtype is b.dtype is node.dtype:
        return None
    ones = (1,) * (node.ndim - 2)
    if made_by(b, PERMUTE) and b.attrs["axes"] == (1, 0):
        b = b.sources[0]
        terms = e.multiply(_wide(b, (*ones, 1, *b.shape)), _wide(a, (*ones, 1, 1, a.size)))
        return cast(SUM(terms, axes=(node.ndim,), keepdims=False), node.dtype)
    terms = e.multiply(_wide(b, (*ones, *b.shape)), _wide(a, (*ones, a.size, 1)))
    return cast(SUM(terms, axes=(node.ndim - 2,), keepdims=True), node.dtype)


def _one_query(node: Node) -> Node | None:
    """Attention of one query of each head, without a mask or with one that says which keys are seen."""
    query, key, value, *masks = node.sources
    lead = node.shape[:-2]
    alike = query.shape[:-2] == key.shape[:-2] == value.shape[:-2] == lead
    is_seen = all(mask.dtype is bool_ and mask.shape[-2] == 1 for mask in masks)
    if not (alike and is_seen and query.shape[-2] == 1 and key.size) or node.attrs["causal"] or node.dtype is float64:
        return None
    scores = SUM(_wide(key, key.shape) * _wide(query, query.shape), axes=(query.ndim - 1,), keepdims=False)
    scores = scores * node.attrs["scale"]
    for mask in masks:
        scores = e.where(reshape(mask, (*mask.shape[:-2], mask.shape[-1])), scores, -math.inf)
    axis = (scores.ndim - 1,)
    top = MAX(scores, axes=axis, keepdims=True)
    weights = e.exp(scores - e.where(e.isfinite(top), top, 0))
    total = SUM(weights, axes=axis, keepdims=True)
    weights = weights / e.where(e.equal(total, 0), 1, total)
    terms = reshape(weights, (*weights.shape, 1)) * _wide(value, value.shape)
    return cast(SUM(terms, axes=axis, keepdims=True), node.dtype)


def _wide(x: Node, shape: tuple[int, ...]) -> Node:
    return cast(reshape(x, shape), float32)


def _summed(node: Node, matrix: Node, weights: Node, axis: int) -> Node:
    """A matrix times a column, or one row times it, with the depth along an axis of the matrix."""
    if made_by(matrix, PERMUTE) and matrix.attrs["axes"] == (1, 0):  # it is read as it lies in memory
        matrix, axis = matrix.sources[0], 1 - axis
    terms = e.multiply(matrix, reshape(weights, (1, weights.size) if axis else (weights.size, 1)))
    return reshape(SUM(terms, axes=(axis,), keepdims=True), node.shape)
