"""Copies beside the work on a GPU: right, and while a step is under way, as the trace shows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.data import ArrayDataset, DataLoader


def test_many_uploads_arrive_in_order() -> None:
    rng = np.random.default_rng(0)
    total = wg.zeros((1000, 100), device="cuda")
    expected = np.zeros((1000, 100), np.float32)
    array = wg.cuda.pinned((1000, 100))
    for i in range(50):
        given = rng.integers(0, 9, (1000, 100)).astype(np.float32)
        if i % 10:
            uploaded = wg.cuda.upload(given)
        else:
            array[...] = given
            uploaded = wg.cuda.upload(array)
        total = total + uploaded
        expected += given
        if i % 10 == 0:
            total.numpy()  # the pinned array may be filled anew
    assert (total.numpy() == expected).all()


def events(profile: Any, path: Path) -> dict[str, list[tuple[float, float]]]:
    """The intervals in each row of a trace, in microseconds."""
    told = json.loads(profile.trace(path).read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in told if event["ph"] == "M"}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names.values()}
    for event in told:
        if event["ph"] == "X":
            found[names[event["tid"]]].append((event["ts"], event["ts"] + event["dur"]))
    return found


@pytest.mark.alone
def test_a_batch_is_copied_while_the_one_before_is_worked_on(tmp_path: Path) -> None:
    weight = wg.random.normal((4096, 4096), device="cuda").to(wg.bfloat16)

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        y = x.to(wg.bfloat16)
        for _ in range(100):
            y = wg.tanh(y @ weight)
        return y.sum()

    batches, size = 12, 1024
    images = np.random.default_rng(0).integers(0, 2, (batches * size, 4096)).astype(np.uint8)
    loader = DataLoader(ArrayDataset(images), size, device="cuda")
    for (x,) in loader:
        step(x)
    wg.cuda.synchronize()
    with wg.profile() as profile:
        for (x,) in loader:
            step(x)
    rows = events(profile, tmp_path / "trace.json")
    kernels, copies = rows["cuda:0"], rows["copies to cuda:0"]
    assert len(copies) == batches and len(kernels) % batches == 0
    each = len(kernels) // batches
    steps = [(kernels[i][0], kernels[i + each - 1][1]) for i in range(0, len(kernels), each)]
    for (_, end_of_step), (start_of_next, _) in zip(steps, copies[1:]):
        assert start_of_next < end_of_step, (steps, copies)
    assert profile.computing <= profile.seconds


def test_the_kernels_of_a_profile_add_up() -> None:
    model = wg.models.resnet18(10, stem="cifar").to("cuda")
    optimizer = wg.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = wg.random.normal((256, 3, 32, 32), device="cuda"), wg.tensor(np.arange(256) % 10, device="cuda")

    @wg.compile
    def step(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        with wg.autocast(wg.bfloat16):
            loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        step(x, y)
    wg.cuda.synchronize()
    with wg.profile() as profile:
        for _ in range(5):
            step(x, y)
    print(profile.table("kernel", 12))
    print(profile.table("module", 6))
    assert profile.computing <= profile.seconds
    assert any("test_copies.py" in line for line in profile.rows("line"))
    assert any(name.startswith("ResNet.") for name in profile.rows("module"))


def test_a_download_does_not_wait_for_what_came_later() -> None:
    weight = wg.random.normal((4096, 4096), device="cuda").to(wg.bfloat16)

    @wg.compile
    def work(x: wg.Tensor) -> wg.Tensor:
        for _ in range(200):
            x = wg.tanh(x @ weight)
        return x

    for _ in range(3):
        later = work(weight)
    wg.cuda.synchronize()
    first = wg.cuda.download(wg.cuda.upload(np.arange(4)) + 1)
    start = time.perf_counter()
    later = work(weight)
    assert first.numpy().tolist() == [1, 2, 3, 4]
    without, _ = time.perf_counter() - start, later.numpy()
    assert without < 0.5 * (time.perf_counter() - start)
