"""Column partial sums beside the rows they belong to: steps that read the same elements along and across become one.

The backward pass of a norm goes over rows; the gradients of its weight and bias, and of the bias of the layer before,
are sums over columns of what it reads and makes. Together they read it once, if nothing in between keeps them apart:
the step over the rows writes partial sums of the columns, and a final reduction adds these up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wengert.compiler.fuel import spend
from wengert.core.graph import Node
from wengert.kernels.cuda import takes_in, write_margins
from wengert.kernels.ir.loops import Kernel
from wengert.kernels.launch import Device, Work
from wengert.plan.final_reduction import final_step, partials_of
from wengert.plan.horizontal_fusion import Order
from wengert.plan.lowering import naming
from wengert.plan.plan import Plan
from wengert.plan.steps import Step, launched

LARGE = 1 << 20  # elements from which reading them again takes longer than a launch


def column_partials(plan: Plan) -> Plan:
    """The plan with partial sums of columns made by steps over rows."""
    if plan.target.properties is None:
        return plan
    return replace(plan, steps=tuple(_joined_steps(plan.steps, plan.donated, plan.target.properties)))


def _joined_steps(steps: Sequence[Step], donated: Mapping[Node, Node], device: Device) -> list[Step]:
    found, order = list(steps), Order(steps, donated)
    rows = [number for number, step in enumerate(steps) if _is_large(step.kernel)]
    members: dict[int, list[int]] = {}
    closed: set[int] = set()
    for number in rows:
        near = order.beside(number) - closed
        at = next((k for k in rows if k < number and k in near and _may_take(steps, k, number, order)), None)
        if at is None:
            continue
        numbers = [at, *members.get(at, ()), number]
        joined = _joined([steps[k] for k in numbers], donated, device)
        if joined is not None and spend(steps[at].writes[0], lambda: "a step over rows makes partial sums of columns"):
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


def _joined(steps: Sequence[Step], donated: Mapping[Node, Node], device: Device) -> list[Step] | None:
    """The step over rows that makes partial sums for the others, and the final reduction of each."""
    kernels = [step.kernel for step in steps if step.kernel is not None]
    written = write_margins(kernels[0], kernels[1:], device)
    if written is None:
        return None
    work, closings = written
    parts = [partials_of(kernel, work.workspace, step) for kernel, step in zip(closings, steps[1:])]
    left = {name: node for one in parts for name, node in one.items()}
    used = {name for launch in work.launches for name in launch.buffers}
    buffers = {name: node for step in steps for name, node in step.buffers.items() if name in used}
    named = naming({}, donated)
    writes = [*steps[0].writes, *left.values()]
    reads = dict.fromkeys(node for step in steps for node in step.reads if node not in writes and named(node) in used)
    first = launched(Work(work.launches), {**buffers, **left}, list(reads), writes)
    closing = [final_step(k, one, step, donated, device) for k, one, step in zip(closings, parts, steps[1:])]
    return [first, *closing]
