"""MPI, through mpi4py, for processes that `mpiexec` or `srun` started.

Messages use non-blocking MPI calls, and waiting for them is a loop in Python. So a signal, or another thread's news of
a lost rank, can raise while this rank waits, which a blocking MPI call would prevent. MPI may then still write to the
memory of pending messages, so that memory is kept until the process ends, and nothing more is sent.

MPI is started at most once per process, and finalized when the process ends.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.backends.comm.ordered import Message, OrderedCommunicator
from wengert.core import communication
from wengert.core.communication import Array
from wengert.core.errors import DistributedError

_PAUSE = 5e-5  # seconds between polls where a rank does not spin
_LONGEST = 1 << 30  # bytes of a message: MPI counts with 31 bits
_NEWS = 2.0  # seconds in which the control plane may say which rank is lost, after MPI has said that one is


class Patience:
    """How long a rank polls without a pause, in seconds: while it spins, no other rank can use its core.

    A chunk takes less than `LONGEST`; if every rank has its own core, spinning notices its arrival immediately: 16 MB
    over two ranks took 2 ms, and 13 ms with pauses. On busy cores the reverse holds: a spinning rank delays the rank it
    waits for (4 bytes took 0.6 ms, and 0.1 ms with pauses). After several waits that outlast it, spinning stops for a
    while.
    """

    LONGEST = 3e-4
    IN_A_ROW, WHILE = 3, 64  # waits

    def __init__(self) -> None:
        self.has_core = True  # whether there is a core for each rank
        self._outlasted = 0
        self._resting = 0

    def spin(self) -> float:
        """How long to spin in the wait that begins."""
        if self._resting:
            self._resting -= 1
            return 0.0
        return self.LONGEST if self.has_core else 0.0

    def waited(self, spin: float, outlasted: bool) -> None:
        """Record that a wait ended, within its spin or later."""
        if not spin:
            return
        self._outlasted = self._outlasted + 1 if outlasted else 0
        if self._outlasted == self.IN_A_ROW:
            self._outlasted, self._resting = 0, self.WHILE


class MpiEngine:
    """MPI in this process: the world, and communicators over some of its ranks."""

    name = "mpi"

    def __init__(self) -> None:
        self.mpi = _imported()
        everyone = self.mpi.COMM_WORLD
        self.rank: int = everyone.Get_rank()
        self.size: int = everyone.Get_size()
        version = str(self.mpi.Get_library_version()).splitlines()[0].split(",")[0]
        self.library = " ".join(version.replace("Version:", "").split())
        self.patience = Patience()
        self.broken = False  # whether abandoned messages are still pending
        self._messages: Any = None
        self._made: list[MpiCommunicator] = []
        self._kept: list[Any] = []

    def connect(self) -> None:
        """Create a communicator separate from other users of MPI. All ranks must call this."""
        self._messages = self.mpi.COMM_WORLD.Dup()
        self._messages.Set_errhandler(self.mpi.ERRORS_RETURN)  # an error raises, instead of ending the process
        atexit.register(self._at_exit, os.getpid())

    def gather(self, value: Any) -> list[Any]:
        """A small value from every rank, on each of them."""
        return list(self._messages.allgather(value))

    def communicator(self, name: str, members: Sequence[int]) -> MpiCommunicator:
        """This rank's end of a group of ranks; `name` must be the same on all of them."""
        made = MpiCommunicator(self, name, members)
        self._made.append(made)
        return made

    def end(self, why: str) -> None:
        """Stop all sending."""
        for made in self._made:
            made.ended = made.ended or why

    def _at_exit(self, process: int) -> None:
        """Finalize MPI. If this rank failed, abort the others too, because finalizing would wait for them."""
        if os.getpid() != process or self.mpi.Is_finalized():
            return
        if not self.broken and not hasattr(sys, "last_value"):
            self.mpi.Finalize()
        elif communication.watcher is None:  # otherwise the control plane tells the others
            sys.stdout.flush()
            sys.stderr.flush()
            self.mpi.COMM_WORLD.Abort(1)

    # --- messages -------------------------------------------------------------------------------------------------

    def start(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> list[Any]:
        """Start messages to and from ranks of the world."""
        everyone, byte = self._messages, self.mpi.BYTE
        started = [everyone.Irecv([part, byte], k, tag) for k, array in receives for part in _pieces(array)]
        started += [everyone.Isend([part, byte], k, tag) for k, array in sends for part in _pieces(array)]
        return started

    def wait(self, started: list[Any], memory: Any) -> None:
        """Wait for messages; if anything raises meanwhile, they and their memory are left to MPI."""
        done = self.mpi.Request.Testall
        try:
            if not done(started):
                self._poll(done, started)
        except BaseException as error:
            self._kept.append((started, memory))
            self.broken = True
            self.end("an earlier collective failed, so data sent by the other ranks since then is lost")
            if isinstance(error, self.mpi.Exception):
                wait_for_news()
                raise DistributedError(f"MPI reports: {error.Get_error_string()}") from error
            raise

    def _poll(self, done: Callable[[list[Any]], bool], started: list[Any]) -> None:
        spin = self.patience.spin()
        late = time.perf_counter() + spin
        while time.perf_counter() < late:
            if done(started):
                self.patience.waited(spin, outlasted=False)
                return
        while not done(started):
            time.sleep(_PAUSE)
        self.patience.waited(spin, outlasted=True)


class MpiCommunicator(OrderedCommunicator):
    """One rank's end of a group, over MPI."""

    def __init__(self, engine: MpiEngine, name: str, members: Sequence[int]) -> None:
        super().__init__(name, members.index(engine.rank), members)
        self.engine = engine

    def transfer(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        """Send and receive messages."""
        to = [(self.members[k], array) for k, array in sends]
        by = [(self.members[k], array) for k, array in receives]
        self.engine.wait(self.engine.start(to, by, tag), (to, by))


def _imported() -> Any:
    """The mpi4py module, which starts MPI on its first import."""
    if "mpi4py.MPI" not in sys.modules:
        import mpi4py

        mpi4py.rc.finalize = False  # which would wait for ranks that are lost; `_at_exit` knows better
    from mpi4py import MPI

    return MPI


def _pieces(array: Array) -> list[Array]:
    """The bytes of a contiguous array, in pieces that MPI can count."""
    flat = array.reshape(-1).view(np.uint8)
    if flat.size <= _LONGEST:
        return [flat]
    return [flat[k : k + _LONGEST] for k in range(0, flat.size, _LONGEST)]


def wait_for_news() -> None:
    """An engine only notices that something failed; the control plane knows which rank and why, and raises here."""
    until = time.monotonic() + _NEWS
    while communication.watcher is not None and time.monotonic() < until:
        time.sleep(0.01)
