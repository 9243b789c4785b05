"""Ranks as forked processes of this machine, with a communicator over shared memory that can gather a number."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import numpy as np

from wengert.core.communication import current


class ProcessGroup:
    """One rank's end: what it gives stands in memory that all share."""

    def __init__(self, rank: int, size: int, barrier: Any, slots: Any) -> None:
        self.rank, self.size, self._barrier, self._slots = rank, size, barrier, slots

    def all_gather(self, x: np.ndarray, axis: int) -> np.ndarray:
        self._slots[self.rank] = int(x[0])
        self._barrier.wait(20)
        found = np.array(list(self._slots), np.int64)
        self._barrier.wait(20)
        return found


def in_processes(ranks: int, run: Callable[[int], None]) -> list[int]:
    """Run a function on each rank of a world; the exit statuses, of a process that a signal ended its negative."""
    children = start(ranks, run)
    for child in children:
        child.join(60)
    return [child.exitcode for child in children]


def start(ranks: int, run: Callable[[int], None]) -> list[Any]:
    """The processes of a world, which run a function."""
    context = get_context("fork")
    barrier, slots = context.Barrier(ranks), context.Array("q", ranks)

    def one(rank: int) -> None:
        current.rank, current.size = rank, ranks
        group: Any = ProcessGroup(rank, ranks, barrier, slots)
        current.find = lambda _: group
        try:
            run(rank)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    children = [context.Process(target=one, args=(rank,)) for rank in range(ranks)]
    for child in children:
        child.start()
    return children
