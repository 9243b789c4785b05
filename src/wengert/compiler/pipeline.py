"""Pipeline: a graph over stages, with a transfer wherever a value crosses them; and the graph of one stage's ranks.

`pipeline_split`, before `partition`: every value that is read on another stage than its home goes through `transfer`.
Its result still is the graph of all stages, the same on every rank.

`stage_graph`, after `partition` and `parts`: of that graph a rank keeps what its stage needs, and its halves of the
transfers. The order comes from a schedule: played in ticks it says when each piece begins, a node gets the tick of its
piece, or of the last thing it reads, and transfers lie between two ticks. All ranks sort the whole graph so. Their
programs are parts of one order that keeps every dependency, and transfers are in it: ranks cannot wait for each other
in a circle, even where a value needs all micro-batches (as BatchNorm does), which the schedule knows nothing of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wengert.compiler.rewrite import spend, with_sources
from wengert.compiler.schedules import BACKWARD, FORWARD, Piece, Schedule, timeline
from wengert.compiler.stages import Interface, homes
from wengert.core.code import Backward
from wengert.core.graph import Graph, Node, recorded_as, recording
from wengert.core.mesh import Group
from wengert.ops.transfer import MICROBATCH, SETTLED, TRANSFER, first_token, received, sent

STAGE_AXIS = "stage"
"""The axis of a mesh along which the layers of a model are cut."""


@dataclass(frozen=True)
class Pipeline:
    """How a graph with transfers is spread over ranks: where its inputs belong, and which ranks have which outputs."""

    group: Group
    stages: int
    inputs: tuple[int | None, ...]
    """The rank of the group that an input belongs to; None: each rank has it."""
    outputs: tuple[Mapping[int, int], ...]
    """For each output as recorded, by rank of the group: the number of the output that is its value there."""

    def home(self, k: int) -> int | None:
        """The only rank of the group that has an output, if it is one."""
        return next(iter(self.outputs[k])) if len(self.outputs[k]) == 1 else None


def pipeline_split(graph: Graph, group: Group, interface: Interface) -> tuple[Graph, Pipeline]:
    """The graph with transfers between stages, which are on the ranks of a group."""
    ranks = group.size
    found = homes(graph, ranks, interface)
    walk = _Crossings(group, found.of, interface.exact)
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
    """The nodes of a graph over transfers.

    A value that is a sum over micro-batches is transferred once it is added up. Only what has to be exact is transferred
    in parts: the gradients of a parameter of two stages are added part by part on one rank, and have those bits.
    """

    def __init__(self, group: Group, home: Mapping[Node, int], exact: bool) -> None:
        self.group, self.home, self.exact = group, home, exact
        self.replacing: dict[Node, Node] = {}
        self.made: dict[tuple[Node, int], Node] = {}
        self.extra: list[Node] = []

    def now(self, node: Node) -> Node:
        return self.replacing.get(node, node)

    def visit(self, node: Node) -> Node:
        """Record a node over what its stage has; all of them anew, so that serial numbers stay in order."""
        stage = self.home.get(node)
        sources = tuple([self.at(source, stage, node) for source in node.sources])
        self.replacing[node] = with_sources(node, sources)
        return self.replacing[node]

    def at(self, node: Node, stage: int | None, reader: Node | None = None) -> Node:
        """A value on a stage: itself, or transferred."""
        home, ranks = self.home.get(node), self.group.size
        if home is None or stage is None or home % ranks == stage % ranks:
            return self.now(node)
        key = (node, stage)
        if key not in self.made:
            spend(node, lambda: f"{node.op.name} goes from stage {home} to stage {stage}")
            value = self.now(node)
            with recorded_as((reader or node).location, node.tracked):
                if reader is None or not self.exact:
                    value = SETTLED(value)
                    self.extra.append(value)
                self.made[key] = TRANSFER(value, source=home, target=stage, group=self.group)
            self.extra.append(self.made[key])
        return self.made[key]


# --- one stage ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StageGraph:
    """The graph of one rank of the pipeline, and which inputs and outputs of the whole are its own, in their order."""

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def stage_graph(graph: Graph, pipeline: Pipeline, schedule: Schedule, rank: int) -> StageGraph:
    """What one rank of the pipeline computes of a graph with transfers, in the order of a schedule.

    Its last output is the token of its last transfer.
    """
    needed = _needed(graph, pipeline)
    ticks = _ticks(graph, schedule, needed)
    index = {node: i for i, node in enumerate(graph.nodes)}
    own = sorted((node for node in graph.nodes if node in needed[rank]), key=lambda node: (ticks[node], index[node]))
    outputs = [held[rank] for held in pipeline.outputs if rank in held]
    walk = _Emission(pipeline, rank)
    with recorded_as(recording.location, recording.grad) as inside:
        for node in own:
            recording.location, inside.grad = node.location, node.tracked
            walk.visit(node)
    whole = Graph(graph.inputs, [*(walk.now(graph.outputs[k]) for k in outputs), walk.token])
    read = {source for node in whole.nodes for source in node.sources}.union(whole.outputs)
    inputs = [i for i, node in enumerate(graph.inputs) if node in read]
    placed = [graph.inputs[i] for i in inputs]
    return StageGraph(Graph(placed, whole.outputs, nodes=whole.nodes), tuple(inputs), tuple(outputs))


def _needed(graph: Graph, pipeline: Pipeline) -> list[set[Node]]:
    """For each rank of the pipeline the nodes it needs for its outputs, and for what others need of it."""
    ranks, own = pipeline.group.size, set(graph.nodes)
    needed: list[set[Node]] = [set() for _ in range(ranks)]
    agenda = [(rank, graph.outputs[k]) for held in pipeline.outputs for rank, k in held.items()]
    while agenda:
        rank, node = agenda.pop()
        if node not in own or node in needed[rank]:
            continue
        needed[rank].add(node)
        if node.op is TRANSFER and rank != node.attrs["source"] % ranks:
            source = node.attrs["source"] % ranks
            needed[source].add(node)
            agenda += [(source, x) for x in node.sources]
        else:
            agenda += [(rank, x) for x in node.sources]
    return needed


class _Where:
    """What is known of a node: its stage, its micro-batch, its tick."""

    __slots__ = ("microbatch", "stage", "tick")

    def __init__(self, tick: int, stage: int | None, microbatch: int | None) -> None:
        self.tick, self.stage, self.microbatch = tick, stage, microbatch


def _ticks(graph: Graph, schedule: Schedule, needed: Sequence[set[Node]]) -> dict[Node, int]:
    """When each node runs: nodes at even ticks, transfers at odd ones, none before what it reads."""
    begins = timeline(schedule).begins
    known: dict[Node, _Where] = {}
    for node in graph.nodes:
        sources = [known[source] for source in node.sources if source in known]
        tick = max((source.tick for source in sources), default=0)
        microbatch = node.attrs["index"] if node.op is MICROBATCH else _most(s.microbatch for s in sources)
        if node.op is TRANSFER:
            known[node] = _Where(tick + 1, node.attrs["target"], microbatch)
            continue
        phase = BACKWARD if isinstance(node.location, Backward) else FORWARD
        stages = [s.stage for s in sources if s.stage is not None]
        stage = _only_rank(node, needed) if not stages else max(stages) if phase == FORWARD else min(stages)
        if stage is not None and (microbatch is not None or schedule.microbatches == 1):
            begin = begins.get(Piece(phase, stage, microbatch or 0), 0)
            tick = max(tick, 2 * begin)
        known[node] = _Where(tick + tick % 2, stage, microbatch)
    return {node: where.tick for node, where in known.items()}


def _most(numbers: Iterable[int | None]) -> int | None:
    return max((n for n in numbers if n is not None), default=None)


def _only_rank(node: Node, needed: Sequence[set[Node]]) -> int | None:
    """The rank that alone needs a node; what several need, each computes as soon as it can."""
    found = [rank for rank, nodes in enumerate(needed) if node in nodes]
    return found[0] if len(found) == 1 else None


class _Emission:
    """The nodes of a rank, with its halves of the transfers."""

    def __init__(self, pipeline: Pipeline, rank: int) -> None:
        self.group, self.rank = pipeline.group, rank
        self.replacing: dict[Node, Node] = {}
        self.token = first_token()

    def now(self, node: Node) -> Node:
        return self.replacing.get(node, node)

    def visit(self, node: Node) -> None:
        if node.op in (MICROBATCH, SETTLED):
            self.replacing[node] = self.now(node.sources[0])
        elif node.op is TRANSFER:
            self._transfer(node, node.attrs["source"], node.attrs["target"])
        else:
            self.replacing[node] = with_sources(node, tuple([self.now(source) for source in node.sources]))

    def _transfer(self, node: Node, source: int, target: int) -> None:
        if source % self.group.size == self.rank:
            self.token = sent(self.now(node.sources[0]), self.token, target, self.group)
        else:
            self.replacing[node], self.token = received(node, self.token, source, self.group)
