"""Factors out of sums: a sum whose terms share a factor that is known only after another sum need not wait for it.

In: a graph. Out: the graph with `sum(x * c)` as `sum(x) * c`, where `c` is the same in the whole row and was itself
computed from a reduction over the row. So the sums of layernorm's gradient are made in one pass over the row, together
with the variance, instead of in a pass after it. The terms are rounded in another order, as in any other way to add up.

A factor of `weigh`, which takes 0 times anything as 0, stays one.
"""

from __future__ import annotations

from wengert.compiler.rewrite import made_by, rewrite
from wengert.dtypes import float32, float64
from wengert.graph import Graph, Node, Shape
from wengert.ops import elementwise as e
from wengert.ops.movement import reshape
from wengert.ops.op import Op
from wengert.ops.recorders import Elementwise
from wengert.ops.reduce import SUM, reduced

_STEPS = 12  # how many elementwise ops back a reduction over the row is looked for


def factor(graph: Graph) -> Graph:
    """The graph with the factors of sums that wait for another reduction taken out.

    >>> import wengert as wg
    >>> from wengert.compiler.dce import dce
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((4, 9), wg.float32)
    >>> scale = SUM(x, axes=(1,), keepdims=True)
    >>> y = SUM(e.exp(x) * scale, axes=(1,), keepdims=True)
    >>> [node.op.name for node in dce(factor(Graph([x], [y]))).nodes]
    ['sum', 'exp', 'sum', 'multiply']
    """
    return rewrite(graph, _rule)


def _rule(node: Node) -> Node | None:
    if node.op is not SUM or node.dtype not in (float32, float64):
        return None
    x, axes = node.sources[0], node.attrs["axes"]
    if x.op not in (e.multiply, e.weigh, e.divide) or not made_by(x, x.op):
        return None
    a, b = x.sources
    if a.shape == x.shape and _waits(b, x.shape, axes):
        total = x.op(SUM(a, axes=axes, keepdims=True), b)
    elif b.shape == x.shape and _waits(a, x.shape, axes) and x.op is not e.divide:
        total = x.op(a, SUM(b, axes=axes, keepdims=True))
    else:
        return None
    return total if total.shape == node.shape else reshape(total, node.shape)


def _waits(factor: Node, shape: Shape, axes: tuple[int, ...]) -> bool:
    """Whether a factor is one number a row, computed from a reduction over the rows."""
    return factor.shape == reduced(shape, axes, True) and comes_from_reduction(factor, shape, axes)


def comes_from_reduction(x: Node, shape: Shape, axes: tuple[int, ...]) -> bool:
    """Whether a value is an elementwise function of a reduction of something of this shape over these axes."""
    agenda = [x]
    for _ in range(_STEPS):
        for node in agenda:
            reduces = node.sources and node.attrs.get("axes") == axes and node.sources[0].shape == shape
            if reduces and made_by(node, node.op):
                return True
        agenda = [source for node in dict.fromkeys(agenda) if _is_pointwise(node.op) for source in node.sources]
    return False


def _is_pointwise(op: Op) -> bool:
    return isinstance(op, Elementwise) or op.name in ("cast", "reshape", "broadcast_to")
