"""Wishes: sums over the ranks that later nodes will want in blocks, found before `partition` reaches those nodes."""

from __future__ import annotations

from collections.abc import Mapping

from wengert.compiler.states import State, Stored
from wengert.core.graph import Graph, Node


def wishes(graph: Graph, states: Mapping[Node, Mapping[State, Node]]) -> dict[Node, Stored]:
    """Values that will meet stored values element by element: if they are sums over the ranks, blocks suffice.

    The gradients in ZeRO's updates are such values, even if something else (a norm, say) reads them first.
    """
    stored = {node: state for node, held in states.items() for state in held if isinstance(state, Stored)}
    for node in graph.nodes:  # forwards: elementwise functions of stored values have the same state
        if node.op.kind == "elementwise" and node not in stored:
            alike = {stored[s] for s in node.sources if s in stored and s.shape == node.shape}
            if len(alike) == 1:
                stored[node] = alike.pop()
    found: dict[Node, Stored] = {}
    for node in reversed(graph.nodes):
        wish = found.get(node) or stored.get(node)
        if wish is not None and node.op.kind == "elementwise":
            for source in node.sources:
                if source not in stored and source.shape == node.shape:
                    found.setdefault(source, wish)
    return found
