"""Totals over lanes: carries to which each step adds only sums over lanes, such as gradients of shared parameters.

In: the graph of a body. Out: for each such carry, the values between the sums and the carry. Each lane keeps a partial
total, and these are added when all lanes have ended.
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
    """The carries to which a step adds only sums, by number, with the nodes from the sums to the carry."""
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
    """The nodes between a value and the sums that it adds; None if it is made from anything else.

    An inner scan that starts at zero counts as a sum: the gradient, within a segment, of a shared value.
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
    """Whether a value off the paths to totals comes from an inner scan on such a path, or one with the same body."""
    if node.op is not PICK or node.sources[0].op is not SCAN or node in parts:
        return False
    scan, k = node.sources[0], node.attrs["index"]
    return k < scan.attrs["carries"] and scan.attrs["body"].outputs[k] in parts


def _total_of_steps(scan: Node, k: int) -> list[Node] | None:
    """The nodes by which a scan's steps accumulate a carry that starts at zero; None if they do not."""
    c, n = scan.attrs["constants"], scan.attrs["carries"]
    if k >= n or not _is_zero(scan.sources[c + k]):
        return None
    return totals_of(scan.attrs["body"], [(c + k, k)]).get(k)


def _is_zero(node: Node) -> bool:
    while node.op.kind == "movement" and node.op not in (PLACE, CONCAT):
        node = node.sources[0]
    return node.op is LITERAL and not node.attrs["value"]
