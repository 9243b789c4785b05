"""Certificates of programs on a GPU, which is the emulator here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.compiler.test_faults import around, swapped
from wengert.plan import lower


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found of an emulated GPU is not kept for a real one."""
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))


def certificate() -> Any:
    rng = np.random.default_rng(0)
    x, w = (wg.tensor(rng.normal(size=shape).astype(np.float32)).to("cuda") for shape in ((40, 64), (64, 24)))
    compiled = wg.compile(lambda x, w: (wg.softmax(wg.tanh(x @ w) * 1.0, axis=1), wg.var(x, axis=0)))
    compiled(x, w)
    return compiled.certificate()


def test_rules_and_kernels_of_a_gpu_are_proved(gpu: EmulatedDriver) -> None:
    found = certificate()
    assert found, str(found)
    assert "cuda: one_pass_variance" in [one.label for one in found.rules]
    assert len(found.kernels) == 3 and found.device == "cuda:0"


@pytest.mark.slow
def test_a_fault_in_a_cuda_kernel_is_named(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    around(lower, "Let", swapped)(monkeypatch)  # x - y is y - x, whatever the device
    found = certificate()
    assert any("exp" in one.label for one in found.failed), str(found)
