"""Distribution: how a function is spread over a mesh, and the resulting graph of one rank.

In: a recorded graph and the placements of its inputs (`Placement`s over a mesh, None for replicated ones). Out: the
graph of one rank and the placements of its outputs. `partition` processes the axes of the mesh one after another: a
local value of one axis is the global value for the next. Along the axis "data" a batch may be cut into more parts than
there are ranks (`parts`); each rank then computes several in sequence. The layers are cut along the axis "stage",
before any other axis (`pipeline`): the parts of a rank are the micro-batches of the pipeline.
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
from wengert.compiler.pieces import Compute, Pieces, Step, pieces
from wengert.compiler.pipeline import STAGE_AXIS, Pipeline, pipeline_split
from wengert.compiler.rewrite import begin, rewrite
from wengert.compiler.rewrite import fuel as tank
from wengert.compiler.schedules import Schedule, schedule_named
from wengert.compiler.stages import Interface
from wengert.compiler.states import WHOLE, Like, Sharded, State, Stored
from wengert.core.devices import HOST_TARGET
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node
from wengert.core.mesh import Group, Mesh, mesh_of
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
    """The mesh that a function is spread over, and the number of parts of its batch; None is one part per rank.

    If `exact`, all results have the same bits for any number of ranks. `schedule` is the order in which the ranks of a
    pipeline process their parts.
    """

    mesh: Mesh
    parts: int | None = None
    exact: bool = False
    schedule: str = "1f1b"

    @property
    def count(self) -> int:
        """The number of parts of the batch."""
        return self.parts or self.mesh.sizes.get(DATA_AXIS, 1)

    @property
    def stages(self) -> int:
        """The number of ranks that the layers are spread over."""
        return self.mesh.sizes.get(STAGE_AXIS, 1)

    @property
    def is_pipelined(self) -> bool:
        """Whether ranks process their parts one after another, by a schedule."""
        return self.stages > 1 or (STAGE_AXIS in self.mesh and self.count > self.mesh.sizes.get(DATA_AXIS, 1))

    def table(self, stages: int) -> Schedule:
        """The schedule of this many stages over the parts of a rank."""
        microbatches = self.count // self.mesh.sizes.get(DATA_AXIS, 1)
        return schedule_named(self.schedule)(self.stages, microbatches, stages)

    @property
    def is_trivial(self) -> bool:
        """Whether one rank computes everything in one part."""
        return self.mesh.size == 1 and self.count == 1


def parts_of(microbatches: int | None, parts: int | None) -> int | None:
    """The number of parts of a batch, as set by `microbatches=` and `wg.config.parts`."""
    if microbatches is not None and (type(microbatches) is not int or microbatches < 1):
        raise ArgumentError(f"compile: microbatches is a number from 1 on, or None, not {microbatches!r}")
    if microbatches and parts and microbatches != parts:
        raise ArgumentError(
            f"compile: microbatches is {microbatches} and wg.config.parts is {parts}; both say into how many parts "
            "a batch is cut: leave one of them out"
        )
    return microbatches or parts


def distribution(
    mesh: Mesh | None, parts: int | None, exact: bool = False, schedule: str = "1f1b"
) -> Distribution | None:
    """The requested distribution, if any; raises if the ranks cannot share the parts evenly."""
    schedule_named(schedule)
    if mesh is None and parts is None:
        return None
    one = Mesh(data=1) if exact else Mesh(data=1, stage=1)  # a one-stage pipeline processes its parts in sequence
    mesh = one if mesh is None else mesh_of(mesh, "compile")
    if (parts or 1) > 1 and STAGE_AXIS in mesh and DATA_AXIS not in mesh:
        raise ArgumentError(f"a batch is cut along the axis {DATA_AXIS!r} of a mesh, and {mesh} has none: add data=1")
    ranks = mesh.sizes.get(DATA_AXIS, 1)
    if parts is not None and (parts < 1 or parts % ranks):
        raise ArgumentError(
            f"compile: the {ranks} ranks of {DATA_AXIS!r} cannot share {parts} parts of a batch equally; "
            f"take a multiple of {ranks}"
        )
    found = Distribution(mesh, parts, exact, schedule)
    return None if found.is_trivial else found


@dataclass
class Distributed:
    """The graph of any rank, the placements of its inputs and outputs, and the reports of the passes."""

    graph: Graph
    inputs: list[Placement]
    outputs: list[Placement]
    reports: list[PassReport] = field(default_factory=list)
    gathered: list[Gathered] = field(default_factory=list)
    pipeline: Pipeline | None = None  # if the graph is that of all stages
    schedule: Schedule | None = None


def distribute(
    graph: Graph,
    spread: Distribution,
    inputs: Sequence[Placement | None],
    outputs: Mapping[int, int],
    interface: Interface | None = None,
) -> Distributed:
    """The graph of a rank, from the placements of its inputs; `outputs` maps outputs to inputs of the same placement.

    With stages it is the graph of all of them, from which `pieces_of` takes one rank's; this needs the `interface`.
    """
    mesh = spread.mesh
    found = Distributed(graph, [placement or Placement(mesh, {}) for placement in inputs], [])
    if spread.is_pipelined:
        with _reported("pipeline_split", found):
            asked_of = interface or Interface((), 0, outputs)
            found.graph, found.pipeline = pipeline_split(graph, mesh[STAGE_AXIS], asked_of, spread.exact)
        found.schedule = spread.table(found.pipeline.stages)
    found.graph = inline(found.graph, HOST_TARGET)
    if spread.exact:
        found.graph = _summed_by_rows(found.graph, spread.count)
    splits: list[dict[str, State]] = [{} for _ in found.graph.outputs]
    for axis in _order(mesh, inputs):
        ranks = mesh[axis]
        parts = _parts_group(mesh, axis, spread.count) if axis == DATA_AXIS else ranks
        if parts.size == 1 or axis == STAGE_AXIS:
            continue
        states = [_state(placement, axis) for placement in inputs]
        asked = {k: states[i] for k, i in outputs.items()} | _copies(found.pipeline)
        with _reported(f"partition {axis}" if len(mesh.sizes) > 1 else "partition", found):
            cut = partition(found.graph, parts, states, asked, ranks, spread.exact)
            local = cut.graph
            if parts != ranks:
                local = unroll(local, parts, ranks, states, cut.outputs, marks=found.pipeline is not None)
            found.graph = dce(local, HOST_TARGET)
        found.gathered += cut.gathered
        for split, state in zip(splits, cut.outputs):
            split[axis] = state
    for one in (algebra, cse) if found.pipeline is not None else (algebra, cse, bucket):
        with _reported(one.__name__, found):
            found.graph = one(found.graph, HOST_TARGET)
    found.outputs = [_placement(mesh, split) for split in splits]
    if found.pipeline is None:
        found.graph = numbered(found.graph)
        return found
    found.inputs = [_at(placement, stage) for placement, stage in zip(found.inputs, found.pipeline.inputs)]
    found.outputs = [_at(found.outputs[k], found.pipeline.home(k)) for k in range(len(found.pipeline.outputs))]
    return found


@contextmanager
def _reported(name: str, found: Distributed) -> Iterator[None]:
    """Report the changes made to the graph inside as a pass."""
    begin(name)
    before, spent, start = len(found.graph.nodes), tank.spent, perf_counter()
    yield
    counts = before, len(found.graph.nodes), tank.spent - spent
    found.reports.append(PassReport(name, *counts, perf_counter() - start, found.graph))


def pieces_of(found: Distributed, rank: int, pairs: Sequence[tuple[int, int]] = ()) -> Pieces:
    """The part of the all-stages graph that one rank runs; ranks of one stage have the same collectives."""
    assert found.pipeline is not None and found.schedule is not None
    stage = found.pipeline.group.rank_of(rank)
    own = pieces(found.graph, found.pipeline, found.schedule, stage, pairs)

    def local(step: Step) -> Step:
        if not isinstance(step, Compute):
            return step
        return step._replace(graph=localize(numbered(bucket(step.graph, HOST_TARGET)), rank))

    return own._replace(steps=tuple(map(local, own.steps)))


def _copies(pipeline: Pipeline | None) -> dict[int, State]:
    """Outputs that duplicate outputs of another stage: they get the same placement."""
    held = [] if pipeline is None else pipeline.outputs
    return {copy: Like(k) for k, ranks in enumerate(held) for copy in ranks.values() if copy != k}


def _at(placement: Placement, stage: int | None) -> Placement:
    """A placement on the ranks of one stage; on those of all stages if it is None."""
    at = {} if stage is None else {STAGE_AXIS: stage}
    return Placement(placement.mesh, placement.splits, placement.stored, placement.runs, at)


def _order(mesh: Mesh, inputs: Sequence[Placement | None]) -> Sequence[str]:
    """The order in which mesh axes are processed: a value cut along two of them is cut in that order.

    The sequence axis comes last if the inputs allow it: attention exchanges it for heads, and tensor parallelism must
    already have given each rank its heads.
    """
    needed = {pair for placement in inputs if placement is not None for pair in _cut_twice(placement)}
    wanted = sorted(mesh.sizes, key=lambda name: name == SEQUENCE_AXIS)
    for order in (wanted, *permutations(mesh.sizes)):
        if all(order.index(first) < order.index(then) for first, then in needed):
            return order
    raise ArgumentError("one input is cut along two axes of the mesh in one order, and another in the other order")


def _cut_twice(placement: Placement) -> Iterator[tuple[str, str]]:
    """The pairs of mesh axes that cut the same axis of a value, in order."""
    for (first, axis), (then, other) in combinations(placement.splits.items(), 2):
        if axis == other:
            yield first, then


def _summed_by_rows(graph: Graph, parts: int) -> Graph:
    """The graph with sums over several axes in two steps: first all axes but the one that may be distributed.

    So the norm of a gradient is added in one order, whether a rank has all rows or some of them.
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
    """The group of all parts, as if each had its own rank."""
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
    """The graph of one particular rank: its own blocks become slices."""

    def rule(node: Node) -> Node | None:
        if node.op is RANK:
            return literal(node.attrs["group"].rank_of(rank), node.dtype, node.device)
        if node.op is not BLOCK:
            return None
        axis, size = node.attrs["axis"], node.shape[node.attrs["axis"]]
        start = node.attrs["group"].rank_of(rank) * size
        return slice_axis(node.sources[0], axis, start, start + size)

    return rewrite(graph, rule)
