"""Lowering, as both code generators need it: which ops are loops, who picks which of several results, and groups as
kernels whose buffers have names. Equal groups, as those of a model's equal layers are, are lowered once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping

from wengert.compiler.memory import storage
from wengert.core.canonical import frozen_attributes
from wengert.core.dtypes import COMPLEX
from wengert.core.graph import Graph, Node
from wengert.kernels.ir.loops import LoopKernel
from wengert.kernels.ir.transforms import with_buffers
from wengert.kernels.writer import has_expression
from wengert.ops.core import LITERAL
from wengert.ops.creation import IOTA
from wengert.ops.op import PICK
from wengert.ops.random import RANDOM_BITS
from wengert.plan.groups import FusionGroup, Grouping
from wengert.plan.lower import lower


def inlines(node: Node) -> bool:
    """Whether a value is an expression in a loop."""
    op = node.op
    if node.dtype in COMPLEX or isinstance(node.dtype, tuple):
        return False
    if op.kind == "movement" or op in (LITERAL, IOTA):
        return True
    if op is RANDOM_BITS:
        return node.sources[0].ndim == 1 and node.sources[1].ndim == 0
    if not node.sources or any(isinstance(s.dtype, tuple) for s in node.sources):
        return False
    return has_expression(op, node.sources[-1].dtype, node.attrs)


def picks(graph: Graph) -> dict[Node, dict[int, Node]]:
    """For every node with several results the first node that picks each, by its number."""
    found: dict[Node, dict[int, Node]] = {}
    for node in graph.nodes:
        if node.op is PICK:
            found.setdefault(node.sources[0], {}).setdefault(node.attrs["index"], node)
    return found


def naming(names: dict[str, Node], donated: Mapping[Node, Node]) -> Callable[[Node], str]:
    """What names the memory a value lies in, and notes it in `names`."""

    def name(node: Node) -> str:
        owner = storage(node)
        owner = donated.get(owner, owner)
        names[f"n{owner.serial}"] = owner
        return f"n{owner.serial}"

    return name


def lowered(
    group: FusionGroup, grouping: Grouping, donated: Mapping[Node, Node], cache: LoweringCache
) -> tuple[LoopKernel, dict[str, Node]]:
    """The kernel of a loop group that is one nest, and what its buffers are."""
    names: dict[str, Node] = {}
    return cache.lower(group, "kernel", grouping.inlined, naming(names, donated)), names


def loops(
    group: FusionGroup, grouping: Grouping, donated: Mapping[Node, Node], cache: LoweringCache
) -> tuple[list[LoopKernel], dict[str, Node]]:
    """The kernels of a loop group, to run one after the other, and what their buffers are."""
    found = [lowered(part, grouping, donated, cache) for part in group.parts()]
    return [kernel for kernel, _ in found], {name: node for _, names in found for name, node in names.items()}


# --- lowering cache -------------------------------------------------------------------------------------------------


class LoweringCache:
    """The kernels of a program's groups, one for all that differ in nothing but their buffers."""

    def __init__(self) -> None:
        self.kernels: dict[Hashable, LoopKernel] = {}

    def lower(
        self, group: FusionGroup, name: str, inlined: Container[Node], buffer_of: Callable[[Node], str]
    ) -> LoopKernel:
        """The kernel of a loop group, as `lower` gives it."""
        buffers: dict[str, str] = {}  # those of the group, to what they are called in every group that is alike

        def called(node: Node) -> str:
            return buffers.setdefault(buffer_of(node), f"buffer{len(buffers)}")

        key = (name, _content(group, inlined, called))
        if key not in self.kernels:
            self.kernels[key] = lower(group, name, inlined, called)
        return with_buffers(self.kernels[key], {common: own for own, common in buffers.items()})


def _content(group: FusionGroup, inlined: Container[Node], called: Callable[[Node], str]) -> Hashable:
    """All that a group's kernel depends on: what is computed from what, down to the values that lie in memory."""
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
