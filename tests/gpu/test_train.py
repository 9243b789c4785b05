"""Runs on the GPU: they learn, go on to the last bit where they stopped, and read their data from a loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.train import Recipe, Run, load_checkpoint


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
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def test_batches_come_to_the_device(tmp_path: Path) -> None:
    data = wg.data.ArrayDataset(np.arange(8.0, dtype=np.float32))
    (batch,) = next(iter(wg.data.DataLoader(data, 4, device="cuda")))
    assert batch.device == "cuda:0" and batch.tolist() == [0.0, 1.0, 2.0, 3.0]


OWN = """
import numpy as np
import wengert as wg

def data():
    x = np.linspace(1, 3, 640, dtype=np.float32).reshape(160, 4)
    x[93] = -1
    return wg.data.ArrayDataset(x, np.arange(160) % 3), wg.data.ArrayDataset(x, np.arange(160) % CLASSES)

def model():
    return wg.nn.Linear(4, 3)

def objective(model, x, y):
    return {"loss": wg.cross_entropy(model(x), y, reduction="none") + 0.0 * wg.log(x[:, 0])}
"""


def test_a_nan_is_told_with_its_step_and_op(tmp_path: Path) -> None:
    (tmp_path / "with_a_log.py").write_text(OWN.replace("CLASSES", "3"))
    run = Run(Recipe(data=str(tmp_path / "with_a_log.py"), device="cuda", batch_size=10), tmp_path / "out")
    with pytest.raises(wg.errors.NaNError, match=r"step \d+: the loss is nan: log produced 1 NaN of 10 elements"):
        run.train()


def test_a_label_out_of_range_is_told_with_its_step(tmp_path: Path) -> None:
    text = OWN.replace("x[93] = -1", "").replace("np.arange(160) % 3", "np.arange(160) % 5")
    (tmp_path / "with_labels.py").write_text(text.replace("CLASSES", "3"))
    run = Run(Recipe(data=str(tmp_path / "with_labels.py"), device="cuda", batch_size=10), tmp_path / "out")
    with pytest.raises(wg.errors.OutOfRangeError, match=r"step \d+: (.|\n)*are all labels"):
        run.train()
