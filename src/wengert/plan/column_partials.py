"""Totals of columns beside the rows they belong to: steps that read the same elements along and across become one.

The backward pass of a norm goes over rows; the gradients of its weight and bias, and of the bias of the layer before,
are totals of columns of what it reads and makes. Together they read it once, if nothing in between keeps them apart:
the step over the rows leaves parts of the totals, and the step over the columns puts these together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from wengert.core.graph import Node
from wengert.kernels.cuda import takes_in, write_column_partials
from wengert.kernels.ir.loops import Kernel
from wengert.kernels.launch import Device, Work
from wengert.plan.buffers import naming
from wengert.plan.candidates import Step
from wengert.plan.final_reduction import final_reduction_step, parts_of
from wengert.plan.horizontal_fusion import Order

LARGE = 1 << 20  # elements from which reading them again takes longer than a launch


def with_margins(steps: Sequence[Step], taken: Mapping[Node, Node], device: Device) -> list[Step]:
    """The steps, totals of columns taken in by steps over rows; `taken` says which input an output is written over."""
    found, order = list(steps), Order(steps, taken)
    rows = [number for number, step in enumerate(steps) if _is_large(step.kernel)]
    members: dict[int, list[int]] = {}
    closed: set[int] = set()
    for number in rows:
        near = order.beside(number) - closed
        at = next((k for k in rows if k < number and k in near and _may_take(steps, k, number, order)), None)
        if at is None:
            continue
        numbers = [at, *members.get(at, ()), number]
        joined = _joined([steps[k] for k in numbers], taken, device)
        if joined is not None:
            members[at] = numbers[1:]
            closed.add(number)
            for k, step in zip(numbers, joined):
                found[k] = step
    return found


def _is_large(kernel: Kernel | None) -> bool:
    return kernel is not None and math.prod(loop.extent for loop in (*kernel.outer, *kernel.inner)) >= LARGE


def _may_take(steps: Sequence[Step], rows: int, columns: int, order: Order) -> bool:
    first, second = steps[rows].kernel, steps[columns].kernel
    if first is None or second is None or not takes_in(first, second):
        return False
    return order.can_move(columns, rows, after=rows)


def _joined(steps: Sequence[Step], taken: Mapping[Node, Node], device: Device) -> list[Step] | None:
    """The step over rows that leaves parts of the others' totals, and what closes each of these."""
    kernels = [step.kernel for step in steps if step.kernel is not None]
    written = write_column_partials(kernels[0], kernels[1:], device)
    if written is None:
        return None
    work, closings = written
    parts = [parts_of(kernel, work.workspace, step) for kernel, step in zip(closings, steps[1:])]
    left = {name: node for one in parts for name, node in one.items()}
    used = {name for launch in work.launches for name in launch.buffers}
    buffers = {name: node for step in steps for name, node in step.buffers.items() if name in used}
    named = naming({}, taken)
    writes = [*steps[0].writes, *left.values()]
    reads = dict.fromkeys(node for step in steps for node in step.reads if node not in writes and named(node) in used)
    first = Step(Work(work.launches), None, {**buffers, **left}, list(reads), writes)
    closing = [final_reduction_step(k, one, step, taken, device) for k, one, step in zip(closings, parts, steps[1:])]
    return [first, *closing]
