"""Pieces: what one rank of a pipeline does, step by step.

In: the graph of all stages, after `partition` and `parts`, and a schedule. Out: the steps of a rank. A compute step has
a graph: the rank's work at one tick, for example the forward pass of one micro-batch. Between compute steps the rank
sends and receives. Values that a later step reads are kept in *slots*.

Each piece is a separate program, because the schedule fixes the order. In a single program the planner would compute
the micro-batches side by side, which is best without a pipeline, but keeps all of them live before the first is sent.
The forward passes of all micro-batches have the same graph, which is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from wengert.compiler.pipeline import Pipeline
from wengert.compiler.rewrite import with_sources
from wengert.compiler.schedules import Schedule
from wengert.compiler.ticks import needed_by, ticks
from wengert.core.graph import Graph, Node, Shape
from wengert.ops.core import placeholder
from wengert.ops.movement import SLICE
from wengert.ops.transfer import MICROBATCH, SETTLED, TRANSFER


class Compute(NamedTuple):
    """Run a graph from slots to slots; `pairs` are inputs and the outputs that may reuse their memory."""

    graph: Graph
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]


class TakePart(NamedTuple):
    """Take a micro-batch's part of an input, as a view."""

    whole: int
    slices: tuple[slice, ...]
    slot: int


class Send(NamedTuple):
    """Send a value to another rank of the pipeline."""

    slot: int
    target: int


class Receive(NamedTuple):
    """Receive a value from another rank of the pipeline."""

    source: int
    shape: Shape
    dtype: Any
    device: str
    slot: int


Step = Compute | TakePart | Send | Receive


class Pieces(NamedTuple):
    """The work of a rank: its steps, its inputs and outputs by slot, and the slots freed after each step."""

    steps: tuple[Step, ...]
    inputs: dict[int, int]
    outputs: dict[int, int]
    constants: dict[int, Any]  # constant arrays that are outputs, by slot
    ends: tuple[tuple[int, ...], ...]

    @property
    def runs(self) -> list[Compute]:
        """The graphs that it computes."""
        return [step for step in self.steps if isinstance(step, Compute)]


def pieces(
    graph: Graph, pipeline: Pipeline, schedule: Schedule, rank: int, pairs: Sequence[tuple[int, int]] = ()
) -> Pieces:
    """The steps of one rank of the pipeline; `pairs` are inputs and the outputs that replace them, by number."""
    needed = needed_by(graph, pipeline)
    when = ticks(graph, schedule, needed)
    own = sorted((node for node in graph.nodes if node in needed[rank]), key=when.__getitem__)
    outputs = {k: graph.outputs[pipeline.outputs[k][rank]] for k in pipeline.held_by(rank)}
    walk = _Steps(graph, own, outputs, pairs, pipeline.group.size, rank)
    return walk.found([list(nodes) for _, nodes in groupby(walk.fixed, key=when.__getitem__)])


class _Steps:
    """The steps of a rank, built from its nodes in execution order."""

    def __init__(
        self,
        graph: Graph,
        own: Sequence[Node],
        outputs: dict[int, Node],
        pairs: Sequence[tuple[int, int]],
        ranks: int,
        rank: int,
    ) -> None:
        self.outputs, self.ranks, self.rank = outputs, ranks, rank
        self.inside = set(own)
        self.inputs = {node: i for i, node in reversed(list(enumerate(graph.inputs)))}
        kept = {node.sources[0] for node in own if node.op is TRANSFER and self._sends(node)}
        self.movable = _movable(own, self.inputs) - kept - set(outputs.values())
        self.fixed = [node for node in own if node not in self.movable]
        self.cut = {node.sources[0].sources[0] for node in self.fixed if self._is_cut(node)}
        replaced = [(graph.inputs[i], outputs[k]) for i, k in pairs if k in outputs]
        self.replaced = {y: x for x, y in replaced if x not in self.cut}
        self.slots: dict[Node, int] = {}

    def found(self, groups: Sequence[Sequence[Node]]) -> Pieces:
        """The steps for these groups of nodes; each group runs at one tick."""
        reads = [self._read(nodes) for nodes in groups]
        after: list[set[Node]] = [set() for _ in groups]  # values that later groups read
        for number in reversed(range(len(groups) - 1)):
            after[number] = after[number + 1] | reads[number + 1]
        steps: list[Step] = []
        for nodes, read, later in zip(groups, reads, after):
            steps += self._cuts(read)
            steps += self._transfers(nodes)
            made = [node for node in nodes if node.op is not TRANSFER and not self._is_cut(node)]
            if made:
                steps.append(self._run(made, read, later))
        outputs = {k: self._slot(node) for k, node in self.outputs.items()}
        taken = {i: self.slots[node] for node, i in self.inputs.items() if node in self.slots}
        known = self.inside.union(self.inputs)
        constants = {self.slots[node]: node.buffer for node in self.outputs.values() if node not in known}
        return Pieces(tuple(steps), taken, outputs, constants, _ends(steps, outputs.values()))

    # --- what a group of nodes makes and reads ------------------------------------------------------------------

    def _sends(self, node: Node) -> bool:
        """Whether this rank is the source of a transfer."""
        return bool(node.attrs["source"] % self.ranks == self.rank)

    def _read(self, nodes: Sequence[Node]) -> set[Node]:
        """What a group reads from outside: inputs, parts of them, and values of other groups."""
        reading = [n for n in nodes if (self._sends(n) if n.op is TRANSFER else not self._is_cut(n))]
        found = {x for node in reading for source in node.sources for x in self._origins(source)}
        return found - set(nodes) | {x for x in found if self._is_cut(x)}

    def _origins(self, node: Node) -> list[Node]:
        """The values below movement ops; the value itself if it is not a movement."""
        if node not in self.movable:
            return [node] if node in self.inside or node in self.inputs else []
        return [x for source in node.sources for x in self._origins(source)]

    def _is_cut(self, node: Node) -> bool:
        """Whether a value is a micro-batch's part of an input."""
        if node.op is not MICROBATCH or node.sources[0].op is not SLICE:
            return False
        return node.sources[0].sources[0] in self.inputs

    # --- steps --------------------------------------------------------------------------------------------------

    def _slot(self, node: Node) -> int:
        return self.slots.setdefault(node, len(self.slots))

    def _cuts(self, read: set[Node]) -> list[Step]:
        steps: list[Step] = []
        for node in sorted(read, key=lambda node: node.serial):
            if self._is_cut(node) and node not in self.slots:
                (part,) = node.sources
                starts, sizes, by = (part.attrs[name] for name in ("starts", "sizes", "steps"))
                slices = tuple(slice(a, a + n * s, s) for a, n, s in zip(starts, sizes, by))
                steps.append(TakePart(self._slot(part.sources[0]), slices, self._slot(node)))
        return steps

    def _transfers(self, nodes: Sequence[Node]) -> list[Step]:
        steps: list[Step] = []
        for node in nodes:
            if node.op is not TRANSFER:
                continue
            if self._sends(node):
                steps.append(Send(self._slot(node.sources[0]), node.attrs["target"] % self.ranks))
            else:
                source = node.attrs["source"] % self.ranks
                steps.append(Receive(source, node.shape, node.dtype, node.device, self._slot(node)))
        return steps

    def _run(self, made: Sequence[Node], read: set[Node], later: set[Node]) -> Compute:
        takes = sorted(read, key=lambda node: node.serial)
        walk = _Emission(self.movable, takes)
        for node in made:
            walk.visit(node)
        results = set(self.outputs.values())
        gives = [node for node in made if node in later or node in results]
        graph = Graph([walk.now(node) for node in takes], [walk.now(node) for node in gives], nodes=walk.nodes)
        over = [(self.replaced.get(node), place) for place, node in enumerate(gives)]
        pairs = [(takes.index(x), place) for x, place in over if x in read and x not in later]
        return Compute(graph, tuple(map(self._slot, takes)), tuple(map(self._slot, gives)), tuple(pairs))


def _movable(own: Sequence[Node], inputs: dict[Node, int]) -> set[Node]:
    """Nodes that every piece recomputes instead of keeping in a slot: constants, and movement of elements."""
    found: set[Node] = set()
    constant: set[Node] = set()
    for node in own:
        is_constant = all(s in constant or (s not in inputs and s.buffer is not None) for s in node.sources)
        if is_constant and node.op.kind in ("source", "movement", "identity", "elementwise"):
            constant.add(node)
            found.add(node)
        elif node.op.kind in ("movement", "identity") and node.op is not MICROBATCH:
            found.add(node)
    return found


class _Emission:
    """The nodes of one piece, over placeholders for its operands."""

    def __init__(self, movable: set[Node], takes: Sequence[Node]) -> None:
        self.movable = movable
        self.replacing = {node: placeholder(node.shape, node.dtype, node.device, node.tracked) for node in takes}
        self.nodes: list[Node] = []

    def now(self, node: Node) -> Node:
        """A value in this piece; constant arrays stand for themselves."""
        if node not in self.replacing and node in self.movable:
            self.visit(node)
        return self.replacing.get(node, node)

    def visit(self, node: Node) -> None:
        """Record a node of this piece."""
        sources = tuple([self.now(source) for source in node.sources])
        if node.op in (MICROBATCH, SETTLED):
            (self.replacing[node],) = sources
            return
        self.replacing[node] = with_sources(node, sources)
        self.nodes.append(self.replacing[node])


def _ends(steps: Sequence[Step], outputs: Any) -> tuple[tuple[int, ...], ...]:
    """For each step, the slots that no later step reads."""
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        for slot in _touched(step):
            last[slot] = number
    kept = set(outputs)
    ends: list[list[int]] = [[] for _ in steps]
    for slot, number in last.items():
        if slot not in kept:
            ends[number].append(slot)
    return tuple(map(tuple, ends))


_SLOTS: dict[type, Callable[[Any], tuple[int, ...]]] = {
    Compute: lambda step: (*step.takes, *step.gives),
    TakePart: lambda step: (step.whole, step.slot),
    Send: lambda step: (step.slot,),
    Receive: lambda step: (step.slot,),
}


def _touched(step: Step) -> tuple[int, ...]:
    return _SLOTS[type(step)](step)
