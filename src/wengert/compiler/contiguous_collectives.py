"""Contiguous collectives: where a GPU runs the collectives, they transfer contiguous blocks.

In: a graph for a target whose device has its own engine for collectives (`Target.overlaps`). Out: the graph with
gathers, scatters and exchanges along the first axis only. Movement ops permute the operands and results, and fuse into
neighbouring kernels. (The engine on the host permutes arrays itself.)

Where the order of a sum matters, the sum becomes an exchange of blocks, additions in the order of `tree_sum`, and a
gather. That is the case for more than two ranks under `config.invariant`, and for dtypes that the engine cannot add.
The traffic is that of a ring. A maximum over the ranks becomes a gather and a local maximum, because engines lose NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wengert.compiler.rewrite import for_ops, rewrite, spend
from wengert.core.communication import group_rank, tree_sum
from wengert.core.devices import HOST_TARGET, Target, is_host
from wengert.core.dtypes import INEXACT, INTEGER
from wengert.core.graph import Graph, Node
from wengert.core.mesh import Group
from wengert.ops.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_REDUCE_MANY,
    ALL_REDUCE_MAX,
    ALL_TO_ALL,
    BLOCK,
    REDUCE_SCATTER,
    REPLICATE,
    added,
)
from wengert.ops.movement import concat, moveaxis, place, reshape, slice_axis
from wengert.ops.op import PACK
from wengert.ops.reduce import MAX

ENGINE_SUMS = tuple(dtype for dtype in (*INEXACT, *INTEGER) if dtype.name not in ("int16", "uint16"))
"""The dtypes that engines on a GPU add. Booleans they reduce as numbers."""
SMALL = 1 << 17
"""Bytes of all ranks together up to which a sum in order is gathered whole by each: one message in place of two."""

Rule = Callable[[Node, Target], Node | None]


@for_ops(ALL_GATHER, ALL_REDUCE, ALL_REDUCE_MANY, ALL_REDUCE_MAX, ALL_TO_ALL, BLOCK, REDUCE_SCATTER, REPLICATE)
def contiguous_collectives(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with collectives of contiguous blocks; the same graph if the host runs the collectives."""
    if not target.launches or not target.overlaps:
        return graph

    def rule(node: Node) -> Node | None:
        found = _RULES.get(node.op)
        if found is None or is_host(node.device) or node.attrs["group"].size == 1:
            return None
        return found(node, target)

    return rewrite(graph, rule)


def is_first(shape: tuple[int, ...], axis: int) -> bool:
    """Whether blocks along an axis are contiguous in memory."""
    return math.prod(shape[:axis]) == 1


def is_ordered(node: Node, target: Target) -> bool:
    """Whether our kernels must add a sum, in the order of `tree_sum`."""
    dtype = node.sources[0].dtype
    if dtype in ENGINE_SUMS or dtype.kind == "b":
        return target.invariant and dtype in INEXACT and node.attrs["group"].size > 2
    return True


def _attrs(node: Node, half: bool = False) -> dict[str, Any]:
    """The attributes of a collective that replaces another; the second of a pair directly follows the first."""
    found = {"group": node.attrs["group"]}
    found |= {name: node.attrs[name] for name in ("number", "late") if name in node.attrs}
    if half and found.get("number") is not None:
        found["number"] += 0.5
    return found


def _apart(x: Node, axis: int, count: int) -> Node:
    """The blocks along an axis, stacked along a new first axis."""
    cut = reshape(x, (*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1 :]))
    return moveaxis(cut, axis, 0)


# --- rules ------------------------------------------------------------------------------------------------------------


def _all_gather(node: Node, target: Target) -> Node | None:
    (x,), axis = node.sources, node.attrs["axis"]
    if is_first(x.shape, axis) or not _spends(node):
        return None
    whole = ALL_GATHER(reshape(x, (1, *x.shape)), axis=0, **_attrs(node))
    return reshape(moveaxis(whole, 0, axis), node.shape)


def _reduce_scatter(node: Node, target: Target) -> Node | None:
    (x,), axis, group = node.sources, node.attrs["axis"], node.attrs["group"]
    ordered = is_ordered(node, target)
    if (is_first(x.shape, axis) and not ordered) or not _spends(node):
        return None
    blocks = _apart(x, axis, group.size)
    if ordered:
        return reshape(_added(ALL_TO_ALL(blocks, split=0, join=0, **_attrs(node)), group), node.shape)
    return reshape(REDUCE_SCATTER(blocks, axis=0, **_attrs(node)), node.shape)


def _all_to_all(node: Node, target: Target) -> Node | None:
    (x,), group = node.sources, node.attrs["group"]
    split, join = node.attrs["split"], node.attrs["join"]
    if (is_first(x.shape, split) and is_first(node.shape, join)) or not _spends(node):
        return None
    blocks = ALL_TO_ALL(_apart(x, split, group.size), split=0, join=0, **_attrs(node))
    return reshape(moveaxis(blocks, 0, join), node.shape)


def _all_reduce(node: Node, target: Target) -> Node | None:
    if not is_ordered(node, target) or not _spends(node):
        return None
    return reshape(_in_order(reshape(node.sources[0], (node.size,)), node), node.shape)


def _all_reduce_many(node: Node, target: Target) -> Node | None:
    if not is_ordered(node, target) or not _spends(node):
        return None
    total = _in_order(concat([reshape(x, (x.size,)) for x in node.sources], axis=0), node)
    parts, start = [], 0
    for x in node.sources:
        parts.append(reshape(slice_axis(total, 0, start, start + x.size), x.shape))
        start += x.size
    return PACK(*parts)


def _all_reduce_max(node: Node, target: Target) -> Node | None:
    (x,) = node.sources
    if (x.dtype in INTEGER and x.dtype in ENGINE_SUMS) or x.dtype.kind == "b" or not _spends(node):
        return None
    whole = ALL_GATHER(reshape(x, (1, *x.shape)), axis=0, **_attrs(node))
    return MAX(whole, axes=(0,), keepdims=False)


def _block(node: Node, target: Target) -> Node | None:
    """Take this rank's block with a slice."""
    axis, size = node.attrs["axis"], node.shape[node.attrs["axis"]]
    start = group_rank(node.attrs["group"]) * size
    return slice_axis(node.sources[0], axis, start, start + size) if _spends(node) else None


def _replicate(node: Node, target: Target) -> Node | None:
    """The identity: only differentiation needs the op, and that has happened already."""
    return node.sources[0] if _spends(node) else None


def _in_order(flat: Node, node: Node) -> Node:
    """The sum of a flat value over the ranks, in the order of `tree_sum`."""
    group: Group = node.attrs["group"]
    if flat.size * flat.dtype.itemsize * group.size <= SMALL:
        return _added(ALL_GATHER(reshape(flat, (1, flat.size)), axis=0, **_attrs(node)), group)
    each = -(-flat.size // group.size)
    if each * group.size != flat.size:
        flat = place(flat, (each * group.size,), (0,), (1,))
    blocks = ALL_TO_ALL(reshape(flat, (group.size, each)), split=0, join=0, **_attrs(node))
    whole = ALL_GATHER(_added(blocks, group), axis=0, **_attrs(node, half=True))
    size = sum(x.size for x in node.sources)
    return whole if whole.size == size else slice_axis(whole, 0, 0, size)


def _added(stacked: Node, group: Group) -> Node:
    """The sum over the stacked axis, in the order of `tree_sum`."""
    rows = [slice_axis(stacked, 0, k, k + 1) for k in range(group.size)]
    return reshape(tree_sum(rows, added), stacked.shape[1:])


def _spends(node: Node) -> bool:
    return spend(node, lambda: f"{node.op.name} is one of contiguous blocks")


_RULES: dict[Any, Rule] = {
    BLOCK: _block,
    REPLICATE: _replicate,
    ALL_GATHER: _all_gather,
    REDUCE_SCATTER: _reduce_scatter,
    ALL_TO_ALL: _all_to_all,
    ALL_REDUCE: _all_reduce,
    ALL_REDUCE_MANY: _all_reduce_many,
    ALL_REDUCE_MAX: _all_reduce_max,
}
