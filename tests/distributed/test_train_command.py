"""`wengert train --ranks` over MPI: killed, stopped and gone on with by another number of ranks, to the bit."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import wengert as wg
from tests.distributed import ranks
from wengert.api.sharded_files import is_complete
from wengert.distributed import processes
from wengert.train import Recipe, Run, load_checkpoint

pytestmark = ranks.needs_mpi
PATIENCE = 180.0  # seconds that a busy machine may take for anything
EPOCHS = 24
SETTINGS: dict[str, Any] = {
    "data": "digits",
    "model": "mlp",
    "epochs": EPOCHS,
    "batch_size": 32,
    "limit": 128,
    "save_every": 1,
    "parts": 4,
    "options": {"hidden": []},
    "optimizer": {"name": "adamw", "lr": 0.01},
}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("recipe") / "mine.toml"
    file.write_text(Recipe(**SETTINGS).to_toml())
    return str(file)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the model that one process trains without stopping."""
    before, wg.config.tier = wg.config.tier, "auto"
    out = tmp_path_factory.mktemp("alone")
    Run(Recipe(**{**SETTINGS, "save_every": 0}), out).train()
    wg.config.tier = before
    return digest(out)


def digest(out: Path) -> str:
    state = load_checkpoint(out)
    assert state["step"] == 4 * EPOCHS
    found = hashlib.sha256()
    for part in (state["model"], *state["optimizer"]["state"].values()):
        for name, tensor in part.items():
            found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


@contextmanager
def training(folder: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """`wengert train` in a process of its own, of which nothing is left behind the block."""
    mark = os.urandom(8).hex()
    search = os.pathsep.join([str(ranks.ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "wengert.cli", "train", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1", "TRAIN_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    process.mark = mark  # type: ignore[attr-defined]
    try:
        yield process
    finally:
        for pid in processes.with_variable("TRAIN_MARK", mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(PATIENCE)


def rank_of(process: subprocess.Popen[str], rank: int) -> int:
    """The process of a rank."""
    wanted = {f"{name}={rank}".encode() for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK")}
    for pid in processes.with_variable("TRAIN_MARK", process.mark):  # type: ignore[attr-defined]
        with suppress(OSError):
            if wanted & set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")):
                return pid
    raise AssertionError(f"there is no rank {rank}")


def wait_for_step(process: subprocess.Popen[str], out: Path, step: int) -> None:
    until = time.monotonic() + PATIENCE
    while not any(is_complete(path) for path in (out / "checkpoints").glob("step-*") if path.name >= f"step-{step:06}"):
        if process.poll() is not None or time.monotonic() > until:
            raise AssertionError(process.communicate()[0])
        time.sleep(0.002)


def finished(process: subprocess.Popen[str]) -> str:
    """What a run that has to end well said."""
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    return said


def test_killed_and_gone_on_with_by_one_process(tmp_path: Path, recipe: str, alone: str) -> None:
    out = tmp_path / "run"
    with training(tmp_path, recipe, "--ranks", 2, "--shard", 3, "--out", out) as process:
        wait_for_step(process, out, 5)
        os.kill(rank_of(process, 1), signal.SIGKILL)
        said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode not in (0, None)
    assert "RankLost: rank 1 (" in said and "Traceback" not in said
    assert f"(any number of ranks): wengert train --resume {out} --ranks 2" in said
    with training(tmp_path, "--resume", out, "--ranks", 1, "--shard", 0) as process:
        assert "resuming at step" in finished(process)
    assert digest(out) == alone


def test_stopped_by_a_signal_and_gone_on_with_by_more_ranks(tmp_path: Path, recipe: str, alone: str) -> None:
    out = tmp_path / "run"
    with training(tmp_path, recipe, "--ranks", 2, "--shard", 1, "--out", out) as process:
        wait_for_step(process, out, 5)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE)
        assert not processes.with_variable("TRAIN_MARK", process.mark)  # type: ignore[attr-defined]
    assert process.returncode == 130 and said.count(f"resume with: wengert train --resume {out}") == 1, said
    with training(tmp_path, "--resume", out, "--ranks", 4, "--shard", 3) as process:
        assert "resuming at step" in finished(process)
    assert digest(out) == alone


def test_an_error_of_all_ranks_is_not_told_by_all(tmp_path: Path, recipe: str) -> None:
    """Rank 0 tells it, unless another rank was quicker; and the launcher tells who ended first, and why."""
    with training(tmp_path, recipe, "--ranks", 2, "--limit", 6, "--out", "run") as process:
        said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode not in (0, None)
    why = "the 6 training examples do not divide among 4 parts; --batch-size 4 does"
    assert said.count(f"ended with ArgumentError: {why}") == said.count("wengert: RankLost") == 1, said
    assert said.count(f"wengert: {why}\n") <= 1 and "Traceback" not in said, said
