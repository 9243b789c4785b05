"""Partial sums of an attention's cotangents, made by the kernels that make these: the gradient of the bias before it.

Where the cotangents of queries, keys and values lie side by side, the step that adds up their columns would read all of
it again. Instead every block writes the partial sums of its own rows, and a final reduction adds these up in a fixed
order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wengert.compiler.fuel import spend
from wengert.core.graph import Node
from wengert.kernels.attention import cuda as attention_cuda
from wengert.kernels.cuda import closing, parts_name
from wengert.kernels.ir.loops import Accumulate, Kernel, Load
from wengert.kernels.launch import Device, Work
from wengert.ops.attention import ATTENTION_BACKWARD
from wengert.ops.op import PICK
from wengert.plan.final_reduction import final_step, partials_of
from wengert.plan.horizontal_fusion import Order
from wengert.plan.lowering import naming
from wengert.plan.plan import Plan
from wengert.plan.steps import Step, launched


def attention_partials(plan: Plan) -> Plan:
    """The plan with sums over an attention's cotangents made by its own step."""
    if plan.target.properties is None:
        return plan
    return replace(plan, steps=tuple(_joined_steps(plan.steps, plan.donated, plan.target.properties)))


def _joined_steps(steps: Sequence[Step], donated: Mapping[Node, Node], device: Device) -> list[Step]:
    found, order = list(steps), Order(steps, donated)
    for number, step in enumerate(steps):
        if not _is_backward(step):
            continue
        for other in order.readers.get(step.writes[0], ()):
            if other > number and order.can_move(other, number, after=number):
                joined = _joined(step, steps[other], donated, device)
                if joined is not None and spend(
                    step.writes[0], lambda: "attention makes partial sums of its cotangents"
                ):
                    found[number], found[other] = joined
                    break
    return found


def _spends(step: Step) -> bool:
    return spend(step.writes[0], lambda: "attention makes partial sums of its cotangents")


def _is_backward(step: Step) -> bool:
    """Whether a step is an attention's backward by our kernels, with cotangents that are joined."""
    if not step.launches or step.library is not None or len(step.writes) != 1 or step.writes[0].op is not PICK:
        return False
    return step.writes[0].sources[0].op is ATTENTION_BACKWARD


def _joined(step: Step, totals: Step, donated: Mapping[Node, Node], device: Device) -> tuple[Step, Step] | None:
    """The step of an attention that leaves parts of totals, and what closes these."""
    made, kernel = step.writes[0], totals.kernel
    node = made.sources[0]
    left = attention_cuda.parts_of_totals(node, device)
    total = None if kernel is None else _only_total(kernel, {k for k, x in totals.buffers.items() if x is made})
    if left is None or kernel is None or total is None:
        return None
    count, columns = left
    if math.prod(loop.extent for loop in kernel.outer) != columns:
        return None
    names = dict(step.buffers)
    named = naming(names, donated)
    work = attention_cuda.backward(node, named, device, {0: made}, step.kept, parts_name(total))
    assert work is not None
    rest = closing(kernel, count)
    parts = partials_of(rest, work.workspace, totals)
    own = {name: size for name, size in work.workspace.items() if name not in parts}
    first = launched(Work(work.launches, own), {**names, **parts}, step.reads, [made, *parts.values()], kept=step.kept)
    return first, final_step(rest, parts, totals, donated, device)


def _only_total(kernel: Kernel, buffers: set[str]) -> Accumulate | None:
    """The total of the columns of a buffer (it may have several names), where a kernel adds up nothing else."""
    if len(kernel.stages) != 1 or kernel.scratch:
        return None
    match [*kernel.stages[0].before, *kernel.stages[0].inside]:
        case [Load() as load, Accumulate(kind="sum") as total]:
            loops = [*kernel.inner, *kernel.outer]
            steps = [math.prod(loop.extent for loop in loops[k + 1 :]) for k in range(len(loops))]
            in_order = all(load.index.factor(loop) == step for loop, step in zip(loops, steps))
            plain = not load.guards and not load.index.constant and total.name == load.name
            return total if plain and in_order and load.buffer in buffers else None
    return None
