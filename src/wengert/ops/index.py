"""Indexing as in NumPy: `x[key]` and `x[key] = value` over nodes.

A key becomes a Selection in two steps. First a slice of each axis, turned round where its step is negative, with axes
dropped (integers) and put in (None): movement only. Then integer arrays along some of the axes that are left: a gather.
Writing reverses these steps. A boolean mask becomes the integer arrays of its true elements; their indices and number
depend on its value, so it is read, except when filling with a value that needs no counting: `where` does that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.code import here
from wengert.core.context import mode
from wengert.core.dtypes import INTEGER, bool_
from wengert.core.errors import AbstractValueError, DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import Node, Shape, recording
from wengert.ops.addressing import GATHER, SCATTER, check_range, put_slice, values_for
from wengert.ops.core import as_node, data, from_outside
from wengert.ops.counting import places_of
from wengert.ops.elementwise import where
from wengert.ops.movement import FLIP, RESHAPE, SLICE, broadcast_to, moveaxis, reshape, stack, take_slice
from wengert.ops.recorders import broadcast_shapes

Look = Callable[[Node], Any]


def known(node: Node) -> Any:
    """The array of a node that has been computed."""
    if not isinstance(node.buffer, np.ndarray):
        raise AbstractValueError(f"the value of {node!r} is not known while a function is recorded")
    return node.buffer


def get_item(x: Node, key: Any, look: Look = known) -> Node:
    """`x[key]`. `look` returns the value of a boolean mask."""
    kind = type(key)
    if kind is int:
        return _row(x, key)
    if kind is slice:
        return _rows(x, key)
    return Selection(x.shape, key, look).read(x)


def set_item(x: Node, key: Any, value: Any, look: Look = known) -> Node:
    """`x` with `x[key]` replaced by `value`, broadcast and in the dtype of `x`."""
    values = values_for(x, _as_array_or_node(value))
    mask = _as_mask(key)
    if mask is not None and mask.shape == x.shape[: mask.ndim] and values.ndim <= x.ndim - mask.ndim:
        rest = x.shape[mask.ndim :]
        return where(reshape(mask, (*mask.shape, *(1,) * len(rest))), _fitted(values, rest), x)
    return Selection(x.shape, key, look).write(x, values)


def _as_mask(key: Any) -> Node | None:
    if type(key) is Node or isinstance(key, np.ndarray):
        return as_node(key) if key.dtype == bool_ and len(key.shape) else None
    return None


def _as_array_or_node(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return _stacked(value) if _holds_node(value) else np.asarray(value)
    return value


def _fitted(values: Node, shape: Shape) -> Node:
    """Values broadcast to the shape they are written into; extra axes of size 1 in front are dropped, as in NumPy."""
    if values.shape == shape:
        return values
    extra = max(0, values.ndim - len(shape))
    kept = values.shape[extra:]
    aligned = (1,) * (len(shape) - len(kept)) + kept
    if any(n != 1 for n in values.shape[:extra]) or any(m not in (1, n) for m, n in zip(aligned, shape)):
        raise ShapeError(
            f"x[key] = value: a value of shape {values.shape} does not broadcast to {shape}, that of x[key]"
        )
    return broadcast_to(reshape(values, kept), shape)


# --- one integer, one slice: the usual keys, recorded by hand for speed ----------------------------------------------


def _row(x: Node, i: int) -> Node:
    shape = x.shape
    if not shape:
        raise _too_many(1, shape)
    size, rest = shape[0], shape[1:]
    if not -size <= i < size:
        raise _out_of_range(i, size, 0)
    tracked, location = x.tracked and mode().grad, recording.location or here()
    if size != 1:
        sizes = (1, *rest)
        attrs = {"starts": (i % size, *(0,) * len(rest)), "steps": (1,) * len(shape), "sizes": sizes}
        x = Node(SLICE, (x,), attrs, sizes, x.dtype, x.device, tracked, location)
    return Node(RESHAPE, (x,), {"shape": rest}, rest, x.dtype, x.device, tracked, location)


def _rows(x: Node, key: slice) -> Node:
    shape = x.shape
    if not shape:
        raise _too_many(1, shape)
    start, step, size, backwards = _span(key, shape[0])
    tracked, location = x.tracked and mode().grad, recording.location or here()
    if size != shape[0] or step != 1:
        rest = shape[1:]
        shape = (size, *rest)
        attrs = {"starts": (start, *(0,) * len(rest)), "steps": (step, *(1,) * len(rest)), "sizes": shape}
        x = Node(SLICE, (x,), attrs, shape, x.dtype, x.device, tracked, location)
    return Node(FLIP, (x,), {"axes": (0,)}, shape, x.dtype, x.device, tracked, location) if backwards else x


def _out_of_range(i: int, size: int, axis: int) -> OutOfRangeError:
    there = f"valid are {-size} to {size - 1}" if size else "it has no elements"
    return OutOfRangeError(f"x[key]: index {i} is out of range for axis {axis} of size {size}; {there}")


def _span(key: slice, size: int) -> tuple[int, int, int, bool]:
    """A slice of an axis: where it starts, its step, how many elements it has, and whether it goes backwards."""
    try:
        start, stop, step = key.indices(size)
    except TypeError:
        raise DTypeError(f"x[key]: a slice must be made of integers, not {key!r}") from None
    except ValueError:
        raise OutOfRangeError("x[key]: the step of a slice cannot be 0") from None
    count = len(range(start, stop, step))
    if count <= 1:
        return (start if count else 0), 1, count, False
    return (start, step, count, False) if step > 0 else (start + (count - 1) * step, -step, count, True)


def _too_many(count: int, shape: Shape) -> OutOfRangeError:
    axes = "no axes" if not shape else "1 axis" if len(shape) == 1 else f"{len(shape)} axes"
    return OutOfRangeError(f"x[key]: too many indices: the key has {count}, shape {shape} has {axes}")


# --- any key --------------------------------------------------------------------------------------------------------


class Selection:
    """What a key selects from a value of some shape."""

    def __init__(self, shape: Shape, key: Any, look: Look) -> None:
        self.starts: list[int] = []
        self.steps: list[int] = []
        self.sizes: list[int] = []
        self.backwards: list[int] = []  # axes to be turned round
        self.shape: list[int] = []  # after the slices: without the axes of integers, with those of None
        self.indices: dict[int, Node] = {}  # then the integer arrays, by their axis of `shape`
        runs, inside = 0, False  # of neighbouring integers and arrays in the key
        for item in _expanded(key, shape, look):
            indexes = item is not None and item is not Ellipsis and type(item) is not slice
            runs += indexes and not inside
            inside = indexes
            if type(item) is Mask:
                self._add_mask(item, shape)
            elif item is not Ellipsis:
                self._add(item, shape)
        # NumPy's rule: arrays that stand apart put their axes in front, others where they stand
        self.front = runs > 1

    def _add_mask(self, mask: Mask, shape: Shape) -> None:
        axis = len(self.starts)
        fits = shape[axis : axis + len(mask.shape)]
        if len(fits) < len(mask.shape) or any(n not in (0, size) for n, size in zip(mask.shape, fits)):
            raise OutOfRangeError(
                f"x[mask]: a mask of shape {mask.shape} does not match the indexed axes of shape {fits}"
            )
        for places in mask.places:
            self._add(places, shape)

    def _add(self, item: Any, shape: Shape) -> None:
        axis = len(self.starts)
        if item is None:
            self.shape.append(1)
        elif type(item) is slice:
            start, step, size, backwards = _span(item, shape[axis])
            if backwards:
                self.backwards.append(axis)
            self._slice(start, step, size)
            self.shape.append(size)
        elif type(item) is int:
            if not -shape[axis] <= item < shape[axis]:
                raise _out_of_range(item, shape[axis], axis)
            self._slice(item % shape[axis], 1, 1)
        elif type(item) is Truth:
            self.indices[len(self.shape)] = item.index
            self.shape.append(1)
        else:
            check_range(item, shape[axis], f"x[key], axis {axis}")
            self.indices[len(self.shape)] = item
            self._slice(0, 1, shape[axis])
            self.shape.append(shape[axis])

    def _slice(self, start: int, step: int, size: int) -> None:
        self.starts.append(start)
        self.steps.append(step)
        self.sizes.append(size)

    def _sliced(self, x: Node) -> Node:
        """`x` after the slices."""
        part = take_slice(x, tuple(self.starts), tuple(self.steps), tuple(self.sizes))
        if self.backwards:
            part = FLIP(part, axes=tuple(self.backwards))
        return reshape(part, tuple(self.shape))

    def _put_back(self, x: Node, part: Node) -> Node:
        """`x` with what is left after the slices replaced."""
        part = reshape(part, tuple(self.sizes))
        if self.backwards:
            part = FLIP(part, axes=tuple(self.backwards))
        return put_slice(x, part, tuple(self.starts), tuple(self.steps))

    def _first_array(self) -> int:
        return 0 if self.front else min(self.indices)

    def _gathered(self, part: Node) -> Node:
        """What is left after the slices, with the axes of the arrays side by side."""
        axes = list(self.indices)
        return moveaxis(part, axes, list(range(len(axes)))) if self.front else part

    def _spread(self, part: Node) -> Node:
        axes = list(self.indices)
        return moveaxis(part, list(range(len(axes))), axes) if self.front else part

    def read(self, x: Node) -> Node:
        """Read the selected elements of `x`."""
        part = self._sliced(x)
        if not self.indices:
            return part
        return GATHER(self._gathered(part), *self.indices.values(), axis=self._first_array())

    def write(self, x: Node, values: Node) -> Node:
        """`x` with the selected elements replaced."""
        if not self.indices:
            return self._put_back(x, _fitted(values, tuple(self.shape)))
        part = self._gathered(self._sliced(x))
        axis, arrays = self._first_array(), self.indices.values()
        places = broadcast_shapes("x[key]", *[index.shape for index in arrays])
        shape = (*part.shape[:axis], *places, *part.shape[axis + len(arrays) :])
        written = SCATTER(part, _fitted(values, shape), *arrays, axis=axis)
        return self._put_back(x, self._spread(written))


class Mask(NamedTuple):
    """A boolean array in a key: its shape, and the indices where it is true, one integer array for each axis."""

    shape: Shape
    places: Sequence[Node]


class Truth:
    """A single boolean in a key: it adds an axis with one element if true and none if false."""

    def __init__(self, value: bool) -> None:
        self.index = data(np.zeros(int(value), np.int64))


def _expanded(key: Any, shape: Shape, look: Look) -> list[Any]:
    """The items of a key, with whole slices behind the Ellipsis (or at the end) for the axes it does not name."""
    items = [_item(item, look) for item in (key if type(key) is tuple else (key,))]
    used = sum(map(_axes_of, items))
    if used > len(shape):
        raise _too_many(used, shape)
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise OutOfRangeError("x[key]: a key can have only one Ellipsis (...)")
    at = dots[0] if dots else len(items)
    return items[: at + 1] + [slice(None)] * (len(shape) - used) + items[at + 1 :]


def _axes_of(item: Any) -> int:
    """How many axes an item of a key stands for."""
    if item is None or item is Ellipsis or type(item) is Truth:
        return 0
    return len(item.shape) if type(item) is Mask else 1


def _item(item: Any, look: Look) -> Any:
    """One item of a key as a slice, None, Ellipsis, an int, a Truth, a node of integers or a Mask."""
    kind = type(item)
    if item is None or item is Ellipsis or kind is int or kind is slice:
        return item
    if kind is bool or kind is np.bool_:
        return Truth(bool(item))
    if kind is list or kind is tuple:
        item = _stacked(item) if _holds_node(item) else _as_array(item)
    if type(item) is Node:
        return _mask(item, look) if item.dtype is bool_ else _integers(item)
    if isinstance(item, np.ndarray):
        return _array(item)
    try:
        return operator.index(item)
    except TypeError:
        raise DTypeError(f"x[key]: {item!r} is no index; {_INDICES}") from None


_INDICES = "an index is an integer, a slice, None, ..., or an array of integers or booleans"


def _as_array(items: Any) -> Any:
    try:
        array = np.asarray(items)
    except ValueError:
        raise DTypeError(f"x[key]: {items!r} is no index; {_INDICES}") from None
    return array if array.size else array.astype(np.int64)


def _array(array: Any) -> Any:
    if array.dtype == bool_:
        return Mask(array.shape, [data(places) for places in np.nonzero(array)]) if array.ndim else Truth(bool(array))
    if array.dtype.kind not in "iu":
        raise DTypeError(f"x[key]: an array of {array.dtype} is not an index; {_INDICES}")
    if not array.ndim:
        return int(array)
    read = from_outside(array)
    return data(np.array(array)) if read is None else read


def _integers(node: Node) -> Node:
    if node.dtype not in INTEGER:
        raise DTypeError(f"x[key]: a tensor of {node.dtype} is not an index; {_INDICES}. Cast with astype(wg.int64)")
    return node


def _mask(mask: Node, look: Look) -> Mask | Truth:
    try:
        return Mask(mask.shape, places_of(mask, look)) if mask.ndim else Truth(bool(look(mask)))
    except AbstractValueError as error:
        raise AbstractValueError(
            "x[mask] has as many elements as the mask has true ones, a number that is not known while a function is "
            "recorded with abstract inputs. Keep the size: wg.where(mask, x, 0), or wg.topk(x, k) for a fixed number "
            "of them"
        ) from error


def _holds_node(items: Any) -> bool:
    return any(type(item) is Node or (isinstance(item, (list, tuple)) and _holds_node(item)) for item in items)


def _stacked(items: Any) -> Node:
    return stack([_stacked(item) if isinstance(item, (list, tuple)) else item for item in items])
