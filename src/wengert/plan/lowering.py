"""What both code generators share: which ops are loops, who picks which of several results, groups as kernels whose
buffers have names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wengert.compiler.storage import storage
from wengert.core.dtypes import COMPLEX
from wengert.core.graph import Graph, Node
from wengert.kernels.expressions import c_expression
from wengert.kernels.ir.loops import Kernel
from wengert.ops.core import LITERAL
from wengert.ops.creation import IOTA
from wengert.ops.op import PICK
from wengert.ops.random import RANDOM_BITS
from wengert.plan.groups import Group, Grouping
from wengert.plan.lowering_cache import Alike


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
    return c_expression(op, node.sources[-1].dtype, ["a", "b", "c"][: len(node.sources)], node.attrs) is not None


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
    group: Group, grouping: Grouping, donated: Mapping[Node, Node], alike: Alike
) -> tuple[Kernel, dict[str, Node]]:
    """The kernel of a loop group that is one nest, and what its buffers are."""
    names: dict[str, Node] = {}
    return alike.lower(group, "kernel", grouping.inlined, naming(names, donated)), names


def loops(
    group: Group, grouping: Grouping, donated: Mapping[Node, Node], alike: Alike
) -> tuple[list[Kernel], dict[str, Node]]:
    """The kernels of a loop group, to run one after the other, and what their buffers are."""
    found = [lowered(part, grouping, donated, alike) for part in group.parts()]
    return [kernel for kernel, _ in found], {name: node for _, names in found for name, node in names.items()}
