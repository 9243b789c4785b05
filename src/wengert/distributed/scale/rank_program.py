"""The program of a rank of a world that is not there: recorded, partitioned and planned as it would be on its ranks.

In: a compiled function and arguments for a call, inside of a `pretended` world. Out: a `RankProgram`: the plan with its
collectives, what it takes of memory, and what each step works and moves. On this machine its steps can be timed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.compiler.distribute import Distribution, distribute, distribution, localize
from wengert.core.dtypes import HALF
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node
from wengert.core.mesh import Mesh
from wengert.distributed.scale.machines import Cluster
from wengert.plan.plan import Plan, Start, Step, Wait
from wengert.runtime.config import config
from wengert.runtime.debug.explain import flops, moved_by, size_of
from wengert.runtime.debug.profile import step_seconds
from wengert.runtime.memory.elsewhere import plan_elsewhere
from wengert.runtime.memory.fits import foreseen
from wengert.runtime.memory.machines import machine
from wengert.runtime.memory.predict import ProgramMemory, predicted
from wengert.runtime.partitioned import placements
from wengert.runtime.program import plan_of, program_of

REPEATS = 7  # of which the fastest counts


@dataclass
class RankProgram:
    """What rank 0 of a mesh runs: its plan, and the memory it takes. `batch` is the whole one's length."""

    mesh: Mesh
    plan: Plan
    memory: ProgramMemory
    batch: int
    microbatches: int | None = None

    def seconds(self, cluster: Cluster) -> list[float]:
        """The time of each step: by what the machine does at its peak, or timed here where that is not known."""
        if not cluster.float32:
            return timed(self.plan)
        properties = machine(cluster.gpu).properties if cluster.gpu else None  # type: ignore[union-attr]
        bandwidth = properties.bandwidth if properties is not None else float("inf")
        groups = self.plan.groups_of_steps
        works = [sum(map(flops, group.roots)) / _peak(group.roots[0], cluster) for group in groups]
        return [
            0.0 if step.does_nothing or flight_of(step) is not None else max(work, moved_by(step) / bandwidth)
            for step, work in zip(self.plan.steps, works)
        ]


def _peak(node: Node, cluster: Cluster) -> float:
    """FLOP/s in the dtype that an op works in."""
    operand = node.sources[0] if node.sources and not isinstance(node.sources[0].dtype, tuple) else node
    if operand.dtype in HALF:
        return cluster.half
    return cluster.tf32 if config.tf32 else cluster.float32


def flight_of(step: Step) -> Node | None:
    """The collective that a step carries out, starts or waits for."""
    part = next((part for part in step.parts if isinstance(part, (Start, Wait))), None)
    node = step.host_op if part is None else part.node
    return node if node is not None and node.op.collective else None


def rank_program(compiled: Any, args: tuple[Any, ...], ranks: int, cluster: Cluster) -> RankProgram:
    """The program of rank 0 of so many, for a call with these arguments. A step without a mesh is spread along data."""
    with foreseen(compiled, None, args, {}, "scale") as found:
        captured, binding = found.captured, found.binding
        spread = compiled._spread() or distribution(Mesh(data=ranks), None)
        if spread is not None and spread.mesh.size != ranks:
            raise ArgumentError(f"scale: the step is compiled for {spread.mesh}, and not for {ranks} ranks")
        sources = binding._sources(take_leaves(args))
        arrays = [source.buffer if type(source) is Node else source for source in sources]
        graph = captured.graph if spread is None else _local(captured.graph, spread, arrays, binding)
        plan = _planned(graph, binding.pairs, cluster)
        memory = predicted(plan, graph, len(captured.arguments))
        mesh = Mesh(data=1) if spread is None else spread.mesh
        batch = next((node.shape[0] for node in captured.graph.inputs[: binding.count] if node.shape), 1)
        return RankProgram(mesh, plan, memory, batch, None if spread is None else spread.parts)


def take_leaves(args: tuple[Any, ...]) -> list[Any]:
    """The leaves of a call's arguments, as calls are taken apart."""
    from wengert.core import tree

    return list(tree.flatten((args, {}))[0])


def _local(graph: Graph, spread: Distribution, arrays: list[Any], binding: Any) -> Graph:
    inputs = placements(graph, spread, arrays, binding.count)
    return localize(distribute(graph, spread, inputs, {k: i for i, k in binding.pairs}).graph, 0)


def _planned(graph: Graph, pairs: Any, cluster: Cluster) -> Plan:
    if cluster.gpu is None:
        return plan_of(graph, pairs)
    known = machine(cluster.gpu)
    assert known is not None
    return plan_elsewhere(graph, pairs, known.name, known.properties, overlaps=cluster.overlaps)


def timed(plan: Plan) -> list[float]:
    """The least seconds of each step on this machine, over made-up values; collectives count nothing."""
    program: Any = program_of(plan)
    rng = np.random.default_rng(0)
    arrays = [_made_up(node, rng) for node in plan.graph.inputs]
    found = step_seconds(program, lambda: program(arrays), REPEATS)
    return [0.0 if flight_of(step) is not None else seconds for step, seconds in zip(plan.steps, found)]


def _made_up(node: Node, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Small numbers where there are fractions, and zeros, which any index may be."""
    if node.dtype.kind not in "fV":
        return np.zeros(node.shape, node.dtype)
    return (rng.random(node.shape, np.float32) * 0.1 + 0.01).astype(node.dtype)


# --- collectives in the schedule ------------------------------------------------------------------------------------


def put_in(node: Node) -> int:
    """The bytes that a rank puts into a collective."""
    return sum(size_of(source) for source in node.sources)


def started_early(plan: Plan) -> tuple[int, int]:
    """The bytes of collectives that start before the last kernel that one of them waits for, and those of all.

    In a training step that kernel is the last of the backward pass.
    """
    starts: dict[Node, int] = {}
    for number, step in enumerate(plan.steps):
        node = flight_of(step)
        if node is not None:
            starts.setdefault(node, number)
    needed = {source for node in starts for source in _stored(node.sources)}
    writers = [k for k, step in enumerate(plan.steps) if flight_of(step) is None and not needed.isdisjoint(step.writes)]
    last = max(writers, default=-1)
    early = sum(put_in(node) for node, number in starts.items() if number < last)
    return early, sum(map(put_in, starts))


def bucket_copies(plan: Plan) -> int:
    """The steps that only take a collective's results apart, or put its operands together."""
    collectives = {node for step in plan.steps if (node := flight_of(step)) is not None}
    picked = [step for step in plan.steps if step.parts and flight_of(step) is None and _picks(step, collectives)]
    return len(picked)


def _picks(step: Step, collectives: set[Node]) -> bool:
    return any(node.op.kind == "tuple" and node.sources[0] in collectives for node in step.writes)


def _stored(nodes: Any) -> set[Node]:
    from wengert.compiler.memory import storage

    return {storage(node) for node in nodes}
