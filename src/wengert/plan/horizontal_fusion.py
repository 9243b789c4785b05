"""Horizontal fusion: steps of one text as one launch (multi-tensor). The updates of all parameters of a model, the
casts of its weights, the weights of convolutions with their channels last, final reductions of equal layers.

A kernel over a few million elements hardly gets going before it ends. This stage makes one step of those whose texts
are the same but for their sizes, where nothing in between keeps them apart: at the place of the last, if nobody needs
the others before, or at that of the first, if all that they read is there. Every group keeps its step: that of a member
which is done elsewhere does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from wengert.compiler.fuel import spend
from wengert.core.graph import Node
from wengert.kernels.cuda import (
    closing_signature,
    signature,
    turned_signature,
    write_closings,
    write_many,
    write_turned,
)
from wengert.kernels.ir.loops import Kernel
from wengert.kernels.launch import Device, Work
from wengert.plan.plan import Plan
from wengert.plan.steps import NOTHING, Step, launched

Writer = Callable[[Sequence[Kernel], Device], Work]

LARGE = 1 << 23  # elements from which a kernel keeps the device busy by itself
_WAYS: tuple[tuple[Writer, Callable[[Kernel], Hashable | None]], ...] = (
    (write_many, signature),
    (write_turned, turned_signature),
    (write_closings, closing_signature),
)


def horizontal_fusion(plan: Plan) -> Plan:
    """The plan with steps of one text as one where that may be."""
    if plan.target.properties is None:
        return plan
    return replace(plan, steps=tuple(_fused(plan.steps, plan.donated, plan.target.properties)))


def _fused(steps: Sequence[Step], donated: Mapping[Node, Node], device: Device) -> list[Step]:
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


def _spends(step: Step, count: int) -> bool:
    return spend(step.writes[0], lambda: f"{count} steps are one launch")


def _kind(step: Step) -> tuple[Writer, Hashable] | None:
    """Who writes steps as one, and what they must have in common for that; None for one that stays by itself."""
    if step.kernel is None or not 0 < math.prod(loop.extent for loop in step.kernel.outer) <= LARGE:
        return None
    for write, in_common in _WAYS:
        common = in_common(step.kernel)
        if common is not None:
            return write, common
    return None


def _joined(steps: Sequence[Step], write: Writer, device: Device) -> Step:
    kernels = [step.kernel for step in steps if step.kernel is not None]
    buffers = {name: node for step in steps for name, node in step.buffers.items()}
    reads = list(dict.fromkeys(node for step in steps for node in step.reads))
    return launched(write(kernels, device), buffers, reads, [node for step in steps for node in step.writes])


class Order:
    """Who reads and writes what, by the numbers of the steps, and where these are done by now."""

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
        """Where all of these steps can be done at once: at the last or at the first; None if nowhere."""
        if len(numbers) < 2:
            return None
        for at in (numbers[-1], numbers[0]):
            if all(self.can_move(number, at) for number in numbers):
                return at
        return None

    def move(self, numbers: Sequence[int], to: int) -> None:
        """Note that steps are done elsewhere."""
        for number in numbers:
            self.at[number] = to

    def beside(self, number: int) -> set[int]:
        """The steps that read or write something of what a step reads."""
        read = self.steps[number].reads
        return {k for node in read for k in (*self.readers.get(node, ()), *self.writers.get(node, ()))}

    def can_move(self, number: int, to: int, after: int | None = None) -> bool:
        """Whether no step on the way (those that move along are, too) reads what it writes or writes what it reads.

        It may follow on one of them.
        """
        step = self.steps[number]
        written = [*step.writes, *[self.donated[node] for node in step.writes if node in self.donated]]
        others = [k for node in written for k in (*self.readers.get(node, ()), *self.writers.get(node, ()))]
        others += [k for node in step.reads for k in self.writers.get(node, ())]
        low, high = min(number, to), max(number, to)
        return not any(low <= self.at[k] <= high for k in others if k not in (number, after))
