"""Pipeline: a graph over stages, with a transfer wherever a value crosses from one stage to another.

`pipeline_split` runs before `partition`: every value that is read on a stage other than its home goes through
`transfer`. The result is still the graph of all stages, the same on every rank. `pieces` decides what each rank
computes of it, and when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wengert.compiler.rewrite import spend, with_sources
from wengert.compiler.stages import Interface, homes
from wengert.core.graph import Graph, Node, recorded_as
from wengert.core.mesh import Group
from wengert.ops.transfer import SETTLED, TRANSFER

STAGE_AXIS = "stage"
"""The axis of a mesh along which the layers of a model are cut."""


@dataclass(frozen=True)
class Pipeline:
    """How a graph with transfers is spread over ranks: the stage of each input, and the ranks that hold each output."""

    group: Group
    stages: int
    inputs: tuple[int | None, ...]
    """The rank of the group that an input belongs to; None: each rank has it."""
    outputs: tuple[Mapping[int, int], ...]
    """For each output as recorded, by rank of the group: the number of the output that is its value there."""

    def held_by(self, rank: int) -> list[int]:
        """The recorded outputs that a rank of the group holds."""
        return [k for k, ranks in enumerate(self.outputs) if rank in ranks]

    def home(self, k: int) -> int | None:
        """The rank that holds an output, if there is only one."""
        return next(iter(self.outputs[k])) if len(self.outputs[k]) == 1 else None


def pipeline_split(graph: Graph, group: Group, interface: Interface, exact: bool = False) -> tuple[Graph, Pipeline]:
    """The graph with transfers between the stages of a group; if `exact`, with the same bits as on one rank."""
    ranks = group.size
    found = homes(graph, ranks, interface)
    walk = _Crossings(group, found.of, exact)
    nodes = [walk.visit(node) for node in graph.nodes]
    outputs = [walk.now(node) for node in graph.outputs]
    holders: list[dict[int, int]] = []
    for k, node in enumerate(graph.outputs):
        home = found.of.get(node)
        if k in interface.pairs:
            home = found.of.get(graph.inputs[interface.pairs[k]], home)
            outputs[k] = walk.at(node, home)
        if home is None:
            holders.append(dict.fromkeys(range(ranks), k))
            continue
        holders.append({home % ranks: k})
        for rank in range(ranks) if k in interface.returned else ():
            if rank != home % ranks:
                holders[k][rank] = len(outputs)
                outputs.append(walk.at(node, rank))
    inputs = tuple(None if (home := found.of.get(node)) is None else home % ranks for node in graph.inputs)
    split = Graph(graph.inputs, outputs, nodes=sorted([*nodes, *walk.extra], key=lambda node: node.serial))
    return split, Pipeline(group, found.stages, inputs, tuple(holders))


class _Crossings:
    """The nodes of a graph, with transfers.

    A sum over micro-batches is transferred once, after the addition. With `exact` its parts are transferred instead:
    the gradients of a parameter that two stages use must then be added part by part.
    """

    def __init__(self, group: Group, home: Mapping[Node, int], exact: bool) -> None:
        self.group, self.home, self.exact = group, home, exact
        self.replacing: dict[Node, Node] = {}
        self.made: dict[tuple[Node, int], Node] = {}
        self.extra: list[Node] = []

    def now(self, node: Node) -> Node:
        return self.replacing.get(node, node)

    def visit(self, node: Node) -> Node:
        """Record a node over values of its own stage. Every node is recorded anew, to keep serial numbers in order."""
        stage = self.home.get(node)
        sources = tuple([self.at(source, stage, node) for source in node.sources])
        self.replacing[node] = with_sources(node, sources)
        return self.replacing[node]

    def at(self, node: Node, stage: int | None, reader: Node | None = None) -> Node:
        """A value on a given stage: itself, or its transfer."""
        home, ranks = self.home.get(node), self.group.size
        if home is None or stage is None or home % ranks == stage % ranks:
            return self.now(node)
        key = (node, stage)
        if key not in self.made:
            spend(node, lambda: f"{node.op.name} goes from stage {home} to stage {stage}")
            value = self.now(node)
            with recorded_as(node.location, node.tracked):
                if reader is None or not self.exact:
                    value = SETTLED(value)
                    self.extra.append(value)
                self.made[key] = TRANSFER(value, source=home, target=stage, group=self.group)
            self.extra.append(self.made[key])
        return self.made[key]
