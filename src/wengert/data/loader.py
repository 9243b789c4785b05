"""DataLoader: a data set in batches, epoch after epoch, prepared ahead of their use.

The order of an epoch and all that is random about a batch follow from the seed, the epoch and the batch's number alone:
they are the same with any number of workers, and a loader that is given the state of another goes on where that was.
With a mesh each rank has its part of the same batches (`rows`), whatever the number of ranks.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

import wengert as wg
from wengert.core import communication
from wengert.core.devices import HOST, is_host
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.forking import in_child
from wengert.core.mesh import Mesh
from wengert.data.dataset import Array, Batch, Dataset
from wengert.data.rows import RowDraws, placement_on


class LoadTask(NamedTuple):
    """What a batch is made from."""

    indices: Array
    seed: tuple[int, int, int]
    padded_to: int | None
    rows: Array | None = None  # of the batch, padded, that are wanted; None: all


class DataLoader:
    """The batches of a data set: tuples of NumPy arrays, or of tensors where a `device` is named.

    Iterating gives the batches of an epoch, or what is left of it; the next time those of the next epoch, which
    `shuffle` puts into another order. `state_dict()` tells where that is.

    With `drop_last` an epoch has full batches only. With `pad_last` the last batch is filled up to the size of those
    before it, and every batch ends with one more array of weights: 1 for an example, 0 for what fills up.

    Batches are prepared `prefetch` ahead: by a thread, or by `workers` processes that touch nothing but NumPy.
    `close()` ends them. To a GPU the next batch is copied while the one before it is worked on.

    With a `mesh` batches are tensors of all ranks, of which this rank holds and prepares its rows: they are cut along
    the mesh's axis "data". `split={1: "sequence"}` cuts axis 1 along another. Shapes, the order, and all that is random
    are those of a single process, so a state goes on in a world of any size.

    >>> import numpy as np, wengert as wg
    >>> loader = wg.data.DataLoader(wg.data.ArrayDataset(np.arange(5)), batch_size=2)
    >>> [batch[0].tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    >>> loader.state_dict()
    {'epoch': 1, 'batch': 0, 'seed': 0}
    """

    def __init__(
        self,
        dataset: Dataset,
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
                f"DataLoader takes a wg.data.Dataset, not {type(dataset).__name__}; arrays go into wg.data.ArrayDataset"
            )
        for name, value, least in (("batch_size", batch_size, 1), ("workers", workers, 0), ("prefetch", prefetch, 0)):
            if not isinstance(value, (int, np.integer)) or value < least:
                raise ArgumentError(f"DataLoader: {name} is {value!r}; it is an integer from {least} on")
        if not len(dataset):
            raise ArgumentError("DataLoader: the data set is empty")
        if drop_last and pad_last:
            raise ArgumentError("DataLoader: the last batch is dropped or padded, not both")
        self.dataset = dataset
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
        self._pool: Executor | None = None
        _loaders.add(self)
        if not len(self):
            raise ArgumentError(
                f"DataLoader: {len(dataset)} examples give no full batch of {batch_size}, and drop_last drops the rest"
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
        """Which batch comes next, of which epoch, and the seed that the order follows from."""
        return {"epoch": self.epoch, "batch": self.next_batch, "seed": self.seed}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on where `state_dict()` was taken, on however many ranks. A state without a seed keeps the loader's."""
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
        """End the workers."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

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
        """Raise where some batch has no equal parts for all ranks."""
        placement = self.placement
        if placement is None:
            return
        placement.check(self.batch_size, "a batch")
        for size in self._group_sizes():
            if not self.drop_last and not self.pad_last and size % self.batch_size % placement.parts:
                raise ArgumentError(
                    f"DataLoader: the last batch, of {size % self.batch_size} examples, does not divide into rows for "
                    f"{placement.parts} ranks; drop_last=True drops it, pad_last=True fills it up"
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
                yield tuple(self._tensor(array, partial(wg.tensor, copy=False)) for array in batch)
        else:
            on_the_way: deque[tuple[Any, ...]] = deque()
            for batch in batches:
                on_the_way.append(tuple(self._tensor(array, partial(wg.cuda.upload, device=device)) for array in batch))
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
        pool = self._running_pool()
        ahead = max(self.prefetch, 1) * max(self.workers, 1)
        pending: deque[Future[Any]] = deque()
        try:
            for task in tasks:
                pending.append(self._submitted(pool, task))
                if len(pending) > ahead:
                    yield self._result(pending.popleft())
            while pending:
                yield self._result(pending.popleft())
        finally:
            for future in pending:
                future.cancel()

    def _running_pool(self) -> Executor:
        if self._pool is None and self.workers:
            context = get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, context, initializer=_begin, initargs=(self.dataset,))
        elif self._pool is None:
            self._pool = ThreadPoolExecutor(1, "wengert-loader")
        return self._pool

    def _submitted(self, pool: Executor, task: LoadTask) -> Future[Any]:
        return pool.submit(_fetch_here, task) if self.workers else pool.submit(fetch, self.dataset, task)

    def _result(self, future: Future[Any]) -> Batch:
        try:
            return future.result()
        except BrokenProcessPool:
            self.close()
            raise RuntimeError(
                "a worker process of the DataLoader ended abruptly: out of memory, killed, or the data set cannot be "
                "sent to it. With workers=0 the error shows"
            ) from None


_loaders: WeakSet[DataLoader] = WeakSet()


def _begin_anew() -> None:
    """Forget the pools of a parent, in a forked child: their threads and processes are not the child's."""
    for loader in list(_loaders):
        loader._pool = None


in_child(_begin_anew)


def _loading(batches: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The same batches; other ranks are told that this one waits for them."""
    while True:
        with communication.during("loading data"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def fetch(dataset: Dataset, task: LoadTask) -> Batch:
    """The batch of a task."""
    rng = np.random.default_rng(task.seed)
    count = len(task.indices)
    size = count if task.padded_to is None else task.padded_to
    rows = np.arange(size) if task.rows is None else task.rows
    taken = np.where(rows < count, rows, 0)  # a batch is filled up with its first row
    batch = _rows_of(dataset, task.indices, taken, rng)
    return batch if task.padded_to is None else (*batch, (rows < count).astype(np.float32))


def _rows_of(dataset: Dataset, indices: Array, rows: Array, rng: np.random.Generator) -> Batch:
    """Some rows of the batch with these examples, as they are in the whole."""
    if len(rows) == len(indices) and (rows == np.arange(len(rows))).all():
        return dataset.batch(indices, rng)
    if dataset.by_row:
        draws: Any = RowDraws(rng, rows, len(indices))
        return dataset.batch(indices[rows], draws)
    return tuple(array[rows] for array in dataset.batch(indices, rng))


# --- in a worker process --------------------------------------------------------------------------------------------

_dataset: Dataset | None = None


def _begin(dataset: Dataset) -> None:
    global _dataset
    _dataset = dataset
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that trains


def _fetch_here(task: LoadTask) -> Batch:
    assert _dataset is not None
    return fetch(_dataset, task)
