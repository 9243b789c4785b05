"""Common subexpressions: what is computed twice is computed once.

In: a graph. Out: the graph with equal nodes made one, in a single dictionary pass. Two nodes are equal when they have
the same op, sources and type, and attributes that are equal with their types: 1, 1.0 and True are three values, -1 and
-2 two (though their hashes are one), 0.0 and -0.0 two. Constant arrays are compared by their bytes. Reductions that
differ in nothing but whether they keep the reduced axes are one, reshaped.

What is computed again on purpose (by `checkpoint`, `remat`) is computed from `again(x)`, which is another node than x.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from wengert.compiler.rewrite import rewrite, with_sources
from wengert.compiler.target import HOST_TARGET, Target
from wengert.core.canonical import frozen_attributes
from wengert.core.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.core import DATA
from wengert.ops.movement import reshape

COMMUTATIVE = frozenset(
    (
        e.add,
        e.multiply,
        e.equal,
        e.not_equal,
        e.logical_and,
        e.logical_or,
        e.logical_xor,
        e.bitwise_and,
        e.bitwise_or,
        e.bitwise_xor,
    )
)
"""Whose operands may change places without changing a bit. Not `maximum`: of 0.0 and -0.0 it takes one."""

BYTES_LIMIT = 1 << 20
"""Bytes up to which two constant arrays are compared."""


def _in_order(sources: tuple[Node, ...]) -> tuple[Node, ...]:
    a, b = sources
    return sources if a.serial <= b.serial else (b, a)


class _Seen:
    """The nodes seen so far, by what they compute."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: dict[Hashable, Node] = {}
        self.constants = _equal_constants(graph)

    def rule(self, node: Node) -> Node | None:
        """An equal node seen before. The first of its kind stays, over the first of equal constants."""
        sources = node.sources
        if self.constants and not self.constants.keys().isdisjoint(sources):
            return with_sources(node, tuple([self.constants.get(source, source) for source in sources]))
        if node.op in COMMUTATIVE:
            sources = _in_order(sources)
        if "keepdims" in node.attrs:
            return self._reduction(node)
        key = (node.op, sources, node.shape, node.dtype, frozen_attributes(node.attrs) if node.attrs else None)
        found = self.nodes.setdefault(key, node)
        return None if found is node or found.device != node.device else found

    def _reduction(self, node: Node) -> Node | None:
        """An equal reduction seen before, in this one's shape: whether it keeps its axes is all they may differ in."""
        attrs = {key: value for key, value in node.attrs.items() if key != "keepdims"}
        found = self.nodes.setdefault((node.op, node.sources, node.dtype, frozen_attributes(attrs)), node)
        if found is node or found.device != node.device:
            return None
        return found if found.shape == node.shape else reshape(found, node.shape)


def _equal_constants(graph: Graph) -> dict[Node, Node]:
    """Constant arrays that hold the same as an earlier one, to that one."""
    first: dict[Hashable, Node] = {}
    equal: dict[Node, Node] = {}
    inputs = frozenset(graph.inputs)
    for node in graph.captured():
        array = node.buffer
        if node.op is not DATA or node in inputs or not isinstance(array, np.ndarray) or array.nbytes > BYTES_LIMIT:
            continue
        found = first.setdefault((node.dtype, node.shape, node.device, array.tobytes()), node)
        if found is not node:
            equal[node] = found
    return equal


def cse(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with each value computed once.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> y = e.exp(x) + e.exp(x)
    >>> [node.op.name for node in cse(Graph([x], [y])).nodes]
    ['exp', 'add']
    """
    return rewrite(graph, _Seen(graph).rule)
