"""What the sanitizer is given: a work of every kind of kernel, with all the buffers that its launches name."""

from __future__ import annotations

import pytest

from tests.backends.emulated import IdleDriver
from tests.gpu.works import every_work
from wengert import devices
from wengert.backends.cuda import driver
from wengert.kernels.launch import H200


def test_every_kind_of_kernel_is_there_with_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = IdleDriver()
    idle.figures = H200
    monkeypatch.setattr(driver, "_open", {"cuda:0": idle})
    monkeypatch.setattr(devices, "_opened", {"cuda:0"})
    headers: set[str] = set()
    for item in every_work(graphs=10, every=60):
        known = {*item.given, *item.empty, *item.work.workspace}
        for launch in item.work.launches:
            assert known >= set(launch.buffers), item.name
            headers |= {line.split('"')[1] for line in launch.source.splitlines() if line.startswith('#include "')}
    expected = {"block.cuh", "gemm_mma.cuh", "gemm_wgmma.cuh", "attention.cuh", "attention_mma.cuh"}
    assert expected <= headers, headers
