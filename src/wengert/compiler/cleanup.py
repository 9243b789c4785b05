"""Cleanup: bodies of checkpoints inlined, common subexpressions computed once, dead code dropped.

`inline`: the bodies of checkpoints take their place, to be optimised and fused like all else. The backward pass has the
body a second time already, over `recompute_barrier(x)` in place of each of its inputs x, so the two stay two.

`cse`: equal nodes are made one, in a single dictionary pass. Two nodes are equal when they have the same op, sources
and type, and attributes that are equal with their types: 1, 1.0 and True are three values, -1 and -2 two (though their
hashes are one), 0.0 and -0.0 two. Constant arrays are compared by their bytes. Reductions that differ in nothing but
whether they keep the reduced axes are one, reshaped. What is computed again on purpose (by `checkpoint`, `remat`) is
computed from `recompute_barrier(x)`, which is another node than x.

`dce`: only the nodes stay that lead to outputs, and of ops that carry a body (`cond`, `scan`, `checkpoint`) only the
results somebody picks: what a body computed for the others goes as well. A random draw that nobody uses may go: its
counter moves on by an op of its own, which the counter's slot needs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from wengert.autodiff.checkpoint import CHECKPOINT
from wengert.autodiff.cond import COND
from wengert.autodiff.scan import SCAN
from wengert.autodiff.while_gradient import WHILE_GRADIENT
from wengert.compiler.rewrite import made_by, over, rewrite, spend, with_attrs, with_sources
from wengert.core.canonical import frozen_attributes
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.core import DATA
from wengert.ops.movement import reshape
from wengert.ops.op import PICK


def inline(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph without checkpoints, and with the loops that walk a `while_loop` back.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> y = wg.checkpoint(lambda x: wg.sin(wg.sin(x)))(wg.Tensor(x)).node
    >>> [node.op.name for node in inline(Graph([x], [y])).nodes]
    ['checkpoint', 'sin', 'sin']
    """
    results: dict[Node, list[Node]] = {}

    def rule(node: Node) -> Node | None:
        if node.op is not PICK or not any(made_by(node.sources[0], op) for op in _INLINED):
            return None
        whole = node.sources[0]
        if whole not in results:
            results[whole] = _results(whole)
        return results[whole][node.attrs["index"]]

    return rewrite(graph, rule)


_INLINED = (CHECKPOINT, WHILE_GRADIENT)


def _results(whole: Node) -> list[Node]:
    """What a body gives, recorded over what its op reads."""
    found: list[Node] = whole.attrs["body"].inline(*whole.sources)
    return found


# --- cse ------------------------------------------------------------------------------------------------------------


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


# --- dce ------------------------------------------------------------------------------------------------------------


_CARRIES_BODY = frozenset((CHECKPOINT, COND, SCAN))


def dce(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph without what its outputs do not need.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> y, unused = x + 1.0, x * 2.0
    >>> whole = Graph([x], [y, unused])
    >>> [node.op.name for node in dce(Graph([x], [y], nodes=whole.nodes)).nodes]
    ['literal', 'add']
    """
    graph = live(graph)
    if any(node.op in _CARRIES_BODY for node in graph.nodes):
        return live(_narrowed(graph))
    return graph


def live(graph: Graph) -> Graph:
    """The graph with only the nodes that lead to its outputs."""
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if node in needed:
            kept.append(node)
            needed.update(node.sources)
    if len(kept) == len(graph.nodes):
        return graph
    kept.reverse()
    return Graph(graph.inputs, graph.outputs, nodes=kept)


# --- results nobody picks -------------------------------------------------------------------------------------------


def _picked(graph: Graph) -> dict[Node, set[int]]:
    """For each op that carries a body, which of its results are picked; left out where it is needed as a whole."""
    picked: dict[Node, set[int]] = {node: set() for node in graph.nodes if node.op in _CARRIES_BODY}
    for node in graph.nodes:
        for source in node.sources:
            if source in picked:
                if node.op is PICK:
                    picked[source].add(node.attrs["index"])
                else:
                    del picked[source]
    for node in graph.outputs:
        picked.pop(node, None)
    return picked


def _narrowed(graph: Graph) -> Graph:
    """The graph with those ops giving only the results that are picked."""
    picked = _picked(graph)
    replacing: dict[Node, Node] = {}
    kept: dict[Node, list[int]] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        current = over(node, replacing)
        if node in picked:
            indices = _results_to_keep(node, picked[node])
            if len(indices) < len(node.shape) and _narrows(node, indices):
                current = _with_results(current, indices)
                kept[node] = indices
        elif node.op is PICK and node.sources[0] in kept:
            index = kept[node.sources[0]].index(node.attrs["index"])
            current = with_attrs(current, {"index": index})
        if current is not node:
            replacing[node] = current
        nodes.append(current)
    return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes)


def _narrows(node: Node, indices: list[int]) -> bool:
    return spend(node, lambda: f"{node.op.name} keeps {len(indices)} of its {len(node.shape)} results")


def _results_to_keep(node: Node, picked: set[int]) -> list[int]:
    """A scan needs its carries from step to step, whether anybody picks their last values or not."""
    carries = node.attrs["carries"] if node.op is SCAN else 0
    return [i for i in range(len(node.shape)) if i < carries or i in picked]


def _with_results(node: Node, indices: list[int]) -> Node:
    attrs = {key: _body_with(value, indices) for key, value in node.attrs.items()}
    if node.op is SCAN:
        results = len(node.shape) - node.attrs["saved"]
        attrs["saved"] = sum(i >= results for i in indices)
    shape, dtype = tuple(node.shape[i] for i in indices), tuple(node.dtype[i] for i in indices)
    return Node(node.op, node.sources, attrs, shape, dtype, node.device, node.tracked, node.location)


def _body_with(value: Any, indices: list[int]) -> Any:
    if isinstance(value, Graph):
        return dce(Graph(value.inputs, [value.outputs[i] for i in indices], nodes=value.nodes))
    if isinstance(value, tuple) and value and isinstance(value[0], Graph):
        return tuple(_body_with(graph, indices) for graph in value)
    return value
