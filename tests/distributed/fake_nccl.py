"""NCCL that is not there: the functions of `backends.comm.nccl.NcclFunctions` over the memory of emulated GPUs.

Ranks are threads of one process. What is called inside of `together` is one launch; the n-th launch of a communicator
waits for the n-th of all other members, whose calls have to be the same. While a GPU captures, a launch becomes a node
of the graph.
"""

from __future__ import annotations

import ctypes
import secrets
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from wengert.backends.comm.nccl import NcclEngine
from wengert.core.communication import current
from wengert.core.dtypes import bfloat16

DTYPES = (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64, bfloat16)
TIMEOUT = 60.0


class RankDriver(EmulatedDriver):
    """The emulated GPU of a rank; what one of them has compiled the others have."""

    contracts = True
    compiled: ClassVar[dict[tuple[str, str], Any]] = {}
    compiling = threading.Lock()

    def kernels(self, launches):
        """One rank compiles at a time."""
        with self.compiling:
            self.functions = self.compiled
            return super().kernels(launches)

    def launch(self, function, shape, arguments, cooperative=False):
        """One rank's kernel at a time: the emulator's threads are those of the process."""
        if self.captured is not None:
            super().launch(function, shape, arguments, cooperative)
            return
        with self.compiling:
            super().launch(function, shape, arguments, cooperative)


class Net:
    """What connects the ranks: notes on a board, and launches that meet."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.notes: dict[str, str] = {}
        self.meetings: dict[tuple[bytes, int], dict[int, list[Any]]] = defaultdict(dict)
        self.aborted = False

    def wait_for(self, there: Any) -> None:
        """Wait, with the lock held."""
        if not self.changed.wait_for(lambda: self.aborted or there(), TIMEOUT) or self.aborted:
            raise AssertionError("a rank did not come")


class FakeBoard:
    """A rank's control plane."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.told: list[tuple[Any, ...]] = []

    def publish(self, key: str, value: str) -> None:
        """Have a text ready."""
        with self.net.changed:
            self.net.notes[key] = value
            self.net.changed.notify_all()

    def fetch(self, key: str) -> str:
        """Wait for a text."""
        with self.net.changed:
            self.net.wait_for(lambda: key in self.net.notes)
            return self.net.notes[key]

    def entering(self, *told: Any) -> None:
        """Noted."""
        self.told.append(told)

    def left(self) -> None:
        """Noted."""
        self.told.append(())


class FakeComm:
    """A communicator of one rank."""

    def __init__(self, key: bytes, rank: int, size: int) -> None:
        self.key, self.rank, self.size, self.launches = key, rank, size, 0


class FakeNccl:
    """The functions of NCCL, on one emulated GPU."""

    version = 23203

    def __init__(self, net: Net, driver: EmulatedDriver) -> None:
        self.net, self.driver = net, driver
        self.calls: list[Any] = []
        self.log: list[str] = []

    def unique_id(self) -> bytes:
        """Something that no other has."""
        return secrets.token_bytes(128)

    def connected(self, size: int, rank: int, unique_id: bytes) -> FakeComm:
        """A communicator."""
        return FakeComm(unique_id, rank, size)

    def abort(self, comm: FakeComm) -> None:
        """All that wait raise."""
        with self.net.changed:
            self.net.aborted = True
            self.net.changed.notify_all()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Inside, calls are collected."""
        self.calls = []
        yield
        calls = self.calls
        if self.driver.captured is not None:
            self.driver.captured.append(lambda: self._launch(calls))
        else:
            self._launch(calls)

    def all_reduce(self, source, result, count, kind, op, comm, stream) -> None:
        self.calls.append((comm, "all_reduce", (count, kind, op), source, count, result, count, kind))

    def all_gather(self, source, result, count, kind, comm, stream) -> None:
        self.calls.append((comm, "all_gather", (count, kind), source, count, result, count * comm.size, kind))

    def reduce_scatter(self, source, result, count, kind, op, comm, stream) -> None:
        whole = count * comm.size
        self.calls.append((comm, "reduce_scatter", (count, kind, op), source, whole, result, count, kind))

    def send(self, source, count, kind, peer, comm, stream) -> None:
        self.calls.append((comm, "send", peer, source, count, 0, 0, kind))

    def recv(self, result, count, kind, peer, comm, stream) -> None:
        self.calls.append((comm, "recv", peer, 0, 0, result, count, kind))

    def met(self, comm: FakeComm, mine: list[Any]) -> dict[int, list[Any]]:
        """What all members bring to a launch, by rank."""
        with self.net.changed:
            meeting = self.net.meetings[comm.key, comm.launches]
            comm.launches += 1
            meeting[comm.rank] = mine
            self.net.changed.notify_all()
            self.net.wait_for(lambda: len(meeting) == comm.size)
        return meeting

    def _launch(self, calls: list[Any]) -> None:
        """Meet the other members, and write what comes of it."""
        comm = calls[0][0]
        assert all(call[0] is comm for call in calls)
        self.log += [call[1] for call in calls]
        mine = [(name, said, _read(source, n, kind)) for _, name, said, source, n, _, _, kind in calls]
        meeting = self.met(comm, mine)
        received = dict.fromkeys(range(comm.size), 0)
        for place, (_, name, said, _, _, result, count, _) in enumerate(calls):
            if name == "send":
                continue
            if name == "recv":
                sent = [d for n, peer, d in meeting[said] if n == "send" and peer == comm.rank]
                found = sent[received[said]]
                received[said] += 1
            else:
                each = [meeting[k][place] for k in range(comm.size)]
                assert len({(n, s) for n, s, _ in each}) == 1, each
                found = _combined(name, said, [values for *_, values in each], comm.rank)
            assert found.size == count, (name, found.size, count)
            _write(result, found)


def _combined(name: str, said: Any, values: list[np.ndarray], rank: int) -> np.ndarray:
    if name == "all_gather":
        return np.concatenate(values)
    total = values[-1]
    for value in reversed(values[:-1]):  # an order of its own, which is not that of tree_sum
        total = np.maximum(total, value) if said[2] == 2 else total + value
    return total if name == "all_reduce" else total[rank * said[0] :][: said[0]]


def _read(address: int, count: int, kind: int) -> np.ndarray:
    dtype = np.dtype(DTYPES[kind])
    return np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype).copy()


def _write(address: int, values: np.ndarray) -> None:
    values = np.ascontiguousarray(values)
    ctypes.memmove(address, values.ctypes.data, values.nbytes)


class ByRank:
    """The engine of whichever rank's thread asks."""

    def __init__(self, engines: list[NcclEngine]) -> None:
        self.engines = engines

    def find(self, group):
        return self.engines[current.rank].find(group)

    def launched(self, *told):
        self.engines[current.rank].launched(*told)

    def drain(self):
        self.engines[current.rank].drain()


def engines(drivers: list[EmulatedDriver]) -> list[NcclEngine]:
    """An engine for each rank, the GPU of rank k being "cuda:k"."""
    net, made = Net(), []
    for rank, driver in enumerate(drivers):
        engine = NcclEngine(rank, len(drivers), FakeBoard(net), FakeNccl(net, driver))
        engine.device = f"cuda:{rank}"
        made.append(engine)
    return made


def on_gpu(array: np.ndarray, rank: int) -> wg.Tensor:
    """An array on the GPU of a rank."""
    return wg.tensor(array, device=f"cuda:{rank}")
