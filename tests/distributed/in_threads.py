"""Ranks as threads of one process, over queues: every collective of `OrderedCommunicator` without an engine."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.backends.comm.ordered import Message, OrderedCommunicator

TIMEOUT = 20.0  # seconds


class Queues:
    """A queue for every pair of ranks and tag."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.queues: dict[Any, queue.Queue[bytes]] = defaultdict(queue.Queue)

    def of(self, source: int, target: int, tag: int) -> queue.Queue[bytes]:
        """The messages from one rank to another."""
        with self.lock:
            return self.queues[source, target, tag]


class ThreadCommunicator(OrderedCommunicator):
    """One rank's end of a group of threads."""

    def __init__(self, queues: Queues, rank: int, size: int) -> None:
        super().__init__("threads", rank, range(size))
        self.queues = queues

    def transfer(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        """Put and get messages; what a real engine asks of them is checked."""
        assert 0 <= tag < 1 << 15
        for k, array in sends:
            assert k != self.rank and array.flags.c_contiguous and array.size
            self.queues.of(self.rank, k, tag).put(array.tobytes())
        for k, array in receives:
            assert k != self.rank and array.flags.c_contiguous and array.flags.writeable
            message = np.frombuffer(self.queues.of(k, self.rank, tag).get(timeout=TIMEOUT), np.uint8)
            array.reshape(-1).view(np.uint8)[:] = message


def on_ranks(size: int, function: Callable[[ThreadCommunicator], Any]) -> list[Any]:
    """What a function gives on every rank; nothing may be left that no rank asked for."""
    queues, results = Queues(), [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = function(ThreadCommunicator(queues, rank, size))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    assert all(left.empty() for left in queues.queues.values())
    return results
