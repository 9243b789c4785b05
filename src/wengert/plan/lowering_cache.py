"""The lowering cache: groups of a model's equal layers are lowered once.

In: a group of loops. Out: its kernel, from another group's where the two differ in nothing but their buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable

from wengert.compiler.storage import storage
from wengert.core.canonical import frozen_attributes
from wengert.core.graph import Node
from wengert.kernels.ir.loops import Kernel
from wengert.kernels.ir.transforms import with_buffers
from wengert.ops.core import LITERAL
from wengert.plan.groups import Group
from wengert.plan.lower import lower


class LoweringCache:
    """The kernels of a program's groups, one for all that differ in nothing but their buffers."""

    def __init__(self) -> None:
        self.kernels: dict[Hashable, Kernel] = {}

    def lower(self, group: Group, name: str, inlined: Container[Node], buffer_of: Callable[[Node], str]) -> Kernel:
        """The kernel of a loop group, as `lower` gives it."""
        buffers: dict[str, str] = {}  # those of the group, to what they are called in every group that is alike

        def called(node: Node) -> str:
            return buffers.setdefault(buffer_of(node), f"buffer{len(buffers)}")

        key = (name, _content(group, inlined, called))
        if key not in self.kernels:
            self.kernels[key] = lower(group, name, inlined, called)
        return with_buffers(self.kernels[key], {common: own for own, common in buffers.items()})


def _content(group: Group, inlined: Container[Node], called: Callable[[Node], str]) -> Hashable:
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
