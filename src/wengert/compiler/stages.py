"""Stages of a pipeline: the stage that computes each value of a recorded graph, and the stage that owns each input.

In: a recorded graph, the user's marks (`wg.distributed.stage`), and which outputs replace which inputs. Out: the *home*
of each value, the stage that computes or keeps it. A value without a home (a mask, a step count) has no source with a
home, and is computed wherever it is needed.

- A forward node that has gradients belongs to the stage in which it was recorded. Without marks, the forward pass is
  cut in order into stages of about equal cost, where few bytes cross.
- A gradient node has the home of the forward node that it differentiates.
- Any other node goes where most bytes of its operands are, to the latest stage in a tie. So a norm over all parameters
  is added from one number per stage, and an update runs where its parameter is.
- A parameter belongs to the first stage that uses it; any other input to the stage that computes its replacement.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from wengert.core.code import Backward
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node
from wengert.ops.op import PICK

Marks = Sequence[tuple[int, int | None]]
"""From which serial number on nodes are recorded in which stage; None: in none."""

_SLACK = 0.25  # fraction of a stage's cost within which a cut with less traffic is searched


class Interface(NamedTuple):
    """What a pipeline needs to know about a recorded graph besides its nodes."""

    marks: Marks
    arguments: int  # the number of inputs that every rank gets with the call
    pairs: Mapping[int, int]  # by output: the input that it replaces
    returned: frozenset[int] = frozenset()  # outputs that a call returns: every rank gets them


class Homes(NamedTuple):
    """The number of stages, and the homes of nodes and inputs; an absent node has none."""

    stages: int
    of: Mapping[Node, int]


def homes(graph: Graph, ranks: int, interface: Interface) -> Homes:
    """The homes of a graph's values, for this many ranks."""
    marked = _marked(graph, interface.marks)
    stages = _count(marked.values(), ranks)
    kept: dict[Node, int] = {}
    while True:
        found = _Assignment(graph, stages, interface, marked, kept).found()
        pairs = [(graph.inputs[i], graph.outputs[k]) for k, i in interface.pairs.items()]
        more = {x: found[y] for x, y in pairs if x not in found and y in found}
        if not more:
            return Homes(stages, found)
        kept |= more  # an input that one stage replaces must not be read unchanged on another


def _marked(graph: Graph, marks: Marks) -> dict[Node, int]:
    """The nodes recorded inside `stage`."""
    if not marks:
        return {}
    starts = [serial for serial, _ in marks]
    found = {}
    for node in graph.nodes:
        at = bisect_right(starts, node.serial) - 1
        stage = marks[at][1] if at >= 0 else None
        if stage is not None and not isinstance(node.location, Backward):
            found[node] = stage
    return found


def _count(marked: Iterable[int], ranks: int) -> int:
    used = set(marked)
    stages = max(used, default=ranks - 1) + 1
    missing = sorted(set(range(stages)) - used)
    if used and missing:
        raise ArgumentError(f"of the stages 0 to {stages - 1} nothing is recorded in stage {missing[0]}")
    if stages % ranks:
        raise ArgumentError(
            f"{stages} stages cannot be shared by {ranks} ranks of the axis 'stage' equally: number them from 0 on, "
            f"up to {ranks - 1}, or a multiple of that many"
        )
    return stages


class _Assignment:
    """One assignment, from the inputs whose homes are already known."""

    def __init__(
        self, graph: Graph, stages: int, interface: Interface, marked: Mapping[Node, int], kept: Mapping[Node, int]
    ) -> None:
        self.graph, self.stages, self.marked = graph, stages, marked
        self.home: dict[Node, int] = dict(kept)
        self.arguments = frozenset(graph.inputs[: interface.arguments])
        self.by_serial = {node.serial: node for node in graph.nodes}
        ends = [k for k, node in enumerate(graph.nodes) if isinstance(node.location, Backward)]
        self.turn = min(ends, default=len(graph.nodes))  # where the backward pass begins

    def found(self) -> dict[Node, int]:
        forward = self.graph.nodes[: self.turn]
        path = _path(forward, self.arguments)
        planned = self.marked if self.marked else _cut(path, self.stages)
        for node in forward:
            self._put(node, planned.get(node) if node in path else None)
        self._first_users(forward)
        for node in self.graph.nodes[self.turn :]:
            self._put(node, self._of_origin(node))
        return self.home

    def _of_origin(self, node: Node) -> int | None:
        """The home of the forward node that a node differentiates, or the user's mark."""
        if isinstance(node.location, Backward):
            origin = self.by_serial.get(node.location.serial)
            return None if origin is None else self.home.get(origin)
        return self.marked.get(node) if node.tracked else None

    def _put(self, node: Node, planned: int | None) -> None:
        if node.op is PICK:
            planned = self.home.get(node.sources[0])  # results stay together
        if planned is None:
            planned = self._by_bytes(node)
        if planned is not None:
            self.home[node] = planned

    def _by_bytes(self, node: Node) -> int | None:
        """The stage that holds most bytes of a node's operands; the latest in a tie."""
        bytes_at: dict[int, int] = {}
        for source in dict.fromkeys(node.sources):
            if source in self.home:
                stage = self.home[source]
                bytes_at[stage] = bytes_at.get(stage, 0) + size_in_bytes(source)
        return max(bytes_at, key=lambda stage: (bytes_at[stage], stage), default=None)

    def _first_users(self, forward: Sequence[Node]) -> None:
        """Give inputs without a home that get gradients, or that nothing replaces, the home of their first user."""
        home = self.home
        users: dict[Node, int] = {}
        for node in reversed(forward):
            if node not in home and node in users and node.tracked:
                home[node] = users[node]
            stage = home.get(node)
            if stage is not None:
                for source in node.sources:
                    users[source] = min(stage, users.get(source, stage))
        for node in self.graph.inputs:
            if node not in self.arguments and node.tracked and node in users:
                home.setdefault(node, users[node])


# --- without marks --------------------------------------------------------------------------------------------------


def _path(forward: Sequence[Node], arguments: frozenset[Node]) -> dict[Node, None]:
    """The nodes that stages are made of: those computed from arguments, restricted to nodes with gradients if any have.

    The others (dropout draws, targets, masks) are computed where they are needed.
    """
    reached = set(arguments)
    found: dict[Node, None] = {}
    for node in forward:
        if not reached.isdisjoint(node.sources):
            reached.add(node)
            found[node] = None
    found = found or dict.fromkeys(forward)  # of a function without arguments
    tracked = {node: None for node in found if node.tracked}
    return tracked or found


def _cut(nodes: Iterable[Node], stages: int) -> dict[Node, int]:
    """A path in stages of about equal cost, cut where the fewest bytes cross."""
    path = list(nodes)
    if len(path) < stages:
        raise ArgumentError(f"a forward pass of {len(path)} ops cannot be cut into {stages} stages")
    costs = list(accumulate(_cost(node) for node in path))
    crossing = _crossing(path)
    cuts: list[int] = []  # each the number of the last node of a stage
    for k in range(1, stages):
        even, slack = costs[-1] * k / stages, _SLACK * costs[-1] / stages
        first, last = (cuts[-1] + 1 if cuts else 0), len(path) - 1 - (stages - k)
        near = [i for i in range(first, last + 1) if abs(costs[i] - even) <= slack]
        if near:
            cuts.append(min(near, key=lambda i: (crossing[i], abs(costs[i] - even))))
        else:
            cuts.append(min(range(first, last + 1), key=lambda i: abs(costs[i] - even)))
    stage = [0, *(cut + 1 for cut in cuts)]
    return {node: bisect_right(stage, i) - 1 for i, node in enumerate(path)}


def _cost(node: Node) -> int:
    """The cost of a node: a FLOP counts as one byte read or written."""
    body = node.attrs.get("body")
    inside = sum(map(_cost, body.nodes)) if isinstance(body, Graph) else 0
    return inside + node.op.flops(node) + sum(map(size_in_bytes, (node, *node.sources)))


def _crossing(path: Sequence[Node]) -> list[int]:
    """For each node, the bytes of the path that were computed up to it and are read after it."""
    place = {node: i for i, node in enumerate(path)}
    last = dict.fromkeys(path, -1)
    for i, node in enumerate(path):
        for source in node.sources:
            if source in place:
                last[source] = i
    change = [0] * (len(path) + 1)
    for node, end in last.items():
        if end > place[node]:
            change[place[node]] += size_in_bytes(node)
            change[end] -= size_in_bytes(node)
    return list(accumulate(change))[: len(path)]


def size_in_bytes(node: Node) -> int:
    """The size of a value in bytes."""
    if not isinstance(node.dtype, tuple):
        return node.size * int(node.dtype.itemsize)
    total = 0
    for shape, dtype in zip(node.shape, node.dtype):
        size = int(dtype.itemsize)
        for n in shape:
            size *= n
        total += size
    return total
