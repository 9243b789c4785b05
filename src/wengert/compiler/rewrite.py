"""Rewriting: the single mechanism by which passes change a graph, and the fuel that each rewrite consumes.

In: a graph and a rule, a function from a node to a better one (or None to keep it). Out: the graph with every such node
replaced, and its readers recorded again with their own source lines. The walk goes in topological order, so a rule sees
a node over sources that are already rewritten, and the nodes that a rule records are rewritten in turn.

A replacement has the same shape, dtype and device, so a node over other sources is a plain copy and no type is inferred
again (`verify` does that). Nodes made outside the graph are opaque: a rule must call `made_by` before it looks at how a
node was made.

Fuel is the number of rewrites that passes and plan stages may still make. Bisecting the fuel of a miscompiled program
finds the faulty rewrite (`runtime/debug/bisect.py`). Every pass and plan stage calls `spend` before each change.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from wengert.core.code import Location
from wengert.core.context import mode
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, Node, describe_type, now, recorded_as, recording
from wengert.ops.core import DATA, LITERAL
from wengert.ops.op import PICK, Op


class Rewrite(NamedTuple):
    """One rewrite: its pass and rule, a description, and the user's line that it concerns."""

    name: str
    rule: str
    what: str
    location: Location


class Fuel(threading.local):
    """The number of rewrites that this thread's compilation has made, and how many remain."""

    def __init__(self) -> None:
        self.left: int | None = None  # None: no limit
        self.spent = 0
        self.name = ""  # the current pass or stage
        self.rule = ""  # in `simplify`: the rule that fired last
        self.rules: dict[str, int] = {}  # how often each rule of this pass or stage fired; "" is the only rule
        self.last: Rewrite | None = None  # the rewrite that took the last fuel


fuel = Fuel()


Pass = Callable[[Graph, Target], Graph]


def for_ops(*ops: Op, dtypes: Container[Any] | None = None, on_gpu: bool = False) -> Callable[[Pass], Pass]:
    """Run a pass only on graphs that contain one of these ops, with one of these dtypes.

    With `on_gpu`, only on graphs that are compiled for a GPU.
    """

    def decorate(one: Pass) -> Pass:
        @functools.wraps(one)
        def wanted(graph: Graph, target: Target = HOST_TARGET) -> Graph:
            if on_gpu and not target.launches:
                return graph
            found = any(node.op in ops and (dtypes is None or node.dtype in dtypes) for node in graph.nodes)
            return one(graph, target) if found else graph

        return wanted

    return decorate


@contextmanager
def limited(left: int | None) -> Iterator[None]:
    """A context in which only the first `left` rewrites happen; None allows all."""
    before, fuel.left = fuel.left, left
    try:
        yield
    finally:
        fuel.left = before


def spend(node: Node | None, what: Callable[[], str]) -> bool:
    """Take the fuel for one rewrite of a node, described by `what`; returns whether there was any."""
    if fuel.left == 0:
        return False
    if fuel.left is not None:
        fuel.left -= 1
        if fuel.left == 0:
            fuel.last = Rewrite(fuel.name, fuel.rule, what(), None if node is None else node.location)
    fuel.spent += 1
    fuel.rules[fuel.rule] = fuel.rules.get(fuel.rule, 0) + 1
    return True


def begin(name: str) -> None:
    """Start a pass or stage: its rewrites are counted from here, in its own dictionary."""
    fuel.name, fuel.rule, fuel.rules = name, "", {}


@contextmanager
def within() -> Iterator[None]:
    """A context for passes and stages that run as part of another pass or stage."""
    before = fuel.name, fuel.rule, fuel.rules
    try:
        yield
    finally:
        fuel.name, fuel.rule, fuel.rules = before


# --- rewrite --------------------------------------------------------------------------------------------------------


Rule = Callable[[Node], Node | None]

_IN_CIRCLES = 1000
"""Rewrites of one node after which the rules are taken to go in circles."""


class _Scope(threading.local):
    """The nodes that this thread's walk must not look into."""

    def __init__(self) -> None:
        self.outside: frozenset[Node] = frozenset()


_scope = _Scope()


@contextmanager
def looking_into(graph: Graph) -> Iterator[None]:
    """A context in which `made_by` answers for the nodes of this graph."""
    before, _scope.outside = _scope.outside, opaque(graph)
    try:
        yield
    finally:
        _scope.outside = before


def made_by(node: Node, op: Op) -> bool:
    """Whether a node of the graph (or a constant) was made by this op. Always False for inputs."""
    return node.op is op and node not in _scope.outside


def opaque(graph: Graph) -> frozenset[Node]:
    """The nodes that the graph did not make: inputs, and captured nodes other than constants."""
    captured = [node for node in graph.captured() if node.op is not LITERAL and node.op is not DATA]
    return frozenset((*graph.inputs, *captured))


def over(node: Node, replacing: dict[Node, Node]) -> Node:
    """The node over the replacements of its sources; the same node if none is replaced."""
    sources = tuple([replacing.get(source, source) for source in node.sources])
    if sources == node.sources:
        return node
    return with_sources(node, sources)


def with_sources(node: Node, sources: tuple[Node, ...]) -> Node:
    """A copy of a node over other sources of the same types; source line, type and gradient tracking are kept."""
    return Node(node.op, sources, node.attrs, node.shape, node.dtype, node.device, node.tracked, node.location)


def with_attrs(node: Node, attrs: dict[str, Any]) -> Node:
    """A copy of a node with other attributes that leave its type unchanged."""
    return Node(node.op, node.sources, attrs, node.shape, node.dtype, node.device, node.tracked, node.location)


def with_bodies(graph: Graph, change: Callable[[Graph], Graph], done: dict[Graph, Graph]) -> Graph:
    """The graph with each body changed, once however many ops share it; `done` maps bodies changed already."""
    replacing: dict[Node, Node] = {}
    nodes = []
    for node in graph.nodes:
        current = over(node, replacing)
        bodies = bodies_of(node)
        for body in bodies:
            if body not in done:
                done[body] = change(body)
        if any(done[body] is not body for body in bodies):
            attrs = {key: _changed(value, done) for key, value in node.attrs.items()}
            current = with_attrs(current, attrs)
        if current is not node:
            replacing[node] = current
        nodes.append(current)
    if not replacing:
        return graph
    return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes)


def _changed(value: Any, done: Mapping[Graph, Graph]) -> Any:
    if type(value) is tuple:
        return tuple(_changed(item, done) for item in value)
    return done[value] if isinstance(value, Graph) else value


def bodies_of(node: Node) -> list[Graph]:
    """The graphs that an op carries."""
    if node.op.kind != "function":
        return []
    values = [value if type(value) is tuple else (value,) for value in node.attrs.values()]
    return [item for items in values for item in items if isinstance(item, Graph)]


def _described(node: Node, better: Node) -> str:
    sources = ", ".join(source.op.name for source in better.sources)
    return f"{node.op.name} {describe_type(node)} becomes {better.op.name}({sources})"


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """The graph with every node replaced for which the rule returns another; the same graph if there is none."""
    with looking_into(graph), recorded_as(recording.location, recording.grad):
        return _Walk(rule).through(graph)


class _Walk:
    """One walk of a rule through a graph."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.start = now()  # nodes recorded from here on are new
        self.replacing: dict[Node, Node] = {}  # maps nodes of the old graph and of the rules to the new graph
        self.nodes: list[Node] = []

    def through(self, graph: Graph) -> Graph:
        replacing, nodes, rule, state = self.replacing, self.nodes, self.rule, recording
        how = mode()  # that of `rewrite`, which is its own
        replaced = replacing.keys()
        for node in graph.nodes:
            current = node
            if replacing and not replaced.isdisjoint(node.sources):
                current = over(node, replacing)
            state.location, how.grad = node.location, node.tracked
            better = rule(current)
            if better is not None and self._accepts(current, better):
                replacing[node] = self._settled(better)
                continue
            nodes.append(current)
            if current is not node:
                replacing[node] = replacing[current] = current
        if not replacing:
            return graph
        return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes)

    def _accepts(self, node: Node, better: Node) -> bool:
        if better.shape != node.shape or better.dtype != node.dtype or better.device != node.device:
            raise CompilerError(f"a rule replaces {node!r} by {better.op.name} {describe_type(better)}", node.location)
        return better is not node and spend(node, lambda: _described(node, better))

    def _settled(self, recorded: Node) -> Node:
        """The final replacement of a node, after rewriting the nodes that the rule recorded."""
        stack, instead, rewrites = [recorded], dict[Node, Node](), 0
        while stack:
            node = stack[-1]
            if self._is_settled(node):
                stack.pop()
            elif node in instead:
                self.replacing[node] = self.replacing.get(instead[node], instead[node])
            elif unsettled := [source for source in node.sources if not self._is_settled(source)]:
                stack += unsettled
            else:
                current = over(node, self.replacing)
                better = self.rule(current)
                if better is None or not self._accepts(current, better):
                    self.replacing[node] = self.replacing[current] = current
                    self.nodes.append(current)
                    continue
                rewrites += 1
                if rewrites > _IN_CIRCLES:
                    raise CompilerError(f"rules go in circles around {recorded!r}", recorded.location)
                instead[node] = better
                stack.append(better)
        return self.replacing.get(recorded, recorded)

    def _is_settled(self, node: Node) -> bool:
        return node.serial < self.start or node in self.replacing or node.buffer is not None


# --- what reads what -------------------------------------------------------------------------------------------------


def picked(graph: Graph, op: Op) -> dict[Node, set[int]]:
    """The nodes of an op of which only single results are read, with the numbers of those results."""
    found: dict[Node, set[int]] = {node: set() for node in graph.nodes if node.op is op}
    for node in graph.nodes:
        for source in node.sources:
            if source in found:
                if node.op is PICK:
                    found[source].add(node.attrs["index"])
                else:
                    del found[source]
    for node in graph.outputs:
        found.pop(node, None)
    return found


def depending(nodes: Iterable[Node], on: Iterable[Node]) -> set[Node]:
    """These values and all nodes that depend on them."""
    found = set(on)
    for node in nodes:
        if not found.isdisjoint(node.sources):
            found.add(node)
    return found
