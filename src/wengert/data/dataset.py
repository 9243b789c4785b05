"""Data sets: examples by number. In: indices. Out: a batch, a tuple of NumPy arrays with an example a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from wengert.core.errors import ArgumentError, ShapeError
from wengert.data.collate import default_collate

Array = np.ndarray[Any, Any]
Batch = tuple[Array, ...]
Transform = Callable[[Batch, np.random.Generator], Batch]
"""What is done to a batch on its way, with a generator for what is random about it. One that has `by_row` set treats
each row by itself, with draws of a row each."""


T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """The base class of data sets: a subclass defines `__len__` and `__getitem__`, which returns the arrays of an
    example.

    An example is an array, a tuple of arrays, or a dict of them; a batch has the same form.

    A data set that can fetch many examples at once overrides `batch`. If some examples cannot share a batch (because
    their lengths differ), `groups` has a group number for each example: a batch comes from one group.

    `by_row` says that each row of a batch depends only on its example and on the random numbers drawn for that row.
    Then a rank prepares only its own rows of a batch; otherwise it prepares all rows and keeps its own.

    >>> import numpy as np, wengert as wg
    >>> class Squares(wg.data.Dataset):
    ...     def __len__(self):
    ...         return 10
    ...     def __getitem__(self, i):
    ...         return i, i * i
    >>> Squares().batch(np.array([2, 3]), np.random.default_rng())
    (array([2, 3]), array([4, 9]))
    """

    groups: Array | None = None

    @property
    def by_row(self) -> bool:
        """Whether rows of a batch are independent; unknown for an overridden `batch`."""
        return type(self).batch is Dataset.batch

    if TYPE_CHECKING:  # a stream has no length, and a data set without one must be true

        def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no examples: define __getitem__(self, index)")

    def __add__(self, other: Any) -> Dataset[Any]:
        from wengert.data.combined import ConcatDataset

        return ConcatDataset([self, other])

    def batch(self, indices: Array, rng: np.random.Generator) -> Any:
        """Stack the examples with these indices; random augmentation draws from `rng`."""
        examples = [self[int(index)] for index in indices]
        if isinstance(examples[0], Mapping):
            return default_collate(examples)
        rows = [example if isinstance(example, tuple) else (example,) for example in examples]
        try:
            return tuple(np.stack([np.asarray(part) for part in parts]) for parts in zip(*rows, strict=True))
        except ValueError as error:
            raise ShapeError(
                f"{type(self).__name__}: the examples of a batch do not stack: {error}. Pad them to one shape, or "
                "define batch(self, indices, rng)"
            ) from None


class ArrayDataset(Dataset[tuple[Any, ...]]):
    """Arrays with one example in each row, such as images and labels. `transforms` are applied to every batch, in
    order.

    >>> import numpy as np, wengert as wg
    >>> data = wg.data.ArrayDataset(np.eye(3), np.array([5, 6, 7]))
    >>> len(data), data[1]
    (3, (array([0., 1., 0.]), np.int64(6)))
    """

    def __init__(self, *arrays: Any, transforms: Sequence[Transform] = ()) -> None:
        self.arrays = [np.asarray(array) for array in arrays]
        self.transforms = tuple(transforms)
        if not arrays:
            raise ArgumentError("ArrayDataset needs at least one array")
        if any(array.ndim == 0 for array in self.arrays) or len({len(array) for array in self.arrays}) > 1:
            shapes = ", ".join(str(array.shape) for array in self.arrays)
            raise ShapeError(
                f"ArrayDataset: the arrays must have one example in each row and equally many rows, not {shapes}"
            )

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(array[index] for array in self.arrays)

    @property
    def by_row(self) -> bool:
        """Whether rows are independent: true if all transforms are."""
        own = type(self).batch is ArrayDataset.batch
        return own and all(getattr(transform, "by_row", False) for transform in self.transforms)

    def batch(self, indices: Array, rng: np.random.Generator) -> Batch:
        """The rows with these indices, transformed."""
        batch: Batch = tuple(array[indices] for array in self.arrays)
        for transform in self.transforms:
            batch = transform(batch, rng)
        return batch
