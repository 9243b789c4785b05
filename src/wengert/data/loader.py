"""DataLoader: a data set in batches, epoch after epoch, prepared ahead of their use.

The order of an epoch and all that is random about a batch follow from the seed, the epoch and the batch's number alone:
they are the same with any number of workers, and a loader that is given the state of another goes on where that was.
With a mesh each rank has its part of the same batches (`rows`), whatever the number of ranks.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from wengert.core import communication
from wengert.core.devices import HOST, is_host
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.mesh import Mesh
from wengert.data.dataset import Array, Batch, Dataset
from wengert.data.draws import DEFAULT
from wengert.data.rows import RowDraws, placement_on
from wengert.data.worker import Fetch, WorkerJob
from wengert.data.workers import THREAD, Workers


class LoadTask(NamedTuple):
    """The description of a batch to make."""

    indices: Array
    seed: tuple[int, int, int]
    padded_to: int | None
    rows: Array | None = None  # of the batch, padded, that are wanted; None: all


class DataLoader:
    """Batches of a data set: tuples of NumPy arrays, or of tensors if a `device` is given.

    Iterating yields the batches of an epoch, or what is left of it; the next iteration yields the next epoch, which
    `shuffle` reorders. `state_dict()` returns the position.

    With `drop_last` an epoch has only full batches. With `pad_last` the last batch is padded to full size, and every
    batch ends with an additional array of weights: 1 for an example, 0 for padding.

    Batches are prepared `prefetch` ahead: by a thread, or by `workers` processes that use only NumPy. `close()` stops
    them. The next batch is copied to a GPU while the current one is processed.

    With a `mesh`, batches are tensors over all ranks, of which this rank holds and prepares its rows: they are split
    along the mesh's axis "data". `split={1: "sequence"}` splits axis 1 along another one. Shapes, order and random
    numbers are those of a single process, so a state can be resumed in a world of any size.

    >>> import numpy as np, wengert as wg
    >>> loader = wg.data.DataLoader(wg.data.ArrayDataset(np.arange(5)), batch_size=2)
    >>> [batch[0].tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    >>> loader.state_dict()
    {'epoch': 1, 'batch': 0, 'seed': 0}
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        seed: int = 0,
        drop_last: bool = False,
        pad_last: bool = False,
        workers: int = 0,
        prefetch: int = 2,
        device: str | None = None,
        mesh: Mesh | None = None,
        split: Mapping[int, str] | None = None,
    ) -> None:
        if not isinstance(dataset, Dataset):
            raise DTypeError(
                f"DataLoader takes a wg.data.Dataset, not {type(dataset).__name__}; wrap arrays in "
                "wg.data.ArrayDataset; wg.data.SampleLoader takes lists and streams"
            )
        for name, value, least in (("batch_size", batch_size, 1), ("workers", workers, 0), ("prefetch", prefetch, 0)):
            if not isinstance(value, (int, np.integer)) or value < least:
                raise ArgumentError(f"DataLoader: {name} must be an integer of at least {least}, not {value!r}")
        if not hasattr(dataset, "__len__"):
            raise DTypeError(
                f"DataLoader: {type(dataset).__name__} has no length: define __len__(self). For a stream use "
                "wg.data.SampleLoader"
            )
        if not len(dataset):
            raise ArgumentError("DataLoader: the data set is empty")
        if drop_last and pad_last:
            raise ArgumentError("DataLoader: pass drop_last or pad_last, not both")
        self.dataset: Any = dataset
        self.batch_size = int(batch_size)
        self.shuffle = shuffle
        self.seed = seed % (1 << 64)
        self.drop_last = drop_last
        self.pad_last = pad_last
        self.workers = workers
        self.prefetch = prefetch
        self.placement = placement_on(mesh, split)
        self.device = HOST if device is None and mesh is not None else device
        self.epoch = 0
        self.next_batch = 0
        self._workers: Workers | None = None
        if not len(self):
            raise ArgumentError(
                f"DataLoader: {len(dataset)} examples do not fill a batch of {batch_size}, and drop_last drops the rest"
            )
        self._check_rows()

    def __len__(self) -> int:
        """The batches of an epoch."""
        return sum(
            size // self.batch_size if self.drop_last else -(-size // self.batch_size) for size in self._group_sizes()
        )

    @property
    def examples(self) -> int:
        """The examples of an epoch."""
        if not self.drop_last:
            return len(self.dataset)
        return sum(size // self.batch_size * self.batch_size for size in self._group_sizes())

    def state_dict(self) -> dict[str, int]:
        """The next batch, its epoch, and the seed that determines the order."""
        return {"epoch": self.epoch, "batch": self.next_batch, "seed": self.seed}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Continue from where `state_dict()` was taken, on any number of ranks. A state without a seed keeps the
        loader's seed."""
        self.epoch, self.next_batch = state_dict["epoch"], state_dict["batch"]
        self.seed = state_dict.get("seed", self.seed)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        plan = self._plan(self.epoch)
        tasks = [
            LoadTask(indices, (self.seed, self.epoch, 1 + number), size, self._rows(size or len(indices)))
            for number, (indices, size) in enumerate(zip(plan, self._full_sizes(plan)))
        ]
        epoch = self.epoch
        for batch in _loading(self._placed(self._prepared(tasks[self.next_batch :]))):
            self.next_batch += 1
            if self.next_batch == len(plan):
                self.epoch, self.next_batch = epoch + 1, 0
            yield batch

    def close(self) -> None:
        """Stop the workers."""
        if self._workers is not None and self._workers.owner == os.getpid():
            self._workers.close()
        self._workers = None

    # --- the order --------------------------------------------------------------------------------------------------

    def _group_sizes(self) -> list[int]:
        groups = self.dataset.groups
        return [len(self.dataset)] if groups is None else np.unique(groups, return_counts=True)[1].tolist()

    def _full_sizes(self, plan: list[Array]) -> list[int | None]:
        """What each batch is filled up to: no further than there are examples that could stand in it."""
        if not self.pad_last:
            return [None] * len(plan)
        groups = self.dataset.groups
        if groups is None:
            return [self._full_size(len(self.dataset))] * len(plan)
        names, sizes = np.unique(groups, return_counts=True)
        return [self._full_size(int(sizes[np.searchsorted(names, groups[batch[0]])])) for batch in plan]

    def _full_size(self, count: int) -> int:
        """The size of a full batch of so many examples; with a mesh one that divides among its ranks."""
        size = min(self.batch_size, count)
        return size if self.placement is None else self.placement.padded(size)

    def _rows(self, size: int) -> Array | None:
        """The rows of a batch of this size that this rank prepares."""
        return None if self.placement is None else self.placement.rows(size)

    def _check_rows(self) -> None:
        """Raise an error where some batch has no equal parts for all ranks."""
        placement = self.placement
        if placement is None:
            return
        placement.check(self.batch_size, "a batch")
        for size in self._group_sizes():
            if not self.drop_last and not self.pad_last and size % self.batch_size % placement.parts:
                raise ArgumentError(
                    f"DataLoader: the last batch, of {size % self.batch_size} examples, does not divide into rows for "
                    f"{placement.parts} ranks; drop_last=True drops it, pad_last=True pads it"
                )

    def _plan(self, epoch: int) -> list[Array]:
        """The examples of each batch of an epoch."""
        rng = np.random.default_rng((self.seed, epoch, 0))
        order = rng.permutation(len(self.dataset)) if self.shuffle else np.arange(len(self.dataset))
        groups = self.dataset.groups
        parts = [order] if groups is None else [order[groups[order] == group] for group in np.unique(groups)]
        batches = [part[i : i + self.batch_size] for part in parts for i in range(0, len(part), self.batch_size)]
        if self.drop_last:
            batches = [batch for batch in batches if len(batch) == self.batch_size]
        if self.shuffle and groups is not None:
            batches = [batches[i] for i in rng.permutation(len(batches))]
        return batches

    # --- preparing --------------------------------------------------------------------------------------------------

    def _placed(self, batches: Iterator[Batch]) -> Iterator[tuple[Any, ...]]:
        """The batches on the device; on their way to a GPU while the one before is worked on."""
        device = self.device
        if device is None:
            yield from batches
        elif is_host(device):
            for batch in batches:
                yield over(batch, partial(self._tensor, upload=partial(wg.tensor, copy=False)))
        else:
            on_the_way: deque[tuple[Any, ...]] = deque()
            for batch in batches:
                on_the_way.append(over(batch, partial(self._tensor, upload=partial(wg.cuda.upload, device=device))))
                if len(on_the_way) > 1:
                    yield on_the_way.popleft()
            yield from on_the_way

    def _tensor(self, array: Array, upload: Callable[[Array], Any]) -> Any:
        return upload(array) if self.placement is None else self.placement.placed(array, upload)

    def _prepared(self, tasks: list[LoadTask]) -> Iterator[Batch]:
        if not self.workers and not self.prefetch:
            for task in tasks:
                yield fetch(self.dataset, task)
            return
        ahead = max(self.prefetch, 1) * max(self.workers, 1)
        yield from self._running_workers().run(tasks, ahead)

    def _running_workers(self) -> Workers:
        """The workers that there are; in a forked child new ones, for the parent's are not the child's."""
        if self._workers is None or self._workers.owner != os.getpid():
            job = WorkerJob(_fetching, None, DEFAULT, self.seed)
            self._workers = Workers(job, self.dataset, max(self.workers, 1), "spawn" if self.workers else THREAD)
        return self._workers


def _loading(batches: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The same batches; other ranks are told that this one waits for them."""
    while True:
        with communication.during("loading data"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def fetch(dataset: Dataset, task: LoadTask) -> Batch:
    """Make the batch of a task."""
    rng = np.random.default_rng(task.seed)
    count = len(task.indices)
    size = count if task.padded_to is None else task.padded_to
    rows = np.arange(size) if task.rows is None else task.rows
    taken = np.where(rows < count, rows, 0)  # a batch is filled up with its first row
    batch = _rows_of(dataset, task.indices, taken, rng)
    if task.padded_to is None:
        return batch
    if not isinstance(batch, tuple):
        raise DTypeError(
            "DataLoader: pad_last adds an array of weights to a batch, which must be a tuple; the examples of "
            f"{type(dataset).__name__} make a {type(batch).__name__}. Return tuples, or pass drop_last=True"
        )
    return (*batch, (rows < count).astype(np.float32))


def over(batch: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to each array of a batch.

    >>> over({"x": np.ones(2), "y": (np.zeros(1),)}, np.sum)
    {'x': np.float64(2.0), 'y': (np.float64(0.0),)}
    """
    if isinstance(batch, dict):
        return {name: over(part, change) for name, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        parts = [over(part, change) for part in batch]
        return tuple(parts) if isinstance(batch, tuple) else parts
    return change(batch) if isinstance(batch, np.ndarray) else batch


def _rows_of(dataset: Dataset, indices: Array, rows: Array, rng: np.random.Generator) -> Batch:
    """Some rows of the batch with these examples, as they are in the whole."""
    if len(rows) == len(indices) and (rows == np.arange(len(rows))).all():
        return dataset.batch(indices, rng)
    if dataset.by_row:
        draws: Any = RowDraws(rng, rows, len(indices))
        return dataset.batch(indices[rows], draws)
    return over(dataset.batch(indices, rng), lambda array: array[rows])


def _fetching(dataset: Dataset) -> Fetch:
    """What a worker does."""
    return partial(fetch, dataset)
