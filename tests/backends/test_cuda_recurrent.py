"""Recurrent layers on an emulated GPU: whole training steps against the CPU's, with no loop left on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.kernels.emulator import compiler
from wengert.kernels.launch import RTX_2080

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")


def losses(
    device: str,
    kind: str,
    packed: bool,
    options: dict[str, Any],
    shape: tuple[int, int, int] = (4, 3, 8),
    size: int = 12,
) -> tuple[list[float], str]:
    """The losses of three compiled training steps, and how they were computed."""
    wg.manual_seed(0)
    model = getattr(wg.nn, kind)(shape[2], size, **options)
    model.to(device)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.05)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    lengths = [4, 3, 1]

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        given = wg.nn.pack_padded_sequence(x, lengths) if packed else x
        outputs, _ = model(given)
        loss = wg.mean((wg.nn.pad_packed_sequence(outputs)[0] if packed else outputs) ** 2)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    given = wg.tensor(x, device=device)
    return [step(given).item() for _ in range(3)], str(step.explain())


@pytest.mark.parametrize(
    "kind, packed, options",
    [
        ("LSTM", False, {"num_layers": 2}),
        ("LSTM", False, {"proj_size": 6}),
        ("GRU", False, {"bidirectional": True}),
        ("GRU", True, {}),
        ("RNN", False, {"nonlinearity": "relu"}),
    ],
)
def test_training(
    gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch, kind: str, packed: bool, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(gpu, "properties", replace(RTX_2080, sms=6))
    expected, _ = losses("cpu", kind, packed, options)
    found, explained = losses("cuda", kind, packed, options)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert "wg_recurrent" in explained and "by its reference" not in explained
