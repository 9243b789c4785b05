"""NCCL, through nccl4py: collectives of values on GPUs, enqueued on the stream of each rank's GPU.

Communicators are connected when a group is first used; NCCL's id travels over the control plane, so that MPI is not
needed. In a world with NCCL only, arrays on the host go through the GPU as well (`NcclCommunicator`): they are small
and rare.

NCCL has no deadline, and a kernel whose partner is gone spins forever. Launches are watched (`launches`), so that a
late replay is reported like a late collective. When a rank is lost, `abort` makes NCCL's kernels give up, which
releases the main thread wherever it waits for the GPU.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import numpy as np

from wengert.backends.comm import thread
from wengert.backends.comm.launches import Launches
from wengert.backends.comm.mpi import wait_for_news
from wengert.backends.comm.ordered import Message, OrderedCommunicator
from wengert.core import devices
from wengert.core.code import Location
from wengert.core.communication import DeviceCommunicator, Watcher, during
from wengert.core.errors import DistributedError
from wengert.core.mesh import Group

LEAST = 2_12_00
"""The version of NCCL from which on all that is used here is there."""
MANY_ON_ONE = 2_30_00
"""The version from which on several ranks can share a GPU."""

_KINDS = {
    **{"int8": (0, 1), "uint8": (1, 1), "bool": (1, 1), "int32": (2, 1), "uint32": (3, 1), "int64": (4, 1)},
    **{"uint64": (5, 1), "float16": (6, 1), "float32": (7, 1), "float64": (8, 1), "bfloat16": (9, 1)},
    **{"complex64": (7, 2), "complex128": (8, 2)},
}
"""By dtype: NCCL's number for its elements, and how many of these it has."""
_BYTE, _SUM, _MAX = 1, 0, 2
_SPIN, _PAUSE = 3e-4, 5e-5  # seconds in which a transfer is polled without a pause, and between polls behind that


class Board(Watcher, Protocol):
    """The control plane as an engine sees it: a watcher, and short texts published to other ranks."""

    def publish(self, key: str, value: str) -> None:
        """Publish a text that any rank can fetch."""
        ...

    def fetch(self, key: str) -> str:
        """The text that a rank published; waits for it."""
        ...


class NcclFunctions:
    """The NCCL functions in use, over addresses and numbers."""

    def __init__(self) -> None:
        from nccl.bindings import nccl

        self.nccl = nccl
        self.version = int(nccl.get_version())

    def unique_id(self) -> bytes:
        """The id by which the members of a new communicator find each other."""
        return bytes(self.nccl.get_unique_id())

    def connected(self, size: int, rank: int, unique_id: bytes) -> Any:
        """A communicator on the current GPU; returns when all members have joined."""
        return self.nccl.comm_init_rank_scalable(size, rank, 1, bytearray(unique_id), 0)

    def abort(self, comm: Any) -> None:
        """Make the kernels of a communicator give up. If graphs have captured it, this does not return."""
        self.nccl.comm_abort(comm)

    @contextmanager
    def together(self) -> Iterator[None]:
        """A context that collects calls and enqueues them together at its end."""
        self.nccl.group_start()
        try:
            yield
        finally:
            self.nccl.group_end()

    def all_reduce(self, source: int, result: int, count: int, kind: int, op: int, comm: Any, stream: int) -> None:
        """Reduce over all ranks."""
        self.nccl.all_reduce(source, result, count, kind, op, comm, stream)

    def all_gather(self, source: int, result: int, count: int, kind: int, comm: Any, stream: int) -> None:
        """Gather on all ranks."""
        self.nccl.all_gather(source, result, count, kind, comm, stream)

    def reduce_scatter(self, source: int, result: int, count: int, kind: int, op: int, comm: Any, stream: int) -> None:
        """Reduce over all ranks, a block on each."""
        self.nccl.reduce_scatter(source, result, count, kind, op, comm, stream)

    def send(self, source: int, count: int, kind: int, peer: int, comm: Any, stream: int) -> None:
        """Send to a rank."""
        self.nccl.send(source, count, kind, peer, comm, stream)

    def recv(self, result: int, count: int, kind: int, peer: int, comm: Any, stream: int) -> None:
        """Receive from a rank."""
        self.nccl.recv(result, count, kind, peer, comm, stream)


@functools.cache
def missing() -> str:
    """What is missing for NCCL, and how to install it; empty if nothing is."""
    if importlib.util.find_spec("nccl") is None:
        return "nccl4py is not installed: pip install 'wengert[nccl]'"
    try:
        version = NcclFunctions().version
    except Exception as error:
        return f"libnccl.so.2 was not found ({_first_line(error)}): pip install nvidia-nccl-cu13"
    if version < LEAST:
        return f"NCCL {version_text(version)} is too old: pip install -U nvidia-nccl-cu13"
    return "" if devices.gpus() else "there is no GPU"


def version_text(version: int) -> str:
    """NCCL's version as text.

    >>> version_text(23203)
    '2.32.3'
    """
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class NcclEngine:
    """NCCL in this process: a communicator for every group of ranks, on this rank's GPU."""

    name = "nccl"

    def __init__(self, rank: int, size: int, board: Board, library: Any = None) -> None:
        self.rank, self.size, self.board = rank, size, board
        self.device = f"{devices.CUDA}:0"  # the rank's own, whatever number the machine gives it
        for name in (
            "NCCL_LOCAL_REGISTER",
            "NCCL_GRAPH_REGISTER",
        ):  # programs' memory is not to be had by other processes
            os.environ.setdefault(name, "0")
        self.nccl: Any = NcclFunctions() if library is None else library
        self.library = f"NCCL {version_text(self.nccl.version)}"
        self.ended = ""  # why nothing is launched any more
        self.launches = Launches(board)
        self._comms: dict[tuple[int, ...], Any] = {}
        self._made: list[NcclCommunicator] = []
        self._ends: dict[Group, NcclEnd] = {}
        self._gathers = 0
        atexit.register(self._at_exit, os.getpid())

    @property
    def driver(self) -> Any:
        """The GPU of this rank, opened on first use."""
        from wengert.backends.cuda.memory import opened  # which a world of CPUs does not load

        return opened(self.device)

    def gather(self, value: Any) -> list[Any]:
        """A small JSON value from every rank, on each of them; the GPU is not involved."""
        self._gathers += 1
        self.board.publish(f"gathered {self._gathers} {self.rank}", json.dumps(value))
        return [json.loads(self.board.fetch(f"gathered {self._gathers} {rank}")) for rank in range(self.size)]

    def communicator(self, name: str, members: Sequence[int]) -> NcclCommunicator:
        """This rank's end of a group, for arrays on the host; `name` must be the same on all of them."""
        made = NcclCommunicator(self, name, members)
        self._made.append(made)
        return made

    # --- values on the GPU ----------------------------------------------------------------------------------------

    def find(self, group: Group) -> DeviceCommunicator:
        """This rank's end of a group, for values on its GPU."""
        found = self._ends.get(group)
        if found is None:
            found = self._ends[group] = NcclEnd(self, group.members(self.rank))
        return found

    def launched(self, driver: Any, name: str, count: int, size: int, location: Location) -> None:
        """Record that collectives were enqueued on the stream."""
        self.check()
        self.launches.add(driver, name, count, size, location)

    def drain(self) -> None:
        """Return when all that was launched is done."""
        self.launches.drain()

    def check(self) -> None:
        """Raise an error if nothing may be launched any more."""
        if self.ended:
            raise DistributedError(f"a collective on a GPU: {self.ended}")

    def comm(self, members: Sequence[int]) -> Any:
        """NCCL's communicator of some ranks; connecting it is collective."""
        self.check()
        key = tuple(members)
        if key not in self._comms:
            self._comms[key] = self._connected(key)
        return self._comms[key]

    def _connected(self, members: tuple[int, ...]) -> Any:
        """Meet the other members within the control plane's deadline, and connect in a thread.

        A C call that waits for a rank that is lost in the meantime could not be interrupted.
        """
        name, board = ",".join(map(str, members)), self.board
        if self.rank == members[0]:
            board.publish(f"nccl {name}", self.nccl.unique_id().hex())
        board.publish(f"nccl {name} {self.rank}", "here")
        for other in members:
            board.fetch(f"nccl {name} {other}")
        unique_id = bytes.fromhex(board.fetch(f"nccl {name}"))
        driver = self.driver
        self.drain()  # which can be interrupted
        driver.synchronize()  # connecting allocates memory, which waits for all kernels anyway

        def connect() -> Any:
            driver.make_current()
            return self.nccl.connected(len(members), members.index(self.rank), unique_id)

        with during("starting"), _as_ours():
            return thread.begin(connect).result()

    # --- the end --------------------------------------------------------------------------------------------------

    def end(self, why: str) -> None:
        """Stop all launching."""
        for made in self._made:
            made.ended = made.ended or why
        self.ended = self.ended or why

    def abort(self) -> None:
        """A rank is lost: make kernels that wait for it give up. A communicator that graphs hold is unusable after."""
        self.end("a rank was lost")
        for comm in self._comms.values():
            threading.Thread(target=self._abort, args=(comm,), name="wengert abort", daemon=True).start()

    def _abort(self, comm: Any) -> None:
        with suppress(Exception):
            self.driver.make_current()
            self.nccl.abort(comm)

    def _at_exit(self, process: int) -> None:
        """Finish this rank's launches before it exits, because other ranks wait for its part."""
        if os.getpid() == process and not self.ended:
            self.drain()


@contextmanager
def _as_ours() -> Iterator[None]:
    """A context that turns NCCL's exceptions into ours."""
    try:
        yield
    except DistributedError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "nccl":
            wait_for_news()
            raise DistributedError(f"NCCL reports: {_first_line(error)}") from error
        raise


class NcclEnd:
    """One rank's end of a group, for values on its GPU: the protocol `DeviceCommunicator`."""

    def __init__(self, engine: NcclEngine, members: Sequence[int]) -> None:
        self.engine, self.members = engine, members
        self.rank, self.size = members.index(engine.rank), len(members)

    def _put(self, call: Callable[[Any, Any], None]) -> None:
        """Enqueue NCCL calls together."""
        comm, nccl = self.engine.comm(self.members), self.engine.nccl
        with _as_ours(), nccl.together():
            call(nccl, comm)

    def all_reduce(
        self, sources: Sequence[int], results: Sequence[int], counts: Sequence[int], dtype: Any, stream: int
    ) -> None:
        """The sums over the ranks of several values, in one launch."""
        kind, parts = _KINDS[np.dtype(dtype).name]
        op = _MAX if np.dtype(dtype).kind == "b" else _SUM

        def call(nccl: Any, comm: Any) -> None:
            for source, result, count in zip(sources, results, counts):
                if count:
                    nccl.all_reduce(source, result, count * parts, kind, op, comm, stream)

        self._put(call)

    def all_reduce_max(self, source: int, result: int, count: int, dtype: Any, stream: int) -> None:
        """The maximum over the ranks, of integers."""
        kind, _ = _KINDS[np.dtype(dtype).name]
        if count:
            self._put(lambda nccl, comm: nccl.all_reduce(source, result, count, kind, _MAX, comm, stream))

    def all_gather(self, source: int, result: int, size: int, stream: int) -> None:
        """The bytes of all ranks, concatenated."""
        if size:
            self._put(lambda nccl, comm: nccl.all_gather(source, result, size, _BYTE, comm, stream))

    def reduce_scatter(self, source: int, result: int, count: int, dtype: Any, stream: int) -> None:
        """This rank's block of the sum over the ranks."""
        kind, parts = _KINDS[np.dtype(dtype).name]
        if count:
            self._put(lambda nccl, comm: nccl.reduce_scatter(source, result, count * parts, kind, _SUM, comm, stream))

    def ppermute(self, source: int, result: int, size: int, shift: int, stream: int) -> None:
        """The bytes of the rank `shift` positions before this one."""

        def call(nccl: Any, comm: Any) -> None:
            nccl.send(source, size, _BYTE, (self.rank + shift) % self.size, comm, stream)
            nccl.recv(result, size, _BYTE, (self.rank - shift) % self.size, comm, stream)

        if size:
            self._put(call)

    def all_to_all(self, source: int, result: int, size: int, stream: int) -> None:
        """The block that each rank has for this one."""

        def call(nccl: Any, comm: Any) -> None:
            for other in range(self.size):
                nccl.send(source + other * size, size, _BYTE, other, comm, stream)
                nccl.recv(result + other * size, size, _BYTE, other, comm, stream)

        if size:
            self._put(call)


class NcclCommunicator(OrderedCommunicator):
    """One rank's end of a group, for arrays on the host, which are sent through the GPUs."""

    def __init__(self, engine: NcclEngine, name: str, members: Sequence[int]) -> None:
        super().__init__(name, members.index(engine.rank), members)
        self.engine = engine

    def transfer(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        """Send and receive messages."""
        engine, comm, driver = self.engine, self.engine.comm(self.members), self.engine.driver
        placed: list[int] = []
        try:
            with driver.lock:
                driver.make_current()
                for _, array in (*sends, *receives):
                    placed.append(driver.allocate(array.nbytes))
                stream = int(driver.stream)
                for (_, array), place in zip(sends, placed):
                    driver.upload(place, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
                with _as_ours(), engine.nccl.together():
                    for (to, array), place in zip(sends, placed):
                        engine.nccl.send(place, array.nbytes, _BYTE, to, comm, stream)
                    for (source, array), place in zip(receives, placed[len(sends) :]):
                        engine.nccl.recv(place, array.nbytes, _BYTE, source, comm, stream)
                done = driver.event()
            _wait(done.is_done)
            for (_, array), place in zip(receives, placed[len(sends) :]):
                driver.download(array.reshape(-1).view(np.uint8), place)
        except BaseException:
            engine.end("an earlier collective failed, so data sent by the other ranks since then is lost")
            raise
        finally:
            if not engine.ended:  # pending messages may still write there
                for place in placed:
                    driver.free(place)


def _wait(is_done: Callable[[], bool]) -> None:
    """Poll, so that a signal or the control plane can interrupt."""
    late = time.perf_counter() + _SPIN
    while not is_done():
        if time.perf_counter() > late:
            time.sleep(_PAUSE)
