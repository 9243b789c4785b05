"""Ranks over NCCL on one GPU: collectives, the bits of one rank, one CUDA graph, and a rank that is lost.

Two ranks share the GPU, which NCCL allows from 2.30 on under NVIDIA's multi-process service. A client that is killed in
the middle of a kernel leaves the service in a failed state for those that come after it, so each test starts a daemon
of its own and ends it, by its own command.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wengert.backends.comm import nccl

ROOT = Path(__file__).parents[2]
CONTROL = "nvidia-cuda-mps-control"
PROGRAMS = "tests.gpu.nccl_programs"
PATIENCE = 300.0


def _skipped() -> str:
    """Why two ranks cannot share the GPU."""
    if nccl.missing():
        return nccl.missing()
    version = nccl.NcclFunctions().version
    if version < nccl.MANY_ON_ONE:
        return f"NCCL {nccl.version_text(version)} puts one rank on a GPU"
    return "" if shutil.which(CONTROL) else f"there is no {CONTROL}"


pytestmark = [pytest.mark.alone, pytest.mark.skipif(bool(_skipped()), reason=_skipped() or "never")]


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What ranks run in, with the service up."""
    folder = tmp_path_factory.mktemp("mps")
    found = {
        **os.environ,
        "CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
        "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
        "NCCL_MULTI_RANK_GPU_ENABLE": "1",
        "NCCL_MAX_CTAS": "8",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    (folder / "pipe").mkdir()
    (folder / "log").mkdir()
    plain = {name: value for name, value in found.items() if name != "LD_PRELOAD"}
    subprocess.run([CONTROL, "-d"], env=plain, check=True)
    try:
        yield found
    finally:
        subprocess.run([CONTROL], input=b"quit\n", env=plain, check=False, timeout=30)


def _ran(environment: dict[str, str], *program: str, ranks: int = 2) -> tuple[str, int]:
    launch = ["-m", "wengert.cli", "launch", "-n", str(ranks), "--mpiexec", "none"] if ranks > 1 else []
    command = [sys.executable, *launch, "-m", PROGRAMS, *program]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return done.stdout + done.stderr, done.returncode


def test_every_collective_is_that_of_numpy(environment: dict[str, str]) -> None:
    text, status = _ran(environment, "collectives")
    assert status == 0 and text.count("collectives are NumPy's") == 2, text


def test_two_ranks_have_the_bits_of_one_rank_with_two_parts(environment: dict[str, str]) -> None:
    found = set()
    for ranks in (1, 2):
        text, status = _ran(environment, "mlp", ranks=ranks)
        assert status == 0, text
        found |= set(re.findall(r"digest (\w+)", text))
    assert len(found) == 1


def test_a_gpt_is_one_graph_with_the_bits_of_one_rank(environment: dict[str, str]) -> None:
    small = ("gpt", "--layers", "2", "--steps", "100", "--length", "64")
    found = set()
    for ranks in (1, 2):
        text, status = _ran(environment, *small, ranks=ranks)
        assert status == 0, text
        found |= set(re.findall(r"digest (\w+)", text))
        assert "pieces ['CudaGraph'], on the host []" in text and "warnings []" in text, text
    assert len(found) == 1, text


@pytest.mark.parametrize("fault", ["stopped", "killed"])  # a client that is killed may take the service along
def test_a_rank_that_is_lost_is_named(environment: dict[str, str], fault: str, tmp_path: Path) -> None:
    text, status = _ran(environment, fault, str(tmp_path))
    ended = time.time()
    assert status != 0
    assert ("errors.RankLost: rank 1" if fault == "killed" else "errors.CollectiveTimeout") in text, text
    if fault == "killed":
        assert ended - float((tmp_path / "when").read_text()) < 4.0, text
