"""Cuts: the ways to compute a node from blocks of its sources, regardless of cost. `partition` chooses among them.

Most ops are cut along their factors (`ops.factors`). A movement op moves a block to wherever its elements go, which may
be a block of several runs. For an index along a cut axis, the rank that owns the element looks it up and the others
contribute 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from wengert.compiler.states import PARTIAL, WHOLE, Sharded, State, Stored, block_shape
from wengert.core.dtypes import int64
from wengert.core.graph import Node
from wengert.core.mesh import Group
from wengert.ops import elementwise as e
from wengert.ops.addressing import ADD_ALONG, GATHER, SCATTER_ADD, TAKE_ALONG, zeros
from wengert.ops.collective import RANK
from wengert.ops.comparison import CHECKED_INDEX
from wengert.ops.core import cast
from wengert.ops.factors import Factors, divisor, factors, is_zero, local_attributes
from wengert.ops.movement import CONCAT, PLACE, RESHAPE, SLICE, reshape
from wengert.ops.op import Op

Make = Callable[[Sequence[Node]], Node]


class NodeCut(NamedTuple):
    """One way to compute a node: the states that its sources need, the states of its results, the node per rank."""

    wanted: tuple[State, ...]
    results: tuple[State, ...]
    make: Make
    reduction: str | None = None  # how the results of the ranks combine, if they do


def _recorded(op: Op, attrs: Mapping[str, Any], sources: Sequence[Node]) -> Node:
    return op(*sources, **attrs)


# --- along factors --------------------------------------------------------------------------------------------------


Runs = Callable[[int, int], set[int]]
"""Of how many runs the blocks are in which a source, by number, is held along an axis."""


def factor_cuts(node: Node, kind: type[Sharded] | type[Stored], n: int, runs: Runs) -> Iterator[NodeCut]:
    """The ways to cut a node along one of its factors, into one run or the runs that its sources have."""
    found = factors(node)
    for factor in _all(found):
        if not _divides(node, found, factor, n):
            continue
        offered = {1} if found.ordered else _runs(found, factor, runs)
        for count in sorted(offered):
            if divisor(node, found, factor) % (n * count) == 0:
                yield _factor_cut(node, found, factor, kind, n, count)


def _all(found: Factors) -> list[Any]:
    """The factors, in the order in which results and then the reduction name them."""
    names = [factor for labels in found.results for factor in labels if factor is not None]
    return list(dict.fromkeys([*names, *found.reduction]))


def _divides(node: Node, found: Factors, factor: Any, count: int) -> bool:
    if len(found.results) > 1 and not all(factor in axes for axes in found.results):
        return False
    return divisor(node, found, factor) % count == 0


def _runs(found: Factors, factor: Any, runs: Runs) -> set[int]:
    held = [runs(i, axes.index(factor)) for i, axes in enumerate(found.sources) if factor in axes]
    return {1}.union(*held)


def _factor_cut(node: Node, found: Factors, factor: Any, kind: Any, n: int, runs: int) -> NodeCut:
    def state(axes: Sequence[Any]) -> State:
        return kind(axes.index(factor), runs) if factor in axes else WHOLE

    reduction = found.reduction.get(factor)
    results = tuple([state(axes) for axes in found.results])
    if reduction is not None:
        results = (PARTIAL if reduction == "sum" else WHOLE,) * len(results)
    attrs = local_attributes(node, factor, n)
    return NodeCut(
        tuple([state(axes) for axes in found.sources]), results, partial(_recorded, node.op, attrs), reduction
    )


# --- movement -------------------------------------------------------------------------------------------------------


def movement_cuts(node: Node, held: Sequence[Sequence[Sharded]], n: int) -> Iterator[NodeCut]:
    """Where the blocks of the sources of reshape, slice, place or concat end up."""
    rule = _MOVES.get(node.op)
    for state in held[0] if rule is not None else ():
        found = rule(node, state, n)  # type: ignore[misc]
        if found is not None:
            yield found


def _reshaped(node: Node, state: Sharded, n: int) -> NodeCut | None:
    (x,) = node.sources
    before, after = x.shape, node.shape
    if 0 in before:
        return None
    outer = math.prod(before[: state.axis]) * state.runs  # the runs of the flattened value
    for axis, size in enumerate(after):
        front = math.prod(after[:axis])
        if size > 1 and outer % front == 0 and size % (outer // front * n) == 0:
            attrs = {"shape": block_shape(after, axis, n)}
            return NodeCut((state,), (Sharded(axis, outer // front),), partial(_recorded, RESHAPE, attrs))
    return None


def _sliced(node: Node, state: Sharded, n: int) -> NodeCut | None:
    """A slice that takes whole runs."""
    (x,), axis = node.sources, state.axis
    starts, steps, sizes = (list(node.attrs[key]) for key in ("starts", "steps", "sizes"))
    run = x.shape[axis] // state.runs
    if not run or steps[axis] != 1 or starts[axis] % run or sizes[axis] % run or not sizes[axis]:
        return None
    result = Sharded(axis, sizes[axis] // run)
    starts[axis], sizes[axis] = starts[axis] // n, sizes[axis] // n
    attrs = {"starts": tuple(starts), "steps": tuple(steps), "sizes": tuple(sizes)}
    return NodeCut((state,), (result,), partial(_recorded, SLICE, attrs))


def _placed(node: Node, state: Sharded, n: int) -> NodeCut | None:
    """Runs that are placed at run boundaries."""
    (x,), axis = node.sources, state.axis
    shape, starts, steps = (list(node.attrs[key]) for key in ("shape", "starts", "steps"))
    run = x.shape[axis] // state.runs
    if not run or steps[axis] != 1 or starts[axis] % run or shape[axis] % run:
        return None
    result = Sharded(axis, shape[axis] // run)
    shape[axis], starts[axis] = shape[axis] // n, starts[axis] // n
    attrs = {"shape": tuple(shape), "starts": tuple(starts), "steps": tuple(steps)}
    return NodeCut((state,), (result,), partial(_recorded, PLACE, attrs))


def _joined(node: Node, state: Sharded, n: int) -> NodeCut | None:
    """Runs joined side by side, all of equal length."""
    axis = node.attrs["axis"]
    run = node.sources[0].shape[axis] // state.runs
    if state.axis != axis or not run or any(x.shape[axis] % run or not x.shape[axis] for x in node.sources):
        return None
    wanted = tuple(Sharded(axis, x.shape[axis] // run) for x in node.sources)
    return NodeCut(wanted, (Sharded(axis, node.shape[axis] // run),), partial(_recorded, CONCAT, node.attrs))


_MOVES: dict[Op, Callable[[Node, Sharded, int], NodeCut | None]] = {
    RESHAPE: _reshaped,
    SLICE: _sliced,
    PLACE: _placed,
    CONCAT: _joined,
}

# --- indices --------------------------------------------------------------------------------------------------------


def lookup_cuts(node: Node, held: Sequence[Sequence[Sharded]], group: Group) -> Iterator[NodeCut]:
    """An index into a cut axis: the rank that owns the element returns it, the others return 0."""
    axis: int = node.attrs.get("axis", 0)
    if node.op not in (GATHER, TAKE_ALONG) or len(node.sources) != 2 or Sharded(axis) not in held[0]:
        return
    size = node.sources[0].shape[axis]

    def make(xs: Sequence[Node]) -> Node:
        local, inside = _own(xs[1], size, group)
        taken = node.op(xs[0], local, axis=axis)
        return e.where(_beside(inside, taken, node), taken, 0)

    yield NodeCut((Sharded(axis), WHOLE), (PARTIAL,), make, "sum")


def written_block(node: Node, state: State, sources: Sequence[Node], group: Group) -> Node | None:
    """A rank's block of zeros with values added at an index along the cut axis; None for any other node."""
    axis: int = node.attrs.get("axis", 0)
    if node.op not in (SCATTER_ADD, ADD_ALONG) or len(sources) != 3 or state != Sharded(axis):
        return None
    x, values, index = sources
    if not is_zero(node.sources[0]):
        return None
    local, inside = _own(index, x.shape[state.axis], group)
    own = e.where(_beside(inside, values, node), values, 0)
    return node.op(zeros(block_shape(x.shape, state.axis, group.size), values), own, local, axis=state.axis)


def _own(index: Node, size: int, group: Group) -> tuple[Node, Node]:
    """An index into a rank's block of an axis of this size, and where the block contains the indexed elements."""
    own = size // group.size
    counted = cast(CHECKED_INDEX(index, size=size), int64)
    local = counted - cast(RANK(group=group), int64) * own
    inside = e.logical_and(e.greater_equal(local, 0), e.less(local, own))
    return e.where(inside, local, 0), inside


def _beside(inside: Node, values: Node, node: Node) -> Node:
    """A condition on indices, broadcast to the shape of the values at them."""
    if node.op in (TAKE_ALONG, ADD_ALONG):
        return inside
    axis = node.attrs["axis"]
    behind = values.ndim - axis - inside.ndim
    return reshape(inside, (*inside.shape, *(1,) * behind))
