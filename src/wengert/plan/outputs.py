"""Outputs: those that the host computes, those written over the input they replace, and the memory of the rest.

The host computes outputs that depend only on its own values, such as a random counter's. Donation avoids a second copy
of a parameter for its update. It is valid if the kernel that writes the output is the last reader of the input, reads
each element before it writes it, and is followed by nothing that may fail (a failed call must leave every slot
unchanged). An op that changes some elements of its first operand, such as a row of a cache, then writes only those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wengert.compiler import constants
from wengert.compiler.memory import storage
from wengert.compiler.rewrite import spend
from wengert.core.devices import HOST
from wengert.core.dtypes import INTEGER
from wengert.core.graph import Graph, Node, Shape, recorded_as
from wengert.ops import elementwise as e
from wengert.ops.core import CAST
from wengert.plan.groups import FusionGroup, Grouping, Read, common_space, root_place
from wengert.plan.plan import Buffers, HostOutputs, Plan


def device_of(graph: Graph) -> str:
    """The GPU of a graph's values."""
    for node in (*graph.nodes, *graph.inputs, *graph.outputs):
        if node.device != HOST:
            return node.device
    raise ValueError("no value of this graph is on a GPU")


def with_own_outputs(graph: Graph) -> Graph:
    """The graph with a copy for each output that shares memory with another, such as equal gradients."""
    made, seen = set(graph.nodes), set[Node]()
    outputs: list[Node] = []
    for node in graph.outputs:
        owner = storage(node)
        if owner in seen and owner in made and node.device == owner.device:
            with recorded_as(node.location, False):
                node = CAST(node, dtype=node.dtype)
        seen.add(owner)
        outputs.append(node)
    copies = [node for node in outputs if node not in made and node.op is CAST]
    return Graph(graph.inputs, outputs, nodes=[*graph.nodes, *copies]) if copies else graph


def on_host_alone(graph: Graph) -> set[Node]:
    """Values on the host that depend only on values on the host: the host computes them while the device works."""
    found = {node for node in (*graph.inputs, *graph.captured()) if node.device == HOST}
    for node in graph.nodes:
        if node.device == HOST and found.issuperset(node.sources):
            found.add(node)
    return found


def counted_on(node: Node, counter: Node) -> np.integer[Any] | None:
    """The amount by which a value exceeds a counter, if only literals were added; else None."""
    if node.dtype not in INTEGER or node.shape:
        return None
    total = 0
    while node is not counter:
        numbers = [constants.number(source) for source in node.sources] if node.op is e.add else []
        known = [value for value in numbers if value is not None]
        if len(known) != 1:
            return None
        total += known[0]
        node = node.sources[numbers.index(None)]
    found: np.integer[Any] = np.uint64(total % (1 << 64)).astype(node.dtype)
    return found


def host_outputs(plan: Plan) -> Plan:
    """The plan without outputs that the host can compute itself, such as a random counter's."""
    if not plan.target.launches:
        return plan
    graph, pairs = with_own_outputs(plan.graph), plan.pairs
    on_host = on_host_alone(graph)
    hosted = [
        k
        for k, node in enumerate(graph.outputs)
        if node in on_host and spend(node, lambda node=node: f"the host computes {node.op.name}")  # type: ignore[misc]
    ]
    numbers = [k for k in range(len(graph.outputs)) if k not in hosted]
    host = HostOutputs(
        numbers,
        hosted,
        Graph(graph.inputs, [graph.outputs[k] for k in hosted], 0) if hosted else None,
        {k: i for i, k in pairs if k in hosted},
    )
    place = {k: i for i, k in enumerate(numbers)}
    rest = Graph(graph.inputs, [graph.outputs[k] for k in numbers], 0) if hosted else graph
    return replace(plan, graph=rest, host=host, pairs=tuple((i, place[k]) for i, k in pairs if k in place))


# --- donation -------------------------------------------------------------------------------------------------------


def donations(
    graph: Graph,
    plan: Grouping,
    pairs: Iterable[tuple[Node, Node]],
    last_fallible: int,
    overwriting: bool = False,
) -> dict[Node, Node]:
    """For each output, the input that it overwrites.

    `last_fallible` is the number of the last group that may fail; `overwriting` says whether the device's kernels of
    overwriting ops leave the result in their first operand's memory.
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
        changes = overwriting and group.opaque and _changes(result, source)
        if changes or _reads_own(group, source, result) or (result.op.into and writer not in readers.get(source, ())):
            found[result] = source
            gone.add(source)
    return found


def _changes(result: Node, source: Node) -> bool:
    """Whether an op updates elements of a value that nothing else in the op reads."""
    if not result.op.overwrites:
        return False
    first, *others = map(storage, result.sources)
    return first is source and source not in others


def _reads_own(group: FusionGroup, source: Node, result: Node) -> bool:
    """Whether a group reads a value only at the index where it writes another, and before writing."""
    if group.opaque and result not in group.epilogue:
        return False
    passes = any(read.leaf in group.roots and read.leaf.op.kind == "reduction" for read in group.reads)
    if passes and result.shape == group.space:
        return False  # the next pass might read an element stored in this one
    own = root_place(result, group.space, group.axes)
    places: Collection[object] = [read.place for read in group.reads if storage(read.leaf) is source]
    return all(place == own for place in places)


def spoils_update(
    first: FusionGroup,
    second: FusionGroup,
    updates: Mapping[Node, Node],
    reads_in: Callable[[FusionGroup, Shape, tuple[int, ...]], Sequence[Read]],
) -> str | None:
    """Why merging two groups would prevent an output from overwriting its input; None if it would not.

    Every row reads a bias whose gradient is summed over rows: in a merged kernel one block might write it before
    another has read it, so the update would need separate memory at every call. On its own it is a small kernel.
    `updates` maps inputs to the outputs that replace them, `reads_in` gives the reads of a group in a space.
    """
    space, axes = common_space(first, second)
    if space is None:
        return None
    for group, other in ((first, second), (second, first)):
        updated = {updates[root]: root for root in group.roots if root in updates}
        for read in reads_in(other, space, axes) if updated else ():
            root = updated.get(storage(read.leaf))
            if root is not None and read.place != root_place(root, space, axes):
                return f"{other.roots[0].op.name} reads elsewhere what {root.op.name} is written over"
    return None


# --- the stage ------------------------------------------------------------------------------------------------------


def donate(plan: Plan) -> Plan:
    """The plan with the inputs that outputs overwrite, and the buffers outside the arena."""
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
