"""A backend of a page: it carries out a plan on bytes, an op at a time by its reference.

It has what comes later, in small: a step may hold a plan that is run several times (a loop), and a step may start
something that another waits for (a collective). Memory is real: what the plan lays over something else is overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.compiler.memory import storage
from wengert.core.devices import Target
from wengert.core.graph import Graph, Node
from wengert.kernels.launch import H200
from wengert.plan.groups import Grouping
from wengert.plan.pipeline import planned
from wengert.plan.plan import Body, HostOp, Plan, Start, Step, Wait

TOY = Target("toy", H200)  # kernels would be launched: temporaries have places, steps wait for each other


class ToyCodegen:
    """Every op is a step of its own, computed by its reference."""

    overwriting = False

    def __init__(self, target: Target = TOY) -> None:
        self.target = target

    def inlines(self, node: Node) -> bool:
        return False

    def expands(self, node: Node) -> bool:
        return False

    def reads(self, node: Node) -> Sequence[Node]:
        return node.sources

    def absorbs(self, node: Node) -> bool:
        return False

    def epilogues(self, graph: Graph) -> dict[Node, Any]:
        return {}

    def fallible(self, grouping: Grouping) -> list[int]:
        return []

    def tune(self, plan: Plan) -> None:
        return None

    def steps(self, plan: Plan) -> list[Step]:
        found = []
        for group in plan.grouping.groups:
            (node,) = group.roots
            reads = [storage(source) for source in node.sources if source.sources or source in plan.buffers.slots]
            found.append(Step((HostOp(node),), reads, [node]))
        return found


def plan_of(graph: Graph) -> Plan:
    """The plan of a graph for this machine."""
    return planned(graph, TOY, ToyCodegen, off={"host_outputs"})  # its values are on the host, and yet not hosted


class Machine:
    """Carries out a plan: call it with arrays for the inputs."""

    def __init__(self, plan: Plan, memory: np.ndarray | None = None) -> None:
        self.plan = plan
        self.memory = np.full(plan.arena.size, 0xFF, np.uint8) if memory is None else memory
        self.in_flight: dict[str, list[np.ndarray]] = {}

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        buffers = self.plan.buffers
        shapes = [node for node in buffers.made]
        self.table = [np.array(array) for array in arrays]
        self.table += [np.asarray(node.buffer) for node in buffers.constants]
        self.table += [np.empty(node.shape, node.dtype) for node in shapes]
        for number, step in enumerate(self.plan.steps):
            self._run(number, step)
        return [self.view(node).copy() for node in self.plan.graph.outputs]

    def view(self, node: Node) -> np.ndarray:
        """A value where it lies."""
        owner = storage(node)
        if owner in self.plan.buffers.slots:
            return self.table[self.plan.buffers.slots[owner]].reshape(node.shape)
        if owner not in self.plan.arena.offsets:
            return np.asarray(node.attrs["value"], node.dtype)
        start = self.plan.arena.offsets[owner]
        return self.memory[start : start + owner.size * owner.dtype.itemsize].view(owner.dtype).reshape(node.shape)

    def _run(self, number: int, step: Step) -> None:
        for part in step.parts:
            if isinstance(part, HostOp):
                self.view(part.node)[...] = part.node.op.run([self.view(s) for s in part.node.sources], part.node)
            elif isinstance(part, Body):
                self._loop(number, step, part)
            elif isinstance(part, Start):  # what was sent is read now; whoever looks at the result sees nothing yet
                self.in_flight[part.token] = [self.view(node).copy() for node in step.reads]
                for node in step.writes:
                    self.view(node)[...] = np.nan
            elif isinstance(part, Wait):
                for node, array in zip(step.writes, self.in_flight.pop(part.token)):
                    self.view(node)[...] = 2 * array  # the sum over two processes that have the same

    def _loop(self, number: int, step: Step, body: Body) -> None:
        start = self.plan.arena.offsets[number, "body"]
        inner = Machine(body.plan, self.memory[start : start + body.plan.arena.size])
        values = [self.view(node).copy() for node in step.reads]
        for _ in range(body.trips):
            results = inner(values)
            for i, k in body.carries:
                values[i] = results[k]
        for node, (i, _) in zip(step.writes, body.carries):
            self.view(node)[...] = values[i]
