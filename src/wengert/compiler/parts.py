"""Parts: when there are more parts than ranks, each rank computes several of them in one graph.

In: the graph that `partition` made for a group of P parts, and the group of the N ranks that share them. Out: the graph
of a rank, in which every node that differs from part to part occurs P / N times. A collective over the parts combines a
rank's own parts first, then the ranks. Sums continue the same tree, so that any N gives the same bits. With one rank
this is gradient accumulation over P micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wengert.compiler.states import Sharded, State
from wengert.core.communication import tree_sum
from wengert.core.graph import Graph, Node, recorded_as, recording
from wengert.core.mesh import Group
from wengert.ops import elementwise as e
from wengert.ops.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_REDUCE_MAX,
    ALL_TO_ALL,
    BLOCK,
    REDUCE_SCATTER,
    added,
)
from wengert.ops.core import placeholder
from wengert.ops.movement import concat, reshape, slice_axis
from wengert.ops.op import Op
from wengert.ops.transfer import MICROBATCH

Lanes = Node | list[Node]
"""A value of a rank: one for all of its parts, or one for each."""


def unroll(
    graph: Graph,
    parts: Group,
    ranks: Group,
    inputs: Sequence[State],
    outputs: Sequence[State],
    marks: bool = False,
) -> Graph:
    """The graph of a rank that computes `parts.size / ranks.size` parts, from the states of inputs and outputs.

    With `marks` the start of each part is a `microbatch` node, by which a pipeline tells the parts apart.
    """
    walk = _Unrolled(parts, ranks, marks)
    placed = [walk.take(node, state) for node, state in zip(graph.inputs, inputs)]
    with recorded_as(recording.location, recording.grad) as inside:
        for node in graph.nodes:
            recording.location, inside.grad = node.location, node.tracked
            walk.visit(node)
        results = [walk.given(node, state) for node, state in zip(graph.outputs, outputs)]
    return Graph(placed, results)


class _Unrolled:
    def __init__(self, parts: Group, ranks: Group, marks: bool = False) -> None:
        self.parts, self.ranks, self.marks = parts, ranks, marks
        self.count = parts.size // ranks.size
        self.lanes: dict[Node, Lanes] = {}
        self.placed: dict[Node, Node] = {}

    def take(self, node: Node, state: State) -> Node:
        """The input of a rank: the blocks of its parts side by side."""
        if node not in self.placed:
            self.placed[node] = self.lanes[node] = node
            if isinstance(state, Sharded):
                axis = state.axis
                shape = (*node.shape[:axis], node.shape[axis] * self.count, *node.shape[axis + 1 :])
                whole = self.placed[node] = placeholder(shape, node.dtype, node.device, node.tracked)
                cut = self._cut(whole, axis) if state.runs == 1 else self._marked(_apart(whole, state, self.count))
                self.lanes[node] = cut
        return self.placed[node]

    def given(self, node: Node, state: State) -> Node:
        """An output of a rank."""
        found = self.lanes.get(node, node)
        if isinstance(state, Sharded):  # a block that all parts share (a broadcast value) occurs once per part
            return _side_by_side(found if isinstance(found, list) else [found] * self.count, state)
        return found[0] if isinstance(found, list) else found

    def _cut(self, x: Node, axis: int) -> list[Node]:
        size = x.shape[axis] // self.count
        return self._marked([slice_axis(x, axis, k * size, (k + 1) * size) for k in range(self.count)])

    def _marked(self, lanes: list[Node]) -> list[Node]:
        return [MICROBATCH(lane, index=k) for k, lane in enumerate(lanes)] if self.marks else lanes

    def visit(self, node: Node) -> None:
        """Record a node once or once per part; a collective combines the parts of this rank first."""
        sources = [self.lanes.get(source, source) for source in node.sources]
        if node.attrs.get("group") == self.parts:
            self.lanes[node] = self._collective(node, sources[0])
        elif any(isinstance(source, list) for source in sources):
            each = [source if isinstance(source, list) else [source] * self.count for source in sources]
            self.lanes[node] = [node.op(*lane, **node.attrs) for lane in zip(*each)]
        else:
            made = node.op(*sources, **node.attrs)  # type: ignore[arg-type]
            if not sources:
                made.device = node.device
            self.lanes[node] = made

    def _collective(self, node: Node, source: Lanes) -> Lanes:
        lanes = source if isinstance(source, list) else [source] * self.count
        return _RULES[node.op](self, node, lanes)


def _side_by_side(blocks: list[Node], state: Sharded) -> Node:
    """The blocks of a rank's parts as one block of the rank, run by run."""
    at, whole = state.axis, blocks[0].shape
    shape = (*whole[:at], state.runs, whole[at] // state.runs, *whole[at + 1 :])
    joined = concat([reshape(block, shape) for block in blocks], axis=at + 1)
    return reshape(joined, (*whole[:at], whole[at] * len(blocks), *whole[at + 1 :]))


def _apart(block: Node, state: Sharded, count: int) -> list[Node]:
    """The inverse of `_side_by_side`."""
    at, whole = state.axis, block.shape
    viewed = reshape(block, (*whole[:at], state.runs, whole[at] // state.runs, *whole[at + 1 :]))
    size = viewed.shape[at + 1] // count
    shape = (*whole[:at], whole[at] // count, *whole[at + 1 :])
    return [reshape(slice_axis(viewed, at + 1, k * size, (k + 1) * size), shape) for k in range(count)]


def _all_reduce(walk: _Unrolled, node: Node, lanes: list[Node]) -> Lanes:
    return _over(ALL_REDUCE, walk, tree_sum(lanes, added))


def _all_reduce_max(walk: _Unrolled, node: Node, lanes: list[Node]) -> Lanes:
    return _over(ALL_REDUCE_MAX, walk, tree_sum(lanes, e.maximum))


def _reduce_scatter(walk: _Unrolled, node: Node, lanes: list[Node]) -> Lanes:
    axis = node.attrs["axis"]
    return walk._cut(_over(REDUCE_SCATTER, walk, tree_sum(lanes, added), axis=axis), axis)


def _all_gather(walk: _Unrolled, node: Node, lanes: list[Node]) -> Lanes:
    axis = node.attrs["axis"]
    return _over(ALL_GATHER, walk, concat(lanes, axis=axis), axis=axis)


def _block(walk: _Unrolled, node: Node, lanes: list[Node]) -> Lanes:
    axis = node.attrs["axis"]
    return walk._cut(_over(BLOCK, walk, lanes[0], axis=axis), axis)


def _all_to_all(walk: _Unrolled, node: Node, lanes: list[Node]) -> Lanes:
    """Split each part's value along `split`; what a part receives is joined along `join`."""
    split, join = node.attrs["split"], node.attrs["join"]
    whole = concat(lanes, axis=join)  # of this rank, which is one block along `join`
    if walk.ranks.size > 1:
        whole = ALL_TO_ALL(whole, split=split, join=join, group=walk.ranks)
    return walk._cut(whole, split)


def _over(op: Op, walk: _Unrolled, x: Node, **attrs: Any) -> Node:
    """A collective among the ranks; a single rank needs none."""
    return x if walk.ranks.size == 1 else op(x, **attrs, group=walk.ranks)


_RULES: dict[Op, Callable[[_Unrolled, Node, list[Node]], Lanes]] = {
    ALL_REDUCE: _all_reduce,
    ALL_REDUCE_MAX: _all_reduce_max,
    REDUCE_SCATTER: _reduce_scatter,
    ALL_GATHER: _all_gather,
    BLOCK: _block,
    ALL_TO_ALL: _all_to_all,
}
