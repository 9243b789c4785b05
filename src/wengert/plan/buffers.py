"""What programs of every device plan alike: which ops are loops, where values lie, who picks which of several results.

In: a graph and its groups. Out: buffers by slot, picks, and groups as kernels whose buffers have names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from wengert.compiler.storage import storage
from wengert.core.dtypes import COMPLEX
from wengert.core.graph import Graph, Node
from wengert.kernels.expressions import has_expression
from wengert.kernels.ir.loops import Kernel
from wengert.ops.core import LITERAL
from wengert.ops.creation import IOTA
from wengert.ops.op import PICK
from wengert.ops.random import RANDOM_BITS
from wengert.plan.groups import Group, Plan
from wengert.plan.lowering_cache import LoweringCache


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


class Buffers(NamedTuple):
    """The values that lie outside of the arena: given, constant, or made to be returned; and their slots in that order.

    An output that is written over an input has that input's slot.
    """

    external: list[Node]
    constants: list[Node]
    made: list[Node]
    slots: dict[Node, int]


def buffers(graph: Graph, plan: Plan, taken: Mapping[Node, Node]) -> Buffers:
    """The buffers of a program; `taken` has the inputs over which outputs are written."""
    external = list(graph.inputs)
    known = set(external)
    constants = [node for node in graph.captured() if node not in known]
    own = {node for group in plan.groups for node in group.stored}
    outputs = dict.fromkeys(storage(node) for node in graph.outputs)
    made = [node for node in outputs if node in own and node not in known and node not in taken]
    slots = {node: i for i, node in enumerate([*external, *constants, *made])}
    slots.update((node, slots[source]) for node, source in taken.items())
    return Buffers(external, constants, made, slots)


def picks(graph: Graph) -> dict[Node, dict[int, Node]]:
    """For every node with several results the first node that picks each, by its number."""
    found: dict[Node, dict[int, Node]] = {}
    for node in graph.nodes:
        if node.op is PICK:
            found.setdefault(node.sources[0], {}).setdefault(node.attrs["index"], node)
    return found


def naming(names: dict[str, Node], taken: Mapping[Node, Node]) -> Callable[[Node], str]:
    """What names the memory a value lies in, and notes it in `names`."""

    def name(node: Node) -> str:
        owner = storage(node)
        owner = taken.get(owner, owner)
        names[f"n{owner.serial}"] = owner
        return f"n{owner.serial}"

    return name


def lowered(
    group: Group, plan: Plan, taken: Mapping[Node, Node], cache: LoweringCache
) -> tuple[Kernel, dict[str, Node]]:
    """The kernel of a loop group that is one nest, and what its buffers are."""
    names: dict[str, Node] = {}
    return cache.lower(group, "kernel", plan.inlined, naming(names, taken)), names


def loops(
    group: Group, plan: Plan, taken: Mapping[Node, Node], cache: LoweringCache
) -> tuple[list[Kernel], dict[str, Node]]:
    """The kernels of a loop group, to run one after the other, and what their buffers are."""
    found = [lowered(part, plan, taken, cache) for part in group.parts()]
    return [kernel for kernel, _ in found], {name: node for _, names in found for name, node in names.items()}
