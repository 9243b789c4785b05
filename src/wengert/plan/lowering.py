"""Lowering, for both code generators: which ops are loops, picks of multiple results, and kernels with named buffers.

Equal groups, such as those of a model's equal layers, are lowered once.

The stage `expand` runs before: it rewrites ops that a device cannot run directly into ops that it can.

The stages `column_partials` and `attention_partials` run after: sums over columns are computed in two parts, where the
rows are computed. The backward pass of a norm works on rows; the gradients of its weight and bias, and of the previous
layer's bias, are column sums of what it reads and makes. Together they read the data once, if nothing in between
separates them: the row step writes partial sums of the columns, and a final reduction adds these in a fixed order. The
final reduction need not run before its result is needed, so those of equal layers may share one launch
(`horizontal_fusion`). Attention's backward writes partial sums of its cotangents in the same way, for the gradient of
the bias before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN
from wengert.compiler.loop_lanes import ends_by_itself
from wengert.compiler.memory import storage
from wengert.compiler.rewrite import bodies_of, rewrite, spend
from wengert.core.canonical import frozen_attributes
from wengert.core.graph import Graph, Node, now
from wengert.kernels.ir.loops import Accumulate, Load, LoopKernel
from wengert.kernels.ir.transforms import with_buffers
from wengert.kernels.launch import DeviceProperties, LaunchList, has_work
from wengert.kernels.writer import has_expression
from wengert.ops.attention import ATTENTION_BACKWARD
from wengert.ops.core import LITERAL
from wengert.ops.creation import IOTA
from wengert.ops.op import PICK
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import reduces_in_loops
from wengert.plan.expansions import EXPANSIONS
from wengert.plan.groups import FusionGroup, Grouping
from wengert.plan.launches import Order
from wengert.plan.lower import lower
from wengert.plan.plan import Codegen, Plan, Step, launched


def inlines(node: Node) -> bool:
    """Whether a value is an expression in a loop."""
    op = node.op
    if isinstance(node.dtype, tuple):
        return False
    if op.kind == "movement" or op in (LITERAL, IOTA):
        return True
    if op is RANDOM_BITS:
        return node.sources[0].ndim == 1 and node.sources[1].ndim == 0
    if not node.sources or any(isinstance(s.dtype, tuple) for s in node.sources):
        return False
    return has_expression(op, node.sources[-1].dtype, node.attrs)


def picks(graph: Graph) -> dict[Node, dict[int, Node]]:
    """For every node with several results, the first node that picks each, by result number."""
    found: dict[Node, dict[int, Node]] = {}
    for node in graph.nodes:
        if node.op is PICK:
            found.setdefault(node.sources[0], {}).setdefault(node.attrs["index"], node)
    return found


def naming(names: dict[str, Node], donated: Mapping[Node, Node]) -> Callable[[Node], str]:
    """A function that names the memory of a value and records the name in `names`."""

    def name(node: Node) -> str:
        owner = storage(node)
        owner = donated.get(owner, owner)
        names[f"n{owner.serial}"] = owner
        return f"n{owner.serial}"

    return name


def lowered(
    group: FusionGroup, grouping: Grouping, donated: Mapping[Node, Node], cache: LoweringCache
) -> tuple[LoopKernel, dict[str, Node]]:
    """The kernel of a loop group with one loop nest, and its buffers."""
    names: dict[str, Node] = {}
    return cache.lower(group, "kernel", grouping.inlined, naming(names, donated)), names


def loops(
    group: FusionGroup, grouping: Grouping, donated: Mapping[Node, Node], cache: LoweringCache
) -> tuple[list[LoopKernel], dict[str, Node]]:
    """The kernels of a loop group, to run in sequence, and their buffers."""
    found = [lowered(part, grouping, donated, cache) for part in group.parts()]
    return [kernel for kernel, _ in found], {name: node for _, names in found for name, node in names.items()}


# --- what nothing carries out as it is ------------------------------------------------------------------------------


_LOOPS = (SCAN, WHILE, COND)


def is_loop(node: Node) -> bool:
    """Whether an op is a loop or branch whose bodies run as programs, because it has no kernel."""
    return node.op in _LOOPS and not has_work(node) and not ends_by_itself(node)


def needs_host(node: Node, codegen: Any) -> bool:
    """Whether the host computes an op, or one inside a loop's bodies."""
    if not is_loop(node):
        return bool(codegen.is_hosted(node))
    inner = [one for graph in bodies_of(node) for one in graph.nodes if one.op is not PICK]
    return any(needs_host(one, codegen) for one in inner if not codegen.inlines(one) and not reduces_in_loops(one))


def expand(plan: Plan) -> Plan:
    """The plan with host-only ops replaced by ops that the device runs."""
    codegen = plan.codegen
    if not any(node.op in EXPANSIONS and codegen.expands(node) for node in plan.graph.nodes):
        return plan

    def rule(node: Node) -> Node | None:
        found = EXPANSIONS.get(node.op)
        if found is None or not codegen.expands(node):
            return None
        start = now()
        made = found(node)
        return made if made is not None and not _leaves(made, start, codegen) else None

    return replace(plan, graph=rewrite(plan.graph, rule))


def _leaves(made: Node, start: int, codegen: Codegen) -> bool:
    """Whether the host would compute any of the nodes recorded since."""
    stack, seen = [made], set[Node]()
    while stack:
        node = stack.pop()
        if node in seen or node.serial < start or not node.sources:
            continue
        seen.add(node)
        stack += node.sources
        in_loops = codegen.inlines(node) or reduces_in_loops(node) or node.op is PICK
        if not in_loops and codegen.expands(node):
            return True
    return False


# --- lowering cache -------------------------------------------------------------------------------------------------


class LoweringCache:
    """The kernels of a program's groups, shared by groups that differ only in their buffers."""

    def __init__(self) -> None:
        self.kernels: dict[Hashable, LoopKernel] = {}

    def lower(
        self, group: FusionGroup, name: str, inlined: Container[Node], buffer_of: Callable[[Node], str]
    ) -> LoopKernel:
        """The kernel of a loop group, as `lower` returns it."""
        buffers: dict[str, str] = {}  # those of the group, to what they are called in every group that is alike

        def called(node: Node) -> str:
            return buffers.setdefault(buffer_of(node), f"buffer{len(buffers)}")

        key = (name, _content(group, inlined, called))
        if key not in self.kernels:
            self.kernels[key] = lower(group, name, inlined, called)
        return with_buffers(self.kernels[key], {common: own for own, common in buffers.items()})


def _content(group: FusionGroup, inlined: Container[Node], called: Callable[[Node], str]) -> Hashable:
    """Everything that a group's kernel depends on: its expressions, down to the values in memory."""
    own, stored = set(group.roots), set(group.stored)
    nodes = sorted(group.roots, key=lambda node: node.serial)
    numbers = {node: number for number, node in enumerate(nodes)}
    owners: dict[Node, int] = {}
    entries: list[Hashable] = []
    for node in nodes:  # which grow
        kind = (node.shape, node.dtype)
        if node not in own and node not in inlined and node.op is not LITERAL:
            entries.append((*kind, called(node), owners.setdefault(storage(node), len(owners))))
            continue
        for source in node.sources:
            if source not in numbers:
                numbers[source] = len(nodes)
                nodes.append(source)
        sources = tuple([numbers[source] for source in node.sources])
        place = called(node) if node in stored else None
        attributes = frozen_attributes(node.attrs) if node.attrs else None
        entries.append((*kind, node.op, attributes, sources, place))
    order = tuple([numbers[root] for root in group.roots]), tuple([numbers[root] for root in group.stored])
    return group.space, group.axes, order, tuple(entries)


# --- partial sums -----------------------------------------------------------------------------------------------------


def partials_of(final: LoopKernel, sizes: Mapping[str, int], columns: Step) -> dict[str, Node]:
    """Values for the partial sums that a final reduction reads, by name; `sizes` are in bytes."""
    node, found = columns.writes[0], {}
    for name, (dtype, _) in final.buffers.items():
        if name in sizes:
            shape = (sizes[name] // dtype.itemsize,)
            found[name] = Node(node.op, node.sources, node.attrs, shape, dtype, node.device, False, node.location)
    return found


def final_step(
    final: LoopKernel, parts: Mapping[str, Node], columns: Step, donated: Mapping[Node, Node], device: DeviceProperties
) -> Step:
    """The final reduction of a column step; `donated` maps outputs to the inputs they overwrite."""
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


LARGE = 1 << 20  # elements from which rereading them costs more than a launch


def column_partials(plan: Plan) -> Plan:
    """The plan with partial column sums computed by steps over rows."""
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
    """The row step that makes partial sums for the column steps, and a final reduction for each of those."""
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
    """The plan with sums over an attention's cotangents computed by its own step."""
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
    """Whether a step is an attention's backward by our kernels, with joined cotangents."""
    if not step.launches or step.library is not None or len(step.writes) != 1 or step.writes[0].op is not PICK:
        return False
    return step.writes[0].sources[0].op is ATTENTION_BACKWARD


def _joined_attention(
    step: Step, totals: Step, donated: Mapping[Node, Node], device: DeviceProperties
) -> tuple[Step, Step] | None:
    """The step of an attention that writes partial totals, and their final reductions."""
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
    """The column total of a buffer (which may have several names), if a kernel sums nothing else."""
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
