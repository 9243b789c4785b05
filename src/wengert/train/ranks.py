"""Ranks of a run: starting them, checking them against the recipe, and agreeing on decisions.

Every rank trains; only rank 0 writes and prints. Decisions of one rank that all must know (a folder's name, a request
to stop) go through the functions here.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from wengert.core.communication import communicator, current
from wengert.core.errors import ArgumentError, WengertError
from wengert.core.file_locks import FolderLock
from wengert.core.mesh import Mesh
from wengert.distributed import control, mpiexec
from wengert.distributed.environment import launched
from wengert.distributed.launch import Job, launch
from wengert.distributed.world import start

STAGES = range(4)
"""The stages of ZeRO."""


def check_ranks(ranks: int, shard: int, parts: int, batch_size: int, compiled: bool) -> None:
    """Raise an error if ranks cannot share a batch or its parts, or if they would run uncompiled."""
    if shard not in STAGES:
        raise ArgumentError(f"shard must be a stage of ZeRO, 1, 2 or 3, or 0 for none, not {shard}")
    if parts & (parts - 1):
        raise ArgumentError(f"parts is {parts}; it is a power of two, such as {1 << (parts - 1).bit_length()}")
    if parts and parts % ranks:
        raise ArgumentError(
            f"{parts} parts cannot be shared equally by {ranks} ranks; choose a number of ranks that divides {parts}, "
            "or other parts"
        )
    cut, whom = (parts, "parts") if parts else (ranks, "ranks")
    if batch_size % cut:
        near = -(-batch_size // cut) * cut
        raise ArgumentError(f"a batch of {batch_size} does not divide among {cut} {whom}; --batch-size {near} would")
    if not compiled and (ranks > 1 or parts):
        raise ArgumentError(f"steps over {cut} {whom} are compiled; leave out --no-compile (compile = false)")


def check_examples(count: int, ranks: int, parts: int, batch_size: int) -> None:
    """Raise an error if the training examples are fewer than a batch and cannot be shared."""
    cut, whom = (parts, "parts") if parts else (ranks, "ranks")
    if count < batch_size and count % cut:
        hint = f"--batch-size {count // cut * cut} does" if count >= cut else f"at least {cut} are needed"
        raise ArgumentError(f"the {count} training examples do not divide among {cut} {whom}; {hint}")


def mesh_of(ranks: int, parts: int) -> Mesh | None:
    """The mesh of a run; None if a single process computes each whole batch."""
    if ranks != current.size:
        have = "1 process" if current.size == 1 else f"{current.size} ranks"
        raise ArgumentError(
            f"the recipe is for {ranks} {_ranks(ranks)}, but this world has {have}. `wengert train` starts ranks "
            f"itself; a script says Recipe(ranks={current.size})"
        )
    return Mesh(data=ranks) if ranks > 1 or parts else None


def _ranks(count: int) -> str:
    return "rank" if count == 1 else "ranks"


# --- starting -------------------------------------------------------------------------------------------------------


def is_rank() -> bool:
    """Whether a launcher started this process as one of several ranks."""
    return launched().size > 1


def run_as_ranks(ranks: int, arguments: Sequence[str]) -> int:
    """Run this command again on this many ranks; returns the exit status."""
    found = mpiexec.find()
    if found is None or importlib.util.find_spec("mpi4py") is None:
        what = "mpiexec is" if found is None else "mpi4py is"
        raise ArgumentError(
            f"{ranks} ranks need MPI to reach each other, and {what} not installed in {sys.prefix}: "
            "pip install 'wengert[mpi]'"
        )
    return launch(Job(ranks, ("-m", "wengert.cli", *arguments), saves=True))


def joined(asked: int | None) -> int:
    """Join the world that a launcher made for this process; checks that it has the requested number of ranks, if
    any."""
    place = launched()
    if asked not in (None, place.size):
        raise ArgumentError(
            f"--ranks is {asked}, but {place.launcher} started {place.size}; leave out --ranks, or start {asked}"
        )
    if current.size == 1:
        start()
    return current.size


# --- agreeing -------------------------------------------------------------------------------------------------------


def largest(number: int) -> int:
    """The largest of the ranks' numbers."""
    if current.size == 1:
        return number
    return int(communicator(current.group()).all_gather(np.array([number], np.int64), 0).max())


def first_text(text: str) -> str:
    """The text of rank 0, on every rank."""
    if current.size == 1:
        return text
    given = text.encode() if current.rank == 0 else b""
    padded = np.zeros(largest(len(given)), np.uint8)
    padded[: len(given)] = np.frombuffer(given, np.uint8)
    found = communicator(current.group()).all_gather(padded, 0)[: len(padded)]
    return found.tobytes().decode()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A context that locks the folder for this run. Rank 0 holds the lock; if it cannot, every rank raises an error."""
    lock, error = FolderLock(folder), None
    if current.rank == 0:
        try:
            lock.__enter__()
        except (WengertError, OSError) as raised:
            error = raised
    if largest(int(error is not None)):
        raise error or ArgumentError(f"rank 0 cannot lock {str(folder)!r}")
    try:
        yield
    finally:
        if current.rank == 0:
            lock.__exit__(None, None, None)


# --- what the control plane is told ---------------------------------------------------------------------------------


def note_step(number: int) -> None:
    """Report that a step begins, in case this rank is lost during it."""
    if control.current is not None:
        control.current.step(number)


def asked_to_stop() -> int:
    """The signal that asked the launcher to stop this job; 0 if none did."""
    return 0 if control.current is None else control.current.asked_to_stop
