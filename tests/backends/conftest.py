"""What tests of the backends share: a GPU of the emulator's, which no library knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import wengert as wg
from tests.backends.emulated import EMULATED, EmulatedDriver, install
from wengert.backends.cuda import blas, dnn, dnn_attention, fft, solver, solver_calls


@pytest.fixture(autouse=True)
def without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no library of NVIDIA's were installed: those that are there would look for a real GPU."""
    for module in (blas, dnn, dnn_attention, fft, solver, solver_calls):
        monkeypatch.setattr(module, "library", lambda: None)
    blas.candidates.cache_clear()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedDriver]:
    """A GPU that is the emulator, with the tiers that users have."""
    install(monkeypatch, EMULATED)
    before, wg.config.tier = wg.config.tier, "auto"
    yield EMULATED
    wg.config.tier = before
