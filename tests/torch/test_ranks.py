"""`wengert torch -n 2 script.py`: a script of torchrun's kind as ranks, and alone as a world of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.distributed import ranks

SCRIPT = Path(__file__).with_name("ranks_script.py")


def found_by(count: int, folder: Path, *command: str) -> list[dict[str, Any]]:
    """What each rank wrote."""
    folder.mkdir()
    known = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMP_NUM_THREADS"]
    search = os.pathsep.join([str(ranks.ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "wengert.cli", *command, str(SCRIPT), str(folder)],
        env={**os.environ, **dict.fromkeys(known, "1"), "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=ranks.TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(count)]


def test_alone_it_is_a_world_of_one(tmp_path: Path) -> None:
    (alone,) = found_by(1, tmp_path / "one", "torch")
    assert len(alone["losses"]) == 4 and alone["losses"][-1] < alone["losses"][0]
    assert alone["gathered"] == [[0.0, 1.0]] and alone["objects"] == [{"rank": 0, "text": "x"}]


@pytest.mark.mpi
@pytest.mark.skipif(bool(ranks.why_not()), reason=ranks.why_not() or "MPI is there")
def test_two_ranks_train_as_one_process_on_the_whole_batch(tmp_path: Path) -> None:
    (alone,) = found_by(1, tmp_path / "one", "torch")
    both = found_by(2, tmp_path / "two", "torch", "-n", "2")
    assert both[0]["losses"] == pytest.approx(alone["losses"], rel=1e-5)
    for mine, theirs, expected in zip(both[0]["weights"], both[1]["weights"], alone["weights"]):
        assert mine == theirs == pytest.approx(expected, rel=1e-4, abs=1e-6)
    first, second = both
    assert (first["SUM"], first["AVG"], first["MAX"]) == ([3.0, 4.0], [1.5, 2.0], [2.0, 2.0])
    assert (first["MIN"], first["PRODUCT"], second["SUM"]) == ([1.0, 2.0], [2.0, 4.0], None)
    for rank, found in enumerate(both):
        assert found["gathered"] == [[0.0, 1.0], [1.0, 1.0]]
        assert found["objects"] == [{"rank": 0, "text": "x"}, {"rank": 1, "text": "xx"}]
        assert found["shared"] == ["of the first", [0, 1, 2]]
        assert found["part"] == 2.0 * rank and found["message"] == [1.0, 1.0, 1.0]


def test_what_torchrun_told_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    from wengert.torch import running

    environment: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", environment)
    running._tell_rank()
    assert not environment  # nobody launched this process
    environment |= {"WENGERT_RANK": "1", "WENGERT_SIZE": "2", "WENGERT_LOCAL_RANK": "1", "LOCAL_RANK": "0"}
    running._tell_rank()
    assert [environment[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")] == ["1", "2", "0"]


def test_a_world_that_nobody_launched_says_how_to() -> None:
    import wengert.torch.distributed as dist

    with pytest.raises(RuntimeError, match=r"wengert torch -n 2"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.get_rank()


def test_fully_sharded_in_a_world_of_one() -> None:
    import wengert.torch as torch
    from wengert.torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    layer = torch.nn.Linear(2, 1)
    assert fully_shard(layer) is layer
    assert list(FullyShardedDataParallel(layer).state_dict()) == ["module.weight", "module.bias"]
