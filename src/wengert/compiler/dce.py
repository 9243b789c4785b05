"""Dead code: what no output needs is not computed.

In: a graph. Out: the graph with only the nodes that lead to its outputs, and of ops that carry a body (`cond`, `scan`,
`checkpoint`) only the results somebody picks: what a body computed for the others goes as well.

A random draw that nobody uses may go: its counter moves on by an op of its own, which the counter's slot needs.
"""

from __future__ import annotations

from typing import Any

from wengert.autodiff.checkpoint import CHECKPOINT
from wengert.autodiff.cond import COND
from wengert.autodiff.scan import SCAN
from wengert.compiler.fuel import spend
from wengert.compiler.rewrite import over, with_attrs
from wengert.compiler.target import HOST, Target
from wengert.core.graph import Graph, Node
from wengert.ops.op import PICK

_CARRIES_BODY = frozenset((CHECKPOINT, COND, SCAN))


def dce(graph: Graph, target: Target = HOST) -> Graph:
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
