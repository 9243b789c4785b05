"""Partial sums beside the step that reads their terms: sums over columns are made where the rows are, in two stages.

The backward pass of a norm goes over rows; the gradients of its weight and bias, and of the bias of the layer before,
are sums over columns of what it reads and makes. Together they read it once, if nothing in between keeps them apart:
the step over the rows writes partial sums of the columns, and a final reduction adds these up, in a fixed order. It has
time until somebody needs what it makes, so that those of equal layers may become one launch (`horizontal_fusion`). An
attention's backward makes partial sums of its cotangents in the same way: the gradient of the bias before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wengert.compiler.rewrite import spend
from wengert.core.graph import Node
from wengert.kernels.ir.loops import Accumulate, Load, LoopKernel
from wengert.kernels.ir.transforms import with_buffers
from wengert.kernels.launch import DeviceProperties, LaunchList
from wengert.ops.attention import ATTENTION_BACKWARD
from wengert.ops.op import PICK
from wengert.plan.launches import Order
from wengert.plan.lowering import naming
from wengert.plan.plan import Plan, Step, launched


def partials_of(final: LoopKernel, sizes: Mapping[str, int], columns: Step) -> dict[str, Node]:
    """Values for the partial sums that a final reduction reads, by name; `sizes` are their bytes."""
    node, found = columns.writes[0], {}
    for name, (dtype, _) in final.buffers.items():
        if name in sizes:
            shape = (sizes[name] // dtype.itemsize,)
            found[name] = Node(node.op, node.sources, node.attrs, shape, dtype, node.device, False, node.location)
    return found


def final_step(
    final: LoopKernel, parts: Mapping[str, Node], columns: Step, donated: Mapping[Node, Node], device: DeviceProperties
) -> Step:
    """The step that is left of one over columns; `donated` says which input an output is written over."""
    buffers: dict[str, Node] = {}
    named = naming(buffers, donated)
    own = {name: named(node) for name, node in parts.items()}
    kernel = with_buffers(final, {name: own.get(name, name) for name in final.buffers})
    buffers |= {name: node for name, node in columns.buffers.items() if name in kernel.buffers}
    there = naming({}, donated)
    reads = [node for node in columns.reads if there(node) in kernel.buffers]
    from wengert.kernels.cuda import final_reduction_shape, write  # which a program for the CPU does not load

    (launch,) = write(kernel, device, final_reduction_shape(kernel)).launches
    work = LaunchList((replace(launch, why="totals of the parts"),))
    return launched(work, buffers, [*parts.values(), *reads], columns.writes, kernel=kernel)


# --- column partials ------------------------------------------------------------------------------------------------


LARGE = 1 << 20  # elements from which reading them again takes longer than a launch


def column_partials(plan: Plan) -> Plan:
    """The plan with partial sums of columns made by steps over rows."""
    if plan.target.properties is None:
        return plan
    return replace(plan, steps=tuple(_joined_steps(plan.steps, plan.donated, plan.target.properties)))


def _joined_steps(steps: Sequence[Step], donated: Mapping[Node, Node], device: DeviceProperties) -> list[Step]:
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
        if joined is not None and _spends_columns(steps[at]):
            members[at] = numbers[1:]
            closed.add(number)
            for k, step in zip(numbers, joined):
                found[k] = step
    return found


def _spends_columns(step: Step) -> bool:
    return spend(step.first_result, lambda: "a step over rows makes partial sums of columns")


def _is_large(kernel: LoopKernel | None) -> bool:
    return kernel is not None and math.prod(loop.extent for loop in (*kernel.outer, *kernel.inner)) >= LARGE


def _may_take(steps: Sequence[Step], rows: int, columns: int, order: Order) -> bool:
    first, second = steps[rows].kernel, steps[columns].kernel
    from wengert.kernels.cuda import takes_in

    if first is None or second is None or not takes_in(first, second):
        return False
    return order.can_move(columns, rows, after=rows)


def _joined(steps: Sequence[Step], donated: Mapping[Node, Node], device: DeviceProperties) -> list[Step] | None:
    """The step over rows that makes partial sums for the others, and the final reduction of each."""
    kernels = [step.kernel for step in steps if step.kernel is not None]
    from wengert.kernels.cuda import write_column_partials

    written = write_column_partials(kernels[0], kernels[1:], device)
    if written is None:
        return None
    work, final = written
    parts = [partials_of(kernel, work.workspace, step) for kernel, step in zip(final, steps[1:])]
    left = {name: node for one in parts for name, node in one.items()}
    used = {name for launch in work.launches for name in launch.buffers}
    buffers = {name: node for step in steps for name, node in step.buffers.items() if name in used}
    named = naming({}, donated)
    writes = [*steps[0].writes, *left.values()]
    reads = dict.fromkeys(node for step in steps for node in step.reads if node not in writes and named(node) in used)
    first = launched(LaunchList(work.launches), {**buffers, **left}, list(reads), writes)
    ends = [final_step(k, one, step, donated, device) for k, one, step in zip(final, parts, steps[1:])]
    return [first, *ends]


# --- attention partials ---------------------------------------------------------------------------------------------


def attention_partials(plan: Plan) -> Plan:
    """The plan with sums over an attention's cotangents made by its own step."""
    if plan.target.properties is None:
        return plan
    return replace(plan, steps=tuple(_with_cotangent_sums(plan.steps, plan.donated, plan.target.properties)))


def _with_cotangent_sums(steps: Sequence[Step], donated: Mapping[Node, Node], device: DeviceProperties) -> list[Step]:
    found, order = list(steps), Order(steps, donated)
    for number, step in enumerate(steps):
        if not _is_backward(step):
            continue
        for other in order.readers.get(step.writes[0], ()):
            if other > number and order.can_move(other, number, after=number):
                joined = _joined_attention(step, steps[other], donated, device)
                if joined is not None and spend(
                    step.writes[0], lambda: "attention makes partial sums of its cotangents"
                ):
                    found[number], found[other] = joined
                    break
    return found


def _spends(step: Step) -> bool:
    return spend(step.first_result, lambda: "attention makes partial sums of its cotangents")


def _is_backward(step: Step) -> bool:
    """Whether a step is an attention's backward by our kernels, with cotangents that are joined."""
    if not step.launches or step.library is not None or len(step.writes) != 1 or step.writes[0].op is not PICK:
        return False
    return step.writes[0].sources[0].op is ATTENTION_BACKWARD


def _joined_attention(
    step: Step, totals: Step, donated: Mapping[Node, Node], device: DeviceProperties
) -> tuple[Step, Step] | None:
    """The step of an attention that leaves parts of totals, and what closes these."""
    made, kernel = step.writes[0], totals.kernel
    node = made.sources[0]
    from wengert.kernels.attention import cuda as attention_cuda
    from wengert.kernels.cuda import final_reduction

    left = attention_cuda.parts_of_totals(node, device)
    total = None if kernel is None else _only_total(kernel, {k for k, x in totals.buffers.items() if x is made})
    if left is None or kernel is None or total is None:
        return None
    count, columns = left
    if math.prod(loop.extent for loop in kernel.outer) != columns:
        return None
    names = dict(step.buffers)
    named = naming(names, donated)
    work = attention_cuda.backward(node, named, device, {0: made}, step.kept, total.partials_name)
    assert work is not None
    rest = final_reduction(kernel, count)
    parts = partials_of(rest, work.workspace, totals)
    own = {name: size for name, size in work.workspace.items() if name not in parts}
    first = launched(
        LaunchList(work.launches, own), {**names, **parts}, step.reads, [made, *parts.values()], kept=step.kept
    )
    return first, final_step(rest, parts, totals, donated, device)


def _only_total(kernel: LoopKernel, buffers: set[str]) -> Accumulate | None:
    """The total of the columns of a buffer (it may have several names), where a kernel adds up nothing else."""
    if len(kernel.stages) != 1 or kernel.scratch:
        return None
    match [*kernel.stages[0].before, *kernel.stages[0].inside]:
        case [Load() as load, Accumulate(kind="sum") as total]:
            loops = [*kernel.inner, *kernel.outer]
            steps = [math.prod(loop.extent for loop in loops[k + 1 :]) for k in range(len(loops))]
            in_order = all(load.index.factor(loop) == step for loop, step in zip(loops, steps))
            plain = not load.guards and not load.index.constant and total.value == load.name
            return total if plain and in_order and load.buffer in buffers else None
    return None
