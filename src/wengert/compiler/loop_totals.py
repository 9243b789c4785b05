"""Totals over lanes: carries to which each step adds sums over lanes and nothing else, as gradients of what all share.

In: the graph of a body. Out: by the number of a carry, the values on the way from the sums to it. A lane has a part of
each, which are added up when all lanes have ended.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wengert.autodiff.scan import SCAN
from wengert.core.dtypes import float32, float64
from wengert.core.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.core import LITERAL
from wengert.ops.movement import CONCAT, PLACE
from wengert.ops.op import PICK
from wengert.ops.reduce import SUM

SCALING = (e.multiply, e.safe_multiply)
"""By whose second operand a sum may be scaled, if all lanes share it."""


def totals_of(graph: Graph, carries: Sequence[tuple[int, int]]) -> dict[int, list[Node]]:
    """The carries to which a step adds sums and nothing else, by number: with the nodes from the sums to the carry."""
    uses: dict[Node, int] = {}
    for read in (graph.outputs, *(node.sources for node in graph.nodes)):
        for node in read:
            uses[node] = uses.get(node, 0) + 1
    found = {}
    for i, k in carries:
        given, made = graph.inputs[i], graph.outputs[k]
        if made.op is not e.add or given not in made.sources or made.dtype not in (float32, float64):
            continue
        added = made.sources[made.sources[0] is given]
        nodes = _sums_to(added)
        if nodes is not None and all(uses.get(node, 1) == 1 for node in (given, made, *nodes)):  # others are inside
            found[k] = [given, made, *nodes]
    return found


def _sums_to(node: Node) -> list[Node] | None:
    """The nodes between a value and the sums that it is added up from; None if it is made from anything else.

    A scan inside that begins with zero adds sums up as well: the gradient of what all lanes share, of a segment.
    """
    found, agenda = list[Node](), [node]
    while agenda:
        node = agenda.pop()
        found.append(node)
        if node.op in (e.add, e.subtract, e.negative) or node.op.kind == "movement":
            agenda += node.sources
        elif node.op in SCALING:
            agenda.append(node.sources[0])
        elif node.op is PICK and node.sources[0].op is SCAN:
            inside = _total_of_steps(node.sources[0], node.attrs["index"])
            if inside is None:
                return None
            found += inside
        elif node.op is not SUM:
            return None
    return found


def reads_a_part(node: Node, parts: Collection[Node]) -> bool:
    """Whether a value that is on no way to a total is one of a scan inside that is, or of another with its body."""
    if node.op is not PICK or node.sources[0].op is not SCAN or node in parts:
        return False
    scan, k = node.sources[0], node.attrs["index"]
    return k < scan.attrs["carries"] and scan.attrs["body"].outputs[k] in parts


def _total_of_steps(scan: Node, k: int) -> list[Node] | None:
    """The nodes by which the steps of a scan add up a carry that begins with zero; None if they do not."""
    c, n = scan.attrs["constants"], scan.attrs["carries"]
    if k >= n or not _is_zero(scan.sources[c + k]):
        return None
    return totals_of(scan.attrs["body"], [(c + k, k)]).get(k)


def _is_zero(node: Node) -> bool:
    while node.op.kind == "movement" and node.op not in (PLACE, CONCAT):
        node = node.sources[0]
    return node.op is LITERAL and not node.attrs["value"]
