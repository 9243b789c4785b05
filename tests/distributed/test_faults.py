"""Faults of real ranks over MPI: who was it, where, and nothing is left. `wengert launch` starts `faults.py`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.distributed import ranks
from tests.distributed.launching import ALL_MAY_RAISE, QUICK, Launch, launched
from tests.distributed.stopwatch import moment
from wengert.core.file_locks import remove_if_abandoned
from wengert.distributed import mpiexec

pytestmark = ranks.needs_mpi
SCRIPT = Path(__file__).with_name("faults.py")
SIZES = {"step": 3, "differs": 3, "printed": 3}  # 2 of the others: starting ranks is what takes time


def _survives() -> bool:
    """Whether ranks outlive another one long enough to raise: MPICH's mpiexec kills them at once."""
    found = mpiexec.find()
    return found is not None and found.survives


def _fault(name: str, folder: Path) -> tuple[Launch, float, int]:
    """A launch that ends badly; the seconds from the fault to the end of all, and the process that was at fault."""
    own = {"WENGERT_CACHE": str(folder)} if name == "compiling" else {}  # where nothing is built yet
    grace = () if name == "stopped" else ALL_MAY_RAISE  # who stands still raises nothing
    with launched(folder, *grace, "-n", SIZES.get(name, 2), SCRIPT, name, folder, **own) as run:
        status = run.status()
        ended = moment()
        assert status != 0, run.text()
        assert run.left() == [], run.text()
    when, pid = (folder / "when").read_text().split() if (folder / "when").exists() else (str(ended), "0")
    return run, ended - float(when), int(pid)


@pytest.mark.parametrize("name", ["compiling", "step", "saving", "loading"])
def test_a_killed_rank(name: str, tmp_path: Path) -> None:
    run, seconds, pid = _fault(name, tmp_path)
    text = run.text()
    assert seconds < QUICK, text
    who = f"RankLost: rank 1 (host {os.uname().nodename}, pid {pid}) died"
    assert f"wengert: {who}" in text
    if _survives():
        assert text.count(f"errors.{who}") == SIZES.get(name, 2) - 1, text
        if name == "step":
            assert text.count("You were waiting in collective") == SIZES[name] - 1
            assert "faults.py" in text.split("You were waiting in collective")[1].splitlines()[0]
    if name == "step":
        assert " in step 20" in text
        assert "the last one it entered was collective 2" in text.split(f"wengert: {who}")[1]
    left = list(tmp_path.glob(".*.tmp"))
    if _survives():
        assert all("rank-1" in path.name for path in left)  # of the dead one, which could not clear up
    for path in left:
        remove_if_abandoned(path)  # as the next run does
    assert list(tmp_path.glob(".*.tmp")) == []


def test_a_stopped_rank(tmp_path: Path) -> None:
    run, seconds, _ = _fault("stopped", tmp_path)
    text = run.text()
    assert seconds < 1.0 + QUICK, text
    assert "CollectiveTimeout: collective 2 has waited 1 s for rank 1: all_reduce, faults.py:" in text
    assert "rank 1: has not entered it: computing for" in text


def test_a_rank_with_another_program(tmp_path: Path) -> None:
    run, _, _ = _fault("differs", tmp_path)
    text = run.text()
    assert "wengert: ProgramMismatch: ranks 0 and 2 and rank 1 would run different programs (step)" in text
    assert "rank 0: all_reduce float32[4], model.py:4: x.sum()" in text
    assert "rank 1: all_reduce float32[8], model.py:8: x.sum()" in text
    assert "sent something" not in text


def test_ranks_of_a_bare_mpiexec_have_a_control_plane_too(tmp_path: Path) -> None:
    """Rank 0 listens, and MPI tells the others where."""
    done = ranks.launch(2, [sys.executable, str(SCRIPT), "differs", str(tmp_path)])
    assert done.status != 0
    told = done.output.count("errors.ProgramMismatch: rank 0 and rank 1 would run different programs (step)")
    assert told == 2 if _survives() else told >= 1  # the mpiexec of MPICH kills the other when one has ended
    assert "rank 1: all_reduce float32[8], model.py:8: x.sum()" in done.output
    assert "sent something" not in done.output


def test_a_print_on_one_rank(tmp_path: Path) -> None:
    run, _, _ = _fault("printed", tmp_path)
    text = run.text()
    assert "CollectiveTimeout: collective 2 has waited 1 s for ranks 0 and 2: all_reduce, faults.py:" in text
    assert "loss = wg.distributed.all_reduce(wg.ones(4), group)" in text
    if _survives():
        assert "print(loss)  # the line that is to be named" in text
