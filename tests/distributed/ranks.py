"""Functions run on the ranks of an MPI world: `on_ranks(2, "tests.distributed.programs:collectives")`.

`mpiexec` is the one beside the interpreter, else the one on the PATH, else what WENGERT_MPIEXEC says before both. Each
rank calls the function and leaves its result in a file, which is how the results of all ranks come back. Under a
launcher this module is the program: `python -m tests.distributed.ranks module:function folder`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT = 180.0  # seconds that a busy machine may take for anything


class Finished(NamedTuple):
    """A run of mpiexec: its status, what it printed, and the results of the ranks that came to an end."""

    status: int
    output: str
    results: dict[int, Any]


@functools.cache
def mpiexec() -> str | None:
    """The launcher of the MPI that mpi4py uses."""
    chosen = os.environ.get("WENGERT_MPIEXEC")
    beside = Path(sys.executable).parent / "mpiexec"
    return chosen or (str(beside) if beside.exists() else shutil.which("mpiexec"))


def why_not() -> str:
    """Why MPI cannot be used, or an empty string."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed (pip install 'wengert[mpi]')"
    return "" if mpiexec() else "there is no mpiexec beside the interpreter, on the PATH or in WENGERT_MPIEXEC"


needs_mpi = [pytest.mark.mpi, pytest.mark.skipif(bool(why_not()), reason=why_not() or "MPI is there")]
"""What `pytestmark` of a module is whose tests start ranks."""


@functools.cache
def is_open_mpi() -> bool:
    """Whether mpiexec is Open MPI's, which wants to be told that there are fewer cores than ranks."""
    done = subprocess.run([str(mpiexec()), "--version"], capture_output=True, text=True, check=False)
    return "Open MPI" in done.stdout or "OpenRTE" in done.stdout


def launch(
    ranks: int,
    command: Sequence[str],
    timeout: float = TIMEOUT,
    env: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> Finished:
    """Run a command under mpiexec, on so many ranks."""
    options = ["--oversubscribe"] if is_open_mpi() else []
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMP_NUM_THREADS": "1",
        **(env or {}),
    }
    process = subprocess.Popen(
        [str(mpiexec()), *options, "-n", str(ranks), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()  # mpiexec ends its ranks
        output, _ = process.communicate(timeout=60)
        raise AssertionError(f"{ranks} ranks were not done after {timeout:g} s:\n{output}") from None
    found = sorted(Path(folder).glob("*.pickle")) if folder else []
    return Finished(process.returncode, output, {int(p.stem): pickle.loads(p.read_bytes()) for p in found})


MODULE = ("-m", "tests.distributed.ranks")


def command(function: str, folder: str = "", program: Sequence[str] = MODULE) -> list[str]:
    """What each rank runs."""
    return [sys.executable, *program, function, folder]


def on_ranks(
    ranks: int,
    function: str,
    *arguments: Any,
    timeout: float = TIMEOUT,
    env: Mapping[str, str] | None = None,
    program: Sequence[str] = MODULE,
) -> list[Any]:
    """What `module:function` gives on each rank; an error on any of them fails the test, with its output."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "arguments").write_bytes(pickle.dumps(arguments))
        done = launch(ranks, command(function, folder, program), timeout, env, folder)
    if done.status or len(done.results) != ranks:
        raise AssertionError(f"{function} on {ranks} ranks ended with status {done.status}:\n{done.output}")
    return [done.results[rank] for rank in range(ranks)]


def main(function: str, folder: str) -> None:
    """What each rank runs."""
    import wengert as wg

    wg.config.tier = "interpret"  # as other tests: dynamic code by the references
    world = wg.distributed.start()
    module, name = function.split(":")
    arguments = pickle.loads(Path(folder, "arguments").read_bytes()) if folder else ()
    result = getattr(importlib.import_module(module), name)(world, *arguments)
    if not folder:
        return
    written = Path(folder, f"{world.rank}.partial")
    written.write_bytes(pickle.dumps(result))
    written.rename(written.with_suffix(".pickle"))
    if world.size > 1:
        world.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
