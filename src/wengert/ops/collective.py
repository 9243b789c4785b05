"""Collectives: ops over the values that the ranks of a group hold, with their derivatives.

A value is *replicated* (the same on every rank of the group) or *varying* (each rank has its own). The linear ones are
each other's transposes:

    all_reduce <-> replicate    all_gather <-> reduce_scatter    block -> all_gather
    ppermute(k) <-> ppermute(-k)    all_to_all(i, j) <-> all_to_all(j, i)

`all_reduce` sums varying values to a replicated one. `replicate` says that a replicated value meets varying ones: it
moves nothing, and its derivative is the sum over the ranks. So the all-reduce of data parallelism is the derivative of
`replicate`, of the parameters.

Under `simulate` the lanes of vmap are the ranks of a mesh, and the batching rules here carry the collectives out.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.communication import communicator, current, group_rank, tree_sum
from wengert.core.dtypes import COMPLEX, FLOATING, HALF, float32, int64
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, recording
from wengert.core.mesh import Group
from wengert.ops.core import as_node, cast, data
from wengert.ops.elementwise import add, bitwise_invert, equal, negative
from wengert.ops.factors import broadcasting, other_axes
from wengert.ops.movement import (
    broadcast_to,
    concat,
    moveaxis,
    normalize_axis,
    permute_dims,
    reshape,
    slice_axis,
)
from wengert.ops.op import PACK, Op, each_batched
from wengert.ops.rearrange import roll
from wengert.ops.reduce import MAX

# --- lanes as ranks -------------------------------------------------------------------------------------------------


def by_group(x: Node, group: Group) -> Node:
    """Lanes that are all ranks of a mesh as two axes: which group, and which member."""
    mesh = group.mesh
    names = list(mesh.sizes)
    order = [names.index(a) for a in names if a not in group.axes] + [names.index(a) for a in group.axes]
    rest = x.shape[1:]
    whole = reshape(x, (*mesh.sizes.values(), *rest))
    turned = permute_dims(whole, (*order, *range(len(names), whole.ndim)))
    return reshape(turned, (mesh.size // group.size, group.size, *rest))


def by_rank(x: Node, group: Group) -> Node:
    """The inverse of `by_group`."""
    mesh = group.mesh
    names = list(mesh.sizes)
    order = [names.index(a) for a in names if a not in group.axes] + [names.index(a) for a in group.axes]
    rest = x.shape[2:]
    apart = reshape(x, (*[mesh.sizes[names[i]] for i in order], *rest))
    turned = permute_dims(apart, (*np.argsort(order).tolist(), *range(len(names), apart.ndim)))
    return reshape(turned, (mesh.size, *rest))


def _to_all(x: Node, group: Group) -> Node:
    """A value a group, on each member."""
    lanes, *rest = x.shape
    return by_rank(broadcast_to(reshape(x, (lanes, 1, *rest)), (lanes, group.size, *rest)), group)


def added(x: Node, y: Node) -> Node:
    """The sum of two as engines add: of half precision rounded where it is made, in whatever kernel that is."""
    return cast(add(cast(x, float32), cast(y, float32)), x.dtype) if x.dtype in HALF else add(x, y)


def _summed(x: Node, group: Group) -> Node:
    """The sum over the members, in the order that engines add in."""
    members = by_group(x, group)
    parts = [slice_axis(members, 1, k, k + 1) for k in range(group.size)]
    total = tree_sum(parts, added)
    return reshape(total, (total.shape[0], *total.shape[2:]))


def _is_simulated(group: Group) -> bool:
    """Whether the lanes of the batching walk that is going on are the ranks of this group's mesh."""
    return recording.ranks is not None and recording.ranks == group.mesh


def collective(name: str, infer: Any, numpy: Any, **rules: Any) -> Op:
    """A collective. Compilers say in which order all ranks carry them out: `number`, and whether they can be `late`."""
    return Op(
        name,
        infer=lambda *sources, number=None, late=False, **attrs: infer(*sources, **attrs),
        # with `out`, where the op is `into`
        numpy=lambda *arrays, number=None, late=False, **attrs: numpy(*arrays, **attrs),
        expensive=True,
        moves=True,
        can_fail=False,
        collective=True,
        **rules,
    )


# --- sums -----------------------------------------------------------------------------------------------------------


def _all_reduce_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group = y.attrs["group"]
    if not _is_simulated(group):
        return ALL_REDUCE(sources[0], group=group)
    return _to_all(_summed(sources[0], group), group)


ALL_REDUCE: Op = collective(
    "all_reduce",
    infer=lambda x, group: (x.shape, x.dtype),
    numpy=lambda x, group, **out: communicator(group).all_reduce(x, **out),
    into=True,
    vjp=(lambda g, y, x: REPLICATE(g, group=y.attrs["group"]),),
    linear=(0,),
    complex=True,
    batch=_all_reduce_batch,
    factors=broadcasting,
)


def _replicate_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group = y.attrs["group"]
    return sources[0] if _is_simulated(group) else REPLICATE(sources[0], group=group)


REPLICATE: Op = Op(
    "replicate",
    infer=lambda x, group: (x.shape, x.dtype),
    numpy=lambda x, group: x,
    vjp=(lambda g, y, x: ALL_REDUCE(g, group=y.attrs["group"]),),
    linear=(0,),
    batch=_replicate_batch,
    moves=True,
    kind="identity",
    free=True,
)


def _max_vjp(g: Node, y: Node, x: Node) -> Node:
    group = y.attrs["group"]
    ties = cast(equal(x, y), x.dtype)
    return REPLICATE(g, group=group) * ties / ALL_REDUCE(ties, group=group)


def _max_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group = y.attrs["group"]
    if not _is_simulated(group):
        return ALL_REDUCE_MAX(sources[0], group=group)
    return _to_all(MAX(by_group(sources[0], group), axes=(1,), keepdims=False), group)


ALL_REDUCE_MAX: Op = collective(
    "all_reduce_max",
    infer=lambda x, group: (x.shape, x.dtype),
    numpy=lambda x, group: communicator(group).all_reduce_max(x),
    vjp=(_max_vjp,),
    batch=_max_batch,
    factors=broadcasting,
)


def _many_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group = y.attrs["group"]
    each = each_batched(sources, batched)
    if not _is_simulated(group):
        return ALL_REDUCE_MANY(*each, group=group)
    return PACK(*[_to_all(_summed(source, group), group) for source in each])


ALL_REDUCE_MANY: Op = collective(
    "all_reduce_many",
    infer=lambda *xs, group: (tuple(x.shape for x in xs), tuple(x.dtype for x in xs)),
    numpy=lambda *xs, group, **out: tuple(communicator(group).all_reduce_many(xs, **out)),
    into=True,
    differentiable=False,
    batch=_many_batch,
)
"""Several sums in one collective; the compiler makes it of `all_reduce`."""

# --- blocks ---------------------------------------------------------------------------------------------------------


def _resized(x: Node, axis: int, size: int) -> tuple[int, ...]:
    return (*x.shape[:axis], size, *x.shape[axis + 1 :])


def _blocks(name: str, x: Node, axis: int, group: Group) -> int:
    if x.shape[axis] % group.size:
        raise ShapeError(f"{name}: axis {axis} of shape {x.shape} does not divide into {group.size} equal blocks")
    return x.shape[axis] // group.size


def _gather_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group, axis = y.attrs["group"], y.attrs["axis"]
    if not _is_simulated(group):
        return ALL_GATHER(sources[0], axis=axis + 1, group=group)
    members = moveaxis(by_group(sources[0], group), 1, axis + 1)
    return _to_all(reshape(members, (members.shape[0], *y.shape)), group)


ALL_GATHER: Op = collective(
    "all_gather",
    infer=lambda x, axis, group: (_resized(x, axis, x.shape[axis] * group.size), x.dtype),
    numpy=lambda x, axis, group, **out: communicator(group).all_gather(x, axis, **out),
    into=True,
    vjp=(lambda g, y, x: REDUCE_SCATTER(g, **y.attrs),),
    linear=(0,),
    complex=True,
    batch=_gather_batch,
    factors=other_axes,
)


def _own_blocks(x: Node, axis: int, group: Group) -> Node:
    """Of a value a group: to each member its block."""
    n = group.size
    cut = reshape(x, (*x.shape[: axis + 1], n, x.shape[axis + 1] // n, *x.shape[axis + 2 :]))
    return by_rank(moveaxis(cut, axis + 1, 1), group)


def _scatter_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group, axis = y.attrs["group"], y.attrs["axis"]
    if not _is_simulated(group):
        return REDUCE_SCATTER(sources[0], axis=axis + 1, group=group)
    return _own_blocks(_summed(sources[0], group), axis, group)


REDUCE_SCATTER: Op = collective(
    "reduce_scatter",
    infer=lambda x, axis, group: (_resized(x, axis, _blocks("reduce_scatter", x, axis, group)), x.dtype),
    numpy=lambda x, axis, group, **out: communicator(group).reduce_scatter(x, axis, **out),
    into=True,
    vjp=(lambda g, y, x: ALL_GATHER(g, **y.attrs),),
    linear=(0,),
    complex=True,
    batch=_scatter_batch,
    factors=other_axes,
)


def _block_of(x: Any, axis: int, group: Group) -> Any:
    size = x.shape[axis] // group.size
    start = group_rank(group) * size
    return x[(*[slice(None)] * axis, slice(start, start + size))]


def _block_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group, axis = y.attrs["group"], y.attrs["axis"]
    if not _is_simulated(group):
        return BLOCK(sources[0], axis=axis + 1, group=group)
    members = moveaxis(by_group(sources[0], group), 1, 0)
    size = y.shape[axis]
    own = [slice_axis(_member(members, k), axis + 1, k * size, (k + 1) * size) for k in range(group.size)]
    return by_rank(moveaxis(_stacked(own), 0, 1), group)


def _member(members: Node, k: int) -> Node:
    return reshape(slice_axis(members, 0, k, k + 1), members.shape[1:])


def _stacked(parts: Sequence[Node]) -> Node:
    return concat([reshape(part, (1, *part.shape)) for part in parts], axis=0)


BLOCK: Op = Op(
    "block",
    infer=lambda x, axis, group: (_resized(x, axis, _blocks("block", x, axis, group)), x.dtype),
    numpy=_block_of,
    vjp=(lambda g, y, x: ALL_GATHER(g, **y.attrs),),
    linear=(0,),
    batch=_block_batch,
    factors=other_axes,
    moves=True,
    can_fail=False,
)

# --- exchanges ------------------------------------------------------------------------------------------------------


def _permute_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group, shift = y.attrs["group"], y.attrs["shift"]
    if not _is_simulated(group):
        return PPERMUTE(sources[0], **y.attrs)
    return by_rank(roll(by_group(sources[0], group), shift, axis=1), group)


PPERMUTE: Op = collective(
    "ppermute",
    infer=lambda x, shift, group: (x.shape, x.dtype),
    numpy=lambda x, shift, group: communicator(group).ppermute(x, shift),
    vjp=(lambda g, y, x: PPERMUTE(g, shift=-y.attrs["shift"], group=y.attrs["group"]),),
    linear=(0,),
    complex=True,
    batch=_permute_batch,
    factors=broadcasting,
)


def _exchanged(x: Node, split: int, join: int, group: Group) -> tuple[Any, Any]:
    block = list(x.shape)
    block[split] = _blocks("all_to_all", x, split, group)
    block[join] *= group.size
    return tuple(block), x.dtype


def _exchange_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group, split, join = y.attrs["group"], y.attrs["split"], y.attrs["join"]
    if not _is_simulated(group):
        return ALL_TO_ALL(sources[0], split=split + 1, join=join + 1, group=group)
    n = group.size
    members = by_group(sources[0], group)  # group, sender, value
    at = split + 2
    cut = reshape(members, (*members.shape[:at], n, members.shape[at] // n, *members.shape[at + 1 :]))
    by_receiver = moveaxis(cut, at, 1)  # group, receiver, sender, block
    joined = moveaxis(by_receiver, 2, join + 2)
    return by_rank(reshape(joined, (*joined.shape[:2], *y.shape)), group)


ALL_TO_ALL: Op = collective(
    "all_to_all",
    infer=_exchanged,
    numpy=lambda x, split, join, group: communicator(group).all_to_all(x, split, join),
    vjp=(lambda g, y, x: ALL_TO_ALL(g, split=y.attrs["join"], join=y.attrs["split"], group=y.attrs["group"]),),
    linear=(0,),
    complex=True,
    batch=_exchange_batch,
    factors=other_axes,
)


def _rank_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    mesh = y.attrs["group"].mesh
    return data(np.array([y.attrs["group"].rank_of(k) for k in range(mesh.size)]))


RANK: Op = Op(
    "rank",
    infer=lambda group: ((), int64),
    numpy=lambda group: np.asarray(group_rank(group)),
    differentiable=False,
    batch=_rank_batch,
    can_fail=False,
)

# --- recorded by users ----------------------------------------------------------------------------------------------


def group_of(group: Group | None) -> Group:
    """The group that is meant where none is named: all ranks, of the mesh that is simulated or of the world."""
    if group is not None:
        if not isinstance(group, Group):
            raise ArgumentError(f'a group is some axes of a mesh, as mesh["data"], not {group!r}')
        return group
    return current.group() if recording.simulated is None else recording.simulated.whole


def all_reduce(x: Any, group: Group | None = None, reduction: str = "sum") -> Node:
    """The sum over the ranks of a group ("mean", "max", "min" in its place), the same on each of them.

    >>> import wengert as wg
    >>> wg.distributed.simulate(wg.distributed.all_reduce, ranks=3)(wg.tensor([1.0, 2.0, 3.0])).tolist()
    [6.0, 6.0, 6.0]
    """
    x, group = as_node(x), group_of(group)
    if reduction not in ("sum", "mean", "max", "min"):
        raise ArgumentError(f'all_reduce: the reduction is "sum", "mean", "max" or "min", not {reduction!r}')
    if reduction in ("max", "min"):
        if x.dtype in COMPLEX:
            raise DTypeError("all_reduce: complex numbers have no order")
        if reduction == "max":
            return ALL_REDUCE_MAX(x, group=group)
        turned = negative if x.dtype in FLOATING else bitwise_invert  # -x has no value for an unsigned x, or the least
        return turned(ALL_REDUCE_MAX(turned(x), group=group))
    total = ALL_REDUCE(x, group=group)
    return total / group.size if reduction == "mean" else total


def replicate(x: Any, group: Group | None = None) -> Node:
    """A replicated value, to meet varying ones: its derivative is the sum over the ranks. It moves nothing.

    >>> import wengert as wg
    >>> wg.distributed.simulate(wg.distributed.replicate, ranks=2)(wg.tensor([1.0, 1.0])).tolist()
    [1.0, 1.0]
    """
    return REPLICATE(as_node(x), group=group_of(group))


def all_gather(x: Any, axis: int = 0, group: Group | None = None) -> Node:
    """The values of all ranks of a group side by side along an axis, in their order.

    >>> import wengert as wg
    >>> wg.distributed.simulate(wg.distributed.all_gather, ranks=2)(wg.tensor([[1.0], [2.0]])).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    x = as_node(x)
    return ALL_GATHER(x, axis=normalize_axis(axis, x.ndim, "all_gather"), group=group_of(group))


def reduce_scatter(x: Any, axis: int = 0, group: Group | None = None) -> Node:
    """This rank's block, along an axis, of the sum over the ranks of a group.

    >>> import wengert as wg
    >>> wg.distributed.simulate(wg.distributed.reduce_scatter, ranks=2)(wg.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[4.0], [6.0]]
    """
    x = as_node(x)
    return REDUCE_SCATTER(x, axis=normalize_axis(axis, x.ndim, "reduce_scatter"), group=group_of(group))


def block(x: Any, axis: int = 0, group: Group | None = None) -> Node:
    """This rank's block, along an axis, of a replicated value.

    >>> import wengert as wg
    >>> wg.distributed.simulate(wg.distributed.block, ranks=2, in_axes=None)(wg.tensor([1.0, 2.0])).tolist()
    [[1.0], [2.0]]
    """
    x = as_node(x)
    return BLOCK(x, axis=normalize_axis(axis, x.ndim, "block"), group=group_of(group))


def ppermute(x: Any, shift: int = 1, group: Group | None = None) -> Node:
    """The value of the rank `shift` places before this one, around the ring of a group.

    >>> import wengert as wg
    >>> wg.distributed.simulate(lambda x: wg.distributed.ppermute(x, 1), ranks=3)(wg.tensor([1.0, 2.0, 3.0])).tolist()
    [3.0, 1.0, 2.0]
    """
    try:
        shift = operator.index(shift)
    except TypeError:
        raise ArgumentError(f"ppermute: shift is a whole number, not {shift!r}") from None
    return PPERMUTE(as_node(x), shift=shift, group=group_of(group))


def all_to_all(x: Any, split: int = 0, join: int = 0, group: Group | None = None) -> Node:
    """A block from every rank of a group: each cuts its value along `split`; what arrives is joined along `join`.

    >>> import wengert as wg
    >>> wg.distributed.simulate(wg.distributed.all_to_all, ranks=2)(wg.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    x = as_node(x)
    axes = {"split": normalize_axis(split, x.ndim, "all_to_all"), "join": normalize_axis(join, x.ndim, "all_to_all")}
    return ALL_TO_ALL(x, **axes, group=group_of(group))


def rank(group: Group | None = None) -> Node:
    """The number of this rank within its group.

    >>> import wengert as wg
    >>> wg.distributed.simulate(lambda x: x + wg.distributed.rank(), ranks=3)(wg.zeros(3)).tolist()
    [0.0, 1.0, 2.0]
    """
    return RANK(group=group_of(group))
