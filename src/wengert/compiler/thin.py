"""Thin: a matrix product with an axis of one becomes a loop.

In: a graph. Out: the graph in which a product with a row or a column (a layer with one output, its gradients) is a
multiplication and a sum, and one over a depth of one a multiplication. Such a product moves each number once, as a loop
does, but a loop is one kernel with what comes before and after it, where a product is a call of its own.

The sums are the same, added up in another order. Half precision is left alone: its products are not rounded one by one.
"""

from __future__ import annotations

from wengert.compiler.rewrite import made_by, rewrite
from wengert.dtypes import float32, float64
from wengert.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import PERMUTE, reshape
from wengert.ops.reduce import SUM


def thin(graph: Graph) -> Graph:
    """The graph with thin products as loops; the graph itself where there are none.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> a, b = (placeholder(shape, wg.float32) for shape in ((5, 3), (3, 1)))
    >>> [node.op.name for node in thin(Graph([a, b], [MATMUL(a, b)])).nodes]
    ['reshape', 'multiply', 'sum']
    """
    return rewrite(graph, _rule)


def _rule(node: Node) -> Node | None:
    if node.op is not MATMUL or node.dtype not in (float32, float64):
        return None
    a, b = node.sources
    if not (a.ndim == b.ndim == 2 and a.dtype is b.dtype is node.dtype):
        return None
    (rows, depth), columns = a.shape, b.shape[1]
    if depth == 1:
        return e.multiply(a, b)
    if not depth or 1 not in (rows, columns):
        return None
    matrix, weights, axis = (a, b, 1) if columns == 1 else (b, a, 0)
    if made_by(matrix, PERMUTE) and matrix.attrs["axes"] == (1, 0):  # it is read as it lies in memory
        matrix, axis = matrix.sources[0], 1 - axis
    terms = e.multiply(matrix, reshape(weights, (1, depth) if axis else (depth, 1)))
    return reshape(SUM(terms, axes=(axis,), keepdims=True), node.shape)
