"""Ranks as lanes: the graph of one rank turned into one for all ranks of a mesh, by the batching rules of collectives.

In: outputs recorded for a rank, and for its inputs the values over all ranks, stacked along a first axis. Out: the
outputs over all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from wengert.autodiff.batching import batch_node
from wengert.core.graph import Node, ancestors, recorded_as, recording
from wengert.core.mesh import Mesh
from wengert.ops.collective import RANK
from wengert.ops.movement import broadcast_to


def over_ranks(outputs: Sequence[Node], lanes: dict[Node, Node], mesh: Mesh, since: int = 0) -> list[Node]:
    """The outputs over all ranks of a mesh, given the nodes that are over them already."""
    over = dict(lanes)
    before, recording.ranks = recording.ranks, mesh
    try:
        with recorded_as(recording.location, recording.grad) as inside:
            for node in ancestors(outputs, since, frozenset(lanes)):
                if node in over:
                    continue
                recording.location, inside.grad = node.location, node.tracked
                if _is_over(node, mesh):
                    for source in node.sources:
                        over.setdefault(source, _everywhere(source, mesh))
                elif over.keys().isdisjoint(node.sources):
                    continue
                over[node] = batch_node(node, over)
    finally:
        recording.ranks = before
    return [over[node] if node in over else _everywhere(node, mesh) for node in outputs]


def _is_over(node: Node, mesh: Mesh) -> bool:
    group = node.attrs.get("group")
    return group is not None and group.mesh == mesh and (node.op is RANK or bool(node.sources))


def _everywhere(node: Node, mesh: Mesh) -> Node:
    return broadcast_to(node, (mesh.size, *node.shape))
