"""Functions whose results have a shape that only the data says: nonzero, unique, masked_select, bincount.

They look at the value, so they work over Tensors and compute what is pending. Of a value that is not on the host they
look at one number or two, the size of the result and what has to be checked; elements stay where they are. Within a
function that is recorded with abstract inputs there is no value: they raise and name what keeps its size. Values they
return are gathered from their argument, and have the gather's derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.api.creation import asarray, tensor
from wengert.api.lift import lift
from wengert.core.devices import HOST
from wengert.core.dtypes import (
    COMPLEX,
    HALF,
    INEXACT,
    INTEGER,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from wengert.core.errors import AbstractValueError, ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops import gather, rearrange, reduce
from wengert.ops.addressing import GATHER
from wengert.ops.core import as_node, cast
from wengert.ops.counting import BINCOUNT, flat_places, places_of
from wengert.ops.creation import arange
from wengert.ops.gather import index_put as _index_put
from wengert.ops.movement import broadcast_to, moveaxis, normalize_axis, reshape, stack
from wengert.ops.running import CUMSUM
from wengert.ops.sets import FEW_NUMBERS, MOST_COLUMNS, distinct, distinct_numbers
from wengert.ops.sorting import searchsorted
from wengert.tensor import Tensor, engine, unwrap


class UniqueAll(NamedTuple):
    """The distinct values, where each is first, which one each element is, and how often each occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The distinct values and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The distinct values and which one each element is."""

    values: Tensor
    inverse_indices: Tensor


def _looking(name: str, instead: str) -> Callable[[Node], Any]:
    """What gives a function of this name the value of a node, or says what to use instead."""
    return lambda node: _look(Tensor(node), name, instead)


def _look(x: Tensor, name: str, instead: str) -> Any:
    try:
        array = engine.value(x.node)
    except AbstractValueError as error:
        raise AbstractValueError(
            f"{name}: the shape of the result depends on the data, and there is none while recording with abstract "
            f"inputs. {instead}"
        ) from error
    return array.astype(float32) if array.dtype in HALF else array


def _taken(x: Tensor, indices: Any, axis: int = 0) -> Tensor:
    return Tensor(GATHER(x.node, as_node(indices), axis=axis))


def _beside(x: Tensor, array: Any) -> Tensor:
    return tensor(array, device=x.device)


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, one tensor for each axis.

    >>> import wengert as wg
    >>> [i.tolist() for i in wg.nonzero(wg.tensor([[0, 1], [2, 0]]))]
    [[0, 1], [1, 0]]
    """
    x = asarray(x)
    if x.ndim == 0:
        raise ShapeError("nonzero: a 0-d value has no indices; take reshape(x, (1,))")
    look = _looking("nonzero", "Keep the size: wg.where(x != 0, a, b), or wg.count_nonzero(x)")
    return tuple(map(Tensor, places_of(x.node, look)))


def argwhere(x: Any, /) -> Tensor:
    """The indices of the elements that are not zero, those of an element in a row.

    >>> import wengert as wg
    >>> wg.argwhere(wg.tensor([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    x = asarray(x)
    look = _looking("argwhere", "Keep the size: wg.where(x != 0, a, b), or wg.count_nonzero(x)")
    if x.ndim == 0:
        return _beside(x, np.argwhere(look(x.node)))
    return Tensor(stack(places_of(x.node, look), axis=1))


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each of the numbers 0, 1, ... occurs; with weights, their sum for each number.

    >>> import wengert as wg
    >>> wg.bincount(wg.tensor([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    x = asarray(x)
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise ShapeError(f"bincount takes integers along one axis, not {x.dtype} of shape {x.shape}")
    count = _count_of_numbers(x, "bincount", "Keep the size: wg.sum(wg.one_hot(x, n), axis=0)")
    if count is None:
        low = int(_look(Tensor(reduce.min(x.node)), "bincount", ""))
        raise ShapeError(f"bincount counts the numbers from 0 up; one of them is {low}")
    size = max(count, int(minlength))
    if weights is None:
        return Tensor(BINCOUNT(x.node, size=size))
    values = asarray(weights).to(x.device)
    if values.dtype not in INEXACT:
        values = values.to(float64)
    if tuple(values.shape) != tuple(x.shape):
        raise ShapeError(f"bincount: {x.shape[0]} numbers, and weights of shape {values.shape}")
    return _index_add(asarray(np.zeros(size, values.dtype)).to(x.device), 0, x, values)


def _count_of_numbers(x: Tensor, name: str, instead: str) -> int | None:
    """One more than the largest of some integers, 0 where there are none; None where one is negative.

    That is the largest of all as unsigned numbers, so one number is looked at.
    """
    if not x.size:
        return 0
    unsigned = _UNSIGNED.get(x.dtype, x.dtype)
    most = int(_look(Tensor(reduce.max(cast(x.node, unsigned))), name, instead))
    return most + 1 if most <= np.iinfo(x.dtype).max else None


_UNSIGNED = {int8: uint8, int16: uint16, int32: uint32, int64: uint64}
_index_add = lift(gather.index_add)


def masked_select(x: Any, mask: Any, /) -> Tensor:
    """The elements of `x` where the mask is true, in one axis; the two broadcast against each other.

    >>> import wengert as wg
    >>> wg.masked_select(wg.tensor([1, 2, 3]), wg.tensor([True, False, True])).tolist()
    [1, 3]
    """
    x, mask = asarray(x), asarray(mask)
    if mask.dtype is not bool_:
        raise DTypeError(f"masked_select: the mask is boolean, not {mask.dtype}; compare first, as in x > 0")
    look = _looking("masked_select", "Keep the size: wg.where(mask, x, 0)")
    shape = np.broadcast_shapes(x.shape, mask.shape)
    places = flat_places(broadcast_to(mask.node, shape), look)
    return _taken(Tensor(reshape(broadcast_to(x.node, shape), (-1,))), places)


def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    """`x` with `x[indices]` replaced by `values`, or with them added: an integer array for each of the first axes.

    A boolean mask stands for the places where it is true.

    >>> import wengert as wg
    >>> wg.index_put(wg.tensor([1, 2, 3]), (wg.tensor([True, False, True]),), wg.tensor(0)).tolist()
    [0, 2, 0]
    """
    places: list[Any] = []
    for index in indices:
        array = asarray(index)
        if array.dtype is bool_ and array.ndim:
            look = _looking("index_put", "Keep the size: wg.where(mask, values, x)")
            places += map(Tensor, places_of(array.node, look))
        else:
            places.append(index)
    return Tensor(_index_put(unwrap(x), unwrap(places), unwrap(values), accumulate))


def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Tensor:
    """`x` with each element repeated along an axis; of the flattened `x` without one.

    `repeats` is a number, or one for each element along the axis.

    >>> import wengert as wg
    >>> wg.repeat(wg.tensor([1, 2]), 2).tolist(), wg.repeat(wg.tensor([1, 2]), [1, 3]).tolist()
    ([1, 1, 2, 2], [1, 2, 2, 2])
    """
    if isinstance(repeats, Tensor):
        if repeats.device != HOST and repeats.ndim == 1 and repeats.dtype in INTEGER and axis is not None:
            return _repeated(asarray(x), repeats, axis)
        repeats = _look(repeats, "repeat", "Give repeats as numbers or a NumPy array")
    return _repeat(x, repeats, axis=axis)


def _repeated(x: Tensor, repeats: Tensor, axis: int) -> Tensor:
    """Elements as often as numbers that are not on the host say: of these the sum and the smallest are looked at."""
    at, counts = normalize_axis(axis, x.ndim, "repeat"), cast(repeats.node, int64)
    if counts.shape != (x.shape[at],) or not counts.size:
        return _repeat(x, _look(repeats, "repeat", "Give repeats as numbers or a NumPy array"), axis=axis)
    both = Tensor(stack([reduce.sum(counts), reduce.min(counts)]))
    total, low = map(int, _look(both, "repeat", "Give repeats as numbers or a NumPy array"))
    if low < 0:
        raise ArgumentError(f"repeat: repeats are not negative, {low} is")
    ends = CUMSUM(counts, axis=0, backwards=False)
    return _taken(x, searchsorted(ends, arange(total, dtype=int64, device=x.device), side="right"), at)


_repeat = lift(rearrange.repeat)

# --- sets -----------------------------------------------------------------------------------------------------------

_MANY = 1 << 20  # integers from which a look at the largest is worth it: to sort them takes longer
_KEEP_THE_SIZE = "Keep the size: wg.sort(x), and compare neighbours"


def _unique(x: Any, name: str, axis: int | None = None, equal_nan: bool = False) -> UniqueAll:
    x = asarray(x)
    if axis is None:
        flat, at, shape = Tensor(reshape(x.node, (-1,))), 0, x.shape
    else:
        flat, at = x, normalize_axis(axis, x.ndim, name)
        shape = (x.shape[at],)
    slices = x.size // flat.shape[at] if x.size else 0
    if x.device != HOST and axis is None and x.dtype in INTEGER and x.size >= _MANY:
        count = _count_of_numbers(flat, name, _KEEP_THE_SIZE)
        if count is not None and count <= FEW_NUMBERS:
            values, found = distinct_numbers(flat.node, count, _looking(name, _KEEP_THE_SIZE))
            return UniqueAll(*map(Tensor, (values, found.indices, reshape(found.inverse, shape), found.counts)))
    if x.device != HOST and 0 < slices <= MOST_COLUMNS and x.dtype not in COMPLEX:
        first, which, counted = distinct(moveaxis(flat.node, at, 0), equal_nan, _looking(name, _KEEP_THE_SIZE))
        return UniqueAll(_taken(flat, first, at), Tensor(first), Tensor(reshape(which, shape)), Tensor(counted))
    array = _look(x, name, _KEEP_THE_SIZE)
    results = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=axis, equal_nan=equal_nan
    )
    _, indices, inverse, counts = results
    places = [_beside(x, array) for array in (indices, inverse.reshape(shape), counts)]
    return UniqueAll(_taken(flat, indices, at), *places)


def unique_all(x: Any, /) -> UniqueAll:
    """The distinct values of `x`, sorted, where each is first, which one each element is, and their counts.

    >>> import wengert as wg
    >>> wg.unique_all(wg.tensor([3, 1, 3])).values.tolist()
    [1, 3]
    """
    return _unique(x, "unique_all")


def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct values of `x`, sorted, and how often each occurs.

    >>> import wengert as wg
    >>> wg.unique_counts(wg.tensor([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    found = _unique(x, "unique_counts")
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct values of `x`, sorted, and for each element of `x` which one it is.

    >>> import wengert as wg
    >>> wg.unique_inverse(wg.tensor([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    found = _unique(x, "unique_inverse")
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Tensor:
    """The distinct values of `x`, sorted. Each NaN is one of its own.

    >>> import wengert as wg
    >>> wg.unique_values(wg.tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    return _unique(x, "unique_values").values


def unique(
    x: Any,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """The distinct values of `x` (or its distinct slices along an axis), sorted; with what else is asked for, a tuple.

    NaNs count as equal, as in NumPy; `unique_values` and its kin follow the Array API, where they do not.

    >>> import wengert as wg
    >>> wg.unique(wg.tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    found = _unique(x, "unique", axis, equal_nan=True)
    asked = (True, return_index, return_inverse, return_counts)
    parts = tuple(part for part, wanted in zip(found, asked) if wanted)
    return parts[0] if len(parts) == 1 else parts


def unique_consecutive(
    x: Any, /, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None
) -> Any:
    """`x` without elements (or, along an axis, slices) that are the same as the one before; a vector without an axis.

    With what else is asked for, a tuple: which one each element is, and how long each run is.

    >>> import wengert as wg
    >>> wg.unique_consecutive(wg.tensor([1, 1, 2, 1])).tolist()
    [1, 2, 1]
    """
    x = asarray(x)
    flat = Tensor(reshape(x.node, (-1,))) if axis is None else x
    at = 0 if axis is None else normalize_axis(axis, x.ndim, "unique_consecutive")
    array = _look(x, "unique_consecutive", _KEEP_THE_SIZE)
    rows = array.reshape(-1) if axis is None else np.moveaxis(array, at, 0)
    differs = (rows[1:] != rows[:-1]).any(tuple(range(1, rows.ndim)))
    begins = np.flatnonzero(np.concatenate([np.ones(min(len(rows), 1), bool), differs]))
    inverse = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(rows)))
    found: list[Any] = [_taken(flat, begins, at)]
    if return_inverse:
        found.append(_beside(x, inverse.reshape(x.shape) if axis is None else inverse))
    if return_counts:
        found.append(_beside(x, np.diff(begins, append=len(rows))))
    return found[0] if len(found) == 1 else tuple(found)
