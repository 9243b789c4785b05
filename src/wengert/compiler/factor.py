"""Factors out of sums: one number a row is multiplied with the sum of the row, not with every term.

In: a graph. Out: the graph with `sum(x * c)` as `sum(x) * c`, where `c` is the same in the whole row, and
`sum(x * (y * c))` as `sum(x * y) * c`. So a sum need not wait for another from which its factor comes, and sums that
differ in such factors alone become one: those of layernorm's gradient are made in one pass over the row, together with
the variance, and of batchnorm's gradient there are two instead of four. The terms are rounded in another order, as in
any other way to add up.

A factor of `weigh`, which takes 0 times anything as 0, stays one.
"""

from __future__ import annotations

from typing import NamedTuple

from wengert.compiler.rewrite import made_by, rewrite
from wengert.compiler.target import HOST, Target
from wengert.core.dtypes import float32, float64
from wengert.core.graph import Graph, Node, Shape
from wengert.ops import elementwise as e
from wengert.ops.movement import reshape
from wengert.ops.recorders import Binary
from wengert.ops.reduce import SUM, reduced

_CHEAP = 1  # the cost up to which a value is computed again rather than read as part of a product
_DEEP = 3  # products of products that are looked into


def factor(graph: Graph, target: Target = HOST) -> Graph:
    """The graph with the factors that are one number a row taken out of sums.

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
    found = _apart(x, reduced(x.shape, axes, True), _DEEP)
    if found is None:
        return None
    total = SUM(found.rest, axes=axes, keepdims=True)
    total = found.op(found.factor, total) if found.is_first else found.op(total, found.factor)
    return total if total.shape == node.shape else reshape(total, node.shape)


class _Product(NamedTuple):
    """A product as one factor of it, what it is without that, and how they are multiplied."""

    rest: Node
    factor: Node
    op: Binary
    is_first: bool = False


def _apart(x: Node, row: Shape, depth: int) -> _Product | None:
    """A product of which a factor has the shape `row`, or a factor of a factor; None where there is none."""
    op = x.op
    if op not in (e.multiply, e.weigh, e.divide) or not made_by(x, op) or x.shape == row:
        return None
    a, b = x.sources
    if _is_one_a_row(b, row) and a.shape == x.shape:
        return _Product(a, b, op)
    if _is_one_a_row(a, row) and b.shape == x.shape and op is not e.divide:
        return _Product(b, a, op, is_first=True)
    if not depth or op is e.divide or a.shape != b.shape:
        return None
    for factor in (a, b):
        found = _apart(factor, row, depth - 1)
        if found is not None and found.op is not e.divide and found.rest.op.cost <= _CHEAP:
            rest = op(found.rest, b) if factor is a else op(a, found.rest)
            return found._replace(rest=rest) if op is e.multiply else _Product(rest, found.factor, e.weigh)
    return None


def _is_one_a_row(x: Node, row: Shape) -> bool:
    return (1,) * (len(row) - len(x.shape)) + x.shape == row
