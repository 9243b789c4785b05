"""Launches: horizontal fusion, programmatic dependent launch, and shared parallel regions.

Horizontal fusion (multi-tensor): a kernel over a few million elements has barely started when it ends, so steps whose
texts differ only in their sizes share one launch: the updates of all parameters, the casts of weights, final reductions
of equal layers. The launch takes the position of the last member if nothing needs the others earlier, or of the first
if all operands are ready there. A member that runs elsewhere keeps an empty step.

Programmatic dependent launch: a graph starts a microsecond after all previous work has ended, which is one percent of a
kernel of 130 us. If a program has one long kernel and nothing else, it is launched directly: its blocks wait on the
device (`wg_follow` in its text) until the previous kernel has ended. This costs the host slightly more than a graph.

Parallel regions on the CPU: consecutive independent loops wake the threads once. Large loops are shared among the
threads, and each small one runs on a single thread while the others continue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import count, islice

from wengert.compiler.rewrite import spend
from wengert.core.graph import Node
from wengert.kernels.c import Function
from wengert.kernels.ir.loops import LoopKernel
from wengert.kernels.launch import DeviceProperties, LaunchList
from wengert.plan.collectives import hoisted
from wengert.plan.plan import NOTHING, Plan, Step, launched

Writer = Callable[[Sequence[LoopKernel], DeviceProperties], LaunchList]

LARGE = 1 << 23  # elements from which a single kernel keeps the device busy


def horizontal_fusion(plan: Plan) -> Plan:
    """The plan with steps of equal text merged where possible."""
    if plan.target.properties is None:
        return plan
    return replace(plan, steps=tuple(_fused(plan.steps, plan.donated, plan.target.properties)))


def _fused(steps: Sequence[Step], donated: Mapping[Node, Node], device: DeviceProperties) -> list[Step]:
    found, alike = list(steps), dict[tuple[Writer, Hashable], list[int]]()
    for number, step in enumerate(steps):
        kind = _kind(step)
        if kind is not None:
            alike.setdefault(kind, []).append(number)
    order = Order(steps, donated)
    for (write, _), numbers in alike.items():
        at = order.place(numbers)
        if at is not None and _spends(steps[at], len(numbers)):
            order.move(numbers, at)
            for number in numbers:
                found[number] = NOTHING
            found[at] = _joined([steps[number] for number in numbers], write, device)
    return found


@cache
def _ways() -> tuple[tuple[Writer, Callable[[LoopKernel], Hashable | None]], ...]:
    """The writers that merge several kernels into one, and the properties these must share."""
    from wengert.kernels import cuda  # which a program for the CPU does not load

    return (
        (cuda.write_multi_tensor, cuda.multi_tensor_signature),
        (cuda.write_multi_transpose, cuda.transpose_signature),
        (cuda.write_final_reductions, cuda.final_reduction_signature),
    )


def _spends(step: Step, count: int) -> bool:
    return spend(step.first_result, lambda: f"{count} steps are one launch")


def _kind(step: Step) -> tuple[Writer, Hashable] | None:
    """The writer that can merge a step with others, and the properties they must share; None for a step on its own."""
    if step.kernel is None or not 0 < math.prod(loop.extent for loop in step.kernel.outer) <= LARGE:
        return None
    for write, in_common in _ways():
        common = in_common(step.kernel)
        if common is not None:
            return write, common
    return None


def _joined(steps: Sequence[Step], write: Writer, device: DeviceProperties) -> Step:
    kernels = [step.kernel for step in steps if step.kernel is not None]
    buffers = {name: node for step in steps for name, node in step.buffers.items()}
    reads = list(dict.fromkeys(node for step in steps for node in step.reads))
    return launched(write(kernels, device), buffers, reads, [node for step in steps for node in step.writes])


class Order:
    """The readers and writers of each value, by step number, and the steps' current positions."""

    def __init__(self, steps: Sequence[Step], donated: Mapping[Node, Node]) -> None:
        self.steps, self.at = steps, list(range(len(steps)))
        self.readers: dict[Node, list[int]] = {}
        self.writers: dict[Node, list[int]] = {}  # of a value, or over it
        for number, step in enumerate(steps):
            for node in step.reads:
                self.readers.setdefault(node, []).append(number)
            for node in step.writes:
                self.writers.setdefault(node, []).append(number)
                if node in donated:
                    self.writers.setdefault(donated[node], []).append(number)
        self.donated = donated

    def place(self, numbers: Sequence[int]) -> int | None:
        """A position at which all of these steps can run together: the last or the first; None if neither works."""
        if len(numbers) < 2:
            return None
        for at in (numbers[-1], numbers[0]):
            if all(self.can_move(number, at) for number in numbers):
                return at
        return None

    def move(self, numbers: Sequence[int], to: int) -> None:
        """Record that steps have moved."""
        for number in numbers:
            self.at[number] = to

    def beside(self, number: int) -> set[int]:
        """The steps that read or write a value that a step reads."""
        read = self.steps[number].reads
        return {k for node in read for k in (*self.readers.get(node, ()), *self.writers.get(node, ()))}

    def can_move(self, number: int, to: int, after: int | None = None) -> bool:
        """Whether no step in between (including those that move along) conflicts with its reads and writes.

        It may directly follow one of them.
        """
        step = self.steps[number]
        written = [*step.writes, *[self.donated[node] for node in step.writes if node in self.donated]]
        others = [k for node in written for k in (*self.readers.get(node, ()), *self.writers.get(node, ()))]
        others += [k for node in step.reads for k in self.writers.get(node, ())]
        low, high = min(number, to), max(number, to)
        return not any(low <= self.at[k] <= high for k in others if k not in (number, after))


# --- dependent launch -----------------------------------------------------------------------------------------------


LONG = 64 << 20  # bytes moved from which a kernel takes longer than its launch


def dependent_launch(plan: Plan) -> Plan:
    """The plan in which a single long kernel is launched as a programmatic dependent launch."""
    busy = [step for step in plan.steps if not step.does_nothing]
    properties = plan.target.properties
    if properties is None or len(busy) != 1 or len(busy[0].parts) != 1 or len(busy[0].launches) != 1:
        return plan
    if int(properties.arch.rstrip("a")) < 90 or busy[0].moved_bytes < LONG:
        return plan
    launch = busy[0].launches[0].following()
    if launch is None or not spend(busy[0].first_result, lambda: "the kernel is launched ahead of the end of the last"):
        return plan
    changed = replace(busy[0], parts=(launch,))
    return replace(plan, steps=tuple(changed if step is busy[0] else step for step in plan.steps))


# --- parallel regions -----------------------------------------------------------------------------------------------


def regions(steps: Sequence[Step], taken: Mapping[Node, Node], late: Container[Node]) -> list[list[Step]]:
    """The steps, with those that can run concurrently together.

    `taken` maps outputs to the inputs that they overwrite, so that both count as one location; `late` outputs are
    written after everything that may fail.
    """
    found: list[list[Step]] = []
    reads: set[Node] = set()
    writes: set[Node] = set()
    overwriting = False
    for step in steps:
        own_reads, own_writes = ({taken.get(node, node) for node in nodes} for nodes in (step.reads, step.writes))
        begins = not overwriting and any(node in late for node in step.writes)  # all that may fail came before
        overwriting = overwriting or begins
        free = own_writes.isdisjoint(reads) and own_writes.isdisjoint(writes) and writes.isdisjoint(own_reads)
        if found and free and not begins and _is_loop(step) and _is_loop(found[-1][-1]):
            found[-1].append(step)
        else:
            found.append([step])
            reads, writes = set(), set()
        reads |= own_reads
        writes |= own_writes
    return [part for region in found for part in _worth_a_region(region)]


def _function(step: Step) -> Function | None:
    return step.code.function if step.code is not None else None


def _is_loop(step: Step) -> bool:
    function = _function(step)
    return function is not None and function.is_one_loop


def _worth_a_region(region: list[Step]) -> list[list[Step]]:
    """A region, if threads help in it; otherwise its steps one by one."""
    functions = [_function(step) for step in region]
    useful = any(function is not None and function.is_parallel for function in functions)
    return [region] if useful and _spends_region(region) else [[step] for step in region]


def _spends_region(region: Sequence[Step]) -> bool:
    return len(region) == 1 or spend(region[0].first_result, lambda: f"{len(region)} steps share a parallel region")


def parallel_regions(plan: Plan) -> Plan:
    """The plan with its steps in parallel regions, on the CPU."""
    if plan.target.launches:
        return plan
    numbers = count()
    found = regions(plan.steps, plan.donated, plan.overwriting)
    return replace(plan, regions=tuple(tuple(islice(numbers, len(region))) for region in found))


def region_text(region: Sequence[Step]) -> str:
    """The C statement that runs a region."""
    if len(region) == 1:
        return region[0].code.text if region[0].code is not None else ""
    lines = ["#pragma omp parallel", "{"]
    for step in region:
        assert step.code is not None and step.code.function is not None and step.code.call is not None
        if step.code.function.is_parallel:
            lines.append("    " + step.code.call.text(in_region=True))
        else:
            lines += ["    #pragma omp single nowait", "    " + step.code.call.text()]
    return "\n    ".join([*lines, "}"])


# --- collectives ----------------------------------------------------------------------------------------------------


def hoist(plan: Plan) -> Plan:
    """The plan with collectives started early and waited for late, where something else can overlap."""
    return hoisted(plan) if plan.target.overlaps else plan
