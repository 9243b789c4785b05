"""Samplers: the order of a data set's examples, as indices or lists of indices.

A sampler is anything that can be iterated; these are the usual ones. Random numbers come from `draws`, a class
attribute, using the sampler's generator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from wengert.core.communication import current
from wengert.core.errors import ArgumentError, DTypeError
from wengert.data.draws import DEFAULT, Draws

T = TypeVar("T", covariant=True)


class Sampler(Generic[T]):
    """The base class of samplers: a subclass defines `__iter__`, and `__len__` if the length is known.

    >>> import wengert as wg
    >>> class Backwards(wg.data.Sampler):
    ...     def __init__(self, data):
    ...         self.data = data
    ...     def __iter__(self):
    ...         return iter(range(len(self.data) - 1, -1, -1))
    >>> list(Backwards("abc"))
    [2, 1, 0]
    """

    draws: Draws = DEFAULT

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[T]:
        raise TypeError(f"{type(self).__name__} has no indices: define __iter__(self)")


class SequentialSampler(Sampler[int]):
    """The indices of all examples, in order.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices of examples in random order; with `replacement` each is drawn independently.

    >>> import wengert as wg
    >>> sorted(RandomSampler("abcd", generator=wg.random.Generator(1)))
    [0, 1, 2, 3]
    >>> len(list(RandomSampler("abcd", num_samples=10)))
    10
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        if not isinstance(replacement, bool):
            raise DTypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ArgumentError(f"num_samples should be a positive integer value, but got {self.num_samples!r}")

    @property
    def num_samples(self) -> int:
        """The number of indices in an epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = self.draws.generator(self.draws.seed())
        if self.replacement:
            for _ in range(self.num_samples // 32):
                yield from self.draws.integers(count, 32, generator)
            yield from self.draws.integers(count, self.num_samples % 32, generator)
            return
        for _ in range(self.num_samples // count):
            yield from self.draws.permutation(count, generator)
        yield from self.draws.permutation(count, generator)[: self.num_samples % count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order.

    >>> sorted(SubsetRandomSampler([3, 5, 7]))
    [3, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in self.draws.permutation(len(self.indices), self.generator):
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices, drawn with probabilities proportional to `weights`, which need not add up to 1.

    >>> set(WeightedRandomSampler([0.0, 1.0, 3.0], 20)) <= {1, 2}
    True
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ArgumentError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ArgumentError(f"replacement should be a boolean value, but got replacement={replacement}")
        found = np.asarray(weights, np.float64)
        if found.ndim != 1:
            raise ArgumentError(f"weights should be a 1d sequence but given weights have shape {found.shape}")
        self.weights: Any = found
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from self.draws.weighted(self.weights, self.num_samples, self.replacement, self.generator)

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices from another sampler, in lists of `batch_size`.

    >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ArgumentError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ArgumentError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler: Any = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers = iter(self.sampler)
        while batch := list(islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(Sampler[int]):
    """A rank's part of the examples: every `num_replicas`-th index, in an order that all ranks share.

    `set_epoch` gives each epoch a different order. Indices are repeated (or dropped) at the end so that all parts are
    equal.

    >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.dataset = dataset
        self.num_replicas = current.size if num_replicas is None else num_replicas
        self.rank = current.rank if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ArgumentError(
                f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]"
            )
        self.epoch = 0
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        count = len(dataset)
        uneven = drop_last and count % self.num_replicas
        self.num_samples = count // self.num_replicas if uneven else math.ceil(count / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        generator = self.draws.generator(self.seed + self.epoch) if self.shuffle else None
        indices = self.draws.permutation(count, generator) if self.shuffle else list(range(count))
        if not self.drop_last and indices:
            missing = self.total_size - len(indices)
            indices += (indices * math.ceil(missing / len(indices)))[:missing]
        return iter(indices[: self.total_size][self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which is part of the seed of the order."""
        self.epoch = epoch
