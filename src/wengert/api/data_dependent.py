"""Functions whose results have a shape that only the data says: nonzero, unique, masked_select, bincount.

They look at the value, so they work over Tensors and compute what is pending. Within a function that is recorded with
abstract inputs there is no value: they raise and name what keeps its size. Values they return are gathered from their
argument, and have the gather's derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.api.creation import asarray, tensor
from wengert.api.lift import lift
from wengert.core.dtypes import HALF, INEXACT, bool_, float32, float64, int64
from wengert.core.errors import AbstractValueError, DTypeError, ShapeError
from wengert.ops import gather, rearrange
from wengert.ops.addressing import GATHER
from wengert.ops.core import as_node
from wengert.ops.gather import index_put as _index_put
from wengert.ops.movement import broadcast_to, normalize_axis, reshape
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
    array = _look(x, "nonzero", "Keep the size: wg.where(x != 0, a, b), or wg.count_nonzero(x)")
    return tuple(_beside(x, places) for places in np.nonzero(array))


def argwhere(x: Any, /) -> Tensor:
    """The indices of the elements that are not zero, those of an element in a row.

    >>> import wengert as wg
    >>> wg.argwhere(wg.tensor([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    x = asarray(x)
    array = _look(x, "argwhere", "Keep the size: wg.where(x != 0, a, b), or wg.count_nonzero(x)")
    return _beside(x, np.argwhere(array))


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each of the numbers 0, 1, ... occurs; with weights, their sum for each number.

    >>> import wengert as wg
    >>> wg.bincount(wg.tensor([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    x = asarray(x)
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise ShapeError(f"bincount takes integers along one axis, not {x.dtype} of shape {x.shape}")
    array = _look(x, "bincount", "Keep the size: wg.sum(wg.one_hot(x, n), axis=0)")
    if array.size and array.min() < 0:
        raise ShapeError(f"bincount counts the numbers from 0 up; one of them is {array.min()}")
    size = max(int(array.max(initial=-1)) + 1, int(minlength))
    values = asarray(np.ones(array.shape, int64) if weights is None else weights).to(x.device)
    if weights is not None and values.dtype not in INEXACT:
        values = values.to(float64)
    if tuple(values.shape) != tuple(x.shape):
        raise ShapeError(f"bincount: {x.shape[0]} numbers, and weights of shape {values.shape}")
    return _index_add(asarray(np.zeros(size, values.dtype)).to(x.device), 0, x, values)


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
    chosen = _look(mask, "masked_select", "Keep the size: wg.where(mask, x, 0)")
    shape = np.broadcast_shapes(x.shape, mask.shape)
    places = np.flatnonzero(np.broadcast_to(chosen, shape))
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
            mask = _look(array, "index_put", "Keep the size: wg.where(mask, values, x)")
            places += [_beside(array, found) for found in np.nonzero(mask)]
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
        repeats = _look(repeats, "repeat", "Give repeats as numbers or a NumPy array")
    return _repeat(x, repeats, axis=axis)


_repeat = lift(rearrange.repeat)

# --- sets -----------------------------------------------------------------------------------------------------------

_KEEP_THE_SIZE = "Keep the size: wg.sort(x), and compare neighbours"


def _unique(x: Any, name: str, axis: int | None = None, equal_nan: bool = False) -> UniqueAll:
    x = asarray(x)
    array = _look(x, name, _KEEP_THE_SIZE)
    if axis is None:
        flat, at, shape = Tensor(reshape(x.node, (-1,))), 0, x.shape
    else:
        flat, at = x, normalize_axis(axis, x.ndim, name)
        shape = (x.shape[at],)
    found = np.unique(array, return_index=True, return_inverse=True, return_counts=True, axis=axis, equal_nan=equal_nan)
    _, indices, inverse, counts = found
    places = [_beside(x, array) for array in (indices, inverse.reshape(shape), counts)]
    return UniqueAll(_taken(flat, indices, at), *places)


def unique_all(x: Any, /) -> UniqueAll:
    """The distinct values of `x`, sorted, where each is first, which one each element is, and their counts."""
    return _unique(x, "unique_all")


def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct values of `x`, sorted, and how often each occurs."""
    found = _unique(x, "unique_counts")
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct values of `x`, sorted, and for each element of `x` which one it is."""
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
    """
    found = _unique(x, "unique", axis, equal_nan=True)
    asked = (True, return_index, return_inverse, return_counts)
    parts = tuple(part for part, wanted in zip(found, asked) if wanted)
    return parts[0] if len(parts) == 1 else parts
