"""Donation: which outputs are written over the input they replace, so that a parameter's update needs no second copy.

In: the groups in order, and pairs of an input and the output that takes its place (a slot before and after). Out: the
pairs for which that is right: the kernel that writes the output is the last to read the input, reads it only at the
element it writes, and nothing that can fail comes after it (a failed call must leave every slot as it was). An op that
changes some elements of its first operand, such as a row of a cache, writes only those then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from wengert.compiler.fuel import spend
from wengert.compiler.storage import storage
from wengert.core.graph import Graph, Node
from wengert.plan.groups import Group, Grouping, root_place
from wengert.plan.plan import Buffers, Plan


def donations(
    graph: Graph,
    plan: Grouping,
    pairs: Iterable[tuple[Node, Node]],
    last_fallible: int,
    overwriting: bool = False,
) -> dict[Node, Node]:
    """By output: the input over which it is written. `last_fallible` is the number of the last group that may fail;
    `overwriting`: whether the device's kernels of ops that overwrite leave the result in their first operand's memory.
    """
    written = {root: number for number, group in enumerate(plan.groups) for root in group.stored}
    readers: dict[Node, list[int]] = {}
    for number, group in enumerate(plan.groups):
        for read in group.reads:
            readers.setdefault(storage(read.leaf), []).append(number)
    kept = {storage(node) for node in graph.outputs}
    found: dict[Node, Node] = {}
    gone: set[Node] = set()
    for source, output in pairs:
        result = storage(output)
        writer = written.get(result, -1)
        if writer <= last_fallible or source in kept or result in found or source in gone:
            continue
        alike = (source.shape, source.dtype) == (result.shape, result.dtype)
        if not alike or max(readers.get(source, [-1])) > writer:
            continue
        group = plan.groups[writer]
        if _reads_own(group, source, result) or (overwriting and group.opaque and _changes(result, source)):
            found[result] = source
            gone.add(source)
    return found


def _changes(result: Node, source: Node) -> bool:
    """Whether an op changes elements of a value, which nothing else in it is."""
    if not result.op.overwrites:
        return False
    first, *others = map(storage, result.sources)
    return first is source and source not in others


def _reads_own(group: Group, source: Node, result: Node) -> bool:
    """Whether a group reads a value only at the element at which it writes another, and before it does."""
    if group.opaque and result not in group.epilogue:
        return False
    passes = any(read.leaf in group.roots and read.leaf.op.kind == "reduction" for read in group.reads)
    if passes and result.shape == group.space:
        return False  # an element stored in one pass might be read again in the next
    own = root_place(result, group.space, group.axes)
    places: Collection[object] = [read.place for read in group.reads if storage(read.leaf) is source]
    return all(place == own for place in places)


# --- the stage ------------------------------------------------------------------------------------------------------


def donate(plan: Plan) -> Plan:
    """The plan with the inputs over which outputs are written, and the buffers outside of the arena."""
    nodes = [(plan.graph.inputs[i], plan.graph.outputs[k]) for i, k in plan.pairs]
    last = max(plan.codegen.fallible(plan.grouping), default=-1)
    found = donations(plan.graph, plan.grouping, nodes, last, plan.codegen.overwriting)
    donated = {
        result: source
        for result, source in found.items()
        if spend(result, lambda result=result: f"{result.op.name} is written over an input")  # type: ignore[misc]
    }
    return replace(plan, donated=donated, buffers=_buffers(plan.graph, plan.grouping, donated))


def _buffers(graph: Graph, grouping: Grouping, donated: Mapping[Node, Node]) -> Buffers:
    """The buffers of a program."""
    external = list(graph.inputs)
    known = set(external)
    constants = [node for node in graph.captured() if node not in known]
    own = {node for group in grouping.groups for node in group.stored}
    outputs = dict.fromkeys(storage(node) for node in graph.outputs)
    made = [node for node in outputs if node in own and node not in known and node not in donated]
    slots = {node: i for i, node in enumerate([*external, *constants, *made])}
    slots.update((node, slots[source]) for node, source in donated.items())
    return Buffers(external, constants, made, slots)
