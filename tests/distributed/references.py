"""All ranks of a partitioned graph by the references, value by value: no batching rule, no compiler in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.compiler.distribute import Distributed
from wengert.core.communication import tree_sum
from wengert.core.graph import Node
from wengert.core.mesh import Group
from wengert.ops import collective as c
from wengert.ops.op import Op

Values = list[Any]  # of each rank


def values_of_ranks(found: Distributed, arrays: Sequence[np.ndarray]) -> list[Values]:
    """The outputs of all ranks."""
    mesh = (found.inputs or found.outputs)[0].mesh
    ranks = range(mesh.size)
    values: dict[Node, Values] = {}
    for node, placement, array in zip(found.graph.inputs, found.inputs, arrays):
        values[node] = [placement.block(array, rank) for rank in ranks]
        assert {value.shape for value in values[node]} == {node.shape}
    for node in found.graph.captured():
        values[node] = [node.buffer for _ in ranks]
    with np.errstate(all="ignore"):
        for node in found.graph.nodes:
            sources = [values[source] for source in node.sources]
            if node.op is c.RANK:
                values[node] = [np.asarray(node.attrs["group"].rank_of(rank), node.dtype) for rank in ranks]
            elif node.op in _COLLECTIVES:
                values[node] = _COLLECTIVES[node.op](node, *sources)
            else:
                values[node] = [node.op.run([source[rank] for source in sources], node) for rank in ranks]
    return [values[node] for node in found.graph.outputs]


def _members(node: Node, values: Values, rank: int) -> Values:
    return [values[k] for k in node.attrs["group"].members(rank)]


def _over_members(reduce: Callable[[Values], Any]) -> Callable[[Node, Values], Values]:
    return lambda node, values: [reduce(_members(node, values, rank)) for rank in range(len(values))]


def _gathered(node: Node, values: Values) -> Values:
    return _over_members(lambda each: np.concatenate(each, node.attrs["axis"]))(node, values)


def _piece(x: Any, axis: int, group: Group, member: int) -> Any:
    return np.split(x, group.size, axis)[member]


def _block(node: Node, values: Values) -> Values:
    axis, group = node.attrs["axis"], node.attrs["group"]
    return [_piece(value, axis, group, group.rank_of(rank)) for rank, value in enumerate(values)]


def _exchanged(node: Node, values: Values) -> Values:
    split, join, group = node.attrs["split"], node.attrs["join"], node.attrs["group"]
    return [
        np.concatenate([_piece(x, split, group, group.rank_of(rank)) for x in _members(node, values, rank)], join)
        for rank in range(len(values))
    ]


def _many(node: Node, *sources: Values) -> Values:
    return list(zip(*[_over_members(tree_sum)(node, values) for values in sources]))


_COLLECTIVES: dict[Op, Callable[..., Values]] = {
    c.ALL_REDUCE: _over_members(tree_sum),
    c.ALL_REDUCE_MANY: _many,
    c.ALL_REDUCE_MAX: _over_members(lambda each: tree_sum(each, np.maximum)),
    c.ALL_GATHER: _gathered,
    c.REDUCE_SCATTER: lambda node, values: _block(node, _over_members(tree_sum)(node, values)),
    c.BLOCK: _block,
    c.ALL_TO_ALL: _exchanged,
}
