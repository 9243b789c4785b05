"""Lanes: the axes along which a loop's body computes the same for every index, so that the loop over them may be the
outer one.

In: the graph of a body, and which of its outputs is which input in the next step. Out: by value, its axes that are
lanes. Axes are joined where an op carries an index over unchanged (elementwise ops, permutations, the rows of a matrix
product); an axis that is reduced, cut or turned is no lane, nor is any that is joined with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wengert.core.dtypes import float32, float64
from wengert.core.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import BROADCAST, CONCAT, FLIP, PERMUTE, PLACE, RESHAPE, SLICE
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import SUM, reduced_axes

Axis = tuple[Node, int]
_SCALING = (e.multiply, e.safe_multiply)
"""By whose second operand a sum may be scaled, if all lanes share it."""


@dataclass(frozen=True)
class LaneAxes:
    """How many lanes there are, and by value its axes along which they lie: side by side, in one order for all."""

    count: int = 1
    axes: Mapping[Node, tuple[int, ...]] = field(default_factory=dict)  # none for a part of a total
    totals: frozenset[int] = frozenset()  # the carries that are totals over lanes, by number

    def has(self, node: Node) -> bool:
        """Whether a value differs from lane to lane."""
        return node in self.axes

    def shape(self, node: Node) -> tuple[int, ...]:
        """The shape of what one lane has of a value: its lane axes have one element."""
        own = self.axes.get(node, ())
        return tuple([1 if axis in own else n for axis, n in enumerate(node.shape)])

    def stride(self, node: Node) -> int:
        """How far apart two neighbouring lanes of a value are; 0 for a value that all share."""
        axes = self.axes.get(node, ())
        return math.prod(node.shape[axes[-1] + 1 :]) if axes else 0


NO_LANES = LaneAxes()


def lanes_of(graph: Graph, carries: Sequence[tuple[int, int]]) -> LaneAxes | None:
    """The lanes of a body, as many as there are; None where there are none. `carries`: inputs and outputs by number."""
    joined, totals = _AxisSets(), _totals(graph, carries)
    parts = {node for found in totals.values() for node in found}
    for node in graph.nodes:
        if node not in parts:
            _join(node, joined)
        elif node.op is SUM:
            joined.cut(
                (node.sources[0], axis) for axis in range(node.sources[0].ndim) if axis not in reduced_axes(node)
            )
    for i, k in carries:
        if k in totals:
            continue
        for axis in range(graph.inputs[i].ndim):
            joined.join((graph.inputs[i], axis), (graph.outputs[k], axis))
    nodes = [*graph.inputs, *graph.captured(), *graph.nodes]
    classes: dict[Axis, list[Axis]] = {}
    for node in dict.fromkeys(nodes):
        for axis in range(node.ndim if not isinstance(node.dtype, tuple) else 0):
            if node.shape[axis] > 1 and joined.is_whole((node, axis)):
                classes.setdefault(joined.root((node, axis)), []).append((node, axis))
    found = [members for members in classes.values() if _is_lane(members, graph)]
    found.sort(key=lambda members: members[0][0].shape[members[0][1]], reverse=True)
    for chosen in (found, *([one] for one in found)):
        lanes = _together(chosen, graph)
        if lanes is not None and (lanes := _with_totals(lanes, totals)) is not None:
            return lanes
    return None


def _totals(graph: Graph, carries: Sequence[tuple[int, int]]) -> dict[int, list[Node]]:
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
        if nodes is not None and all(uses[node] == 1 for node in (given, made, *nodes)):
            found[k] = [given, made, *nodes]
    return found


def _sums_to(node: Node) -> list[Node] | None:
    """The nodes between a value and the sums that it is added up from; None if it is made from anything else."""
    found, agenda = list[Node](), [node]
    while agenda:
        node = agenda.pop()
        found.append(node)
        if node.op in (e.add, e.subtract, e.negative) or node.op.kind == "movement":
            agenda += node.sources
        elif node.op in _SCALING:
            agenda.append(node.sources[0])
        elif node.op is not SUM:
            return None
    return found


def _with_totals(lanes: LaneAxes, totals: Mapping[int, Sequence[Node]]) -> LaneAxes | None:
    """Lanes with these totals over them; None if one is of something else."""
    axes, own = dict(lanes.axes), set[int]()
    for k, nodes in totals.items():
        summed = {lanes.has(node.sources[0]) for node in nodes if node.op is SUM}
        scaled = any(lanes.has(node.sources[1]) for node in nodes if node.op in _SCALING)
        if len(summed) != 1 or scaled:
            return None
        if summed.pop():
            own.add(k)
            axes |= dict.fromkeys(nodes, ())
    return LaneAxes(lanes.count, axes, frozenset(own))


def _is_lane(members: Sequence[Axis], graph: Graph) -> bool:
    """Whether no value has the axis twice, and constants of the graph's own do not have it."""
    nodes = [node for node, _ in members]
    captured = set(graph.captured())
    return len(set(nodes)) == len(nodes) and captured.isdisjoint(nodes)


def _together(classes: Sequence[Sequence[Axis]], graph: Graph) -> LaneAxes | None:
    """Several axes as one: if every value that has one of them has all, side by side and in the same order."""
    if not classes:
        return None
    kinds: dict[Node, dict[int, int]] = {}
    for number, members in enumerate(classes):
        for node, axis in members:
            kinds.setdefault(node, {})[axis] = number
    orders = {tuple(own[axis] for axis in sorted(own)) for own in kinds.values()}
    axes = {node: tuple(sorted(own)) for node, own in kinds.items()}
    side_by_side = all(own == tuple(range(own[0], own[0] + len(own))) for own in axes.values())
    if len(orders) != 1 or not side_by_side or len(next(iter(orders))) != len(classes):
        return None
    node, own = next(iter(axes.items()))
    return LaneAxes(math.prod(node.shape[axis] for axis in own), axes)


# --- joining ----------------------------------------------------------------------------------------------------------


class _AxisSets:
    """Sets of axes that go together, and those that are broken."""

    def __init__(self) -> None:
        self.parent: dict[Axis, Axis] = {}
        self.broken: set[Axis] = set()

    def root(self, axis: Axis) -> Axis:
        """The one that stands for a set."""
        while (up := self.parent.get(axis, axis)) != axis:
            self.parent[axis] = self.parent.get(up, up)
            axis = up
        return axis

    def join(self, one: Axis, other: Axis) -> None:
        """Two axes go together."""
        a, b = self.root(one), self.root(other)
        if a != b:
            self.parent[a] = b
            if a in self.broken:
                self.broken.add(b)

    def cut(self, axes: Iterable[Axis]) -> None:
        """These are no lanes."""
        self.broken.update(self.root(axis) for axis in axes)

    def is_whole(self, axis: Axis) -> bool:
        """Whether an axis may be a lane."""
        return self.root(axis) not in self.broken


def _every(node: Node) -> list[Axis]:
    return [(node, axis) for axis in range(node.ndim)]


def _join(node: Node, joined: _AxisSets) -> None:
    """Join the axes of a node with those of its sources, or cut them."""
    op = node.op
    if isinstance(node.dtype, tuple) or any(isinstance(source.dtype, tuple) for source in node.sources):
        joined.cut(axis for one in (node, *node.sources) if not isinstance(one.dtype, tuple) for axis in _every(one))
    elif op.kind in ("elementwise", "identity") or op is BROADCAST:
        for source in node.sources:
            _join_aligned(source, node, joined)
    elif op is RESHAPE:
        _join_reshaped(node, joined)
    elif op is PERMUTE:
        for axis, before in enumerate(node.attrs["axes"]):
            joined.join((node.sources[0], before), (node, axis))
    elif op in (SLICE, PLACE, FLIP, CONCAT):
        _join_moved(node, joined)
    elif op.kind == "reduction":
        _join_reduced(node, joined)
    elif op is MATMUL:
        _join_product(node, joined)
    elif op is RANDOM_BITS:
        joined.cut(axis for source in node.sources for axis in _every(source))
    elif node.sources:
        joined.cut(axis for one in (node, *node.sources) for axis in _every(one))


def _join_aligned(source: Node, node: Node, joined: _AxisSets) -> None:
    """Axes of equal extents, counted from the last."""
    ahead = node.ndim - source.ndim
    for axis, n in enumerate(source.shape):
        if n == node.shape[axis + ahead]:
            joined.join((source, axis), (node, axis + ahead))


def _join_reshaped(node: Node, joined: _AxisSets) -> None:
    """Axes of equal extents with as much before them; the others are no lanes."""
    source = node.sources[0]
    before = {(math.prod(node.shape[:axis]), n): axis for axis, n in enumerate(node.shape) if n > 1}
    for axis, n in enumerate(source.shape):
        other = before.pop((math.prod(source.shape[:axis]), n), None)
        if other is None:
            joined.cut([(source, axis)])
        else:
            joined.join((source, axis), (node, other))
    joined.cut((node, axis) for axis in before.values())


def _join_moved(node: Node, joined: _AxisSets) -> None:
    """Axes of which every element stays where it is."""
    for source in node.sources:
        for axis, n in enumerate(source.shape):
            turned = node.op is FLIP and axis in node.attrs["axes"]
            if n == node.shape[axis] and not turned:
                joined.join((source, axis), (node, axis))
            else:
                joined.cut([(source, axis), (node, axis)])


def _join_reduced(node: Node, joined: _AxisSets) -> None:
    source, axes = node.sources[0], reduced_axes(node)
    joined.cut((source, axis) for axis in axes)
    kept = [axis for axis in range(source.ndim) if axis not in axes]
    places = kept if node.ndim == source.ndim else range(len(kept))
    for axis, place in zip(kept, places):
        joined.join((source, axis), (node, place))


def _join_product(node: Node, joined: _AxisSets) -> None:
    a, b = node.sources
    joined.cut([(a, a.ndim - 1), (b, b.ndim - 2)])
    joined.join((a, a.ndim - 2), (node, node.ndim - 2))
    joined.join((b, b.ndim - 1), (node, node.ndim - 1))
    for source in (a, b):
        ahead = node.ndim - source.ndim
        for axis in range(source.ndim - 2):
            if source.shape[axis] == node.shape[axis + ahead]:
                joined.join((source, axis), (node, axis + ahead))
