"""Addressing: reading, replacing and adding to elements addressed by integer arrays. The primitives; `gather` has the
functions.

There are two ways of addressing elements, each with three primitives, all linear in `x` and in the values:

    an array for each of some neighbouring axes, as NumPy's `x[:, i, j]`      GATHER, SCATTER, SCATTER_ADD
    one index for each element, along an axis, as `take_along_axis`           TAKE_ALONG, PUT_ALONG, ADD_ALONG

The transpose of reading is adding into zeros. If an element is written twice, the last value wins, and only that one
has a derivative. Negative indices count from the back. An index out of range raises an error while recording if its
value is known by then, and otherwise when it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import INTEGER, int64
from wengert.core.errors import DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.core import as_node, cast, data, literal, operand
from wengert.ops.elementwise import equal, where
from wengert.ops.factors import Factors, Labels, aligned, is_zero, putting, without
from wengert.ops.facts import Check
from wengert.ops.movement import broadcast_to, moveaxis, take_slice
from wengert.ops.op import Op, behind_lanes, count_lanes, each_batched
from wengert.ops.recorders import broadcast_shapes, with_rank


def zeros(shape: Shape, like: Node) -> Node:
    """Zeros of this shape, of another value's dtype and device."""
    return broadcast_to(literal(0, like.dtype, like.device), shape)


def _checks_after(count: int) -> Callable[[Node], Sequence[Check]]:
    """Which indices an op checks whose index operands come after this many others: each is of the next axis."""
    return lambda node: list(zip(node.sources[count:], node.sources[0].shape[node.attrs["axis"] :]))


class Addressing:
    """A way of addressing elements by integer arrays, with its three ops.

    shape(x, *indices, axis) -> the shape of what is named      key(rank, *arrays, axis) -> the same as a NumPy key
    batch_take, batch_write: the rules for a leading axis
    labels(x, *indices, axis) -> the factors of x, of what is named, and of each index; those of places x has not
    adds_in_place: whether adding may leave its result in its first operand's memory
    """

    def __init__(
        self,
        names: tuple[str, str, str],
        shape: Callable[..., Shape],
        key: Callable[..., Any],
        batch_take: Callable[..., Node],
        batch_write: Callable[..., Node],
        labels: Callable[..., tuple[Labels, Labels, Sequence[Labels]]],
        adds_in_place: bool,
    ) -> None:
        self.shape = shape
        self.key = key
        self.labels = labels
        self.take: Op = Op(
            names[0],
            infer=lambda x, *indices, axis: (shape(x, *indices, axis=axis), x.dtype),
            numpy=lambda x, *indices, axis: x[key(x.ndim, *indices, axis=axis)],
            vjp=(lambda g, y, x, *indices: self.add(zeros(x.shape, g), g, *indices, **y.attrs),),
            linear=(0,),
            batch=batch_take,
            expensive=True,
            moves=True,
            can_fail=False,
            checks=_checks_after(1),
            factors=self._take_factors,
        )
        self.put: Op = Op(
            names[1],
            infer=self._infer_write,
            numpy=self._put,
            vjp=(
                lambda g, y, x, values, *indices: self.put(g, zeros(values.shape, g), *indices, **y.attrs),
                lambda g, y, x, values, *indices: where(self._stays(y), self.take(g, *indices, **y.attrs), 0),
            ),
            linear=(0, 1),
            batch=batch_write,
            expensive=True,
            moves=True,
            can_fail=False,
            checks=_checks_after(2),
            factors=self._put_factors,
            overwrites=True,
        )
        self.add: Op = Op(
            names[2],
            infer=self._infer_write,
            numpy=self._add,
            vjp=(
                lambda g, y, x, values, *indices: g,
                lambda g, y, x, values, *indices: self.take(g, *indices, **y.attrs),
            ),
            linear=(0, 1),
            complex=True,
            batch=batch_write,
            expensive=True,
            can_fail=False,
            checks=_checks_after(2),
            factors=self._add_factors,
            overwrites=adds_in_place,
        )

    def _infer_write(self, x: Node, values: Node, *indices: Node, axis: int) -> tuple[Any, Any]:
        named = self.shape(x, *indices, axis=axis)
        if values.shape != named:
            raise ShapeError(f"{self.put.name}: values of shape {values.shape} for {named} places")
        return x.shape, x.dtype

    def _put(self, x: Any, values: Any, *indices: Any, axis: int, out: Any = None) -> Any:
        result = x.copy() if out is None else out
        result[self.key(x.ndim, *indices, axis=axis)] = values
        return result

    def _add(self, x: Any, values: Any, *indices: Any, axis: int, out: Any = None) -> Any:
        result = x.copy() if out is None else out
        np.add.at(result, self.key(x.ndim, *indices, axis=axis), values)
        return result

    def _stays(self, y: Node) -> Node:
        """Which of the values a `put` wrote are still there: each place is given the number of its writer."""
        x, values, *indices = y.sources
        numbers = data(np.arange(values.size).reshape(values.shape), y.device)
        writers = self.put(broadcast_to(literal(0, int64, y.device), x.shape), numbers, *indices, **y.attrs)
        return equal(self.take(writers, *indices, **y.attrs), numbers)

    def _take_factors(self, y: Node) -> Factors:
        """Also the places: each is read from the whole of `x`."""
        x, named, indices = self.labels(*y.sources, **y.attrs)
        return Factors((x, *indices), (named,))

    def _put_factors(self, y: Node) -> Factors:
        """Not the places: of two values for one place it counts which is the last."""
        x, _, *indices = y.sources
        of_x, named, of_indices = self.labels(x, *indices, **y.attrs)
        return Factors((of_x, *[without(labels, {*named} - {*of_x}) for labels in (named, *of_indices)]), (of_x,))

    def _add_factors(self, y: Node) -> Factors:
        """The places too where values are added to zeros, as of an embedding's derivative: other values count once."""
        x, _, *indices = y.sources
        if not is_zero(x):
            return self._put_factors(y)
        of_x, named, of_indices = self.labels(x, *indices, **y.attrs)
        return Factors((of_x, named, *of_indices), (of_x,), {label: "sum" for label in named if label not in of_x})


# --- an array for each of some neighbouring axes --------------------------------------------------------------------


def gather_shape(x: Node, *indices: Node, axis: int) -> Shape:
    """The shape of the elements that a gather reads."""
    places = broadcast_shapes("an index", *[index.shape for index in indices])
    return (*x.shape[:axis], *places, *x.shape[axis + len(indices) :])


def _gather_key(rank: int, *indices: Any, axis: int) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, *indices)


def _index_lanes(indices: Sequence[Node], batched: Sequence[bool], rank: int) -> list[Node]:
    """Index arrays that broadcast against each other with the lanes in front."""
    return [with_rank(index, rank) if b else index for index, b in zip(indices, batched)]


def _numbered_lanes(lanes: int, rank: int, device: str) -> Node:
    return data(np.arange(lanes).reshape(lanes, *(1,) * rank), device)


def _beside_lanes(x: Node, axis: int, count: int) -> Node:
    """The `count` axes from `axis` on brought next to the lanes."""
    return moveaxis(x, list(range(axis + 1, axis + 1 + count)), list(range(1, 1 + count)))


def _back_from_lanes(x: Node, axis: int, count: int) -> Node:
    return moveaxis(x, list(range(1, 1 + count)), list(range(axis + 1, axis + 1 + count)))


def _gather_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    x, *indices = sources
    axis = y.attrs["axis"]
    if not any(batched[1:]):
        return GATHER(x, *indices, axis=axis + 1)
    rank = max(index.ndim for index in y.sources[1:])
    indices = _index_lanes(indices, batched[1:], rank)
    if not batched[0]:
        return moveaxis(GATHER(x, *indices, axis=axis), axis, 0)
    numbered = _numbered_lanes(x.shape[0], rank, x.device)
    taken = GATHER(_beside_lanes(x, axis, len(indices)), numbered, *indices, axis=0)
    return _back_from_lanes(taken, axis, rank)


def _scatter_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    lanes = count_lanes(sources, batched)
    axis = y.attrs["axis"]
    x, values = each_batched(sources[:2], batched[:2], lanes)
    indices = sources[2:]
    if not any(batched[2:]):
        return y.op(x, values, *indices, axis=axis + 1)
    rank = max(index.ndim for index in y.sources[2:])
    numbered = _numbered_lanes(lanes, rank, x.device)
    written = y.op(
        _beside_lanes(x, axis, len(indices)),
        _beside_lanes(values, axis, rank),
        numbered,
        *_index_lanes(indices, batched[2:], rank),
        axis=0,
    )
    return _back_from_lanes(written, axis, len(indices))


def _gather_labels(x: Node, *indices: Node, axis: int) -> tuple[Labels, Labels, Sequence[Labels]]:
    shape = np.broadcast_shapes(*[index.shape for index in indices])
    places = tuple(("place", i) for i in range(len(shape)))
    front, back = range(axis), range(axis + len(indices), x.ndim)
    of_x, named = (*front, *(None,) * len(indices), *back), (*front, *places, *back)
    return of_x, named, [aligned(index.shape, shape, places) for index in indices]


ARRAYS = Addressing(
    ("gather", "scatter", "scatter_add"),
    gather_shape,
    _gather_key,
    _gather_batch,
    _scatter_batch,
    _gather_labels,
    adds_in_place=True,
)
GATHER, SCATTER, SCATTER_ADD = ARRAYS.take, ARRAYS.put, ARRAYS.add


# --- one index for each element, along an axis ----------------------------------------------------------------------


def _along_key(rank: int, index: Any, axis: int) -> tuple[Any, ...]:
    grid: list[Any] = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[axis] = index
    return tuple(grid)


def _along_take_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    return behind_lanes(y, each_batched(sources, batched), batched)


def _along_labels(x: Node, index: Node, axis: int) -> tuple[Labels, Labels, Sequence[Labels]]:
    others = without(aligned(index.shape, x.shape, tuple(range(x.ndim))), (axis,))
    named = (*others[:axis], "place", *others[axis + 1 :])
    return others, named, [named]


ALONG = Addressing(
    ("take_along", "put_along", "add_along"),
    lambda x, index, axis: index.shape,
    _along_key,
    _along_take_batch,
    _along_take_batch,
    _along_labels,
    adds_in_place=False,
)
TAKE_ALONG, PUT_ALONG, ADD_ALONG = ALONG.take, ALONG.put, ALONG.add


# --- replacing a slice ----------------------------------------------------------------------------------------------


def _put_slice(x: Any, values: Any, starts: Shape, steps: Shape, out: Any = None) -> Any:
    result = x.copy() if out is None else out
    key = tuple(slice(s, s + (n - 1) * t + 1 if n else s, t) for s, t, n in zip(starts, steps, values.shape))
    result[key] = values
    return result


def _put_slice_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    x, values = each_batched(sources, batched)
    return PUT_SLICE(x, values, starts=(0, *y.attrs["starts"]), steps=(1, *y.attrs["steps"]))


PUT_SLICE: Op = Op(
    "put_slice",
    infer=lambda x, values, starts, steps: (x.shape, x.dtype),
    numpy=_put_slice,
    vjp=(
        lambda g, y, x, values: PUT_SLICE(g, zeros(values.shape, g), **y.attrs),
        lambda g, y, x, values: take_slice(g, y.attrs["starts"], y.attrs["steps"], values.shape),
    ),
    linear=(0, 1),
    batch=_put_slice_batch,
    moves=True,
    can_fail=False,
    overwrites=True,
    factors=putting,
)


def put_slice(x: Node, values: Node, starts: Shape, steps: Shape) -> Node:
    """`x` with the elements that `take_slice` reads replaced by `values`."""
    return values if values.shape == x.shape else PUT_SLICE(x, values, starts=tuple(starts), steps=tuple(steps))


# --- what the indices must be ---------------------------------------------------------------------------------------


def as_index(index: Any, name: str) -> Node:
    """An integer array, or lists of integers, as a node."""
    node = as_node(np.asarray(index)) if isinstance(index, (list, tuple)) else as_node(index)
    if node.dtype not in INTEGER:
        raise DTypeError(f"{name}: an index must be an integer, not {node.dtype}; cast with astype(wg.int64)")
    return node


def values_for(x: Node, value: Any) -> Node:
    """The values to write into `x`, as a node of its dtype."""
    return cast(value if type(value) is Node else operand(value, x.dtype, x.device), x.dtype)


def check_range(index: Node, size: int, name: str) -> None:
    """Raise an error if an index whose value is known is out of range for an axis of this size."""
    known = index.buffer
    if not isinstance(known, np.ndarray) or not known.size:
        return
    low, high = int(known.min()), int(known.max())
    if low < -size or high >= size:
        wrong = low if low < -size else high
        there = f"valid are {-size} to {size - 1}" if size else "it has no elements"
        raise OutOfRangeError(f"{name}: index {wrong} is out of range for an axis of size {size}; {there}")
