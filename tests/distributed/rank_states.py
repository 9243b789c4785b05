"""Several ranks in one process: states of which each holds its blocks, and threads that make collective calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.placement import Placement, ShardedArray, block_of
from wengert.distributed import shards
from wengert.ops.core import data
from wengert.tensor import Tensor

Wholes = dict[str, np.ndarray]
Placements = dict[str, Placement]


def placed(array: np.ndarray, placement: Placement | None, rank: int) -> Tensor:
    """A tensor of which a rank holds its block."""
    if placement is None:
        return wg.tensor(array)
    return Tensor(data(ShardedArray(np.array(block_of(array, placement, rank)), array.shape, placement)))


def state_of(wholes: Wholes, placements: Placements, rank: int, **others: Any) -> dict[str, Any]:
    """A rank's state: tensors by name, and whatever else."""
    return {"model": {name: placed(array, placements.get(name), rank) for name, array in wholes.items()}, **others}


def save_by(folder: Path, states: list[Any], step: int | None = None, chunk: int = shards.CHUNK) -> None:
    """Save what each rank holds, one rank after another."""
    shards.prepare(folder)
    nonce = shards.new_nonce()
    ranks = len(states)
    snapshots = [shards.snapshot(state, rank, ranks) for rank, state in enumerate(states)]
    assert len({snapshot.digest(step) for snapshot in snapshots}) == 1
    with shards.saving(folder):
        for rank, snapshot in enumerate(snapshots):
            shards.write_shard(folder, snapshot.blocks, rank, ranks, nonce, chunk)
        shards.commit(folder, snapshots[0], ranks, nonce, step)


class ThreadGroup:
    """A communicator whose ranks are threads; it can gather, which is all that a checkpoint asks."""

    def __init__(self, rank: int, size: int, shared: tuple[threading.Barrier, list[Any]]) -> None:
        self.rank, self.size = rank, size
        self._barrier, self._slots = shared

    def all_gather(self, x: np.ndarray, axis: int) -> np.ndarray:
        self._slots[self.rank] = x
        self._barrier.wait(30)
        found = np.concatenate(self._slots, axis)
        self._barrier.wait(30)
        return found


def in_threads(ranks: int, run: Callable[[Any], Any]) -> list[Any]:
    """What each rank returns or raises."""
    shared = (threading.Barrier(ranks), [None] * ranks)
    results: list[Any] = [None] * ranks

    def one(rank: int) -> None:
        try:
            results[rank] = run(ThreadGroup(rank, ranks, shared))
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def same(found: Any, expected: Any) -> bool:
    """Whether two arrays have the same type and bits."""
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()
