"""Collectives in a plan: one step starts a collective and another waits for it, with other steps in between.

On the CPU a thread runs the collectives, and both steps are calls. On a GPU the first step enqueues the engine's call,
and independent kernels run concurrently; the second step does nothing on the device and only keeps the memory reserved
for the collective until then. On every rank both are in the order of the plan, which follows from the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from wengert.compiler.memory import storage
from wengert.compiler.rewrite import spend
from wengert.core.graph import Node
from wengert.ops.op import PICK
from wengert.plan.groups import FusionGroup
from wengert.plan.plan import LibraryCall, LibraryCandidate, Plan, Start, Step, Wait


def collective_step(call: LibraryCandidate, node: Node, reads: Sequence[Node], picked: Mapping[int, Node]) -> Step:
    """The step of a collective by a device's engine, from the nodes that pick its results; others go to temporaries."""
    several = isinstance(node.dtype, tuple)
    results = picked if several else {0: node}
    kinds = list(zip(node.shape, node.dtype)) if several else [(node.shape, node.dtype)]
    sources = {f"source{i}": storage(source) for i, source in enumerate(node.sources)}
    found = {f"result{i}": results[i] for i in results}
    aside = {f"result{i}": prod(s) * d.itemsize for i, (s, d) in enumerate(kinds) if i not in results}
    operands = (*sources, *(f"result{i}" for i in range(len(kinds))))
    return Step(
        (LibraryCall(call, operands),), reads, [results[i] for i in sorted(results)], {**sources, **found}, aside
    )


def collective_of(step: Step) -> Node | None:
    """The collective that a step runs, if any."""
    node = step.host_op
    if node is None and step.library is not None and step.flight is None:
        node = step.first_result
        node = node.sources[0] if node is not None and node.op is PICK else node
    return node if node is not None and node.op.collective else None


def starts_collective(step: Step) -> bool:
    """Whether a step enqueues a collective on a device's stream."""
    return step.library is not None and (isinstance(step.flight, Start) or collective_of(step) is not None)


class PlannedCalls:
    """An engine for planning collectives for an absent GPU: its calls appear in the plan and are never made."""

    def call(self, node: Node) -> LibraryCandidate | None:
        """The call that would run a collective."""
        return _PlannedCall(node.op.name)


@dataclass
class _PlannedCall:
    name: str
    works = True
    workspace = 0

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Does nothing: there is no stream."""
        raise AssertionError(f"{self.name} was planned for a GPU that is not here")


# --- started early, waited for late -----------------------------------------------------------------------------------


Placed = tuple[Step, FusionGroup]


@dataclass
class _Flight:
    """A collective in flight, and the steps that unpack its results."""

    wait: Placed
    picks: list[Placed] = field(default_factory=list)

    @property
    def results(self) -> set[Node]:
        return {node for step, _ in (self.wait, *self.picks) for node in step.writes}


def hoisted(plan: Plan) -> Plan:
    """The plan with collectives started early and waited for late."""
    if not any(collective_of(step) is not None for step in plan.steps):
        return plan
    order = _Hoisted(plan)
    for placed in zip(plan.steps, plan.grouping.groups):
        order.add(placed)
    order.land_all()
    return replace(
        plan,
        steps=tuple(step for step, _ in order.placed),
        step_groups=tuple(group for _, group in order.placed),
    )


class _Hoisted:
    """The steps in their new order."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.placed: list[Placed] = []
        self.flights: list[_Flight] = []
        self.started = 0  # the position after the last start: collectives keep their order

    def add(self, placed: Placed) -> None:
        """Place a step: a collective becomes two steps, and readers of its result follow the wait."""
        step, group = placed
        picked = step.host_op
        if picked is not None and picked.op is PICK:
            for flight in self.flights:
                if picked.sources[0] in flight.results:
                    flight.picks.append(placed)
                    return
        self._land_for(step)
        node, number = collective_of(step), len(self.flights) + len(self.placed)
        if node is not None and spend(node, lambda: f"{node.op.name} goes on meanwhile"):
            token = f"{node.op.name} {node.attrs.get('number', number)}"
            call = () if step.library is None else step.parts
            start = replace(step, parts=(Start(token, node), *call))
            at = max(self.started, self._behind_operands(step))
            at = at if self.plan.donated.keys().isdisjoint(step.writes) else len(self.placed)
            self.placed.insert(at, (start, group))
            self.started = at + 1
            wait = replace(step, parts=(Wait(token, node),), workspace={})
            self.flights.append(_Flight((wait, group)))
        else:
            self.placed.append(placed)

    def _behind_operands(self, step: Step) -> int:
        """The position after the last step that writes an operand of this step."""
        reads = set(step.reads)
        for place in range(len(self.placed), 0, -1):
            if not reads.isdisjoint(self.placed[place - 1][0].writes):
                return place
        return 0

    def _land_for(self, step: Step) -> None:
        """Wait for collectives whose results a step reads, and for all readers of an input that it overwrites."""
        reads = {*step.reads, *map(storage, step.reads)}
        overwrites = not self.plan.donated.keys().isdisjoint(step.writes)
        for flight in list(self.flights):
            if not reads.isdisjoint(flight.results) or (overwrites and self._reads_inputs(flight)):
                self._land(flight)

    def _reads_inputs(self, flight: _Flight) -> bool:
        return any(node in self.plan.buffers.slots for node in flight.wait[0].reads)

    def _land(self, flight: _Flight) -> None:
        self.flights.remove(flight)
        self.placed += [flight.wait, *flight.picks]

    def land_all(self) -> None:
        """Wait for all collectives still in flight."""
        for flight in list(self.flights):
            self._land(flight)
