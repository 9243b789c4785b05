"""Loops as passes see them: opening a scan, recording body code over all steps, and replacing scans.

In: a graph, and a function that records a replacement for a loop. Out: the graph with the replacement. `OpenScan` is a
scan that can be edited: sources, inputs and outputs may be added or removed, and `record` makes a scan of it again.
`Stacked` records nodes of a body for all steps at once by their batching rules, with the steps as lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from wengert.autodiff import body as bodies
from wengert.autodiff.scan import SCAN
from wengert.compiler.cleanup import live
from wengert.compiler.rewrite import looking_into, over, picked
from wengert.core.graph import Graph, Node, ancestors, has_array, now, recorded_as
from wengert.ops.core import DATA, LITERAL, RECOMPUTE_BARRIER
from wengert.ops.op import PICK, Op, picks

INTENSITY = 8
"""Floating-point operations that a byte of memory is worth: what moves out of a loop is stored for all steps."""


@dataclass
class OpenScan:
    """A scan under construction: its operands, and its body's inputs and outputs by role."""

    node: Node
    constants: list[Node]
    initial: list[Node]
    xs: list[Node]
    fixed: list[Node]  # the body's inputs: for constants,
    carried: list[Node]  # carries
    items: list[Node]  # and elements of the xs
    nodes: list[Node]
    next: list[Node]  # its outputs: carries
    ys: list[Node]  # and what is stacked

    @property
    def steps(self) -> int:
        """The number of steps."""
        return int(self.node.attrs["steps"])

    def stack(self, value: Node) -> int:
        """The number of the stacked output that holds a value of the body, added if there is none."""
        if value not in self.ys:
            self.ys.append(value)
        return self.ys.index(value)

    @property
    def computed(self) -> frozenset[Node]:
        """The nodes of the body."""
        return frozenset(self.nodes)

    def drop_unread(self) -> None:
        """Drop nodes that lead to no output, and constants and xs that no node reads."""
        needed = leading_to(self.nodes, [*self.next, *self.ys])
        self.nodes = [node for node in self.nodes if node in needed]
        constants = [(s, i) for s, i in zip(self.constants, self.fixed) if i in needed]
        items = [(s, i) for s, i in zip(self.xs, self.items) if i in needed]
        self.constants, self.fixed = [s for s, _ in constants], [i for _, i in constants]
        self.xs, self.items = [s for s, _ in items], [i for _, i in items]

    def record(self) -> tuple[Node, ...]:
        """Record the loop in its current form: final carries and stacked outputs, without what its body never reads."""
        if not self.next and not self.ys:
            return ()
        fixed, items = dict(zip(self.fixed, self.constants)), dict(zip(self.items, self.xs))
        needed = leading_to(self.nodes, [*self.next, *self.ys])
        nodes = [node for node in self.nodes if node in needed]
        constants, xs = [one for one in self.fixed if one in needed], [one for one in self.items if one in needed]
        body = Graph([*constants, *self.carried, *xs], [*self.next, *self.ys], nodes=nodes)
        sources = [*[fixed[one] for one in constants], *self.initial, *[items[one] for one in xs]]
        attrs = {"constants": len(constants), "carries": len(self.carried), "saved": 0}
        return picks(SCAN(*sources, **{**self.node.attrs, **attrs, "body": body}))

    def replace(self, replacing: dict[Node, Node]) -> None:
        """Let the body read other values in place of some."""
        nodes = []
        for node in self.nodes:
            if node in replacing:
                continue
            current = over(node, replacing)
            if current is not node:
                replacing[node] = current
            nodes.append(current)
        self.nodes = nodes
        self.next = [replacing.get(node, node) for node in self.next]
        self.ys = [replacing.get(node, node) for node in self.ys]


def opened(node: Node) -> OpenScan:
    """A scan as an `OpenScan`."""
    body, c, n = node.attrs["body"], node.attrs["constants"], node.attrs["carries"]
    sources, inputs, outputs = list(node.sources), list(body.inputs), list(body.outputs)
    return OpenScan(
        node,
        *(sources[:c], sources[c : c + n], sources[c + n :]),
        *(inputs[:c], inputs[c : c + n], inputs[c + n :]),
        list(body.nodes),
        outputs[:n],
        outputs[n:],
    )


Change = Callable[[Node, Collection[int]], Sequence[Node | None] | None]
"""From an op with several results, and those of them that are picked, to what they are now; None where they stay."""


def replaced(graph: Graph, op: Op, change: Change) -> Graph:
    """The graph with the results of an op's nodes replaced by what `change` records for them."""
    read = picked(live(graph), op)
    if not read:
        return graph
    instead: dict[Node, Sequence[Node | None]] = {}
    replacing: dict[Node, Node] = {}
    nodes: list[Node] = []
    with looking_into(graph):
        for node in graph.nodes:
            current = over(node, replacing)
            if node in read:
                start = now()
                with recorded_as(node.location, False):
                    results = change(current, read[node])
                if results is not None:
                    instead[node] = results
                    made = ancestors([result for result in results if result is not None], since=start)
                    nodes += [one for one in made if not has_array(one)]
                    continue
            elif node.op is PICK and node.sources[0] in instead:
                result = instead[node.sources[0]][node.attrs["index"]]
                assert result is not None
                replacing[node] = result
                continue
            if current is not node:
                replacing[node] = current
            nodes.append(current)
    if not instead:
        return graph
    return live(Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes))


# --- what nodes of a body depend on ---------------------------------------------------------------------------------


def is_constant(node: Node) -> bool:
    """Whether a node that a body reads holds its own value."""
    return node.op is LITERAL or node.op is DATA or has_array(node)


def leading_to(nodes: Sequence[Node], values: Iterable[Node]) -> set[Node]:
    """These values and all nodes that they are computed from."""
    found = set(values)
    for node in reversed(nodes):
        if node in found:
            found.update(node.sources)
    return found


def bytes_of(node: Node) -> int:
    """The size of one value in memory."""
    return int(node.size * node.dtype.itemsize)


def moves(node: Node) -> bool:
    """Whether a node may be computed for all steps at once, or at another time.

    A value behind a barrier is deliberately computed where it is, like the segments of a scan.
    """
    if node.op.batch is None or node.op.collective or node.op is RECOMPUTE_BARRIER:
        return False
    return node.op.kind not in ("function", "tuple")


def may_be_stacked(node: Node) -> bool:
    """Whether a value may be kept for all steps; not results of an inner loop, which has its own steps."""
    return node.op is not PICK or node.sources[0].op.kind != "function"


def invariants(nodes: Sequence[Node], fixed: Iterable[Node]) -> set[Node]:
    """The nodes and inputs of a body that are the same in every step."""
    known = set(fixed)
    for node in nodes:
        if not node.op.collective and all(source in known or is_constant(source) for source in node.sources):
            known.add(node)
    return known


def base_of(node: Node, nodes: Collection[Node]) -> tuple[Node, list[Node]]:
    """The value below movement ops, as long as it is not larger, and those ops in order."""
    path: list[Node] = []
    while node in nodes and node.op.kind == "movement" and moves(node) and len(node.sources) == 1:
        (source,) = node.sources
        if source.size > node.size:
            break
        path.append(node)
        node = source
    return node, path[::-1]


# --- bodies over all steps ------------------------------------------------------------------------------------------


class Stacked:
    """Nodes of a body recorded outside its loop, for all steps at once where they differ from step to step."""

    def __init__(self, once: Iterable[tuple[Node, Node]], whole: Iterable[tuple[Node, Node]] = ()) -> None:
        self.once = dict(once)
        self.whole = dict(whole)  # with the steps as their first axis

    def record(self, nodes: Iterable[Node]) -> None:
        """Record nodes of the body, in order; their sources must be recorded already."""
        for node in nodes:
            if node not in self.whole and node not in self.once:
                with recorded_as(node.location, False):
                    self._record(node)

    def _record(self, node: Node) -> None:
        batched = [source in self.whole for source in node.sources]
        sources = [self.whole[s] if b else self.once.get(s, s) for s, b in zip(node.sources, batched)]
        if any(batched):
            self.whole[node] = node.op.batch(node, sources, batched)  # type: ignore[misc]
            return
        made = node.op(*sources, **node.attrs)
        if not sources:
            made.device = node.device
        self.once[node] = made


def placeholder_for(node: Node) -> Node:
    """An input of a body that stands for a value the body used to compute."""
    with recorded_as(node.location, False):
        return bodies.placeholder_like(node)
