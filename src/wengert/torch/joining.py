"""Tensors joined, repeated and rearranged: what copies elements to other places, and is no view."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.core.graph import Node
from wengert.ops import rearrange as r
from wengert.ops.addressing import GATHER
from wengert.ops.core import cast, data, to_device
from wengert.ops.movement import broadcast_to, concat, flip, normalize_axes, reshape
from wengert.ops.movement import stack as stack_nodes
from wengert.tensor import engine
from wengert.torch import dtypes
from wengert.torch.registry import torch_function
from wengert.torch.shape import broadcast_to as broadcast_view
from wengert.torch.shape import sizes_of, unsqueeze
from wengert.torch.tensor import Base, Tensor, axis_of

# --- joining --------------------------------------------------------------------------------------------------------


def _together(tensors: Any, name: str) -> list[Node]:
    """The values of a list of tensors, in the dtype in which they meet and on the first one's device."""
    if isinstance(tensors, Base):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    nodes = [x.node for x in tensors]
    if not nodes:
        if name == "torch.cat":
            raise ValueError("torch.cat(): expected a non-empty list of Tensors")
        raise _nothing(name)
    meet = dtypes.meet(*nodes)
    return [to_device(cast(node, meet), nodes[0].device) for node in nodes]


def _nothing(name: str) -> RuntimeError:
    return RuntimeError(f"{name} expects a non-empty TensorList")


@torch_function("concat", "concatenate", method=False, out=True)
def cat(tensors: Any, dim: int = 0, *, axis: int | None = None) -> Tensor:
    """Concatenate tensors along an axis; empty vectors are ignored."""
    nodes = _together(tensors, "torch.cat")
    there = [node for node in nodes if node.shape != (0,)] or nodes[:1]
    rank = there[0].ndim
    if not rank or any(not node.ndim for node in nodes):
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    at = axis_of(dim if axis is None else axis, rank)
    for i, node in enumerate(there):
        if node.ndim != rank:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {rank} and {node.ndim}")
        for k, (m, n) in enumerate(zip(there[0].shape, node.shape)):
            if k != at and m != n:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {at}. Expected size {m} but got size {n} for "
                    f"tensor number {i} in the list."
                )
    return Tensor(concat(there, axis=at))


@torch_function(method=False, out=True)
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors along a new axis."""
    nodes = _together(tensors, "stack")
    at = axis_of(dim, nodes[0].ndim + 1)
    for i, node in enumerate(nodes):
        if node.shape != nodes[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(nodes[0].shape)} at entry 0 and "
                f"{list(node.shape)} at entry {i}"
            )
    return Tensor(stack_nodes(nodes, axis=at))


def _at_least(x: Any, rank: int) -> Any:
    """A tensor with as many axes at least, as `atleast_2d` and `atleast_3d` put them in."""
    own = x.node.ndim
    if own >= rank:
        return x
    if own == 0:
        return x.reshape((1,) * rank)
    if rank == 2:
        return unsqueeze(x, 0)
    return unsqueeze(unsqueeze(x, 0), -1) if own == 1 else unsqueeze(x, -1)


def _stacked(name: str, rank: int, axis: Callable[[int], int]) -> None:
    def function(tensors: Any) -> Tensor:
        parts = [_at_least(x, rank) for x in tensors]
        if not parts:
            raise _nothing(name)
        return cat(parts, axis(parts[0].node.ndim))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The tensors joined along an axis, each with {rank} axes at least."
    aliases = ("row_stack",) if name == "vstack" else ()
    torch_function(*aliases, method=False, out=True)(function)


_stacked("hstack", 1, lambda rank: min(1, rank - 1))
_stacked("vstack", 2, lambda rank: 0)
_stacked("dstack", 3, lambda rank: 2)


@torch_function(method=False, out=True)
def column_stack(tensors: Any) -> Tensor:
    """Join tensors horizontally, with vectors as columns."""
    if not tensors:
        raise _nothing("column_stack")
    return cat([x.reshape((x.node.size, 1)) if x.node.ndim < 2 else x for x in tensors], 1)


def _at_least_named(name: str, rank: int) -> None:
    def function(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
            tensors = tuple(tensors[0])
        elif len(tensors) == 1:
            return _at_least(tensors[0], rank)
        return tuple(_at_least(x, rank) for x in tensors)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Tensors with {rank} axes at least."
    torch_function(method=False)(function)


for _rank in (1, 2, 3):
    _at_least_named(f"atleast_{_rank}d", _rank)


@torch_function(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """A block diagonal matrix of the given matrices."""
    nodes = _together([_at_least(x, 2) for x in tensors] or [Tensor(data(np.zeros((1, 0), np.float32)))], "block_diag")
    width, before, rows = sum(node.shape[1] for node in nodes), 0, []
    for node in nodes:
        n, m = node.shape
        sides = [broadcast_to(_zero(node), (n, k)) for k in (before, width - before - m)]
        rows.append(concat([sides[0], node, sides[1]], axis=1))
        before += m
    return Tensor(concat(rows, axis=0))


def _zero(like: Node) -> Node:
    return data(np.zeros((), like.dtype), like.device)


# --- repeating ------------------------------------------------------------------------------------------------------


@torch_function(module=False)
def repeat(self: Any, *repeats: Any, **named: Any) -> Tensor:
    """Repeat the tensor this many times along each axis; new axes come first."""
    times = sizes_of(repeats, named.get("repeats", named.get("sizes")))
    if len(times) < self.node.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(n < 0 for n in times):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(times)}: {list(times)}")
    return Tensor(r.tile(self.node, times))


@torch_function()
def tile(input: Any, *dims: Any, **named: Any) -> Tensor:
    """Tile copies of the tensor; fewer numbers than axes apply to the last axes."""
    return Tensor(r.tile(input.node, sizes_of(dims, named.get("dims"))))


@torch_function()
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element repeated along an axis; given only the numbers, the indices to take."""
    if repeats is None:
        counts = np.asarray(engine.value(input.node))
        return Tensor(data(np.repeat(np.arange(counts.size), counts), input.node.device))
    node = input.node
    if dim is None:
        node, dim = reshape(node, (-1,)), 0
    axis = axis_of(dim, node.ndim)
    times: Any = np.asarray(engine.value(repeats.node)) if isinstance(repeats, Base) else np.asarray(repeats)
    if times.size == 1:
        times = int(times.reshape(()))
    if (times < 0) if isinstance(times, int) else (times < 0).any():
        raise RuntimeError("repeats can not be negative")
    if not isinstance(times, int) and times.shape != (node.shape[axis],):
        raise RuntimeError("repeats must have the same size as input along dim")
    return Tensor(r.repeat(node, times, axis=axis))


# --- turning and shifting -------------------------------------------------------------------------------------------


@torch_function()
def flip_(input: Any, *dims: Any, **named: Any) -> Tensor:
    """The elements reversed along these axes."""
    axes = sizes_of(dims, named.get("dims"))
    rank = input.node.ndim
    found = [axis_of(a, rank) for a in axes]
    if len(set(found)) < len(found):
        raise RuntimeError("dim appears multiple times in the list of dims")
    return Tensor(flip(input.node, axis=normalize_axes(tuple(found), rank, "flip")) if rank and found else input.node)


@torch_function()
def fliplr(input: Any) -> Tensor:
    """The columns in reverse order."""
    if input.node.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return Tensor(flip(input.node, axis=1))


@torch_function()
def flipud(input: Any) -> Tensor:
    """The rows in reverse order."""
    if input.node.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return Tensor(flip(input.node, axis=0))


@torch_function()
def roll(input: Any, shifts: Any, dims: Any = None) -> Tensor:
    """The elements shifted circularly along some axes."""
    given = None if dims is None or dims == () else dims if isinstance(dims, (tuple, list)) else (dims,)
    moves = sizes_of((shifts,))
    if given is not None and len(given) != len(moves):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(given)}")
    return Tensor(r.roll(input.node, moves, axis=given if given is None else tuple(given)))


@torch_function()
def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate by 90 degrees `k` times in the plane of two axes."""
    return Tensor(r.rot90(input.node, k, tuple(dims)))


# --- broadcasting and products of sets ------------------------------------------------------------------------------


@torch_function(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Expand the tensors to their common broadcast shape."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*[x.node.shape for x in tensors])
    return tuple(x if x.node.shape == shape else broadcast_view(x, shape) for x in tensors)


@torch_function(method=False)
def broadcast_shapes(*shapes: Any) -> Any:
    """The common broadcast shape of these shapes."""
    from wengert.torch.devices import Size

    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    try:
        return Size(np.broadcast_shapes(*given))
    except ValueError:
        raise RuntimeError(
            "Shape mismatch: objects cannot be broadcast to a single shape: " + " and ".join(map(str, given))
        ) from None


@torch_function(method=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """The coordinates of a grid, one tensor for each axis."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swaps = indexing == "xy" and len(tensors) > 1
    given = [tensors[1], tensors[0], *tensors[2:]] if swaps else list(tensors)
    shape = tuple(x.node.size for x in given)
    made: list[Any] = []
    for i, x in enumerate(given):
        sizes = [1] * len(given)
        sizes[i] = shape[i]
        made.append(broadcast_view(x.reshape(tuple(sizes)), shape))
    if swaps:
        made[0], made[1] = made[1], made[0]
    return tuple(made)


@torch_function(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All choices of one element from each vector, one row each."""
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors, indexing="ij")
    return stack([grid.reshape(-1) for grid in grids], 1)


@torch_function()
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a vector, one row each."""
    n = input.node.size
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(n), operator.index(r))), np.int64).reshape(-1, r)
    return Tensor(GATHER(input.node, data(rows, input.node.device), axis=0))
