"""Runs on the GPU: they learn, go on to the last bit where they stopped, and read their data from a loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.train import Recipe, Run, load_checkpoint

pytest.importorskip("safetensors")


def recipe(**changes: Any) -> Recipe:
    values = {"epochs": 3, "batch_size": 64, "optimizer": {"name": "adamw", "lr": 0.003}, "augment": {"crop": 1}}
    options = {"channels": [16, 32], "hidden": 64}
    return Recipe(**{"data": "digits", "model": "convnet", "device": "cuda", "options": options, **values, **changes})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_run_learns(tmp_path: Path, dtype: str) -> None:
    assert Run(recipe(dtype=dtype), tmp_path).train()["accuracy"] > 0.8


def test_losses_are_those_of_the_cpu(tmp_path: Path) -> None:
    courses = []
    for device in ("cpu", "cuda"):
        run = Run(recipe(device=device, dtype="float64"), tmp_path)
        courses.append([run.update()["loss"] for _ in range(10)])
    np.testing.assert_allclose(courses[1], courses[0], rtol=1e-6)


@pytest.mark.parametrize("stop", [1, 10, 30])
def test_a_resumed_run_is_the_same_to_the_last_bit(tmp_path: Path, stop: int) -> None:
    whole = Run(recipe(), tmp_path)
    course = [whole.update()["loss"] for _ in range(stop)]
    state = whole.checkpoints.save(stop, whole.state())
    course = [whole.update()["loss"] for _ in range(15)]
    resumed = Run(recipe(), tmp_path, load_checkpoint(state))
    assert [resumed.update()["loss"] for _ in range(15)] == course
    for a, b in zip(whole.task.model.parameters(), resumed.task.model.parameters()):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_batches_come_to_the_device(tmp_path: Path) -> None:
    data = wg.data.ArrayDataset(np.arange(8.0, dtype=np.float32))
    (batch,) = next(iter(wg.data.DataLoader(data, 4, device="cuda")))
    assert batch.device == "cuda:0" and batch.tolist() == [0.0, 1.0, 2.0, 3.0]
