"""Reductions: move row factors out of sums, and turn a gather of one element per row into a comparison.

`factor`: `sum(x * c)` becomes `sum(x) * c` if `c` is constant along the row, and `sum(x * (y * c))` becomes `sum(x * y)
* c`. A sum then does not wait for the sum that its factor comes from, and sums that differ only in such factors become
one. Those of layernorm's gradient are computed in one pass over the row, together with the variance; batchnorm's
gradient needs two sums instead of four. The terms are rounded in another order, as with any reordering of a sum. A
factor of `safe_multiply`, where 0 times anything is 0, keeps that op.

`onehot`: `take_along(x, index)` with one index per row becomes the sum over the row of `where(position == index, x,
0)`, and adding one element per row into zeros becomes `where(position == index, value, 0)`. Neither needs a kernel of
its own any more, nor a stored row, so cross-entropy and its gradient are one kernel over the scores. The sum of such a
row is its one value. This applies only where the row is computed from a reduction over it, as the log-probabilities of
cross-entropy are: a row that nothing else reads is better gathered from. An index out of range raises as before: the
first comparison with it checks it.
"""

from __future__ import annotations

from typing import NamedTuple

from wengert.compiler.rewrite import Rule, made_by, rewrite
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.dtypes import FLOATING, float32, float64, int32, int64
from wengert.core.graph import Graph, Node, Shape
from wengert.ops import elementwise as e
from wengert.ops.addressing import ADD_ALONG, TAKE_ALONG
from wengert.ops.comparison import CHECKED_INDEX
from wengert.ops.core import LITERAL, cast, literal
from wengert.ops.creation import iota
from wengert.ops.movement import BROADCAST, RESHAPE, reshape
from wengert.ops.op import Op
from wengert.ops.recorders import Binary
from wengert.ops.reduce import SUM, reduced

_CHEAP = 1  # the cost up to which a value is recomputed rather than stored within a product
_DEEP = 3  # the maximum nesting of products


def factor(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with row-constant factors moved out of sums.

    >>> import wengert as wg
    >>> from wengert.compiler.cleanup import dce
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((4, 9), wg.float32)
    >>> scale = SUM(x, axes=(1,), keepdims=True)
    >>> y = SUM(e.exp(x) * scale, axes=(1,), keepdims=True)
    >>> [node.op.name for node in dce(factor(Graph([x], [y]))).nodes]
    ['sum', 'exp', 'sum', 'multiply']
    """
    return rewrite(graph, _factored)


def _factored(node: Node) -> Node | None:
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
    """A product split into one factor, the rest, and the op that multiplies them."""

    rest: Node
    factor: Node
    op: Binary
    is_first: bool = False


def _apart(x: Node, row: Shape, depth: int) -> _Product | None:
    """A product split at a (possibly nested) factor of the shape `row`; None if there is none."""
    op = x.op
    if op not in (e.multiply, e.safe_multiply, e.divide) or not made_by(x, op) or x.shape == row:
        return None
    a, b = x.sources
    if _is_one_number_a_row(b, row) and a.shape == x.shape:
        return _Product(a, b, op)
    if _is_one_number_a_row(a, row) and b.shape == x.shape and op is not e.divide:
        return _Product(b, a, op, is_first=True)
    if not depth or op is e.divide or a.shape != b.shape:
        return None
    for factor in (a, b):
        found = _apart(factor, row, depth - 1)
        if found is not None and found.op is not e.divide and found.rest.op.cost <= _CHEAP:
            rest = op(found.rest, b) if factor is a else op(a, found.rest)
            return found._replace(rest=rest) if op is e.multiply else _Product(rest, found.factor, e.safe_multiply)
    return None


def _is_one_number_a_row(x: Node, row: Shape) -> bool:
    return (1,) * (len(row) - len(x.shape)) + x.shape == row


# --- onehot ---------------------------------------------------------------------------------------------------------


_STEPS = 12  # the maximum number of elementwise ops back to a reduction over the row


def onehot(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with gathers of one element per row as comparisons, where the row is read anyway.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x, index = placeholder((4, 9), wg.float32), placeholder((4, 1), wg.int64)
    >>> y = TAKE_ALONG(x - SUM(x, axes=(1,), keepdims=True), index, axis=1)
    >>> [node.op.name for node in onehot(Graph([x, index], [y])).nodes if node.sources][2:]
    ['checked_index', 'cast', 'reshape', 'equal', 'where', 'sum']
    """
    checked = {node.sources[1] for node in graph.nodes if node.op is TAKE_ALONG and _reads_row(node)}
    return rewrite(graph, _compared(checked)) if checked else graph


def _compared(checked: set[Node]) -> Rule:
    laid: dict[Node, Node] = {}  # by comparison: the gather it replaces

    def rule(node: Node) -> Node | None:
        if node.op is TAKE_ALONG and node.sources[1] in checked and _reads_row(node):
            return _as_one_hot(node)
        if node.op is ADD_ALONG and node.sources[2] in checked and _adds_one_a_row(node):
            rows = _laid(node)
            laid[rows] = node
            return rows
        if node.op is SUM and (added := laid.get(node.sources[0])) and node.attrs["axes"] == (added.attrs["axis"],):
            return reshape(added.sources[1], node.shape)
        return None

    return rule


def _is_one_a_row(index: Node, row: Node, axis: int) -> bool:
    shape = (*row.shape[:axis], 1, *row.shape[axis + 1 :])
    return index.shape == shape and index.dtype in (int32, int64) and row.dtype in FLOATING and row.shape[axis] > 0


def _reads_row(node: Node) -> bool:
    x, index = node.sources
    axis = node.attrs["axis"]
    return _is_one_a_row(index, x, axis) and _comes_from_reduction(x, x.shape, (axis,))


def _adds_one_a_row(node: Node) -> bool:
    zeros, values, index = node.sources
    while made_by(zeros, BROADCAST) or made_by(zeros, RESHAPE):
        zeros = zeros.sources[0]
    is_zero = made_by(zeros, LITERAL) and zeros.attrs["value"] == 0
    return is_zero and values.shape == index.shape and _is_one_a_row(index, node, node.attrs["axis"])


def _hits(row: Node, index: Node, axis: int) -> Node:
    """The comparison of positions along a row with an index; in 32 bits, which is faster than 64 and always enough."""
    n = row.shape[axis]
    places = reshape(iota(n, int32), tuple(n if i == axis else 1 for i in range(row.ndim)))
    return e.equal(places, cast(index, int32))


def _as_one_hot(node: Node) -> Node:
    x, index = node.sources
    axis = node.attrs["axis"]
    hit = _hits(x, CHECKED_INDEX(index, size=x.shape[axis]), axis)
    return SUM(e.where(hit, x, literal(0, x.dtype, x.device)), axes=(axis,), keepdims=True)


def _laid(node: Node) -> Node:
    _, values, index = node.sources
    axis = node.attrs["axis"]
    size = literal(node.shape[axis], index.dtype, index.device)
    front = e.where(e.less(index, literal(0, index.dtype, index.device)), e.add(index, size), index)
    return e.where(_hits(node, front, axis), values, literal(0, node.dtype, node.device))


def _comes_from_reduction(x: Node, shape: Shape, axes: tuple[int, ...]) -> bool:
    """Whether a value is an elementwise function of a reduction of a value of this shape over these axes."""
    agenda = [x]
    for _ in range(_STEPS):
        for node in agenda:
            reduces = node.sources and node.attrs.get("axes") == axes and node.sources[0].shape == shape
            if reduces and made_by(node, node.op):
                return True
        agenda = [source for node in dict.fromkeys(agenda) if _is_pointwise(node.op) for source in node.sources]
    return False


def _is_pointwise(op: Op) -> bool:
    return op.kind == "elementwise" or op in (RESHAPE, BROADCAST)
