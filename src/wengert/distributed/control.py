"""The control plane: one connection per rank, over which ranks learn what happened to the others, so that none hangs.

The launcher listens, or rank 0 where there is none (`control_server`); every rank connects (`control_rank`). `join`
finds the address from the environment of the job.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable

from wengert.core.errors import DistributedError
from wengert.distributed.control_rank import Control
from wengert.distributed.control_server import Server
from wengert.distributed.wire import LineReader, Message, encode, parts_of, proof, watch_closely
from wengert.runtime.config import config

current: Control | None = None
"""This process's end of the control plane, once it has joined."""

Share = Callable[[str], str]
"""What rank 0 gives is what every rank gets: a broadcast of text, by MPI or whatever ranks have already."""


def join(
    rank: int, size: int, address: str | None = None, nonce: str | None = None, share: Share | None = None
) -> Control:
    """Join the job's control plane as a rank, or return the existing connection.

    The address comes from `wengert launch` (WENGERT_CONTROL). Without one, rank 0 listens and tells the others its
    address through `share`; without `share`, it listens at MASTER_ADDR and MASTER_PORT.
    """
    global current
    if current is not None and current.is_open:
        if (current.rank, current.size) != (rank, size):
            raise DistributedError(
                f"this process is rank {rank} of {size}, but was started as rank {current.rank} of {current.size}"
            )
        return current
    current = connect(address, nonce or "", rank, size) if address else _met(rank, size, share)
    return current


def _met(rank: int, size: int, share: Share | None) -> Control:
    """The control plane of ranks without a launcher of ours."""
    if share is not None:
        server = _served(size, secrets.token_hex(16), 0) if rank == 0 else None
        given = json.dumps([server.address, server.nonce]) if server else ""
        address, nonce = json.loads(share(given))
    else:
        address, nonce = _master()
        server = _served(size, nonce, parts_of(address)[1]) if rank == 0 else None
    control = connect(address, nonce, rank, size)
    if server is not None:
        control.before_close = server.close_when_alone
    return control


def _served(size: int, nonce: str, port: int) -> Server:
    host = "127.0.0.1" if _is_one_machine(size) else ""
    return Server(size, nonce, host, port, role="rank 0").start()


def _is_one_machine(size: int) -> bool:
    """Whether all ranks are known to be on this machine, so that its control plane needs no outside access."""
    names = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE")
    return any(os.environ.get(name) == str(size) for name in names)


def _master() -> tuple[str, str]:
    """The address and nonce of a job that provides nothing better."""
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT", "29500")
    if not host or not port.isdecimal():
        raise DistributedError(
            "control plane: ranks do not know where to meet. Start them with `wengert launch -n 4 script.py`, or set "
            "MASTER_ADDR and MASTER_PORT to a host and a free port of rank 0"
        )
    run = os.environ.get("TORCHELASTIC_RUN_ID")
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID")
    job = "/".join(os.environ.get(name, "") for name in names)
    at = int(port) + (run is not None)  # torchrun itself listens at its port
    return f"{host}:{at}", os.environ.get("WENGERT_NONCE") or f"{job}/{host}:{port}"


def connect(address: str, nonce: str, rank: int, size: int) -> Control:
    """Join the control plane at an address, as a rank; waits until a server listens there, up to the deadline."""
    host, port = parts_of(address)
    if host == socket.gethostname():  # which is reached whether or not its name is known to anybody
        host = "127.0.0.1"
    connection = _reached(host, port, time.monotonic() + config.deadline)
    try:
        welcome = _introduced(connection, nonce, rank, size)
    except (OSError, ValueError) as error:
        connection.close()
        raise DistributedError(f"control plane: the server at {address} is not a control plane ({error})") from None
    if "refused" in welcome:
        connection.close()
        raise DistributedError(f"control plane: {address} refuses rank {rank}: {welcome['refused']}")
    connection.settimeout(None)
    return Control(connection, rank, size, welcome["welcome"])


def _reached(host: str, port: int, until: float) -> socket.socket:
    """A connection to a port whose listener may start only now."""
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=10.0)
        except OSError as error:
            if time.monotonic() > until:
                raise DistributedError(
                    f"control plane: no server listens at {host}:{port} ({error}). Rank 0, or the launcher, must be "
                    "running there"
                ) from None
            time.sleep(0.05)
            continue
        if connection.getsockname() != connection.getpeername():
            return connection
        connection.close()  # a local port may connect to itself while nothing listens


def _introduced(connection: socket.socket, nonce: str, rank: int, size: int) -> Message:
    """The answer of the other end to our introduction."""
    watch_closely(connection)
    lines = LineReader()
    challenge = _next(connection, lines)["challenge"]
    who = {"rank": rank, "size": size, "host": socket.gethostname(), "pid": os.getpid()}
    connection.sendall(encode({"hello": proof(nonce, str(challenge)), **who}))
    return _next(connection, lines)


def _next(connection: socket.socket, lines: LineReader) -> Message:
    while True:
        data = connection.recv(1)  # what follows the line is for the thread that listens
        if not data:
            raise ValueError("it closed the connection")
        messages = lines.feed(data)
        if messages:
            if not {"challenge", "welcome", "refused"} & set(messages[0]):
                raise ValueError("it sent an unexpected message")
            return messages[0]
