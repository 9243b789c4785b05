"""Ranks as forked processes that reach each other over sockets: every collective, without MPI or a second import."""

from __future__ import annotations

import os
import pickle
import socket
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from wengert.backends.comm.ordered import Message, OrderedCommunicator
from wengert.core.communication import current
from wengert.core.mesh import Group

PATIENCE = 120.0  # seconds that a busy machine may take for anything
Ends = dict[tuple[int, int], socket.socket]


class SocketCommunicator(OrderedCommunicator):
    """One rank's end of a group, over a socket to each other rank."""

    def __init__(self, ends: Ends, rank: int, group: Group) -> None:
        members = group.members(rank)
        super().__init__(repr(group), members.index(rank), members)
        self._ends, self._world_rank = ends, rank

    def transfer(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        """Send by a thread, so that no two ranks wait for each other to read."""
        sender = threading.Thread(target=self._send, args=(sends,))
        sender.start()
        for k, array in receives:
            self._receive(k, memoryview(array.reshape(-1).view("u1")))
        sender.join()

    def _end(self, k: int) -> socket.socket:
        return self._ends[self._world_rank, self.members[k]]

    def _send(self, sends: Sequence[Message]) -> None:
        for k, array in sends:
            self._end(k).sendall(array.tobytes())

    def _receive(self, k: int, into: memoryview) -> None:
        while into:
            count = self._end(k).recv_into(into)
            if not count:
                raise EOFError(f"rank {self.members[k]} is gone")
            into = into[count:]


def on_ranks(ranks: int, run: Callable[[int], Any], folder: Path) -> list[Any]:
    """What a function gives on each rank; an error on any of them fails the test."""
    context = get_context("fork")
    ends: Ends = {}
    for a in range(ranks):
        for b in range(a):
            ends[a, b], ends[b, a] = socket.socketpair()
    for end in ends.values():
        end.settimeout(PATIENCE)

    def one(rank: int) -> None:
        for (mine, _), end in ends.items():
            if mine != rank:
                end.close()
        current.rank, current.size = rank, ranks
        current.find = lambda group: SocketCommunicator(ends, rank, group) if ranks > 1 else None
        try:
            result = run(rank)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        (folder / f"result-{rank}.pickle").write_bytes(pickle.dumps(result))

    children = [context.Process(target=one, args=(rank,)) for rank in range(ranks)]
    for child in children:
        child.start()
    for end in ends.values():
        end.close()
    for child in children:
        child.join(PATIENCE)
        if child.exitcode is None:
            child.kill()
            child.join()
    assert [child.exitcode for child in children] == [0] * ranks
    return [pickle.loads((folder / f"result-{rank}.pickle").read_bytes()) for rank in range(ranks)]
