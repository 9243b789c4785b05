"""SampleLoader: samples of any structure in batches, in a sampler's order or as a stream gives them.

This is PyTorch's DataLoader: `sampler`, `batch_sampler`, `collate_fn` and `num_workers` mean what they mean there, and
batches come in the same order. `DataLoader` is the one for arrays: its order depends only on a seed, so it can be
resumed on any number of ranks. Both have their batches prepared by `workers`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, ClassVar, Generic, TypeVar

from wengert.core import communication
from wengert.core.errors import ArgumentError, DTypeError
from wengert.data.collate import Convert, converted, default_collate, default_convert
from wengert.data.combined import IterableDataset, examples, gathered
from wengert.data.draws import DEFAULT, Draws
from wengert.data.samplers import BatchSampler, RandomSampler, Sampler, SequentialSampler
from wengert.data.worker import Fetch, WorkerJob
from wengert.data.workers import Workers

T = TypeVar("T", covariant=True)
FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
"""What cannot be changed in a loader that there is."""


class SampleLoader(Generic[T]):
    """Collated batches of a data set, a list or a stream: dicts give a dict, tuples a list, leaf by leaf.

    The order is that of `sampler` or `batch_sampler`; `shuffle=True` uses a `RandomSampler` with `generator`. With
    `batch_size=None` samples are returned one by one. `collate_fn` makes a batch from a list of samples.

    `num_workers` processes prepare `prefetch_factor` batches each ahead; `multiprocessing_context` is "fork", "spawn",
    "forkserver", or "thread" for threads of this process. `worker_init_fn(id)` is called first in each worker, where
    `get_worker_info()` identifies it. `persistent_workers` keeps workers for the next epoch. `timeout` is in seconds
    for each batch. If a worker dies, an error names it; an exception in a worker is raised here with its traceback.

    `pin_memory` and `pin_memory_device` are accepted and ignored: uploads to a GPU use their own pinned memory.

    A subclass overrides `convert` to convert arrays at the leaves, and `random_sampler` and `draws` to choose the
    source of random numbers.

    >>> loader = SampleLoader([{"x": i, "name": str(i)} for i in range(3)], batch_size=2)
    >>> list(loader)
    [{'x': array([0, 1]), 'name': ['0', '1']}, {'x': array([2]), 'name': ['2']}]
    """

    convert: ClassVar[Convert | None] = None
    draws: ClassVar[Draws] = DEFAULT
    random_sampler: ClassVar[type[Any]] = RandomSampler

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[Any] | Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self.is_stream = isinstance(dataset, IterableDataset)
        _check_order(dataset, self.is_stream, shuffle, sampler, batch_sampler)
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ArgumentError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ArgumentError(
                "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )
        if sampler is None:
            sampler = self._usual_sampler(dataset, bool(shuffle), generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, bool(drop_last))
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.num_workers, self.timeout, self.worker_init_fn = num_workers, timeout, worker_init_fn
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.multiprocessing_context, self.generator = multiprocessing_context, generator
        self.in_order, self.persistent_workers = in_order, persistent_workers
        self._has_own_collate = collate_fn is not None
        self.collate_fn = collate_fn or partial(self._collation(), convert=type(self).convert)
        self._workers: Workers | None = None
        self._length_told: int | None = None
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and getattr(self, "_is_made", False):
            raise ArgumentError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        if name == "collate_fn" and getattr(self, "_is_made", False):
            self._has_own_collate = True
        super().__setattr__(name, value)

    def _usual_sampler(self, dataset: Any, shuffle: bool, generator: Any) -> Any:
        if self.is_stream:
            return _Endless()
        return self.random_sampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)

    def __len__(self) -> int:
        """The batches of an epoch; of a stream that has a length, about so many."""
        if not self.is_stream:
            return len(self._indices)
        length = len(self.dataset)
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else -(-length // self.batch_size)
        self._length_told = length
        return length

    def __iter__(self) -> Batches:
        tasks = iter(self._indices)
        seed = self.draws.seed(self.generator)
        if not self.num_workers:
            return Batches(self, _Fetched(self._start(self.collate_fn)(self.dataset), tasks), None)
        workers = self._workers if self.persistent_workers else None
        if workers is None or workers.owner != os.getpid():
            workers = self._started(seed)
        if self.persistent_workers:
            self._workers = workers
        ahead = (self.prefetch_factor or 1) * self.num_workers
        at_end = None if self.persistent_workers else workers.close
        return Batches(self, workers.run(tasks, ahead, self.in_order), self._conversion(), at_end)

    @property
    def _indices(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def close(self) -> None:
        """Stop the persistent workers."""
        if self._workers is not None and self._workers.owner == os.getpid():
            self._workers.close()
        self._workers = None

    def _started(self, seed: int) -> Workers:
        has_own = self._has_own_collate
        start = self._start(self.collate_fn if has_own else self._collation())
        job = WorkerJob(start, self.worker_init_fn, self.draws, seed)
        return Workers(job, self.dataset, self.num_workers, self.multiprocessing_context, self.timeout)

    def _start(self, collate: Callable[[Any], Any]) -> Callable[[Any], Fetch]:
        """What makes the fetch of a worker."""
        kind = StreamFetch if self.is_stream else SampleFetch
        return partial(kind, collate, self.batch_sampler is not None, bool(self.drop_last), not self._has_own_collate)

    def _collation(self) -> Callable[..., Any]:
        return default_convert if self.batch_sampler is None else default_collate

    def _conversion(self) -> Callable[[Any], Any] | None:
        """What is done here to batches of arrays that workers have collated."""
        convert = type(self).convert
        return None if convert is None or self._has_own_collate else partial(converted, convert=convert)


class Batches:
    """The batches of one epoch of a loader, to be iterated once."""

    def __init__(
        self,
        loader: SampleLoader[Any],
        batches: Iterator[Any],
        convert: Callable[[Any], Any] | None,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._loader, self._batches, self._convert, self._at_end = loader, batches, convert, at_end
        self._count = 0

    def __iter__(self) -> Batches:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        try:
            with communication.during("loading data"):
                batch = next(self._batches)
        except StopIteration:
            if self._at_end is not None:
                self._at_end()
            raise
        self._count += 1
        told = self._loader._length_told
        if told is not None and self._count > told:
            warnings.warn(
                f"Length of IterableDataset {self._loader.dataset} was reported to be {told} (when accessing "
                f"len(dataloader)), but {self._count} samples have been fetched. Each worker has its own copy of the "
                "stream; use get_worker_info() to yield only its part.",
                stacklevel=2,
            )
        return batch if self._convert is None else self._convert(batch)


class SampleFetch:
    """Fetches samples by index."""

    def __init__(
        self, collate: Callable[[Any], Any], in_batches: bool, drop_last: bool, is_plain: bool, dataset: Any
    ) -> None:
        self._collate, self._in_batches, self._is_plain, self._dataset = collate, in_batches, is_plain, dataset

    def __call__(self, wanted: Any) -> Any:
        if not self._in_batches:
            return self._collate(self._dataset[wanted])
        rows = gathered(self._dataset, wanted) if self._is_plain else None
        if rows is not None:
            convert = getattr(self._collate, "keywords", {}).get("convert")
            return converted(rows, convert)
        return self._collate(examples(self._dataset, wanted))


class StreamFetch:
    """Fetches the next samples of a stream."""

    def __init__(
        self, collate: Callable[[Any], Any], in_batches: bool, drop_last: bool, is_plain: bool, dataset: Any
    ) -> None:
        self._collate, self._in_batches, self._drop_last = collate, in_batches, drop_last
        self._samples = iter(dataset)
        self._has_ended = False

    def __call__(self, wanted: Any) -> Any:
        if self._has_ended:
            raise StopIteration
        if not self._in_batches:
            return self._collate(next(self._samples))
        batch = []
        for _ in wanted:
            try:
                batch.append(next(self._samples))
            except StopIteration:
                self._has_ended = True
                break
        if not batch or (self._drop_last and len(batch) < len(wanted)):
            raise StopIteration
        return self._collate(batch)


class _Endless(Sampler[None]):
    """As many Nones as are requested: the order of a stream."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class _Fetched:
    """What a fetch gives for each task; an error in one ends nothing."""

    def __init__(self, fetch: Fetch, tasks: Iterator[Any]) -> None:
        self._fetch, self._tasks = fetch, tasks

    def __iter__(self) -> _Fetched:
        return self

    def __next__(self) -> Any:
        return self._fetch(next(self._tasks))


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool, context: Any
) -> None:
    if num_workers < 0:
        raise ArgumentError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ArgumentError("timeout option should be non-negative")
    if prefetch_factor is not None and not num_workers:
        raise ArgumentError("prefetch_factor option could only be specified with num_workers > 0; leave it None")
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ArgumentError("prefetch_factor option should be non-negative")
    if persistent_workers and not num_workers:
        raise ArgumentError("persistent_workers option needs num_workers > 0")
    if context is not None and not num_workers:
        raise ArgumentError("multiprocessing_context can only be used with num_workers > 0")


def _check_order(dataset: Any, is_stream: bool, shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if is_stream:
        for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value is not None:
                raise ArgumentError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )
    elif not hasattr(dataset, "__getitem__"):
        raise DTypeError(
            f"DataLoader: a {type(dataset).__name__} has no __getitem__ to fetch examples by index; for a stream "
            "subclass IterableDataset and define __iter__"
        )
    if sampler is not None and shuffle:
        raise ArgumentError("sampler option is mutually exclusive with shuffle")
