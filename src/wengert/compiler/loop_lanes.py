"""Lanes: the axes along which a loop's body does the same work for every index, so that the lane loop may be outermost.

In: the graph of a body, and which of its outputs becomes which input of the next step. Out: for each value, which of
its axes are lanes. Axes are unified where an op carries an index over unchanged (elementwise ops, permutations, the
rows of a matrix product). An axis that is reduced, sliced or flipped is not a lane, nor is any axis unified with it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN
from wengert.autodiff.while_gradient import WHILE_GRADIENT
from wengert.compiler.loop_totals import SCALING, reads_a_part, totals_of
from wengert.core.graph import Graph, Node
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import BROADCAST, CONCAT, FLIP, PERMUTE, PLACE, RESHAPE, SLICE
from wengert.ops.op import PACK, PICK
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import SUM, reduced_axes

Axis = tuple[Node, int]


@dataclass(frozen=True)
class LaneAxes:
    """The number of lanes, and for each value its lane axes: adjacent, and in the same order for all values."""

    count: int = 1
    axes: Mapping[Node, tuple[int, ...]] = field(default_factory=dict)  # none for a part of a total
    totals: frozenset[int] = frozenset()  # the carries that are totals over lanes, by number

    def has(self, node: Node) -> bool:
        """Whether a value differs from lane to lane."""
        return node in self.axes

    def shape(self, node: Node) -> tuple[int, ...]:
        """The shape of one lane of a value: its lane axes have size 1."""
        own = self.axes.get(node, ())
        return tuple([1 if axis in own else n for axis, n in enumerate(node.shape)])

    def stride(self, node: Node) -> int:
        """The distance between neighbouring lanes of a value; 0 for a value that all lanes share."""
        axes = self.axes.get(node, ())
        return math.prod(node.shape[axes[-1] + 1 :]) if axes else 0


NO_LANES = LaneAxes()


def lanes_of(graph: Graph, carries: Sequence[tuple[int, int]]) -> LaneAxes | None:
    """The lanes of a body, as many as possible; None if there are none. `carries` pairs inputs and outputs."""
    totals = totals_of(graph, carries)
    joined = _AxisSets({node for found in totals.values() for node in found})
    if any(reads_a_part(one, joined.parts) for inner in _with_inner([graph]) for one in inner.nodes):
        return None
    for node in graph.nodes:
        _join(node, joined)
    for i, k in carries:
        joined.join_values(graph.inputs[i], graph.outputs[k])
    return _lanes_in([graph], joined, totals)


def lanes_of_function(node: Node) -> LaneAxes | None:
    """The lanes of a loop or branch, including the loops inside its bodies; None if there are none."""
    if node.op is SCAN:
        c, n = node.attrs["constants"], node.attrs["carries"]
        return lanes_of(node.attrs["body"], [(c + k, k) for k in range(n)])
    joined = _AxisSets(set())
    _join_bodies(node, joined)
    return _lanes_in(bodies_of(node), joined, {})


def ends_by_itself(node: Node) -> bool:
    """Whether a node is a loop whose lanes end separately: its graphs describe one lane."""
    return node.op in (WHILE, WHILE_GRADIENT) and node.attrs["lanes"] is not None


def bodies_of(node: Node) -> list[Graph]:
    """The graphs in an op's attributes, in order."""
    if node.op is WHILE_GRADIENT:  # as a graph, its body is the same
        return [node.attrs[name] for name in ("test", "step", "pulled")]
    found = []
    for value in node.attrs.values():
        found += [one for one in (value if type(value) is tuple else (value,)) if isinstance(one, Graph)]
    return found


def _lanes_in(graphs: Sequence[Graph], joined: _AxisSets, totals: Mapping[int, Sequence[Node]]) -> LaneAxes | None:
    """The lanes of graphs whose axes have been unified."""
    every = list(_with_inner(graphs))
    nodes = [node for graph in every for node in (*graph.inputs, *graph.captured(), *graph.nodes)]
    constants = {node for graph in every for node in graph.captured()}
    classes: dict[Axis, list[Axis]] = {}
    for node in dict.fromkeys(nodes):
        for axis in range(node.ndim if not isinstance(node.dtype, tuple) else 0):
            if node.shape[axis] > 1 and node not in joined.parts and joined.is_whole((node, axis)):
                classes.setdefault(joined.root((node, axis)), []).append((node, axis))
    found = [members for members in classes.values() if _is_lane(members, constants)]
    found.sort(key=lambda members: members[0][0].shape[members[0][1]], reverse=True)
    merged = _side_by_side(found)
    for chosen in (found, merged, *([one] for one in merged), *([one] for one in found)):
        lanes = _together(chosen)
        if lanes is not None and (lanes := _with_totals(lanes, totals)) is not None:
            return lanes
    return None


def _side_by_side(classes: Sequence[Sequence[Axis]]) -> list[list[Axis]]:
    """Axes of equal extent that never occur in the same value, as one: independent parts of a body."""
    found: list[list[Axis]] = []
    for members in classes:
        nodes, extent = {node for node, _ in members}, members[0][0].shape[members[0][1]]
        for other in found:
            if other[0][0].shape[other[0][1]] == extent and nodes.isdisjoint(node for node, _ in other):
                other += members
                break
        else:
            found.append(list(members))
    return found


def _with_inner(graphs: Iterable[Graph]) -> Iterator[Graph]:
    """These graphs and those of the loops and branches inside."""
    for graph in graphs:
        yield graph
        for node in graph.nodes:
            if node.op in (SCAN, WHILE, COND) and not ends_by_itself(node):
                yield from _with_inner(bodies_of(node))


def _with_totals(lanes: LaneAxes, totals: Mapping[int, Sequence[Node]]) -> LaneAxes | None:
    """The lanes including these totals over them; None if a total sums anything but lanes."""
    axes, own = dict(lanes.axes), set[int]()
    for k, nodes in totals.items():
        summed = {lanes.has(node.sources[0]) for node in nodes if node.op is SUM}
        scaled = any(lanes.has(node.sources[1]) for node in nodes if node.op in SCALING)
        if len(summed) != 1 or scaled:
            return None
        if summed.pop():
            own.add(k)
            axes |= dict.fromkeys(nodes, ())
    return LaneAxes(lanes.count, axes, frozenset(own))


def _is_lane(members: Sequence[Axis], constants: Collection[Node]) -> bool:
    """Whether no value has the axis twice, and none of the graph's own constants has it."""
    nodes = [node for node, _ in members]
    return len(set(nodes)) == len(nodes) and not any(node in constants for node in nodes)


def _together(classes: Sequence[Sequence[Axis]]) -> LaneAxes | None:
    """Several axes as one, if every value with one of them has all of them, adjacent and in the same order."""
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
    """Sets of unified axes, and those that are broken; `parts` are values between lanes and their totals."""

    def __init__(self, parts: Collection[Node]) -> None:
        self.parts = parts
        self.parent: dict[Axis, Axis] = {}
        self.broken: set[Axis] = set()

    def root(self, axis: Axis) -> Axis:
        """The representative of a set."""
        while (up := self.parent.get(axis, axis)) != axis:
            self.parent[axis] = self.parent.get(up, up)
            axis = up
        return axis

    def join(self, one: Axis, other: Axis) -> None:
        """Unify two axes."""
        a, b = self.root(one), self.root(other)
        if a != b:
            self.parent[a] = b
            if a in self.broken:
                self.broken.add(b)

    def join_values(self, one: Node, other: Node) -> None:
        """Unify all axes of two values of the same shape, except those of totals."""
        if one in self.parts or other in self.parts:
            return
        for axis in range(one.ndim):
            self.join((one, axis), (other, axis))

    def cut(self, axes: Iterable[Axis]) -> None:
        """Mark axes that cannot be lanes."""
        self.broken.update(self.root(axis) for axis in axes)

    def is_whole(self, axis: Axis) -> bool:
        """Whether an axis may be a lane."""
        return self.root(axis) not in self.broken


def _every(node: Node) -> list[Axis]:
    return [(node, axis) for axis in range(node.ndim)]


def _join(node: Node, joined: _AxisSets) -> None:
    """Unify the axes of a node with those of its sources, or mark them as broken."""
    op = node.op
    if node in joined.parts:
        kept = range(node.sources[0].ndim) if op is SUM else ()
        joined.cut((node.sources[0], axis) for axis in kept if axis not in reduced_axes(node))
    elif ends_by_itself(node):
        _join_lanes(node, node.sources, joined)
    elif op in (SCAN, WHILE, COND):
        _join_bodies(node, joined)
        _join_operands(node, joined)
    elif op is PACK:
        return
    elif op is PICK:
        _join_picked(node, joined)
    elif isinstance(node.dtype, tuple) or any(isinstance(source.dtype, tuple) for source in node.sources):
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


def _join_lanes(node: Node, values: Iterable[Node], joined: _AxisSets) -> None:
    """Unify the first axes of the operands and results of a loop over lanes; the other axes are not lanes."""
    for value in values:
        joined.cut((value, axis) for axis in range(1, value.ndim))
        if value.shape[0] == node.attrs["lanes"]:
            joined.join((value, 0), (node.sources[-1], 0))


def _join_bodies(node: Node, joined: _AxisSets) -> None:
    """Unify axes inside the bodies of a loop or branch, and those of a carry before and after a step."""
    graphs = bodies_of(node)
    for graph in graphs:
        for one in graph.nodes:
            _join(one, joined)
        for given, other in zip(graph.inputs, graphs[0].inputs):
            joined.join_values(given, other)
    if node.op is COND:
        for one, other in zip(graphs[0].outputs, graphs[1].outputs):
            joined.join_values(one, other)
        return
    step, c = graphs[-1], node.attrs["constants"]
    for given, made in zip(step.inputs[c:], step.outputs[: node.attrs.get("carries")]):
        joined.join_values(given, made)


def _join_operands(node: Node, joined: _AxisSets) -> None:
    """Unify the axes of a loop's or branch's operands with those of its body's inputs."""
    inputs = bodies_of(node)[-1].inputs
    sources = node.sources[1:] if node.op is COND else node.sources
    first_x = node.attrs["constants"] + node.attrs["carries"] if node.op is SCAN else len(inputs)
    for source, given in zip(sources[:first_x], inputs):
        joined.join_values(source, given)
    for source, given in zip(sources[first_x:], inputs[first_x:]):
        _join_steps(source, given, joined)


def _join_steps(stacked: Node, one: Node, joined: _AxisSets) -> None:
    """Unify the axes of a stack with those of one step's value."""
    joined.cut([(stacked, 0)])
    for axis in range(one.ndim):
        joined.join((stacked, axis + 1), (one, axis))


def _join_picked(node: Node, joined: _AxisSets) -> None:
    """Unify the axes of a picked result with those of the value behind it."""
    several, number = node.sources[0], node.attrs["index"]
    if several.op is PACK:
        joined.join_values(several.sources[number], node)
    elif ends_by_itself(several):
        _join_lanes(several, [node], joined)
    elif several.op in (SCAN, WHILE, COND):
        made = bodies_of(several)[-1].outputs[number]
        if several.op is SCAN and number >= several.attrs["carries"]:
            _join_steps(node, made, joined)
        else:
            joined.join_values(made, node)
    else:
        joined.cut(_every(node))


def _join_aligned(source: Node, node: Node, joined: _AxisSets) -> None:
    """Unify axes of equal extents, aligned at the last axis."""
    ahead = node.ndim - source.ndim
    for axis, n in enumerate(source.shape):
        if n == node.shape[axis + ahead]:
            joined.join((source, axis), (node, axis + ahead))


def _join_reshaped(node: Node, joined: _AxisSets) -> None:
    """Unify axes of equal extents with equal sizes before them; the others are not lanes."""
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
    """Unify the axes along which no element moves."""
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
