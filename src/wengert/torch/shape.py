"""Views and shapes: functions that return a part of a tensor, or all of it in another shape.

Their results are views: a write to either tensor changes both, wherever that is so in PyTorch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from wengert.core.dtypes import COMPLEX, as_dtype
from wengert.ops.movement import reshape as reshape_node
from wengert.torch import dtypes
from wengert.torch.registry import methods, torch_function
from wengert.torch.tensor import Base, Tensor, axis_of
from wengert.torch.view_ops import (
    AS_COMPLEX,
    AS_REAL,
    IMAG,
    REAL,
    bitcast,
    expanded,
    permuted,
    reshaped,
)
from wengert.torch.views import Geometry, View, contiguous_strides, geometry_of
from wengert.torch.views import detached as detached_view
from wengert.torch.views import view as view_of

# --- sizes and axes -------------------------------------------------------------------------------------------------


def sizes_of(given: Sequence[Any], named: Any = None) -> tuple[int, ...]:
    """Sizes or axes that were given one by one, as one sequence, or by name."""
    if named is not None:
        given = (named,)
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = given[0]
    return tuple([operator.index(n) for n in given])


def whole_shape(sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Sizes with the one that is -1 worked out for this many elements."""
    holes = sizes.count(-1)
    if holes > 1:
        raise RuntimeError("only one dimension can be inferred")
    rest = math.prod(n for n in sizes if n != -1)
    if holes and rest and count % rest == 0:
        return tuple(count // rest if n == -1 else n for n in sizes)
    if holes and not rest:
        raise RuntimeError(
            f"cannot reshape tensor of {count} elements into shape {list(sizes)} because the unspecified dimension "
            "size -1 can be any value and is ambiguous"
        )
    if rest != count or holes or any(n < 0 for n in sizes):
        raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {count}")
    return sizes


def strides_as(at: Geometry, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The steps with which a tensor's elements are read in another shape; None where that takes a copy."""
    if not at.sizes:
        return (1,) * len(sizes)
    if 0 in at.sizes:
        return at.strides if tuple(sizes) == at.sizes else contiguous_strides(sizes)
    made, axis = [0] * len(sizes), len(sizes) - 1
    step, old, new = at.strides[-1], 1, 1
    for i in reversed(range(len(at.sizes))):
        old *= at.sizes[i]
        if i and (at.sizes[i - 1] == 1 or at.strides[i - 1] == old * step):
            continue
        while axis >= 0 and (new < old or sizes[axis] == 1):
            made[axis] = new * step
            new *= sizes[axis]
            axis -= 1
        if new != old:
            return None
        if i:
            step, old, new = at.strides[i - 1], 1, 1
    return tuple(made) if axis == -1 else None


def _axes(dims: Any, rank: int) -> list[int]:
    given = dims if isinstance(dims, (tuple, list)) else (dims,)
    found = [axis_of(operator.index(dim), rank) for dim in given]
    if len(set(found)) < len(found):
        raise RuntimeError("dim appears multiple times in the list of dims")
    return found


# --- the same elements in another shape -------------------------------------------------------------------------------


@torch_function(module=False)
def view(self: Any, *shape: Any, dtype: Any = None, size: Any = None) -> Tensor:
    """The same elements in another shape, or read as another dtype."""
    if dtype is not None or (len(shape) == 1 and not isinstance(shape[0], (int, tuple, list, Base))):
        return _as_dtype(self, as_dtype(shape[0] if dtype is None else dtype))
    at = geometry_of(self)
    sizes = whole_shape(sizes_of(shape, size), math.prod(at.sizes))
    strides = strides_as(at, sizes)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return reshaped_view(self, at, sizes, strides)


def reshaped_view(x: Any, at: Geometry, sizes: tuple[int, ...], strides: tuple[int, ...]) -> View:
    """All of a tensor in another shape, with these steps."""
    return view_of(x, None if sizes == at.sizes else reshaped(sizes), Geometry(sizes, strides, at.offset))


def _as_dtype(x: Any, dtype: Any) -> Tensor:
    at, own = geometry_of(x), x.node.dtype
    if dtype is own:
        return view_of(x, None, at)
    if x.node.tracked and (dtype in COMPLEX) is not (own in COMPLEX):
        raise RuntimeError("view_dtype: cannot change between real and complex under grad; take view_as_real")
    by, to = own.itemsize, dtype.itemsize
    if by == to:
        return view_of(x, bitcast(dtype), at)
    if not at.sizes or at.strides[-1] != 1:
        raise RuntimeError("self.stride(-1) must be 1 to view a dtype of another size, and it must have an axis")
    last = at.sizes[-1] * by
    if last % to or any(s * by % to for s in (*at.strides[:-1], at.offset)):
        raise RuntimeError(f"self.size(-1) must be divisible by {to // by} to view {dtypes.of(own)} as {dtype}")
    strides = tuple(s * by // to for s in at.strides[:-1])
    return view_of(x, bitcast(dtype), Geometry((*at.sizes[:-1], last // to), (*strides, 1), at.offset * by // to))


@torch_function(module=False)
def view_as(self: Any, other: Any) -> Tensor:
    """The same elements in the shape of another tensor."""
    return view(self, tuple(other.shape))


@torch_function()
def reshape(input: Any, *shape: Any, **named: Any) -> Tensor:
    """The same elements in another shape; a copy where no view can have it."""
    at = geometry_of(input)
    sizes = whole_shape(sizes_of(shape, named.get("shape")), math.prod(at.sizes))
    strides = strides_as(at, sizes)
    if strides is None:
        return Tensor(reshape_node(input.node, sizes))
    return reshaped_view(input, at, sizes, strides)


@torch_function(module=False)
def reshape_as(self: Any, other: Any) -> Tensor:
    """The same elements in the shape of another tensor; a copy where no view can have it."""
    return reshape(self, tuple(other.shape))


@torch_function()
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from `start_dim` to `end_dim` made one."""
    sizes = geometry_of(input).sizes
    start, end = axis_of(start_dim, len(sizes)), axis_of(end_dim, len(sizes))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not sizes:
        return reshape(input, 1)
    if start == end:
        return input
    return reshape(input, (*sizes[:start], math.prod(sizes[start : end + 1]), *sizes[end + 1 :]))


@torch_function()
def ravel(input: Any) -> Tensor:
    """All elements along one axis."""
    return flatten(input)


@torch_function()
def unflatten(input: Any, dim: int, sizes: Any) -> Tensor:
    """An axis taken apart into several; one size may be -1."""
    own = geometry_of(input).sizes
    at = axis_of(dim, len(own))
    if not sizes or not own:
        raise RuntimeError("unflatten: sizes must be non-empty, and the tensor must have an axis")
    try:
        parts = whole_shape(sizes_of((sizes,)), own[at])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {at} ({own[at]}) in the "
            "input tensor"
        ) from None
    return view(input, (*own[:at], *parts, *own[at + 1 :]))


@torch_function(in_place=False)
def squeeze(input: Any, dim: Any = None) -> Tensor:
    """Without its axes of size 1, or those of them that are named."""
    at = geometry_of(input)
    named = range(len(at.sizes)) if dim is None else _axes(dim, len(at.sizes))
    kept = [i for i, n in enumerate(at.sizes) if n != 1 or i not in named]
    return reshaped_view(input, at, tuple(at.sizes[i] for i in kept), tuple(at.strides[i] for i in kept))


@torch_function()
def unsqueeze(input: Any, dim: int) -> Tensor:
    """With an axis of size 1 put in."""
    at = geometry_of(input)
    i = axis_of(dim, len(at.sizes) + 1)
    step = at.strides[i] * at.sizes[i] if i < len(at.sizes) else 1
    sizes = (*at.sizes[:i], 1, *at.sizes[i:])
    return reshaped_view(input, at, sizes, (*at.strides[:i], step, *at.strides[i:]))


# --- axes in another order --------------------------------------------------------------------------------------------


def _permuted(x: Any, axes: Sequence[int]) -> View:
    at = geometry_of(x)
    order = tuple(axes)
    moved = Geometry(tuple(at.sizes[a] for a in order), tuple(at.strides[a] for a in order), at.offset)
    return view_of(x, None if order == tuple(range(len(order))) else permuted(order), moved)


@torch_function()
def permute(input: Any, *dims: Any, **named: Any) -> Tensor:
    """The axes in another order."""
    axes = sizes_of(dims, named.get("dims"))
    rank = len(geometry_of(input).sizes)
    if len(axes) != rank:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(axes)}"
        )
    found = [axis_of(a, rank) for a in axes]
    if len(set(found)) < rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return _permuted(input, found)


@torch_function("swapaxes", "swapdims")
def transpose(input: Any, dim0: Any = None, dim1: Any = None, **named: Any) -> Tensor:
    """Two axes exchanged."""
    first = next((n for n in (dim0, named.get("axis0")) if n is not None), None)
    second = next((n for n in (dim1, named.get("axis1")) if n is not None), None)
    rank = len(geometry_of(input).sizes)
    a, b = axis_of(first, rank), axis_of(second, rank)
    order = list(range(rank))
    if rank:
        order[a], order[b] = b, a
    return _permuted(input, order)


@torch_function()
def t(input: Any) -> Tensor:
    """The transpose of a matrix; a vector is returned unchanged."""
    rank = len(geometry_of(input).sizes)
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return _permuted(input, range(rank)[::-1])


@torch_function("moveaxis")
def movedim(input: Any, source: Any, destination: Any) -> Tensor:
    """Some axes moved to new positions, the rest in their order."""
    rank = len(geometry_of(input).sizes)
    start, end = _axes(source, rank), _axes(destination, rank)
    if len(start) != len(end):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source and destination must have the same number of dims"
        )
    order = [a for a in range(rank) if a not in start]
    if not rank:
        return _permuted(input, ())
    for place, axis in sorted(zip(end, start)):
        order.insert(place, axis)
    return _permuted(input, order)


def _matrix_transpose(x: Any, name: str) -> Tensor:
    rank = len(geometry_of(x).sizes)
    if rank == 1:
        raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got {rank}-D tensor.")
    return transpose(x, -2, -1) if rank else x


def _conjugated(x: Tensor) -> Any:
    return x.conj() if x.node.dtype in COMPLEX else x


@torch_function()
def adjoint(input: Any) -> Tensor:
    """The last two axes exchanged, conjugated."""
    made: Tensor = _conjugated(_matrix_transpose(input, "adjoint()"))
    return made


methods["T"] = property(lambda self: _permuted(self, range(len(geometry_of(self).sizes))[::-1]))
methods["mT"] = property(lambda self: _matrix_transpose(self, "mT"))
methods["H"] = property(lambda self: _conjugated(t(self)))
methods["mH"] = property(lambda self: _conjugated(_matrix_transpose(self, "mH")))


# --- repeated without a copy ----------------------------------------------------------------------------------------


@torch_function(module=False)
def expand(self: Any, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Axes of size 1 repeated, and new ones in front; -1 keeps a size."""
    at = geometry_of(self)
    wanted = sizes_of(sizes, size)
    new = len(wanted) - len(at.sizes)
    if new < 0:
        raise RuntimeError(
            f"expand(Tensor{list(at.sizes)}, size={list(wanted)}): the number of sizes provided ({len(wanted)}) must "
            f"be greater or equal to the number of dimensions in the tensor ({len(at.sizes)})"
        )
    shape, strides = list(wanted), [0] * len(wanted)
    for i, (n, step) in enumerate(zip(at.sizes, at.strides)):
        if shape[new + i] == -1:
            shape[new + i] = n
        if n not in (1, shape[new + i]):
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[new + i]}) must match the existing size ({n}) at "
                f"non-singleton dimension {new + i}.  Target sizes: {list(wanted)}.  Tensor sizes: {list(at.sizes)}"
            )
        strides[new + i] = step if n == shape[new + i] else 0
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"expand(): the expanded size of the tensor ({min(shape)}) isn't allowed in a leading, non-existing "
            "dimension 0"
        )
    made = Geometry(tuple(shape), tuple(strides), at.offset)
    if math.prod(shape) == math.prod(at.sizes):
        return view_of(self, None if made.sizes == at.sizes else reshaped(made.sizes), made)
    return view_of(self, expanded(made.sizes), made)


@torch_function(module=False)
def expand_as(self: Any, other: Any) -> Tensor:
    """Expanded to the shape of another tensor."""
    return expand(self, tuple(other.shape))


@torch_function()
def broadcast_to(input: Any, size: Any) -> Tensor:
    """Expanded to a shape."""
    return expand(input, tuple(size))


# --- complex parts --------------------------------------------------------------------------------------------------


@torch_function()
def real(input: Any) -> Tensor:
    """The real part; a real tensor is its own."""
    if input.node.dtype not in COMPLEX:
        return input
    at = geometry_of(input)
    return view_of(input, REAL, Geometry(at.sizes, tuple(2 * s for s in at.strides), 2 * at.offset))


@torch_function()
def imag(input: Any) -> Tensor:
    """The imaginary part of a complex tensor."""
    if input.node.dtype not in COMPLEX:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    at = geometry_of(input)
    return view_of(input, IMAG, Geometry(at.sizes, tuple(2 * s for s in at.strides), 2 * at.offset + 1))


@torch_function()
def view_as_real(input: Any) -> Tensor:
    """The real and imaginary parts as a last axis of size 2."""
    if input.node.dtype not in COMPLEX:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    at = geometry_of(input)
    made = Geometry((*at.sizes, 2), (*(2 * s for s in at.strides), 1), 2 * at.offset)
    return view_of(input, AS_REAL, made)


@torch_function()
def view_as_complex(input: Any) -> Tensor:
    """The complex tensor whose parts lie along a last axis of size 2."""
    at = geometry_of(input)
    if input.node.dtype in COMPLEX or input.node.dtype.kind != "f":
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{dtypes.of(input.node.dtype).name}"
        )
    if not at.sizes or at.sizes[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if at.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in at.strides[:-1]) or at.offset % 2:
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    made = Geometry(at.sizes[:-1], tuple(s // 2 for s in at.strides[:-1]), at.offset // 2)
    return view_of(input, AS_COMPLEX, made)


methods["real"], methods["imag"] = property(real), property(imag)


# --- the value without its history ------------------------------------------------------------------------------------


@torch_function()
def detach(input: Any) -> Tensor:
    """A tensor that shares the value, through which no derivative passes."""
    return detached_view(input)


@torch_function()
def alias(input: Any) -> Tensor:
    """All of a tensor, as a view of it."""
    return view_of(input, None, geometry_of(input))
