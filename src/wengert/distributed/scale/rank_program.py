"""The programs of ranks in a simulated world: recorded, partitioned and planned as they would be in a real one.

In: a compiled function and arguments for a call, inside a `pretended` world. Out: a `RankProgram` for each stage of a
pipeline, or a single one without a pipeline: its plans with their collectives, its messages to other stages, its
memory. Steps are timed on this machine, or estimated from the peak rates of another.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from wengert.compiler.distribute import Distribution, distribute, distribution, localize, pieces_of
from wengert.compiler.memory import storage
from wengert.compiler.pieces import Compute, Pieces, Receive, Send
from wengert.core import tree
from wengert.core.canonical import canonical
from wengert.core.cores import available_cores
from wengert.core.dtypes import HALF
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node
from wengert.core.mesh import Mesh
from wengert.distributed.scale.beside import beside
from wengert.distributed.scale.machines import Cluster
from wengert.plan.collectives import collective_of
from wengert.plan.plan import Plan, Step
from wengert.runtime.config import config
from wengert.runtime.debug.explain import flops, moved_by, size_of
from wengert.runtime.debug.profile import step_seconds
from wengert.runtime.memory.elsewhere import plan_elsewhere
from wengert.runtime.memory.fits import foreseen
from wengert.runtime.memory.machines import machine
from wengert.runtime.memory.predict import predicted
from wengert.runtime.partitioned import placements
from wengert.runtime.program import plan_of, program_of

REPEATS = 7  # of which the fastest counts


class RunPlan(NamedTuple):
    """Run a plan."""

    plan: Plan


class Message(NamedTuple):
    """Send bytes to another stage, or receive them from it."""

    bytes: int
    stage: int
    sends: bool


@dataclass
class RankProgram:
    """The actions of a rank of a mesh in order, and its memory in bytes. `batch` is the length of the whole batch."""

    rank: int
    mesh: Mesh
    parts: list[RunPlan | Message]
    memory: int
    batch: int

    @property
    def plans(self) -> list[Plan]:
        """All distinct plans that it runs."""
        return list({id(part.plan): part.plan for part in self.parts if isinstance(part, RunPlan)}.values())


# --- planning -------------------------------------------------------------------------------------------------------


def rank_programs(compiled: Any, args: tuple[Any, ...], ranks: int, cluster: Cluster) -> list[RankProgram]:
    """The program of one rank of each stage in a call with these arguments. A step without a mesh is data parallel."""
    with foreseen(compiled, None, args, {}, "scale") as found:
        captured, binding = found.captured, found.binding
        spread = compiled._spread() or distribution(Mesh(data=ranks), None)
        if spread is not None and spread.mesh.size != ranks:
            raise ArgumentError(f"scale: the step is compiled for {spread.mesh}, not for {ranks} ranks")
        batch = next((node.shape[0] for node in captured.graph.inputs[: binding.count] if node.shape), 1)
        planner = _Planner(cluster)
        if spread is None:
            return [planner.whole(captured.graph, binding, Mesh(data=1), batch)]
        return list(planner.spread(captured.graph, binding, spread, args, batch))


@dataclass
class _Planner:
    """Plans graphs for a machine, equal ones once."""

    cluster: Cluster
    known: dict[Hashable, Plan] = field(default_factory=dict)

    def whole(self, graph: Graph, binding: Any, mesh: Mesh, batch: int) -> RankProgram:
        """A rank that runs one graph."""
        plan = self._plan(graph, binding.pairs)
        memory = predicted(plan, graph, len(binding.captured.arguments)).peak
        return RankProgram(0, mesh, [RunPlan(plan)], memory, batch)

    def spread(
        self, graph: Graph, binding: Any, spread: Distribution, args: tuple[Any, ...], batch: int
    ) -> Iterator[RankProgram]:
        """A rank of each stage, the first of those that have it."""
        sources = binding._sources(tree.flatten((args, {}))[0])
        arrays = [source.buffer if type(source) is Node else source for source in sources]
        inputs = placements(graph, spread, arrays, binding.count)
        found = distribute(graph, spread, inputs, {k: i for i, k in binding.pairs}, binding.interface())
        if found.pipeline is None:
            yield self.whole(localize(found.graph, 0), binding, spread.mesh, batch)
            return
        for rank in found.pipeline.group.members(0):
            yield self._stage(pieces_of(found, rank, binding.pairs), rank, spread.mesh, batch)

    def _stage(self, own: Pieces, rank: int, mesh: Mesh, batch: int) -> RankProgram:
        parts: list[RunPlan | Message] = []
        sizes: dict[int, int] = {}  # of what is kept in slots
        for step in own.steps:
            if isinstance(step, Compute):
                plan = self._plan(step.graph, step.pairs)
                sizes |= dict(zip(step.takes, map(size_of, step.graph.inputs)))
                sizes |= dict(zip(step.gives, map(size_of, step.graph.outputs)))
                parts.append(RunPlan(plan))
            elif isinstance(step, Receive):
                sizes[step.slot] = int(np.prod(step.shape)) * np.dtype(step.dtype).itemsize
                parts.append(Message(sizes[step.slot], step.source, sends=False))
            elif isinstance(step, Send):
                parts.append(Message(sizes.get(step.slot, 0), step.target, sends=True))
        return RankProgram(rank, mesh, parts, self._held(own, sizes), batch)

    def _held(self, own: Pieces, sizes: Mapping[int, int]) -> int:
        """A rank's peak bytes: in slots, and in the memory of the running piece."""
        held, most = set(own.inputs.values()), 0
        for step, ends in zip(own.steps, own.ends):
            arena = 0
            if isinstance(step, Compute):
                held |= set(step.gives)
                arena = self._plan(step.graph, step.pairs).arena.size
            elif isinstance(step, Receive):
                held.add(step.slot)
            most = max(most, arena + sum(sizes.get(slot, 0) for slot in held))
            held -= set(ends)
        return most

    def _plan(self, graph: Graph, pairs: Sequence[tuple[int, int]]) -> Plan:
        key = canonical(graph), tuple(pairs)
        if key not in self.known:
            self.known[key] = self._planned(graph, pairs)
        return self.known[key]

    def _planned(self, graph: Graph, pairs: Sequence[tuple[int, int]]) -> Plan:
        if self.cluster.gpu is None:
            return plan_of(graph, pairs)
        known = machine(self.cluster.gpu)
        assert known is not None
        return plan_elsewhere(graph, pairs, known.name, known.properties, overlaps=self.cluster.overlaps)


# --- times of steps -------------------------------------------------------------------------------------------------


def seconds_of(plan: Plan, cluster: Cluster) -> list[float]:
    """The time of each step: from the machine's peak rates, or timed here if they are not known."""
    if not cluster.float32:
        return timed(plan, cluster.cores)
    known = machine(cluster.gpu) if cluster.gpu else None
    bandwidth = known.properties.bandwidth if known is not None else float("inf")
    works = [sum(map(flops, group.roots)) / _peak(group.roots[0], cluster) for group in plan.groups_of_steps]
    return [
        0.0 if step.does_nothing or flight_of(step) is not None else max(work, moved_by(step) / bandwidth)
        for step, work in zip(plan.steps, works)
    ]


def _peak(node: Node, cluster: Cluster) -> float:
    """FLOP/s in the dtype that an op works in."""
    operand = node.sources[0] if node.sources and not isinstance(node.sources[0].dtype, tuple) else node
    if operand.dtype in HALF:
        return cluster.half
    return cluster.tf32 if config.tf32 else cluster.float32


def timed(plan: Plan, cores: float = 0.0) -> list[float]:
    """The least time in seconds of each step on this machine, on synthetic values; collectives count as zero.

    For a rank with this many cores (0 for all). The other ranks share the memory: if a rank has one core, the program
    also runs on the other cores at the same time. With less than one core, ranks take turns.
    """
    program: Any = program_of(plan)
    rng = np.random.default_rng(0)
    arrays = [_made_up(node, rng) for node in plan.graph.inputs]
    others = available_cores() - 1 if 0 < cores <= 1 else 0
    with beside(others, lambda: program(arrays)):
        found = step_seconds(program, lambda: program(arrays), REPEATS)
    turns = 1 / cores if 0 < cores < 1 else 1.0
    return [0.0 if flight_of(step) is not None else turns * own for step, own in zip(plan.steps, found)]


def _made_up(node: Node, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Small random fractions, or zeros for integers, which are valid as any index."""
    if node.dtype.kind not in "fV":
        return np.zeros(node.shape, node.dtype)
    return (rng.random(node.shape, np.float32) * 0.1 + 0.01).astype(node.dtype)


# --- collectives in the schedule ------------------------------------------------------------------------------------


def flight_of(step: Step) -> Node | None:
    """The collective that a step runs, starts or waits for."""
    return collective_of(step) if step.flight is None else step.flight.node


def put_in(node: Node) -> int:
    """The bytes that a rank contributes to a collective."""
    return sum(size_of(source) for source in node.sources)


def started_early(plan: Plan) -> tuple[int, int]:
    """The bytes of collectives that start before the last kernel that any of them waits for, and the bytes of all.

    In a training step that kernel is the last of the backward pass.
    """
    starts: dict[Node, int] = {}
    for number, step in enumerate(plan.steps):
        node = flight_of(step)
        if node is not None:
            starts.setdefault(node, number)
    needed = {storage(source) for node in starts for source in node.sources}
    writers = [k for k, step in enumerate(plan.steps) if flight_of(step) is None and not needed.isdisjoint(step.writes)]
    last = max(writers, default=-1)
    early = sum(put_in(node) for node, number in starts.items() if number < last)
    return early, sum(map(put_in, starts))


def bucket_copies(plan: Plan) -> int:
    """The number of steps that only unpack the results of a collective."""
    collectives = {node for step in plan.steps if (node := flight_of(step)) is not None}
    return sum(flight_of(step) is None and _picks(step, collectives) for step in plan.steps if step.parts)


def _picks(step: Step, collectives: set[Node]) -> bool:
    return any(node.op.kind == "tuple" and node.sources[0] in collectives for node in step.writes)
