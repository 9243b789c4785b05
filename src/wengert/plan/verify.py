"""Verify: a plan computes what its graph says, as far as that can be checked without running it.

In: a plan after some of its stages. Out: the plan, or a CompilerError that names the stage, the step and the user's
line. The checks: every value has one group, and groups come after what they read; values that other groups read are
stored; every step reads values that are available, by tracking the contents of each memory location from step to step;
nothing that may fail follows an overwritten input; steps that touch the same memory wait for each other; the steps of a
region do not conflict; launches name buffers that they have; outputs are in place at the end.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from wengert.compiler.memory import storage
from wengert.core.errors import CompilerError
from wengert.core.graph import Node, describe_type
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP
from wengert.plan.memory import MemoryRange, touched
from wengert.plan.plan import HostOp, LibraryCall, Plan, Start, Step, Wait


def verify(plan: Plan, name: str) -> Plan:
    """Returns the plan if it is valid. `name` is the stage that made it."""
    _verify_outputs(plan, name)
    _verify_groups(plan, name)
    _verify_names(plan, name)
    _verify_failures(plan, name)
    _Memory(plan, name).follow()
    if plan.regions:
        _verify_regions(plan, name)
    if plan.waits:
        _verify_waits(plan, name)
    return plan


def _fail(stage: str, node: Node | None, problem: str) -> NoReturn:
    if node is None:
        raise CompilerError(f"after {stage}: {problem}")
    raise CompilerError(f"after {stage}: {node.op.name} {describe_type(node)} {problem}", node.location)


def _verify_outputs(plan: Plan, stage: str) -> None:
    """Check that the device and the host together compute all outputs."""
    if plan.target.launches and plan.host.numbers and len(plan.host.numbers) != len(plan.graph.outputs):
        _fail(stage, None, f"{len(plan.graph.outputs)} outputs are planned, and not {len(plan.host.numbers)}")


# --- groups ---------------------------------------------------------------------------------------------------------


def _verify_groups(plan: Plan, stage: str) -> None:
    """Check that every root has one group, and that groups read inputs or what earlier groups store."""
    groups = plan.grouping.groups
    if not groups:
        return
    known = {storage(node) for node in (*plan.graph.inputs, *plan.graph.captured())}
    home: set[Node] = set()
    for group in groups:
        own = set(group.roots)
        for root in group.roots:
            if root in home:
                _fail(stage, root, "belongs to two groups")
            home.add(root)
        for read in group.reads:
            leaf = storage(read.leaf)
            is_known = leaf in own or leaf in known or read.leaf in own or read.leaf in known
            if not is_known and not _is_constant(read.leaf):
                _fail(stage, read.leaf, f"is read by {group} and no group before it stores it")
        known.update(group.stored)
    for node in plan.graph.outputs:
        if storage(node) not in known and not _is_constant(node):
            _fail(stage, node, "is an output that no group stores")


def _is_constant(node: Node) -> bool:
    return not node.sources


# --- steps ----------------------------------------------------------------------------------------------------------


def _verify_names(plan: Plan, stage: str) -> None:
    """Check that launches and calls take buffers or temporaries that their step knows."""
    over = {source: result for result, source in plan.donated.items()}
    for step in plan.steps:
        known = {*step.buffers, *step.workspace, ERROR_FLAG, FAILING_OP}
        used = [name for launch in step.launches for name in launch.buffers]
        used += [name for part in step.parts if isinstance(part, LibraryCall) for name in part.operands]
        used += [] if step.loop is None else step.loop.buffers
        touched = {storage(node) for node in (*step.reads, *step.writes)}
        touched |= {plan.donated[node] for node in touched if node in plan.donated}
        touched |= {over[node] for node in touched if node in over}
        for name in used:
            if name not in known:
                _fail(stage, step.first_result, f"uses a buffer {name!r} that its step does not have")
            node = step.buffers.get(name)
            if node is not None and storage(node) not in touched:
                _fail(stage, node, "is used by a step that does not say that it reads or writes it")


def _verify_failures(plan: Plan, stage: str) -> None:
    """Check that nothing that may fail follows an overwritten input: a failed call must leave every input unchanged."""
    if not plan.donated:
        return
    fallible = {id(plan.grouping.groups[number]) for number in plan.codegen.fallible(plan.grouping)}
    last = max((k for k, group in enumerate(plan.groups_of_steps) if id(group) in fallible), default=-1)
    for step in _steps(plan)[: last + 1]:
        for node in step.writes:
            if node in plan.donated:
                _fail(stage, node, "is written over an input before something that may fail")


def _steps(plan: Plan) -> Sequence[Step]:
    """The steps, or if there are none yet, the reads and stores of the groups."""
    if plan.steps or not plan.buffers.slots:
        return plan.steps
    found = []
    for group in plan.grouping.groups:
        own = set(group.roots)
        reads = dict.fromkeys(storage(read.leaf) for read in group.reads if read.leaf not in own)
        found.append(Step((HostOp(group.roots[0]),), list(reads), group.stored))
    return found


class _Memory:
    """The contents of each memory location, tracked from step to step.

    Before the arena exists, every value has its own location. A value that was overwritten is no longer available.
    """

    def __init__(self, plan: Plan, stage: str) -> None:
        self.plan, self.stage = plan, stage
        self.places: dict[Any, MemoryRange] = {}
        self.held: set[Node] = set()  # the available values
        self.starts: dict[int, list[int]] = {}  # by memory: where they begin, in order; no two of them overlap
        self.ends: dict[int, dict[int, tuple[int, Node]]] = {}  # by memory and beginning: where they end
        self.in_flight: dict[str, Step] = {}
        given = [*plan.buffers.external, *plan.buffers.constants]
        for node in given:
            self._hold(node)
        self.given = {self._place(node).memory for node in given}

    def follow(self) -> None:
        """Walk through all steps, then check the outputs."""
        steps = _steps(self.plan)
        for number, step in enumerate(steps):
            if step.does_nothing:  # as a kernel over no elements does
                for node in step.writes:
                    if not node.size:
                        self._hold(node)
                continue
            self._check_flights(step)
            for node in step.reads:
                self._require(node, f"is read by step {number}")
            self._work(number, step)
            self._check_writes(step)
            for node in step.writes:
                self._hold(node)
            self._note_flights(step)
        for token, step in self.in_flight.items():
            _fail(self.stage, step.first_result, f"is started as {token!r} and never waited for")
        for node in self.plan.graph.outputs if steps else ():
            self._require(storage(node), "is an output")

    def _check_writes(self, step: Step) -> None:
        """A result may overwrite an operand only if its kernel supports that, and an input only if it is donated."""
        plan, reads = self.plan, dict[int, list[Node]]()
        for node in step.reads:
            reads.setdefault(self._place(node).memory, []).append(node)
        for node in step.writes:
            place, over = self._place(node), plan.aliases.get(node, plan.donated.get(node))
            if place.memory in self.given and node not in plan.donated and not isinstance(node.dtype, tuple):
                _fail(self.stage, node, "is written over an input or a constant that is not donated")
            for other in reads.get(place.memory, ()):
                owner = plan.aliases.get(other, plan.donated.get(other, other))
                if other is node or owner is over or isinstance(other.dtype, tuple):
                    continue
                at = self._place(other)
                if at.start < place.end and place.start < at.end:
                    what = f"lies over {other.op.name} {describe_type(other)}, which the same step reads"
                    _fail(self.stage, node, what)

    def _place(self, value: Any) -> MemoryRange:
        if value not in self.places:
            found = self.plan.place(value)
            self.places[value] = MemoryRange(*found) if found is not None else MemoryRange(-2 - len(self.places), 0, 1)
        return self.places[value]

    def touched(self, step: Step) -> tuple[list[MemoryRange], list[MemoryRange]]:
        """The memory ranges that each step reads and writes."""
        return [self._place(node) for node in step.reads], [self._place(node) for node in step.writes]

    def _hold(self, node: Node) -> None:
        """Record a write: the previous contents are gone."""
        place = self._place(node)
        self._clear(place)
        insort(self.starts.setdefault(place.memory, []), place.start)
        self.ends.setdefault(place.memory, {})[place.start] = place.end, node
        self.held.add(node)

    def _clear(self, place: MemoryRange) -> None:
        """Forget the values that overlap a range."""
        starts, ends = self.starts.get(place.memory, []), self.ends.get(place.memory, {})
        first = bisect_right(starts, place.start) - 1
        if first < 0 or ends[starts[first]][0] <= place.start:
            first += 1
        last = first
        while last < len(starts) and starts[last] < place.end:
            self.held.discard(ends.pop(starts[last])[1])
            last += 1
        del starts[first:last]

    def _work(self, number: int, step: Step) -> None:
        """Temporaries are written while the step still reads its operands, so they must not overlap."""
        for name in step.workspace:
            place = self.plan.place((number, name))
            if place is None:
                continue
            _, start, end = place
            for node in step.reads:
                at = self._place(node)
                if at.memory == place[0] and at.start < end and start < at.end:
                    _fail(self.stage, node, f"is read by step {number}, whose workspace {name!r} lies over it")
            self._clear(MemoryRange(*place))

    def _require(self, node: Node, who: str) -> None:
        if isinstance(node.dtype, tuple) or (_is_constant(node) and node not in self.plan.buffers.slots):
            return
        if node not in self.held:
            _fail(self.stage, node, f"{who} and is not in its place: it was not computed, or was overwritten")

    def _check_flights(self, step: Step) -> None:
        """Check that an operation in flight has exclusive use of its memory until it is waited for."""
        tokens = {part.token for part in step.parts if isinstance(part, Wait)}
        for token in tokens - self.in_flight.keys():
            _fail(self.stage, step.first_result, f"waits for {token!r}, which was not started")
        for token, other in self.in_flight.items():
            if token in tokens:
                continue
            clash = _overlap(map(self._place, step.writes), map(self._place, (*other.reads, *other.writes)))
            if clash or _overlap(map(self._place, step.reads), map(self._place, other.writes)):
                _fail(self.stage, step.first_result, f"touches what {token!r} is still working on")

    def _note_flights(self, step: Step) -> None:
        for part in step.parts:
            if isinstance(part, Start):
                self.in_flight[part.token] = step
            elif isinstance(part, Wait):
                del self.in_flight[part.token]


def _overlap(some: Iterable[MemoryRange], others: Iterable[MemoryRange]) -> bool:
    others = list(others)
    return any(a.memory == b.memory and a.start < b.end and b.start < a.end for a in some for b in others)


# --- order ----------------------------------------------------------------------------------------------------------


def _verify_regions(plan: Plan, stage: str) -> None:
    """Check that every step is in one region, in order, and that steps of a region do not conflict."""
    if [number for region in plan.regions for number in region] != list(range(len(plan.steps))):
        _fail(stage, None, "the parallel regions are not the steps in their order")
    memory = _Memory(plan, stage)
    for region in plan.regions:
        for k, number in enumerate(region):
            reads, writes = memory.touched(plan.steps[number])
            for other in region[:k]:
                others = memory.touched(plan.steps[other])
                if _overlap(writes, [*others[0], *others[1]]) or _overlap(reads, others[1]):
                    node = plan.steps[number].first_result
                    _fail(stage, node, f"runs beside step {other}, which touches the same memory")


def _verify_waits(plan: Plan, stage: str) -> None:
    """Check that of two steps that touch the same memory, one of them writing, the later waits for the earlier."""
    ancestors = _ancestors(plan.waits, stage)
    accesses = [
        (number, is_write, *place)
        for number, both in enumerate(touched(plan))
        for is_write, places in enumerate(both)
        for place in places
    ]
    table = np.array(accesses, np.int64).reshape(-1, 5)
    steps, writes, memories, starts, ends = table.T
    firsts = np.searchsorted(steps, np.arange(len(plan.steps) + 1))
    for number, (first, last) in enumerate(pairwise(firsts)):
        own, before = slice(first, last), slice(0, first)
        clash = (memories[before, None] == memories[own]) & (writes[before, None] | writes[own]).astype(bool)
        clash &= (starts[before, None] < ends[own]) & (starts[own] < ends[before, None])
        for other in np.unique(steps[before][clash.any(axis=1)]).tolist():
            if not ancestors[number] >> other & 1:
                node = plan.steps[number].first_result
                _fail(stage, node, f"does not wait for step {other}, which touches the same memory")


def _ancestors(waits: Sequence[Sequence[int]], stage: str) -> list[int]:
    """For each step, the steps that it waits for, directly or transitively, as bits."""
    found: list[int] = []
    for number, direct in enumerate(waits):
        bits = 0
        for other in direct:
            if not 0 <= other < number:
                _fail(stage, None, f"step {number} waits for step {other}, which does not come before it")
            bits |= found[other] | 1 << other
        found.append(bits)
    return found
