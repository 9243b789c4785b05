"""Loop fusion: independent scans with the same number of steps become one scan.

In: a graph. Out: the graph with their carries and their stacked outputs side by side in one loop. There is one launch
instead of two, a sequence that both step over is read once, and two chains of small dependent steps hide each other's
latency.

Fusion pays where a loop is one kernel of elementwise work (`kernels/loops`) and the lanes are the same before and
after. Bodies with matrix products have kernels that keep their weights on chip, and a body that is called as a program
gains nothing. Totals over lanes are added in blocks, whose size would change. Scans that stack much are not fused, as
both stacks would be live at once, nor is deliberate recomputation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from wengert.autodiff.scan import SCAN
from wengert.compiler.cleanup import is_arithmetic, live
from wengert.compiler.loop_lanes import NO_LANES, LaneAxes, lanes_of_function
from wengert.compiler.loops import bytes_of, placeholder_for
from wengert.compiler.rewrite import depending, for_ops, over, picked, spend
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.graph import Graph, Node, now, recorded_as
from wengert.ops.core import RECOMPUTE_BARRIER
from wengert.ops.linalg import MATMUL
from wengert.ops.op import PICK, picks

SMALL = 64  # elements per lane of a value
LINES = 256  # elements that a step computes per lane; more would exceed the registers
STACKED = 64 << 20  # bytes that both loops stack


@for_ops(SCAN)
def loop_fusion(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with scans fused side by side.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = wg.Tensor(placeholder((5, 3), wg.float32))
    >>> fast, slow = (wg.scan(lambda c, x: (c * rate + x, None), x[0] * 0.0, x)[0] for rate in (0.5, 0.9))
    >>> fused = loop_fusion(Graph([x.node], [(fast - slow).node]))
    >>> [node.attrs["carries"] for node in fused.nodes if node.op is SCAN]
    [2]
    """
    while (found := next(_worth_fusing(graph), None)) is not None:
        first, second, both = found
        if not spend(second, partial("two scans of {} steps are one".format, second.attrs["steps"])):
            break
        graph = _with_one(graph, first, second, both)
    return graph


def _worth_fusing(graph: Graph) -> Iterator[tuple[Node, Node, Node]]:
    """Two scans of a graph, in order, and the scan that would replace them."""
    only_picked = picked(graph, SCAN)
    again = depending(graph.nodes, [node for node in graph.nodes if node.op is RECOMPUTE_BARRIER])
    scans = [node for node in graph.nodes if node in only_picked and node not in again and _is_elementwise(node)]
    for k, first in enumerate(scans[:-1]):
        after = depending(graph.nodes, [first])
        for second in scans[k + 1 :]:
            if second not in after and _alike(first, second):
                both = _side_by_side(first, second)
                if _lanes(first).count == _lanes(second).count == _lanes(both).count and _is_small(both):
                    yield first, second, both


def _alike(first: Node, second: Node) -> bool:
    """Whether two scans take the same steps in the same direction, and stack little."""
    same = all(first.attrs[name] == second.attrs[name] for name in ("steps", "reverse"))
    stacks = [y for scan in (first, second) for y in scan.attrs["body"].outputs[scan.attrs["carries"] :]]
    return same and first.device == second.device and first.attrs["steps"] * sum(map(bytes_of, stacks)) <= STACKED


def _is_elementwise(scan: Node) -> bool:
    """Whether a step is elementwise arithmetic: no inner loops, no matrix products, no totals over lanes."""
    nodes = scan.attrs["body"].nodes
    if any(node.op.kind == "function" or node.op is MATMUL or not is_arithmetic(node) for node in nodes):
        return False
    return scan.attrs["steps"] > 0 and not _lanes(scan).totals


def _lanes(scan: Node) -> LaneAxes:
    return lanes_of_function(scan) or NO_LANES


def _is_small(scan: Node) -> bool:
    """Whether the values of one lane fit in registers."""
    lanes, body = _lanes(scan), scan.attrs["body"]
    sizes = [math.prod(lanes.shape(node)) for node in (*body.inputs, *body.nodes)]
    computed = [node for node in body.nodes if node.op.kind == "elementwise"]
    return max(sizes) <= SMALL and sum(math.prod(lanes.shape(node)) for node in computed) <= LINES


def _side_by_side(first: Node, second: Node) -> Node:
    """Two scans as one: the carries of the first, then those of the second; likewise for stacked outputs."""
    fixed: dict[Node, Node] = {}  # the body's inputs by operand, so that each operand is read once
    items: dict[Node, Node] = {}
    initial, carried, following, stacked = list[Node](), list[Node](), list[Node](), list[Node]()
    since = now()
    with recorded_as(second.location, False):
        for scan in (first, second):
            body, c, n = scan.attrs["body"], scan.attrs["constants"], scan.attrs["carries"]
            own = [placeholder_for(node) for node in body.inputs[c : c + n]]
            constants = [fixed.setdefault(*pair) for pair in zip(scan.sources, map(placeholder_for, body.inputs[:c]))]
            steps = zip(scan.sources[c + n :], map(placeholder_for, body.inputs[c + n :]))
            results = body.inline(*constants, *own, *[items.setdefault(*pair) for pair in steps])
            initial += scan.sources[c : c + n]
            carried += own
            following += results[:n]
            stacked += results[n:]
        both = Graph([*fixed.values(), *carried, *items.values()], [*following, *stacked], since)
        attrs = {"constants": len(fixed), "carries": len(carried), "saved": 0}
        return picks(SCAN(*fixed, *initial, *items, **{**first.attrs, **attrs, "body": both}))[0].sources[0]


def _with_one(graph: Graph, first: Node, second: Node, both: Node) -> Graph:
    """The graph with one scan instead of two; readers of the first move behind everything the second reads."""
    results, early = picks(both), first.attrs["carries"]
    carries, ys = both.attrs["carries"], len(first.shape) - early

    def number(scan: Node, index: int) -> int:
        """The number that one scan's result has among the results of both."""
        if scan is first:
            return index if index < early else carries + index - early
        return early + index if index < carries - early else ys + early + index

    late = depending(graph.nodes, [first])
    replacing: dict[Node, Node] = {}
    nodes, waiting = list[Node](), list[Node]()

    def add(node: Node) -> None:
        if node.op is PICK and node.sources[0] in (first, second):
            replacing[node] = results[number(node.sources[0], node.attrs["index"])]
            nodes.append(replacing[node])
            return
        current = over(node, replacing)
        if current is not node:
            replacing[node] = current
        nodes.append(current)

    passed = False
    for node in graph.nodes:
        if node is second:
            passed = True
            nodes.append(both)
            for one in waiting:
                add(one)
        elif node is not first and not passed and node in late:
            waiting.append(node)
        elif node is not first:
            add(node)
    return live(Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes))
