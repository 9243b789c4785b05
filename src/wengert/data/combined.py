"""Data sets made of others: tensors side by side, a part of a set, several one after another, a random split.

What a set has to have is `__getitem__` and `__len__` (or, for a stream, `__iter__`); lists will do.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from wengert.core.devices import is_host
from wengert.core.errors import ArgumentError, ShapeError
from wengert.data.collate import DatasetError
from wengert.data.dataset import Array, Dataset
from wengert.data.draws import DEFAULT, Draws
from wengert.tensor import Tensor

T = TypeVar("T", covariant=True)


class IterableDataset(Dataset[T]):
    """A stream of examples: a subclass defines `__iter__`.

    Each worker has its own copy of the stream and yields all of it, unless it uses `get_worker_info()` to select its
    part.

    >>> import wengert as wg
    >>> class Count(wg.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(5))
    >>> [batch.tolist() for batch in wg.data.SampleLoader(Count(), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __iter__(self) -> Iterator[T]:
        raise TypeError(f"{type(self).__name__} is not a stream: define __iter__(self)")

    def __add__(self, other: Any) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Tensors or arrays with one example in each row.

    >>> import wengert as wg
    >>> data = TensorDataset(wg.arange(6).reshape(3, 2), wg.arange(3))
    >>> len(data), data[1][0].tolist()
    (3, [2, 3])
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise ArgumentError("TensorDataset needs at least one tensor")
        shapes = [tuple(tensor.shape) for tensor in tensors]
        if any(not shape or shape[0] != shapes[0][0] for shape in shapes):
            raise DatasetError(
                f"Size mismatch between tensors: they must have one example in each row, not shapes {shapes}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def rows(self, indices: Sequence[int]) -> list[Array] | None:
        """A collated batch of these examples, by one lookup in each tensor; None if a subclass makes examples
        differently."""
        if type(self).__getitem__ is not TensorDataset.__getitem__ or hasattr(self, "__getitems__"):
            return None
        if any(isinstance(tensor, Tensor) and not _is_plain(tensor) for tensor in self.tensors):
            return None
        return [np.asarray(_value(tensor))[indices] for tensor in self.tensors]


def _is_plain(tensor: Tensor) -> bool:
    return is_host(tensor.device) and not tensor.requires_grad


def _value(tensor: Any) -> Any:
    return tensor.numpy() if isinstance(tensor, Tensor) else tensor


class StackDataset(Dataset[Any]):
    """Several data sets in parallel: an example is a tuple of their examples, or a dict if they are given by name.

    >>> StackDataset(x=[1, 2], y="ab")[1]
    {'x': 2, 'y': 'b'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ArgumentError("StackDataset takes data sets by position or by name, not both")
        self.datasets: Any = args or kwargs
        parts = list(args or kwargs.values())
        if not parts:
            raise ArgumentError("At least one dataset should be passed")
        if any(len(part) != len(parts[0]) for part in parts):
            raise ShapeError(f"Size mismatch between datasets: they have {[len(part) for part in parts]} examples")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Many examples, from sets that can give many at once."""
        if not isinstance(self.datasets, dict):
            return list(zip(*(examples(part, indices) for part in self.datasets)))
        found = [examples(part, indices) for part in self.datasets.values()]
        return [dict(zip(self.datasets, values)) for values in zip(*found)]

    def __len__(self) -> int:
        return len(next(iter(self.datasets.values())) if isinstance(self.datasets, dict) else self.datasets[0])


def examples(dataset: Any, indices: Sequence[Any]) -> list[Any]:
    """Fetch examples of a data set by index, through its `__getitems__` if it has one."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    found: list[Any] = dataset.__getitems__(indices)
    if len(found) != len(indices):
        raise ShapeError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(found)} from the __getitems__ "
            f"of {type(dataset).__name__}"
        )
    return found


class ConcatDataset(Dataset[T]):
    """Several data sets concatenated; `a + b` makes one too.

    >>> data = ConcatDataset(["ab", "cde"])
    >>> len(data), data[2], data[-1]
    (5, 'c', 'e')
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise DatasetError("datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise DatasetError("ConcatDataset does not support IterableDataset; ChainDataset does")
        self.cumulative_sizes = list(accumulate(len(part) for part in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        if index < 0:
            if -index > len(self):
                raise ArgumentError("absolute value of index should not exceed dataset length")
            index += len(self)
        part = bisect_right(self.cumulative_sizes, index)
        if part == len(self.datasets):
            raise IndexError(f"index {index} is out of range for {len(self)} examples")
        found: T = self.datasets[part][index - (self.cumulative_sizes[part - 1] if part else 0)]
        return found


class ChainDataset(IterableDataset[Any]):
    """Several streams concatenated.

    >>> class Letters(IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(ChainDataset([Letters(), Letters()]))
    ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for part in self._parts():
            yield from part

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts())

    def _parts(self) -> Iterator[Any]:
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise DatasetError(f"ChainDataset only supports IterableDataset, not {type(part).__name__}")
            yield part


class Subset(Dataset[T]):
    """A subset of a data set, by indices.

    >>> Subset("abcd", [1, 3])[1]
    'd'
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T:
        found: T = self.dataset[[self.indices[i] for i in index] if isinstance(index, list) else self.indices[index]]
        return found

    def __getitems__(self, indices: list[int]) -> list[T]:
        """Many examples; each by `__getitem__` where a subclass has its own."""
        if type(self).__getitem__ is not Subset.__getitem__:
            return [self[index] for index in indices]
        return examples(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)

    def rows(self, indices: Sequence[int]) -> list[Array] | None:
        """A collated batch of these examples if the data set holds tensors; otherwise None."""
        own = (type(self).__getitem__, type(self).__getitems__)
        if own != (Subset.__getitem__, Subset.__getitems__):
            return None
        return gathered(self.dataset, [self.indices[index] for index in indices])


def gathered(dataset: Any, indices: Sequence[int]) -> list[Array] | None:
    """A collated batch of rows of tensors, by one lookup in each; None for a data set without such rows."""
    return dataset.rows(indices) if isinstance(dataset, (TensorDataset, Subset)) else None


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Any = None, *, draws: Draws = DEFAULT
) -> list[Subset[Any]]:
    """Split a data set randomly into parts of these lengths, or of fractions that add up to 1.

    >>> import wengert as wg
    >>> [len(part) for part in random_split(range(10), [0.7, 0.3], wg.random.Generator(1))]
    [7, 3]
    """
    sizes = _split_sizes(len(dataset), lengths)
    if sum(sizes) != len(dataset):
        raise ArgumentError(
            f"Sum of input lengths does not equal the length of the input dataset! {list(lengths)} of {len(dataset)}"
        )
    order = draws.permutation(len(dataset), generator)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(accumulate(sizes), sizes)]


def _split_sizes(count: int, lengths: Sequence[float]) -> list[int]:
    if not math.isclose(sum(lengths), 1) or sum(lengths) > 1:
        return [int(length) for length in lengths]
    for place, fraction in enumerate(lengths):
        if not 0 <= fraction <= 1:
            raise ArgumentError(f"Fraction at index {place} is not between 0 and 1")
    sizes = [math.floor(count * fraction) for fraction in lengths]
    for extra in range(count - sum(sizes)):  # what rounding left over
        sizes[extra % len(sizes)] += 1
    for place, size in enumerate(sizes):
        if not size:
            warnings.warn(
                f"Length of split at index {place} is 0. This might result in an empty dataset.", stacklevel=3
            )
    return sizes
