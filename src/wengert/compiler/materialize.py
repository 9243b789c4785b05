"""Which values are stored, and which are computed where they are read.

In: an optimised graph. Out: its *roots*, the values that a kernel writes to memory or makes on the way: outputs,
reductions, what opaque ops (matmul, convolution, ...) read, and what is too expensive to compute once for every reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping

from wengert.compiler.storage import storage
from wengert.core.devices import is_host
from wengert.core.dtypes import HALF
from wengert.core.graph import Graph, Node
from wengert.ops.core import AGAIN, CAST
from wengert.ops.elementwise import multiply
from wengert.ops.movement import RESHAPE
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import reduces_in_loops

RECOMPUTE_UP_TO = 12  # the cost (an addition is 1) up to which a value read by several kernels is computed in each
DIVISIONS = 8  # the cost from which what is computed of a column's total is stored beside it
LARGE = 1 << 18  # elements from which it counts what a value is read from


def times(source: Node, node: Node) -> float:
    """How often a source is computed for each element of a node: once a row if it is one number a row, else once."""
    is_a_number_a_row = source.shape[-1:] in ((), (1,)) and node.shape[-1:] not in ((), (1,))
    return source.size / node.size if is_a_number_a_row and node.size else 1.0


def stored_values(graph: Graph, inlined: Container[Node], operands: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The values that get a group: those that memory must hold, reductions, and what is too expensive to repeat."""
    uses: dict[Node, int] = {}
    roots: set[Node] = set()
    for node in graph.nodes:
        for source in node.sources:
            uses[source] = uses.get(source, 0) + 1
        if node not in inlined and node.op is not AGAIN:
            roots.add(node)
        if node.op is RANDOM_BITS or (node not in inlined and not reduces_in_loops(node)):
            roots.update(storage(source) for source in operands(node))
    roots.update(storage(node) for node in graph.outputs)
    effort: dict[Node, float] = {}
    leaves: dict[Node, tuple[Node, ...]] = {}
    for node in graph.nodes:
        if node in roots or node.op is AGAIN:
            continue
        factors = [factor for factor in _factors(node) if effort.get(factor, 0) > 1]
        for few in (*factors, *_statistics(node, effort)):
            roots.add(storage(_narrowest(few)))
            effort[few] = 0
        effort[node] = node.op.cost + sum(effort.get(s, 0) * times(s, node) for s in node.sources)
        if not is_host(node.device):
            leaves[node] = _large_leaves(node, leaves)
        if uses.get(node, 0) < 2 or node.op.kind == "movement":
            continue
        if effort[node] > RECOMPUTE_UP_TO or reads_too_much(node, leaves.get(node, ()), uses[node]):
            roots.add(_narrowest(node))
            effort[node] = 0
            leaves.pop(node, None)
    return roots & set(graph.nodes)


def _factors(node: Node) -> list[Node]:
    """What every row of a large matrix of weights is multiplied by, on a GPU: it is computed once, not for each row."""
    if node.op is not multiply or is_host(node.device) or node.size < LARGE:
        return []
    first, second = node.sources
    pairs = ((first, second), (second, first))
    return [few for few, many in pairs if _is_few(few, many) and _is_given(many)]


def _statistics(node: Node, effort: Mapping[Node, float]) -> list[Node]:
    """What a large value on a GPU reads of its columns' totals, divisions among it: these finish it once."""
    if is_host(node.device) or node.size < LARGE:
        return []
    expensive = [source for source in node.sources if effort.get(source, 0) * times(source, node) > DIVISIONS]
    return [source for source in expensive if _is_few(source, node) and _is_of_totals(source)]


def _is_of_totals(node: Node) -> bool:
    """Whether a value is computed from reductions and numbers alone."""
    while len(given := [source for source in node.sources if source.sources]) == 1:
        if given[0].op.kind == "reduction":
            return True
        node = given[0]
    return False


def _is_few(node: Node, many: Node) -> bool:
    return 64 <= node.size <= many.size // 64


def _is_given(node: Node) -> bool:
    """Whether a value is an input, but for its dtype and shape."""
    while node.op is CAST or node.op is RESHAPE:
        node = node.sources[0]
    return not node.sources


def _narrowest(node: Node) -> Node:
    """What a value is a wider copy of: that takes less memory, and widening costs nothing."""
    while node.op is CAST and node.sources[0].dtype.itemsize < node.dtype.itemsize and node.sources[0].sources:
        node = node.sources[0]
    return node


def _large_leaves(node: Node, leaves: Mapping[Node, tuple[Node, ...]]) -> tuple[Node, ...]:
    """What is stored, about as large as a value, and read to compute it; the first few are enough to tell."""
    large = [source for source in node.sources if source.size * 4 > node.size]
    return tuple(dict.fromkeys(leaf for source in large for leaf in leaves.get(source, (source,))))[:8]


def reads_too_much(node: Node, leaves: Collection[Node], uses: int) -> bool:
    """Whether computing a large value wherever it is used reads more from a GPU's memory than storing it would move.

    Where that is the same it is stored if halves take part: the two passes of a normalization, and a stream to which
    products are added, which is shorter to read than all that was added.
    """
    if node.size < LARGE or len(leaves) < 2:
        return False
    together = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    again, stored = together * (uses - 1), node.size * node.dtype.itemsize * uses
    return again > stored or (again == stored and any(x.dtype in HALF for x in (node, *leaves)))
