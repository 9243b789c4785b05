"""The passes, in order: from the graph as it was recorded to the graph that is fused and scheduled.

In: a graph. Out: the graph after all passes, and a report of each. What varies between calls must be an input of the
graph; every other array it reads counts as a constant. Bodies (of `scan`, `cond`, `while_loop`, `checkpoint`) go
through the same passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from wengert.compiler.align import align
from wengert.compiler.attention_layout import attention_layout
from wengert.compiler.cleanup import cse, dce, inline
from wengert.compiler.fixed_order import fixed_order
from wengert.compiler.layout import layout
from wengert.compiler.matmul import batch_matmul, gemv_to_reduction, transpose_matmul
from wengert.compiler.reductions import factor, onehot
from wengert.compiler.remat import remat
from wengert.compiler.rewrite import Pass, begin, limited, over, with_attrs
from wengert.compiler.rewrite import fuel as tank
from wengert.compiler.simplify import simplify
from wengert.compiler.verify import verify
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.graph import Graph, Node
from wengert.ops.core import TO_DEVICE, to_device

PASSES: tuple[Pass, ...] = (
    *(inline, simplify, cse, batch_matmul, transpose_matmul, gemv_to_reduction, attention_layout, factor),
    *(simplify, cse, onehot, layout, align, dce, remat),
)
"""In the order they run. The second round is for what merging, turning and the others before brought together."""

INVARIANT: tuple[Pass, ...] = (inline, fixed_order, simplify, cse, transpose_matmul, attention_layout, dce, remat)
"""Those under `config.invariant`: sums get their order first, and what changes bits stays away."""

NEVER, BEFORE_AND_AFTER, AFTER_EACH = "never", "before and after", "after each"  # when a graph is verified


@dataclass(frozen=True)
class PassReport:
    """What a pass did: the nodes before and after, how many rewrites it made in how many seconds, and the graph.

    `rules` has how often each rule was followed, in bodies too; a pass that is one rule has it under "".
    """

    name: str
    before: int
    after: int
    rewrites: int
    seconds: float
    graph: Graph
    rules: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name:<17} {self.before:>6} -> {self.after:<6} {self.rewrites:>6} rewrites {self.seconds:8.4f} s"


def optimize(
    graph: Graph,
    passes: Sequence[Pass] = PASSES,
    off: Collection[str] = (),
    fuel: int | None = None,
    check: bool = True,
    target: Target = HOST_TARGET,
) -> tuple[Graph, list[PassReport]]:
    """The graph after the passes, those named in `off` left out, and a report of each.

    `fuel` stops the passes after that many rewrites, to find the one that is at fault; `check` verifies the graph
    before and after all of them, and where something is wrong once more after each, to name the pass that did it.
    `target` is what the graph is compiled for; an invariant one has passes of its own.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> graph, reports = optimize(Graph([x], [x * 1.0 + x * 1.0]))
    >>> [node.op.name for node in graph.nodes], [report.name for report in reports][:3]
    (['add'], ['inline', 'simplify', 'cse'])
    """
    passes = [one for one in (INVARIANT if target.invariant else passes) if one.__name__ not in off]
    if fuel is not None:
        with limited(fuel):
            return optimize(graph, passes, (), None, check, target)
    left = tank.left  # of what whoever called this has
    try:
        return _through(graph, passes, target, BEFORE_AND_AFTER if check else NEVER)
    except Exception:
        if check:
            tank.left = left
            _through(graph, passes, target, AFTER_EACH)
        raise


def _through(graph: Graph, passes: Sequence[Pass], target: Target, verified: str) -> tuple[Graph, list[PassReport]]:
    if verified != NEVER:
        verify(graph)
    graph, inside = _with_bodies_optimized(graph, passes, target, verified)
    recorded, reports = graph, list[PassReport]()
    for number, one in enumerate(passes):
        begin(one.__name__)
        rewrites, start = tank.spent, perf_counter()
        result = _on_their_devices(one(graph, target), graph)
        rules = _together([tank.rules, *(body[number].rules for body in inside)])
        seconds = perf_counter() - start
        if verified == AFTER_EACH and result is not graph:
            verify(result, one.__name__, graph)
        counts = len(graph.nodes), len(result.nodes), tank.spent - rewrites
        reports.append(PassReport(one.__name__, *counts, seconds, result, rules))
        graph = result
    if verified == BEFORE_AND_AFTER:
        verify(graph, "the passes", recorded)
    return graph, reports


def _together(counts: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    """Counts of several graphs as one."""
    return dict(counts[0]) if len(counts) == 1 else sum(map(Counter, counts), Counter())


def _on_their_devices(graph: Graph, before: Graph) -> Graph:
    """The graph with its outputs where they were: a constant that took the place of one goes along."""
    pairs = list(zip(graph.outputs, before.outputs))
    if all(now.device == then.device for now, then in pairs):
        return graph
    outputs = [to_device(now, then.device) for now, then in pairs]
    known = set(graph.nodes)
    moves = [node for node in dict.fromkeys(outputs) if node.op is TO_DEVICE and node not in known]
    return Graph(graph.inputs, outputs, nodes=[*graph.nodes, *moves])


# --- bodies ---------------------------------------------------------------------------------------------------------


def _with_bodies_optimized(
    graph: Graph, passes: Sequence[Pass], target: Target, verified: str
) -> tuple[Graph, list[list[PassReport]]]:
    """The graph with the graphs that its ops carry optimised, each once, however many ops carry it; and reports."""
    reports: list[list[PassReport]] = []
    if not any(_carries_graph(node) for node in graph.nodes):
        return graph, reports
    done: dict[Graph, Graph] = {}

    def optimized(value: Any) -> Any:
        if isinstance(value, Graph):
            if value not in done:
                done[value], report = _through(value, passes, target, verified)
                reports.append(report)
            return done[value]
        if type(value) is tuple and value and isinstance(value[0], Graph):
            return tuple(optimized(item) for item in value)
        return value

    replacing: dict[Node, Node] = {}
    nodes = []
    for node in graph.nodes:
        current = over(node, replacing)
        if _carries_graph(node):
            current = with_attrs(current, {key: optimized(value) for key, value in node.attrs.items()})
        if current is not node:
            replacing[node] = current
        nodes.append(current)
    return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes), reports


def _carries_graph(node: Node) -> bool:
    for value in node.attrs.values():
        if isinstance(value, Graph) or (type(value) is tuple and value and isinstance(value[0], Graph)):
            return True
    return False
