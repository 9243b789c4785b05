"""Collating: a list of samples becomes one batch of the same structure, each leaf with one more axis at the front.

In: samples, which are arrays, tensors, numbers, strings, or dicts, tuples and lists of such. Out: NumPy arrays (of
tensors: a tensor) in that structure, or whatever a `convert` makes of the arrays. The rules are PyTorch's, so that a
data set written for it gives batches of the same form.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.devices import is_host
from wengert.core.dtypes import as_dtype, default_float
from wengert.core.errors import DTypeError, ShapeError
from wengert.tensor import Tensor

Array = np.ndarray[Any, Any]
Convert = Callable[[Array], Any]
_TEXT = "SUO"  # the kinds of arrays that hold no numbers


class DatasetError(ShapeError, RuntimeError, AssertionError):
    """Samples or data sets that do not fit together; it is also the RuntimeError or AssertionError that PyTorch
    raises."""


def default_collate(batch: Sequence[Any], *, convert: Convert | None = None) -> Any:
    """Combine samples into one batch. `convert` converts the arrays at the leaves of the batch.

    >>> default_collate([{"x": 1.5, "name": "a"}, {"x": 2.5, "name": "b"}])
    {'x': array([1.5, 2.5]), 'name': ['a', 'b']}
    >>> default_collate([(np.zeros(2), 3), (np.ones(2), 4)])
    [array([[0., 0.],
           [1., 1.]]), array([3, 4])]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked_tensors(batch, convert)
    if isinstance(first, (np.ndarray, np.generic)) or _is_array_like(first):
        return _made(_stacked([_read(item) for item in batch]), convert)
    if isinstance(first, (float, int, complex)):
        return _made(_numbers(batch), convert)
    if isinstance(first, (str, bytes)):
        return batch
    return _collated_container(batch, convert)


def _collated_container(batch: Sequence[Any], convert: Convert | None) -> Any:
    first = batch[0]
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([item[key] for item in batch], convert=convert) for key in first})
    if not isinstance(first, Sequence):
        raise DTypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
            f"{type(first)}. Pass a collate_fn that makes a batch of a list of samples"
        )
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(parts, convert=convert) for parts in zip(*batch)))
    if any(len(item) != len(first) for item in batch):
        sizes = sorted({len(item) for item in batch})
        raise DatasetError(f"each element in list of batch should be of equal size; these have the sizes {sizes}")
    parts = [default_collate(part, convert=convert) for part in zip(*batch)]
    return parts if isinstance(first, tuple) else _like(first, parts)


def default_convert(data: Any, *, convert: Convert | None = None) -> Any:
    """Convert the arrays of one sample, in the same structure; a tuple becomes a list.

    >>> default_convert({"x": np.arange(2), "name": "a"}, convert=wg.tensor)["x"].tolist()
    [0, 1]
    """
    return converted(data, convert, list)


def converted(data: Any, convert: Convert | None, of_tuple: Callable[[Any], Any] = tuple) -> Any:
    """Convert the numeric arrays in a structure; `of_tuple` builds the replacement of a tuple."""
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in _TEXT else _made(np.asarray(data), convert)
    if isinstance(data, Mapping):
        return _like(data, {key: converted(data[key], convert, of_tuple) for key in data})
    if isinstance(data, tuple):
        parts = [converted(item, convert, of_tuple) for item in data]
        return type(data)(*parts) if hasattr(data, "_fields") else of_tuple(parts)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, [converted(item, convert, of_tuple) for item in data])
    return data


def _like(first: Any, made: Any) -> Any:
    """A dict or list as the class of a sample has it; a plain one where that class cannot be made from it."""
    try:
        if isinstance(first, MutableMapping):
            twin = copy.copy(first)  # a class of mappings may keep more than its items
            twin.update(made)
            return twin
        if isinstance(first, MutableSequence):
            changed: Any = copy.copy(first)
            for number, item in enumerate(made):
                changed[number] = item
            return changed
        return type(first)(made)
    except TypeError:
        return made


# --- leaves ---------------------------------------------------------------------------------------------------------


def _made(array: Array, convert: Convert | None) -> Any:
    return array if convert is None else convert(array)


def _is_array_like(value: Any) -> bool:
    """Whether a value is another library's array, and no picture."""
    return all(hasattr(value, name) for name in ("__array__", "shape", "dtype"))


def _read(value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype.kind in _TEXT:
        raise DTypeError(
            f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {array.dtype}"
        )
    return array


def _stacked(arrays: Sequence[Array]) -> Array:
    shape = arrays[0].shape
    for place, array in enumerate(arrays):
        if array.shape != shape:
            raise DatasetError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(array.shape)} at entry {place}. Pad the samples to one shape, or pass a collate_fn"
            )
    return np.stack(arrays)


def _numbers(batch: Sequence[Any]) -> Array:
    """Python numbers as an array: the first says which kind, unless a later one needs a wider."""
    kinds = {type(item) for item in batch}
    if any(issubclass(kind, complex) for kind in kinds):
        return np.array(batch, np.complex128 if isinstance(batch[0], complex) else np.complex64)
    if any(issubclass(kind, float) for kind in kinds):
        return np.array(batch, np.float64 if isinstance(batch[0], float) else default_float)
    return np.array(batch, bool if kinds == {bool} else np.int64)


def _stacked_tensors(batch: Sequence[Tensor], convert: Convert | None) -> Any:
    """Tensors as one; those on a GPU, and those that need gradients, by an op."""
    if any(item.requires_grad or not is_host(item.device) for item in batch):
        return wg.stack(list(batch))
    return (convert or _tensor)(_stacked([item.numpy() for item in batch]))


def _tensor(array: Array) -> Tensor:
    return wg.tensor(array, as_dtype(array.dtype), copy=False)
