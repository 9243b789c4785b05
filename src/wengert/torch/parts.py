"""Parts of tensors as views: places and spans of an axis, splits, diagonals, windows, steps over memory."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

from wengert.torch.registry import torch_function
from wengert.torch.shape import reshaped_view, sizes_of
from wengert.torch.tensor import Base, Tensor, axis_of
from wengert.torch.view_ops import permuted, reshaped, sliced, strided
from wengert.torch.views import Geometry, View, contiguous_strides, geometry_of, root_of, several
from wengert.torch.views import view as view_of

# --- parts ----------------------------------------------------------------------------------------------------------


def part(x: Any, at: Geometry, axis: int, start: int, count: int, step: int = 1) -> View:
    """A slice of elements along an axis, `step` apart."""
    sizes = (*at.sizes[:axis], count, *at.sizes[axis + 1 :])
    strides = (*at.strides[:axis], at.strides[axis] * step, *at.strides[axis + 1 :])
    made = Geometry(sizes, strides, at.offset + start * at.strides[axis])
    if made == at:
        return view_of(x, None, at)
    rank = len(sizes)
    starts, steps = [0] * rank, [1] * rank
    starts[axis], steps[axis] = start, step
    return view_of(x, sliced(tuple(starts), tuple(steps), sizes, sizes), made)


def row(x: Any, at: Geometry, axis: int, i: int) -> View:
    """The slice at one index along an axis, without that axis."""
    rank = len(at.sizes)
    sizes = (*at.sizes[:axis], *at.sizes[axis + 1 :])
    strides = (*at.strides[:axis], *at.strides[axis + 1 :])
    whole = (*at.sizes[:axis], 1, *at.sizes[axis + 1 :])
    starts = (*(0,) * axis, i, *(0,) * (rank - axis - 1))
    made = Geometry(sizes, strides, at.offset + i * at.strides[axis])
    return view_of(x, sliced(starts, (1,) * rank, whole, sizes), made)


@torch_function()
def narrow(input: Any, dim: int, start: Any, length: int) -> Tensor:
    """`length` elements along an axis, starting at `start`."""
    at = geometry_of(input)
    if not at.sizes:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    axis, first = axis_of(dim, len(at.sizes)), operator.index(start)
    n = at.sizes[axis]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= first <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {first})")
    first += n if first < 0 else 0
    if first + length > n:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({n}).")
    return part(input, at, axis, first, length)


@torch_function()
def select(input: Any, dim: int, index: Any) -> Tensor:
    """The slice at one index along an axis, without that axis."""
    at = geometry_of(input)
    if not at.sizes:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis, i = axis_of(dim, len(at.sizes)), operator.index(index)
    n = at.sizes[axis]
    if not -n <= i < n:
        raise IndexError(f"select(): index {i} out of range for tensor of size {list(at.sizes)} at dimension {axis}")
    return row(input, at, axis, i % n)


@torch_function()
def unbind(input: Any, dim: int = 0) -> tuple[View, ...]:
    """The slices along an axis, each without that axis."""
    at = geometry_of(input)
    if not at.sizes:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    axis = axis_of(dim, len(at.sizes))
    return several([row(input, at, axis, i) for i in range(at.sizes[axis])])


def _parts(x: Any, axis: int, sizes: Sequence[int]) -> tuple[View, ...]:
    at, found, start = geometry_of(x), [], 0
    for n in sizes:
        found.append(part(x, at, axis, start, n))
        start += n
    return tuple(found)


@torch_function()
def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[View, ...]:
    """Parts of these sizes along an axis."""
    own = geometry_of(input).sizes
    axis, sizes = axis_of(dim, len(own)), sizes_of((list(split_sizes),))
    if sum(sizes) != own[axis] or any(n < 0 for n in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {own[axis]} (input tensor's size at dimension "
            f"{axis}), but got split_sizes={list(sizes)}"
        )
    return several(_parts(input, axis, sizes))


@torch_function()
def split(tensor: Any, split_size_or_sections: Any = None, dim: int = 0, **named: Any) -> tuple[View, ...]:
    """Parts of one size along an axis (the last may be smaller), or of the sizes in a list."""
    wanted = named.get("split_size", named.get("split_size_or_sections", split_size_or_sections))
    if isinstance(wanted, (tuple, list)):
        return split_with_sizes(tensor, wanted, dim)
    own = geometry_of(tensor).sizes
    axis, size = axis_of(dim, len(own)), operator.index(wanted)
    if not own:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    n = own[axis]
    if size < 0 or (size == 0 and n):
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    rest = n % size if size else 0
    return several(
        _parts(tensor, axis, [size] * (n // size if size else 1) + [rest] * (rest > 0 or (n == 0 and size > 0)))
    )


@torch_function()
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[View, ...]:
    """At most this many parts along an axis, all of one size but the last."""
    own = geometry_of(input).sizes
    if not own:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    axis = axis_of(dim, len(own))
    size = -(-own[axis] // chunks)
    return split(input, size, axis) if size else several(_parts(input, axis, [0] * chunks))


@torch_function()
def tensor_split(input: Any, indices_or_sections: Any = None, dim: int = 0, **named: Any) -> tuple[View, ...]:
    """Split along an axis into this many parts of nearly equal size, or at these indices."""
    wanted = next((n for n in (indices_or_sections, named.get("indices"), named.get("sections")) if n is not None), 1)
    if isinstance(wanted, Base):
        wanted = wanted.tolist()
    own = geometry_of(input).sizes
    if not own:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    axis = axis_of(dim, len(own))
    at, n = geometry_of(input), own[axis]
    if isinstance(wanted, (tuple, list)):
        bounds = [0, *[slice(i).indices(n)[1] for i in wanted], n]
        spans = [(a, max(0, b - a)) for a, b in itertools.pairwise(bounds)]
        return tuple([part(input, at, axis, a, count) for a, count in spans])
    if wanted < 1:
        raise RuntimeError(f"number of sections must be larger than 0, got {wanted}")
    return _parts(input, axis, [n // wanted + (i < n % wanted) for i in range(wanted)])


def _even(name: str, x: Any, wanted: Any, axis: int, least: int) -> tuple[View, ...]:
    sizes = geometry_of(x).sizes
    if len(sizes) < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with "
            f"{len(sizes)} dimensions!"
        )
    if isinstance(wanted, int) and (not wanted or sizes[axis] % wanted):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {axis}, but the size of the dimension {sizes[axis]} is "
            f"not divisible by the split_size {wanted}!"
        )
    return tensor_split(x, wanted, axis)


@torch_function()
def hsplit(input: Any, indices_or_sections: Any) -> tuple[View, ...]:
    """Split along the second axis, or along the only axis of a vector."""
    return _even("hsplit", input, indices_or_sections, min(1, max(0, len(geometry_of(input).sizes) - 1)), 1)


@torch_function()
def vsplit(input: Any, indices_or_sections: Any) -> tuple[View, ...]:
    """Split along the first of at least two axes."""
    return _even("vsplit", input, indices_or_sections, 0, 2)


@torch_function()
def dsplit(input: Any, indices_or_sections: Any) -> tuple[View, ...]:
    """Split along the third axis."""
    return _even("dsplit", input, indices_or_sections, 2, 3)


# --- diagonals and steps over memory ----------------------------------------------------------------------------------


@torch_function()
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonals of the matrices along two axes, as a last axis."""
    at = geometry_of(input)
    rank = len(at.sizes)
    a, b = axis_of(dim1, rank), axis_of(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rest = [i for i in range(rank) if i not in (a, b)]
    low, right = max(0, -offset), max(0, offset)
    count = max(0, min(at.sizes[a] - low, at.sizes[b] - right))
    outer = tuple(at.sizes[i] for i in rest)
    begin = at.offset + (low * at.strides[a] + right * at.strides[b] if count else 0)
    made = Geometry((*outer, count), (*(at.strides[i] for i in rest), at.strides[a] + at.strides[b]), begin)
    if not count:
        none = tuple(0 if i == b else n for i, n in enumerate(at.sizes))
        return view_of(input, (sliced((0,) * rank, (1,) * rank, none, none), reshaped(made.sizes)), made)
    n = len(rest)
    square, size = (*outer, count, count), (*outer, count)
    ops = (
        permuted((*rest, a, b)),
        sliced((*(0,) * n, low, right), (1,) * rank, square, square),
        reshaped((*outer, count * count)),  # of which every element after so many is on the diagonal
        sliced((0,) * (n + 1), (*(1,) * n, count + 1), size, size),
    )
    return view_of(input, ops, made)


@torch_function()
def as_strided(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    """A view of the tensor's memory with these sizes and strides."""
    root = root_of(input)
    while isinstance(root, View):
        root = root._root
    offset = geometry_of(input).offset if storage_offset is None else int(storage_offset)
    sizes, strides = sizes_of((list(size),)), sizes_of((list(stride),))
    last = offset + sum(max(0, n - 1) * step for n, step in zip(sizes, strides))
    if 0 not in sizes and last >= root.node.size:
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset {offset} are out of bounds for "
            f"storage of {root.node.size} elements"
        )
    made = Geometry(sizes, strides, offset)
    if not isinstance(input, View) or not input._is_detached:
        return view_of(_source(input, root), strided(sizes, strides, offset), made)
    at = geometry_of(input)
    if at.strides == contiguous_strides(at.sizes) and math.prod(at.sizes) == root.node.size:
        return view_of(input, strided(sizes, strides, offset), made)
    found = view_of(root, strided(sizes, strides, offset), made)
    found._is_detached, found._of = True, input
    return found


def _source(x: Any, root: Any) -> Any:
    """What a view of a tensor's whole memory is of, so that gradients go where those of the tensor go."""
    own = x._root if isinstance(x, View) else x
    return own if geometry_of(own) == geometry_of(root) else root


@torch_function(module=False)
def unfold(self: Any, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements along an axis, `step` apart, as a last axis."""
    at = geometry_of(self)
    axis = axis_of(dimension, len(at.sizes))
    n, by = (at.sizes[axis], at.strides[axis]) if at.sizes else (1, 1)
    if size < 0 or size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {axis} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    count = (n - size) // step + 1
    if not at.sizes:
        return reshaped_view(self, at, (size,), (1,))
    sizes = (*at.sizes[:axis], count, *at.sizes[axis + 1 :], size)
    made = Geometry(sizes, (*at.strides[:axis], by * step, *at.strides[axis + 1 :], by), at.offset)
    own = contiguous_strides(at.sizes)
    steps = (*own[:axis], own[axis] * step, *own[axis + 1 :], own[axis])
    return view_of(self, strided(sizes, steps, 0), made)
