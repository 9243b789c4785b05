"""The rank of this process, from the environment variables of its launcher.

In: environment variables of `wengert launch`, of `mpiexec` (Open MPI's, and MPICH's or Intel's), of `torchrun`, of
`srun`. Out: a `Launched`. Launchers run inside each other (`mpiexec` in a job of SLURM's, `torchrun` under `srun`): the
innermost counts, which is the first of `LAUNCHERS` that left its variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from wengert.core.errors import ArgumentError


@dataclass(frozen=True)
class Launcher:
    """A launcher: the variables that it sets, and whether it starts MPI."""

    name: str
    rank: str
    size: str
    local_rank: str
    has_mpi: bool


LAUNCHERS = (
    Launcher("mpiexec", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", True),
    Launcher("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", True),
    Launcher("wengert launch", "WENGERT_RANK", "WENGERT_SIZE", "WENGERT_LOCAL_RANK", False),
    Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", False),
    Launcher("srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", True),
)


@dataclass(frozen=True)
class Launched:
    """This process's rank and the number of ranks, on its machine and in total, and the launcher that set them."""

    rank: int
    size: int
    local_rank: int | None
    launcher: str
    has_mpi: bool
    control: str | None = None
    nonce: str | None = None


ALONE = Launched(0, 1, 0, "nobody", False)


def launched(
    rank: int | None = None, size: int | None = None, address: str | None = None, env: Mapping[str, str] | None = None
) -> Launched:
    """The rank of this process, from the arguments or the environment.

    >>> launched(env={"RANK": "1", "WORLD_SIZE": "4"})
    Launched(rank=1, size=4, local_rank=None, launcher='torchrun', has_mpi=False, control=None, nonce=None)
    >>> launched(env={}).size
    1
    """
    env = os.environ if env is None else env
    found = _found(env)
    control, nonce = address or env.get("WENGERT_CONTROL"), env.get("WENGERT_NONCE")
    if (rank is None) != (size is None):
        raise ArgumentError("start: pass both rank and size, or neither to read them from the environment")
    if rank is None or size is None:
        return Launched(**{**vars(found), "control": control, "nonce": nonce})
    _check(rank, size, "the arguments of start")
    if found is not ALONE and (rank, size) != (found.rank, found.size):
        raise ArgumentError(
            f"start: rank {rank} of {size} was requested, but {found.launcher} made this process rank {found.rank} of "
            f"{found.size}"
        )
    return Launched(rank, size, found.local_rank, found.launcher, found.has_mpi, control, nonce)


def _found(env: Mapping[str, str]) -> Launched:
    said = [_read(launcher, env) for launcher in LAUNCHERS if launcher.rank in env or _only_size(launcher, env)]
    if not said:
        return ALONE
    first = said[0]
    ours = next((one for one in said if one.launcher == "wengert launch"), first)
    if (ours.rank, ours.size) != (first.rank, first.size):
        raise ArgumentError(
            f"start: {first.launcher} made this process rank {first.rank} of {first.size}, but WENGERT_RANK and "
            f"WENGERT_SIZE say {ours.rank} of {ours.size}: they are left over from another launch"
        )
    return first


def _only_size(launcher: Launcher, env: Mapping[str, str]) -> bool:
    """Whether the size is set without the rank; SLURM sets its own for a whole job, also outside srun."""
    return launcher.size in env and launcher.name != "srun"


def _read(launcher: Launcher, env: Mapping[str, str]) -> Launched:
    rank, size = (_number(name, env) for name in (launcher.rank, launcher.size))
    local = _number(launcher.local_rank, env) if launcher.local_rank in env else None
    _check(rank, size, f"{launcher.rank} and {launcher.size}")
    return Launched(rank, size, local, launcher.name, launcher.has_mpi)


def _number(name: str, env: Mapping[str, str]) -> int:
    if name not in env:
        raise ArgumentError(f"start: the environment variable {name} is missing, although related ones are set")
    text = env[name]
    if not text.strip().isdigit():
        raise ArgumentError(f"start: the environment variable {name} is {text!r}, and should be a number")
    return int(text)


def _check(rank: int, size: int, where: str) -> None:
    if not 0 <= rank < size:
        raise ArgumentError(f"start: {where} say rank {rank} of {size}; ranks are 0 to size - 1")
