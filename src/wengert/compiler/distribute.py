"""Distribution: how a function is spread over a mesh, and the graph of a rank that follows from it.

In: a recorded graph and where its inputs lie (`Placement`s over a mesh, None for whole ones). Out: the graph of one
rank and where its outputs lie. The axes of the mesh are gone through one after the other, each by `partition`: what is
local to one axis is the whole of the next. Along the axis "data" a batch may be cut into more parts than there are
ranks (`parts`), which are then computed one after the other on each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations, permutations
from time import perf_counter

from wengert.compiler.cleanup import cse, dce, inline
from wengert.compiler.collectives import algebra, bucket, numbered
from wengert.compiler.gathered import Gathered
from wengert.compiler.partition import partition
from wengert.compiler.parts import unroll
from wengert.compiler.passes import PassReport
from wengert.compiler.rewrite import begin, rewrite
from wengert.compiler.rewrite import fuel as tank
from wengert.compiler.states import WHOLE, Sharded, State, Stored
from wengert.core.devices import HOST_TARGET
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node
from wengert.core.mesh import Group, Mesh
from wengert.core.placement import Placement, block_axis
from wengert.ops.collective import BLOCK, RANK
from wengert.ops.core import literal
from wengert.ops.movement import reshape, slice_axis
from wengert.ops.reduce import SUM

DATA_AXIS = "data"
"""The axis of a mesh along which batches are cut: the first axis of arguments."""
SEQUENCE_AXIS = "sequence"
"""The axis of a mesh along which sequences are cut: the second axis of arguments."""


@dataclass(frozen=True)
class Distribution:
    """The mesh that a function is spread over, and into how many parts its batch is cut; None: one a rank.

    If `exact`, the bits of all results are the same for any number of ranks.
    """

    mesh: Mesh
    parts: int | None = None
    exact: bool = False

    @property
    def count(self) -> int:
        """Into how many parts the batch is cut."""
        return self.parts or self.mesh.sizes.get(DATA_AXIS, 1)

    @property
    def is_trivial(self) -> bool:
        """Whether one rank computes everything in one part."""
        return self.mesh.size == 1 and self.count == 1


def distribution(mesh: Mesh | None, parts: int | None, exact: bool = False) -> Distribution | None:
    """The distribution that is asked for, if any; raises where the ranks cannot share the parts."""
    if mesh is None and parts is None:
        return None
    mesh = mesh or Mesh(data=1)
    ranks = mesh.sizes.get(DATA_AXIS, 1)
    if parts is not None and (parts < 1 or parts % ranks):
        raise ArgumentError(f"{ranks} ranks of the axis {DATA_AXIS!r} cannot share {parts} parts equally")
    found = Distribution(mesh, parts, exact)
    return None if found.is_trivial else found


@dataclass
class Distributed:
    """The graph of any rank, where its inputs and outputs lie, and what the passes did."""

    graph: Graph
    inputs: list[Placement]
    outputs: list[Placement]
    reports: list[PassReport] = field(default_factory=list)
    gathered: list[Gathered] = field(default_factory=list)


def distribute(
    graph: Graph, spread: Distribution, inputs: Sequence[Placement | None], outputs: Mapping[int, int]
) -> Distributed:
    """The graph of a rank, given where its inputs lie; `outputs` are those that lie where an input does, by number."""
    mesh = spread.mesh
    graph = inline(graph, HOST_TARGET)
    graph = _summed_by_rows(graph, spread.count) if spread.exact else graph
    found = Distributed(graph, [placement or Placement(mesh, {}) for placement in inputs], [])
    splits: list[dict[str, State]] = [{} for _ in graph.outputs]
    for axis in _order(mesh, inputs):
        ranks = mesh[axis]
        parts = _parts_group(mesh, axis, spread.count) if axis == DATA_AXIS else ranks
        if parts.size == 1:
            continue
        states = [_state(placement, axis) for placement in inputs]
        asked = {k: states[i] for k, i in outputs.items()}
        with _reported(f"partition {axis}" if len(mesh.sizes) > 1 else "partition", found):
            cut = partition(found.graph, parts, states, asked, ranks, spread.exact)
            local = cut.graph if parts == ranks else unroll(cut.graph, parts, ranks, states, cut.outputs)
            found.graph = dce(local, HOST_TARGET)
        found.gathered += cut.gathered
        for split, state in zip(splits, cut.outputs):
            split[axis] = state
    for one in (algebra, cse, bucket):
        with _reported(one.__name__, found):
            found.graph = one(found.graph, HOST_TARGET)
    found.graph = numbered(found.graph)
    found.outputs = [_placement(mesh, split) for split in splits]
    return found


@contextmanager
def _reported(name: str, found: Distributed) -> Iterator[None]:
    """Report what is done to the graph inside as a pass."""
    begin(name)
    before, spent, start = len(found.graph.nodes), tank.spent, perf_counter()
    yield
    counts = before, len(found.graph.nodes), tank.spent - spent
    found.reports.append(PassReport(name, *counts, perf_counter() - start, found.graph))


def _order(mesh: Mesh, inputs: Sequence[Placement | None]) -> Sequence[str]:
    """The order in which axes of a mesh are gone through: what is cut along two of them is cut in that order.

    Sequences come last, if inputs allow it: attention exchanges them for heads, of which tensor parallelism has left
    each rank some.
    """
    needed = {pair for placement in inputs if placement is not None for pair in _cut_twice(placement)}
    wanted = sorted(mesh.sizes, key=lambda name: name == SEQUENCE_AXIS)
    for order in (wanted, *permutations(mesh.sizes)):
        if all(order.index(first) < order.index(then) for first, then in needed):
            return order
    raise ArgumentError("one input is cut along two axes of the mesh in one order, and another in the other order")


def _cut_twice(placement: Placement) -> Iterator[tuple[str, str]]:
    """The pairs of axes of the mesh that cut one axis of a value, in order."""
    for (first, axis), (then, other) in combinations(placement.splits.items(), 2):
        if axis == other:
            yield first, then


def _summed_by_rows(graph: Graph, parts: int) -> Graph:
    """The graph with sums over several axes done in two: first all but the axis that ranks may have blocks along.

    So the norm of a gradient is added in one order, whether a rank has all of it or some rows.
    """

    def rule(node: Node) -> Node | None:
        if node.op is not SUM or len(node.attrs["axes"]) < 2:
            return None
        x, axes = node.sources[0], node.attrs["axes"]
        axis = block_axis(x.shape, parts)
        if axis not in axes:
            return None
        rows = SUM(x, axes=tuple(a for a in axes if a != axis), keepdims=True)
        return reshape(SUM(rows, axes=(axis,), keepdims=True), node.shape)

    return rewrite(graph, rule)


def _parts_group(mesh: Mesh, axis: str, count: int) -> Group:
    """The group of all parts, as if each had a rank of its own."""
    return mesh[axis] if count == mesh.sizes[axis] else Mesh(**{**mesh.sizes, axis: count})[axis]


def _state(placement: Placement | None, axis: str) -> State:
    if placement is None or axis not in placement.splits:
        return WHOLE
    kind = Stored if axis in placement.stored else Sharded
    return kind(placement.splits[axis], placement.runs.get(axis, 1))


def _placement(mesh: Mesh, states: Mapping[str, State]) -> Placement:
    cut = {name: state for name, state in states.items() if state is not WHOLE}
    stored = [name for name, state in cut.items() if isinstance(state, Stored)]
    runs = {name: state.runs for name, state in cut.items()}
    return Placement(mesh, {name: state.axis for name, state in cut.items()}, stored, runs)


def localize(graph: Graph, rank: int) -> Graph:
    """The graph of one rank in particular: its own blocks are slices."""

    def rule(node: Node) -> Node | None:
        if node.op is RANK:
            return literal(node.attrs["group"].rank_of(rank), node.dtype, node.device)
        if node.op is not BLOCK:
            return None
        axis, size = node.attrs["axis"], node.shape[node.attrs["axis"]]
        start = node.attrs["group"].rank_of(rank) * size
        return slice_axis(node.sources[0], axis, start, start + size)

    return rewrite(graph, rule)
