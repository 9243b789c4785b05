"""`x[key]` and `x[key] = value` as in PyTorch.

Integers, slices, None and Ellipsis are taken first: what they leave is a view. Tensors of indices and masks then pick
elements of that: reading copies them, writing puts them back. (NumPy counts an integer beside an array as an array;
PyTorch does not, so the axes of `x[0, :, [1, 2]]` come out in another order there.)
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import INTEGER, bool_
from wengert.core.graph import Node, recording
from wengert.ops.core import Argument, cast, data, operand, to_device
from wengert.ops.elementwise import where
from wengert.ops.index import get_item, set_item
from wengert.ops.movement import broadcast_to, reshape
from wengert.tensor import engine
from wengert.torch import dtypes, views
from wengert.torch.registry import methods
from wengert.torch.tensor import Base, Tensor
from wengert.torch.view_ops import sliced
from wengert.torch.views import Geometry, View, geometry_of

# --- the usual keys: one integer, one slice ---------------------------------------------------------------------------


def _row(x: Any, i: int) -> View:
    at = geometry_of(x)
    sizes, strides = at.sizes, at.strides
    if not sizes:
        raise IndexError(_ZERO)
    n = sizes[0]
    if not -n <= i < n:
        raise _out_of_bounds(i, 0, n)
    i %= n
    rest, rank = sizes[1:], len(sizes)
    op = sliced((i, *(0,) * (rank - 1)), (1,) * rank, (1, *rest), rest)
    return views.view(x, op, Geometry(rest, strides[1:], at.offset + i * strides[0]))


_ZERO = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim "
    "tensor to a number"
)


def _out_of_bounds(i: int, axis: int, n: int) -> IndexError:
    return IndexError(f"index {i} is out of bounds for dimension {axis} with size {n}")


# --- any key --------------------------------------------------------------------------------------------------------


class Picks(NamedTuple):
    """The meaning of a key: a view, and the index tensors that select elements of it (None: all of it)."""

    part: Any
    indices: tuple[Any, ...] | None


def taken_apart(x: Any, key: Any, looks: bool = True) -> Picks:
    """Parse a key for a tensor. With `looks`, the value of an integer tensor may be read, to get a view."""
    at = geometry_of(x)
    items = [_item(item, looks) for item in (key if type(key) is tuple else (key,))]
    items = _expanded(items, len(at.sizes))
    walk = _Walk(at)
    for item in items:
        walk.add(item)
    return Picks(walk.view_of(x), walk.picks())


class _Walk:
    """Goes through a key, axis by axis."""

    def __init__(self, at: Geometry) -> None:
        self.at = at
        self.starts: list[int] = []
        self.steps: list[int] = []
        self.counts: list[int] = []
        self.sizes: list[int] = []  # of the view
        self.strides: list[int] = []
        self.indices: list[Any] = []  # by axis of the view
        self.offset = at.offset

    def add(self, item: Any) -> None:
        """One item of the key."""
        axis, sizes = len(self.starts), self.at.sizes
        if item is None:
            self._axis(1, sizes[axis] * self.at.strides[axis] if axis < len(sizes) else 1, slice(None))
            return
        if type(item) is int:
            n = sizes[axis]
            if not -n <= item < n:
                raise _out_of_bounds(item, axis, n)
            self._take(item % n, 1, 1)
        elif type(item) is slice:
            start, count, step = _span(item, sizes[axis])
            self._take(start, count, step)
            self._axis(count, self.at.strides[axis] * step, slice(None))
        elif type(item) is bool:
            self._axis(1, 1, data(np.zeros(int(item), np.int64)))
        else:
            self._add_indices(item, axis)

    def _add_indices(self, item: Node, axis: int) -> None:
        rank = item.ndim if item.dtype is bool_ else 1
        for i, (m, n) in enumerate(zip(item.shape if item.dtype is bool_ else (), self.at.sizes[axis:])):
            if m != n:
                raise IndexError(
                    f"The shape of the mask {list(item.shape)} at index {i} does not match the shape of the indexed "
                    f"tensor {list(self.at.sizes)} at index {axis + i}"
                )
        for i in range(axis, axis + rank):
            self._take(0, self.at.sizes[i], 1)
            self.sizes.append(self.at.sizes[i])
            self.strides.append(self.at.strides[i])
        self.indices.append(item)

    def _take(self, start: int, count: int, step: int) -> None:
        self.offset += start * self.at.strides[len(self.starts)]
        self.starts.append(start)
        self.steps.append(step)
        self.counts.append(count)

    def _axis(self, size: int, stride: int, index: Any) -> None:
        self.sizes.append(size)
        self.strides.append(stride)
        self.indices.append(index)

    def view_of(self, x: Any) -> Any:
        """What the integers, slices and Nones leave; where tensors pick all the same, the tensor itself."""
        made = Geometry(tuple(self.sizes), tuple(self.strides), self.offset)
        if self.picks() is not None and made == self.at:
            return x
        if made == self.at:
            return views.view(x, None, made)
        return views.view(x, sliced(tuple(self.starts), tuple(self.steps), tuple(self.counts), made.sizes), made)

    def picks(self) -> tuple[Any, ...] | None:
        """The tensors of indices, with whole slices for the axes between them."""
        return tuple(self.indices) if any(type(index) is Node for index in self.indices) else None


def _span(key: slice, size: int) -> tuple[int, int, int]:
    parts = [None if bound is None else operator.index(bound) for bound in (key.start, key.stop, key.step)]
    if parts[2] is not None and parts[2] <= 0:
        raise ValueError("step must be greater than zero")
    start, stop, step = slice(*parts).indices(size)
    return start, max(0, -(-(stop - start) // step)), step


def _expanded(items: list[Any], rank: int) -> list[Any]:
    """The items of a key, with whole slices for the axes that it does not name."""
    used = sum(_axes_of(item) for item in items)
    if used > rank:
        raise IndexError(_ZERO if not rank else f"too many indices for tensor of dimension {rank}")
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    at = dots[0] if dots else len(items)
    rest = [item for item in items[at + 1 :] if item is not Ellipsis]
    return [*items[:at], *[slice(None)] * (rank - used), *rest]


def _axes_of(item: Any) -> int:
    if item is None or item is Ellipsis or type(item) is bool:
        return 0
    return item.ndim if type(item) is Node and item.dtype is bool_ else 1


def _item(item: Any, looks: bool) -> Any:
    kind = type(item)
    if item is None or item is Ellipsis or kind is int or kind is slice or kind is bool:
        return item
    if isinstance(item, np.bool_):
        return bool(item)
    if isinstance(item, (list, tuple, range, np.ndarray)):
        item = _node_of(item)
    node = item.node if isinstance(item, Base) else item
    if type(node) is Node:
        return _of_node(node, looks)
    try:
        return operator.index(item)
    except TypeError:
        raise TypeError(
            f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
            f"{kind.__name__})"
        ) from None


def _node_of(items: Any) -> Node:
    if isinstance(items, (list, tuple)) and any(isinstance(item, Base) for item in items):
        items = [item.tolist() if isinstance(item, Base) else item for item in items]
    array = np.asarray(items)
    return operand(array if array.size else array.astype(np.int64), None)


def _of_node(node: Node, looks: bool) -> Any:
    if node.dtype is bool_:
        return node if node.ndim else bool(engine.value(node))
    if node.dtype not in INTEGER:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if node.dtype == np.uint8 and node.ndim:
        return cast(node, bool_)
    if not node.ndim and recording.trace is None and (looks or isinstance(node.buffer, np.ndarray)):
        return int(engine.value(node))
    return node


# --- reading and writing ----------------------------------------------------------------------------------------------


def get(self: Tensor, key: Any) -> Tensor:
    """A part of the tensor: a view, or a copy if the key has index tensors."""
    if type(key) is int:
        return _row(self, key)
    part, indices = taken_apart(self, key)
    return part if indices is None else Tensor(_picked(part.node, indices))


def _picked(node: Node, indices: tuple[Any, ...]) -> Node:
    return get_item(node, _on(indices, node.device), engine.value)


def _on(indices: tuple[Any, ...], device: str) -> tuple[Any, ...]:
    return tuple(to_device(i, device) if type(i) is Node and i.dtype is not bool_ else i for i in indices)


def put(self: Tensor, key: Any, value: Any) -> None:
    """Replace a part of the tensor."""
    if isinstance(key, Base) and not key.node.ndim and key.node.dtype is bool_:
        _put_if(self, key.node, value)
        return
    part, indices = (_row(self, key), None) if type(key) is int else taken_apart(self, key, looks=False)
    if indices is None and isinstance(value, View) and _is_same(value, part):
        return  # `x[0] += 1` has written it already
    before = views.facts_of(part)
    values = _value_for(value, before)
    views.check_write(part, values.tracked, is_fill=False)
    if indices is None:
        new = fitted(values, before.shape)
    else:
        new = set_item(part.node, _key(_on(indices, before.device)), values, engine.value)
    del values, value
    views.store(part, new)


def _put_if(x: Tensor, condition: Node, value: Any) -> None:
    """Replace all of a tensor where a single boolean is true."""
    node = x.node
    values = _value_for(value, node)
    views.check_write(x, values.tracked, is_fill=False)
    new = where(condition, fitted(values, node.shape), node)
    del node, values, value
    views.store(x, new)


def _key(indices: tuple[Any, ...]) -> Any:
    """The key that tensors of indices are; a mask that stands first by itself, which needs no counting of elements."""
    is_mask = type(indices[0]) is Node and indices[0].dtype is bool_
    return indices[0] if is_mask and all(type(index) is slice for index in indices[1:]) else indices


def _is_same(a: View, b: View) -> bool:
    return a._root is b._root and a._chain == b._chain and a._is_detached is b._is_detached


def _value_for(value: Any, node: Any) -> Node:
    if isinstance(value, Base):
        given = value.node
    elif type(value) is float:
        given = operand(Argument(value), node.dtype)
    elif isinstance(value, (int, float, complex, np.generic)):
        given = operand(value.item() if isinstance(value, np.generic) else value, node.dtype)
    elif isinstance(value, np.ndarray):
        given = operand(value, None)
    else:
        raise TypeError(f"can't assign a {type(value).__name__} to a torch.{node.dtype.name}")
    return to_device(dtypes.converted(given, node.dtype), node.device)


def fitted(values: Node, shape: tuple[int, ...]) -> Node:
    """Values broadcast to the shape that they are written into."""
    if values.shape == shape:
        return values
    kept = values.shape
    while len(kept) > len(shape) and kept[0] == 1:
        kept = kept[1:]
    aligned = (1,) * (len(shape) - len(kept)) + kept
    if len(aligned) != len(shape) or any(m not in (1, n) for m, n in zip(aligned, shape)):
        raise RuntimeError(
            f"The expanded size of the tensor ({list(shape)}) must match the existing size ({list(values.shape)}): "
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
            f"shape {list(shape)}"
        )
    return broadcast_to(reshape(values, kept), shape)


methods["__getitem__"], methods["__setitem__"] = get, put
