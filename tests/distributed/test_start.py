"""Starting a world: what each launcher says in the environment, what is wrong in it, and the same bytes from all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wengert as wg
from tests.distributed import ranks
from wengert.core.communication import current
from wengert.core.errors import ArgumentError, DistributedError
from wengert.distributed.environment import launched
from wengert.distributed.world import World

OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}
SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1"}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
OURS = {"WENGERT_RANK": "3", "WENGERT_SIZE": "4", "WENGERT_LOCAL_RANK": "1"}


@pytest.mark.parametrize(
    ("env", "launcher", "has_mpi"),
    [
        (OPEN_MPI, "mpiexec", True),
        (MPICH, "mpiexec", True),
        (SLURM, "srun", True),
        (TORCHRUN, "torchrun", False),
        (OURS, "wengert launch", False),
        (OURS | OPEN_MPI, "mpiexec", True),  # wengert launch by way of mpiexec
    ],
)
def test_what_launchers_say(env: dict[str, str], launcher: str, has_mpi: bool) -> None:
    found = launched(env=env | {"WENGERT_CONTROL": "host:1", "WENGERT_NONCE": "n"})
    assert (found.rank, found.size, found.local_rank) == (3, 4, 1)
    assert (found.launcher, found.has_mpi, found.control, found.nonce) == (launcher, has_mpi, "host:1", "n")


def test_without_a_launcher_there_is_one_rank() -> None:
    assert (launched(env={}).rank, launched(env={}).size) == (0, 1)
    assert launched(env={"SLURM_NTASKS": "8"}).size == 1  # a shell of salloc's: no task of srun's


@pytest.mark.parametrize("outer", [SLURM, TORCHRUN])
def test_the_innermost_launcher_counts(outer: dict[str, str]) -> None:
    """A job of SLURM's that runs mpiexec: its own variables are those of the job's script."""
    inner = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    found = launched(env=outer | inner)
    assert (found.rank, found.size, found.local_rank) == (1, 2, None)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "4"}, "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE say rank 4 of 4"),
        (TORCHRUN | {"WORLD_SIZE": "many"}, "WORLD_SIZE is 'many', and should be a number"),
        ({"RANK": "0"}, "the environment variable WORLD_SIZE is missing"),
        ({"WORLD_SIZE": "2"}, "the environment variable RANK is missing"),
        (OPEN_MPI | OURS | {"WENGERT_SIZE": "5"}, "mpiexec made this process rank 3 of 4, but WENGERT_RANK .* 3 of 5"),
    ],
)
def test_wrong_environments_are_one_line(env: dict[str, str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as raised:
        launched(env=env)
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, None), "pass both rank and size"),
        ((2, 2), "the arguments of start say rank 2 of 2"),
        ((1, 4), "rank 1 of 4 was requested, but mpiexec made this process rank 3 of 4"),
        ((3, 8), "rank 3 of 8 was requested, but mpiexec made this process rank 3 of 4"),
    ],
)
def test_wrong_arguments(arguments: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        launched(*arguments, env=OPEN_MPI)


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that names no rank."""
    for name in [*OPEN_MPI, *MPICH, *SLURM, *TORCHRUN, *OURS, "WENGERT_CONTROL"]:
        monkeypatch.delenv(name, raising=False)


def test_a_world_of_one(no_launcher: None) -> None:
    world = wg.distributed.start()
    try:
        assert (world.rank, world.size, world.local_rank, world.engine) == (0, 1, 0, "alone")
        assert world.mesh(data=-1).size == 1
        world.barrier()
        with pytest.raises(ArgumentError, match="rank 0 of 1; start can be called only once"):
            wg.distributed.start()
        assert wg.distributed.all_reduce(wg.ones(2), world.mesh().whole).tolist() == [1.0, 1.0]
    finally:
        world.end()
    with pytest.raises(DistributedError, match=r"world\.end\(\)"):
        world.barrier()
    wg.distributed.start().end()  # another one may begin
    assert current.size == 1 and isinstance(world, World)


@pytest.mark.parametrize("env", [TORCHRUN, OURS])
@pytest.mark.usefixtures("no_launcher")
def test_ranks_without_mpi_name_the_fix(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ArgumentError, match=r"4 ranks without MPI.*wengert launch.*mpiexec -n 4 python"):
        wg.distributed.start()


def test_mpiexec_without_mpi4py_names_the_fix(no_launcher: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, value in OPEN_MPI.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ArgumentError, match=r"mpi4py is not installed.*pip install 'wengert\[mpi\]'"):
        wg.distributed.start()


# --- real launches ----------------------------------------------------------------------------------------------------

AS_SLURM = """
import os, sys
from mpi4py import MPI  # reads its launcher's variables, which then go
world = MPI.COMM_WORLD
for name in list(os.environ):
    if name.startswith(("OMPI_COMM", "PMI_", "MPI_LOCAL")):
        del os.environ[name]
os.environ.update(SLURM_PROCID=str(world.rank), SLURM_NTASKS=str(world.size), SLURM_LOCALID=str(world.rank))
from tests.distributed.ranks import main
main(*sys.argv[1:])
"""


def _mpi(function: Any) -> Any:
    for mark in ranks.needs_mpi:
        function = mark(function)
    return function


@_mpi
def test_the_same_bytes_from_mpiexec_and_with_slurms_variables() -> None:
    direct = ranks.on_ranks(2, "tests.distributed.programs:training")
    slurm = ranks.on_ranks(2, "tests.distributed.programs:training", program=["-c", AS_SLURM])
    assert direct == slurm
    assert direct[0]["digest"] == direct[1]["digest"]
    assert [result["place"] for result in direct] == [(0, 2, 0, "mpi"), (1, 2, 1, "mpi")]


@_mpi
@pytest.mark.skipif("WENGERT_OTHER_PYTHON" not in os.environ, reason="WENGERT_OTHER_PYTHON names no other MPI's Python")
def test_the_same_bytes_from_another_mpi() -> None:
    """CI sets WENGERT_OTHER_PYTHON to the interpreter beside the other wheel's mpiexec."""
    program = (
        "from tests.distributed import ranks; "
        "print([r['digest'] for r in ranks.on_ranks(2, 'tests.distributed.programs:training')])"
    )
    found = []
    for python in (sys.executable, os.environ["WENGERT_OTHER_PYTHON"]):
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ranks.ROOT / "src"), str(ranks.ROOT)])}
        env.pop("WENGERT_MPIEXEC", None)
        command = [str(Path(python).absolute()), "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ranks.ROOT, env=env, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(done.stdout)
    assert found[0] == found[1] and "float64" in found[0]


@_mpi
def test_threads_are_shared_out() -> None:
    """Ranks may run on all cores, or be bound to some: in any case no core is asked for twice."""
    shared = ranks.on_ranks(2, "tests.distributed.programs:threads", env={"OMP_NUM_THREADS": ""})
    assert all(1 <= threads <= max(1, len(os.sched_getaffinity(0)) // 2) for threads in shared)


@_mpi
def test_a_wrong_world_size_is_one_line() -> None:
    wrong = {"WENGERT_SIZE": "3", "WENGERT_RANK": "0"}
    done = ranks.launch(2, ranks.command("tests.distributed.programs:training"), env=wrong)
    assert done.status != 0
    said = r"mpiexec made this process rank [01] of 2, but WENGERT_RANK and WENGERT_SIZE say 0 of 3"
    assert re.search(said, done.output), done.output
