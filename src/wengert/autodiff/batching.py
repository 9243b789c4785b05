"""Batching: the walk that turns a graph for one lane into one for all lanes, by each op's rule for a leading axis.

In: outputs recorded for one lane, and for each of its inputs the value over all lanes (lanes are axis 0). Out: the
outputs over all lanes, or None where an output is the same in each.
"""

from __future__ import annotations

from collections.abc import Sequence

from wengert.core.errors import GradientError
from wengert.core.graph import Node, dependents, recorded_as, recording


def batch(outputs: Sequence[Node], lanes: dict[Node, Node]) -> list[Node | None]:
    """The outputs over all lanes."""
    over = dict(lanes)
    with recorded_as(recording.location, recording.grad) as inside:
        for node in dependents(outputs, lanes):
            recording.location, inside.grad = node.location, node.tracked
            over[node] = batch_node(node, over)
    return [over.get(node) for node in outputs]


def batch_node(node: Node, over: dict[Node, Node]) -> Node:
    """One node over all lanes, given its sources over all lanes."""
    rule = node.op.batch
    if rule is None:
        raise GradientError(f"vmap: {node.op.name} has no batching rule", node.location)
    batched = [source in over for source in node.sources]
    return rule(node, [over.get(source, source) for source in node.sources], batched)
