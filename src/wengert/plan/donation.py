"""Donation: which outputs are written over the input they replace, so that a parameter's update needs no second copy.

In: the groups in order, and pairs of an input and the output that takes its place (a slot before and after). Out: the
pairs for which that is right: the kernel that writes the output is the last to read the input, reads it only at the
element it writes, and nothing that can fail comes after it (a failed call must leave every slot as it was). An op that
changes some elements of its first operand, such as a row of a cache, writes only those then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from wengert.compiler.storage import storage
from wengert.core.graph import Graph, Node
from wengert.plan.groups import Group, Plan, root_place


def donations(
    graph: Graph,
    plan: Plan,
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
