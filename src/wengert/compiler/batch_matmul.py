"""Merge: equal small matrix products become one product of a batch.

In: a graph. Out: the graph with independent products of the same shapes done in one call. A product of a few thousand
operations costs less than the call that does it (a launch on a GPU, a BLAS call on a CPU), so a loop over heads,
experts or time steps that a user wrote in Python gains. Operands are joined along a new first axis; one that all of the
products share is not (a batch broadcasts); slices of one value, joined again, are that value (`simplify` sees to it).

Independence is by depth: the number of products on the longest way to a node. Two of the same depth never depend on
each other, and all that a product of depth d needs has depth d - 1 at most, so any number of groups merge at once.

What is not done: products with a common left operand and weights too large to count as small (q, k, v projections).
Joining those weights copies them at every step, which costs about what the larger product saves; a model that wants one
product writes one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from wengert.compiler.fuel import spend
from wengert.compiler.rewrite import over
from wengert.compiler.target import HOST, Target
from wengert.core.graph import Graph, Node, recorded_as
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import reshape, slice_axis, stack

SMALL = 1 << 16
"""Floating-point operations of a product (32 x 32 x 32) up to which it is merged with its equals."""


def batch_matmul(graph: Graph, target: Target = HOST) -> Graph:
    """The graph with equal small products merged; the graph itself where there are none."""
    depths = _depths(graph)
    groups = [group for group in _equals(graph, depths) if _merges(group)]
    return _merged(graph, depths, groups) if groups else graph


def _merges(group: list[Node]) -> bool:
    return spend(group[0], lambda: f"{len(group)} products become one")


def _depths(graph: Graph) -> dict[Node, int]:
    """The number of products on the longest way to each node."""
    depths: dict[Node, int] = {}
    for node in graph.nodes:
        depth = 0
        for source in node.sources:
            depth = max(depth, depths.get(source, 0))
        depths[node] = depth + 1 if node.op is MATMUL else depth
    return depths


def operations(node: Node) -> int:
    """The floating-point operations of a product."""
    return 2 * node.size * node.sources[0].shape[-1]


def _equals(graph: Graph, depths: dict[Node, int]) -> list[list[Node]]:
    """Groups of small products that can be one: of the same depth, shapes, dtype and device."""
    groups: dict[Hashable, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.op is MATMUL and 0 < operations(node) <= SMALL and node.sources[0].ndim == node.sources[1].ndim:
            a, b = node.sources
            groups[depths[node], a.shape, b.shape, node.dtype, node.device].append(node)
    return [group for group in groups.values() if len(group) > 1]


def _merged(graph: Graph, depths: dict[Node, int], groups: Sequence[list[Node]]) -> Graph:
    group_of = {node: group for group in groups for node in group}
    replacing: dict[Node, Node] = {}
    for node in _by_depth(graph, depths):
        if node in group_of:
            if node not in replacing:
                _merge_group(group_of[node], replacing)
        else:
            current = over(node, replacing)
            if current is not node:
                replacing[node] = current
    outputs = [replacing.get(node, node) for node in graph.outputs]
    return Graph(graph.inputs, outputs, nodes=_in_order(graph, outputs))


def _by_depth(graph: Graph, depths: dict[Node, int]) -> list[Node]:
    """The nodes in an order in which all that a product's group reads comes before the group."""
    return sorted(graph.nodes, key=lambda node: (depths[node], node.op is not MATMUL))


def _merge_group(group: list[Node], replacing: dict[Node, Node]) -> None:
    """Record one product for a group; the results are its slices, or all of it where the products are the same."""
    first = group[0]
    with recorded_as(first.location, first.tracked):
        lefts, rights = ([replacing.get(s, s) for s in sources] for sources in zip(*[n.sources for n in group]))
        whole = MATMUL(_joined(lefts), _joined(rights))
    for i, node in enumerate(group):
        with recorded_as(node.location, node.tracked):
            same = whole.shape == node.shape
            replacing[node] = whole if same else reshape(slice_axis(whole, 0, i, i + 1), node.shape)


def _joined(operands: Sequence[Node]) -> Node:
    """The operands along a new first axis; an operand they all share as it is, for the batch to broadcast."""
    first = operands[0]
    return first if all(operand is first for operand in operands) else stack(operands)


def _in_order(graph: Graph, outputs: Sequence[Node]) -> list[Node]:
    """The new graph's nodes. What was recorded anew came after what it reads, so serials order them."""
    outside = {*graph.inputs, *graph.captured()}
    found: set[Node] = set()
    agenda = list(outputs)
    while agenda:
        node = agenda.pop()
        if node not in found and node not in outside:
            found.add(node)
            agenda.extend(node.sources)
    return sorted(found, key=lambda node: node.serial)
