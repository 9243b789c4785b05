"""`examples/distributed.py`: the same script alone, by `wengert launch` and by mpiexec, with the same bytes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed import ranks
from tests.distributed.launching import launched

pytestmark = ranks.needs_mpi
SCRIPT = str(ranks.ROOT / "examples" / "distributed.py")
OPTIONS = ("--steps", "10", "--parts", "4")


def digest_in(text: str, ranks: str) -> str:
    found = re.findall(rf"{ranks}: the model's digest is (\w+)", text)
    assert len(found) == 1, text
    return found[0]


@pytest.fixture(scope="module")
def alone() -> str:
    command = [sys.executable, SCRIPT, *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, cwd=ranks.ROOT)
    return digest_in(done.stdout, "1 rank, alone")


def test_by_wengert_launch_with_zero_3(tmp_path: Path, alone: str) -> None:
    with launched(tmp_path, "-n", 2, SCRIPT, *OPTIONS, "--shard", 3) as launch:
        assert launch.status() == 0, launch.text()
        assert digest_in(launch.text(), "2 ranks, mpi") == alone


def test_by_mpiexec(alone: str) -> None:
    done = ranks.launch(2, [sys.executable, SCRIPT, *OPTIONS])
    assert done.status == 0 and digest_in(done.output, "2 ranks, mpi") == alone
