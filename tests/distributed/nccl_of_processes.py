"""The programs of `tests/gpu/nccl_programs.py` without a GPU: `-m tests.distributed.nccl_of_processes <program>`.

Every rank is a process with an emulated GPU of its own, and NCCL's launches meet over sockets of this machine. All else
is as it is there: the launcher, the control plane, the engine, the programs and their graphs. A launch does not return
before it is done, but can be interrupted as who waits for a GPU can be; a rank that is lost is not noticed here, as
NCCL does not.
"""

from __future__ import annotations

import secrets
import time
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from tests.backends.emulated import EmulatedDriver
from tests.distributed.fake_nccl import FakeComm, FakeNccl
from tests.gpu import nccl_programs
from wengert.backends.comm import nccl
from wengert.backends.cuda import blas, dnn, dnn_attention
from wengert.backends.cuda.device import CudaDevice
from wengert.core import devices

PAUSE = 2e-4


def _address(unique_id: bytes) -> str:
    return f"\0wengert-{unique_id.hex()[:32]}"


class SocketNccl(FakeNccl):
    """The functions of NCCL in a rank's process: the first member of a communicator hands round what all bring."""

    def __init__(self) -> None:
        super().__init__(None, None)
        self.listeners: dict[bytes, Any] = {}
        self.connections: dict[bytes, dict[int, Connection]] = {}
        self.is_aborted = False

    @property
    def driver(self) -> Any:
        """The GPU of this rank."""
        return nccl_driver()

    @driver.setter
    def driver(self, value: Any) -> None:
        """There is only one."""

    def unique_id(self) -> bytes:
        """Where the first member listens."""
        found = secrets.token_bytes(128)
        self.listeners[found] = Listener(_address(found), "AF_UNIX", backlog=64)
        return found

    def connected(self, size: int, rank: int, unique_id: bytes) -> FakeComm:
        """A communicator, when all are there."""
        if rank == 0:
            accepted = [self.listeners[unique_id].accept() for _ in range(size - 1)]
            self.connections[unique_id] = {connection.recv(): connection for connection in accepted}
        else:
            connection = Client(_address(unique_id), "AF_UNIX")
            connection.send(rank)
            self.connections[unique_id] = {0: connection}
        return FakeComm(unique_id, rank, size)

    def abort(self, comm: FakeComm) -> None:
        """Nobody waits any more."""
        self.is_aborted = True

    def met(self, comm: FakeComm, mine: list[Any]) -> dict[int, list[Any]]:
        """What all members bring to a launch, by rank."""
        others = self.connections[comm.key]
        if comm.rank:
            self._send(others[0], mine)
            return self._received(others[0]) or dict.fromkeys(range(comm.size), mine)
        meeting = {0: mine, **{rank: self._received(others[rank]) or mine for rank in others}}
        for connection in others.values():
            self._send(connection, meeting)
        return meeting

    def _send(self, connection: Connection, value: Any) -> None:
        try:
            connection.send(value)
        except OSError:
            self._wait_for_ever()

    def _received(self, connection: Connection) -> Any:
        """What comes; nothing where all was aborted."""
        try:
            while not connection.poll(0):
                if self.is_aborted:
                    return None
                time.sleep(PAUSE)
            return connection.recv()
        except (EOFError, OSError):
            return self._wait_for_ever()

    def _wait_for_ever(self) -> None:
        while not self.is_aborted:
            time.sleep(PAUSE)


def nccl_driver() -> Any:
    """The emulated GPU."""
    return devices.of("cuda:0").driver  # type: ignore[attr-defined]


def main() -> None:
    """Put the fakes in place, and run a program."""
    for module in (blas, dnn, dnn_attention):
        module.library = lambda: None  # type: ignore[attr-defined]
    kind = devices._kinds[devices.CUDA]
    devices._kinds[devices.CUDA] = kind._replace(
        open=lambda name, index: CudaDevice(name, EmulatedDriver(index)), count_all=lambda: 1
    )
    nccl.missing = lambda: ""  # type: ignore[assignment]
    nccl.NcclFunctions = SocketNccl  # type: ignore[assignment, misc]
    nccl_programs.main()


if __name__ == "__main__":
    main()
