"""The program of one rank of a function that is compiled for a mesh, and its collectives as plain data for the page.

In: a compiled function with a mesh, and a recording of it. Out: the rank's graph, made by `distribute`, and its
program. No other rank is needed: a rank's graph follows from the recording and the placement of values. So a page can
show the program of a mesh of any size, in any process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wengert.compiler.collectives import collectives
from wengert.compiler.distribute import Distributed, distribute, localize
from wengert.compiler.schedules import timeline
from wengert.core.communication import current
from wengert.core.graph import Graph, Node, describe_type
from wengert.core.mesh import Mesh
from wengert.inspect.calls import Observed
from wengert.inspect.lines import line_of
from wengert.ops.core import LITERAL
from wengert.ops.transfer import TRANSFER
from wengert.runtime.debug.explain import bytes_text, size_of
from wengert.runtime.partitioned import PartitionedProgram, placements
from wengert.runtime.program import build
from wengert.runtime.static.compile import Compiled
from wengert.runtime.static.specialization import Specialization


class ShownRank(NamedTuple):
    """What a rank of a mesh runs: the graph with its collectives, and the program."""

    rank: int
    mesh: Mesh
    distributed: Distributed
    program: PartitionedProgram | None
    """None over stages: a rank has a program for each of its pieces, and the graph is that of all stages."""


def rank_program(compiled: Compiled, specialization: Specialization, leaves: Sequence[Any]) -> ShownRank | None:
    """The program of a rank, this process's if it is one of the mesh, else the first; None without a mesh."""
    spread = compiled._spread()
    if spread is None:
        return None
    rank = current.rank if current.size == spread.mesh.size else 0
    graph, binding = specialization.graph, specialization.binding
    binding.takes_blocks = True
    inputs = placements(graph, spread, binding.arrays(leaves), binding.count)
    found = distribute(graph, spread, inputs, {k: i for i, k in binding.pairs}, binding.interface())
    if found.pipeline is not None:
        return ShownRank(rank, spread.mesh, found, None)
    program = build(localize(found.graph, rank), binding.pairs, before=found.reports)
    return ShownRank(rank, spread.mesh, found, PartitionedProgram(program, found, binding.pairs))


# --- collectives ------------------------------------------------------------------------------------------------------


class CollectiveRow(NamedTuple):
    """A collective of a rank's graph: what it does, with whom, how many bytes this rank gives to it, and whose line
    asked for it.
    """

    node: Node
    axes: str
    ranks: tuple[int, ...]
    bytes: int
    line: str
    source: str


def collective_rows(graph: Graph, rank: int) -> list[CollectiveRow]:
    """The collectives of a graph, in the order in which every rank carries them out."""
    return [_row(node, rank) for node in collectives(graph)]


def _row(node: Node, rank: int) -> CollectiveRow:
    group = node.attrs["group"]
    ranks = group.members(rank)
    if node.op is TRANSFER:  # from one to another
        ranks = tuple([ranks[node.attrs[end] % group.size] for end in ("source", "target")])
    where = line_of(node.location)
    given = sum(map(size_of, node.sources))
    return CollectiveRow(node, ", ".join(group.axes), ranks, given, where.get("line", ""), where.get("source", ""))


def as_data(
    ranked: ShownRank, observed: Observed, names: Mapping[int, str], accumulated: Mapping[int, str]
) -> dict[str, Any]:
    """The rank's graph for the page; `names` are those of inputs and `accumulated` those of gradients, by number."""
    graph = ranked.distributed.graph
    nodes = [node for node in [*graph.inputs, *graph.captured(), *graph.nodes] if node.op is not LITERAL]
    nodes = list(dict.fromkeys(nodes))
    numbers = {node: i for i, node in enumerate(nodes)}
    modules = {node: call.path if call else () for node, call in observed.calls_in(nodes, after_pass=True).items()}
    given = {node: names[k] for k, node in enumerate(graph.inputs) if k in names}
    told = {row.node: _told(row) for row in collective_rows(graph, ranked.rank)}
    grads = {graph.outputs[k]: name for k, name in accumulated.items()}
    return {
        "mesh": repr(ranked.mesh),
        "rank": ranked.rank,
        "size": ranked.mesh.size,
        "nodes": [_description(node, numbers, modules[node], given) | _role(node, told, grads) for node in nodes],
        "collectives": [numbers[node] for node in told],
        "bytes": bytes_text(sum(row["bytes"] for row in told.values())),
        "schedule": "" if ranked.distributed.schedule is None else str(timeline(ranked.distributed.schedule)),
        "gathered": [f"{one.node.op.name}: {one.why}" for one in ranked.distributed.gathered],
    }


def _told(row: CollectiveRow) -> dict[str, Any]:
    return {"group": row.axes, "ranks": list(row.ranks), "bytes": row.bytes, "size": bytes_text(row.bytes)}


def _description(
    node: Node,
    numbers: Mapping[Node, int],
    module: Sequence[str],
    given: Mapping[Node, str],
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": numbers[node],
        "op": given.get(node, node.op.name),
        "type": describe_type(node),
        "sources": list(dict.fromkeys(numbers[source] for source in node.sources if source in numbers)),
    }
    entry |= line_of(node.location)
    return entry | ({"module": list(module)} if module else {})


def _role(node: Node, told: Mapping[Node, dict[str, Any]], grads: Mapping[Node, str]) -> dict[str, Any]:
    """What a node is besides an op: a collective, or what becomes the gradient of a tensor."""
    found: dict[str, Any] = {"collective": told[node]} if node in told else {}
    return found | ({"accumulates": grads[node]} if node in grads else {})
