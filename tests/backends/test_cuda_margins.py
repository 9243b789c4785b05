"""Totals of columns that steps over rows take in: the backward pass of a norm with the gradients of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from wengert.backends.cuda import margins

SHAPES = [(2048, 96), (4, 600, 100), (16, 2500), (2049, 96)]  # of the last, rows are left over


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(margins, "LARGE", 1)


def norm_step(shape: tuple[int, ...], dtype: Any, device: str) -> tuple[np.ndarray, list[np.ndarray], str]:
    """Two steps of a norm and a bias before it: the gradient of what comes in, the slots, and what is told of them."""
    rng = np.random.default_rng(0)
    draw = lambda *sizes: wg.tensor(rng.normal(size=sizes).astype(np.float32), device=device)
    x, cotangent = draw(*shape).to(dtype), draw(*shape).to(dtype)
    slots = [draw(shape[-1]) for _ in range(3)]

    @wg.compile
    def train(x: Any, cotangent: Any) -> Any:
        forward = lambda x, bias, *weights: wg.layer_norm(x.to(wg.float32) + bias, shape[-1:], *weights).to(dtype)
        gradient, *others = wg.vjp(forward, x, *slots)[1](cotangent)
        for slot, other in zip(slots, others):
            slot.assign(slot - 0.01 * other)
        return gradient

    gradients = [train(x, cotangent).to(wg.float32).numpy() for _ in range(2)]
    return gradients[1], [slot.numpy() for slot in slots], train.explain()


@pytest.mark.parametrize("dtype", [wg.float32, wg.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_norm_and_its_weights_are_one_step(gpu: EmulatedDriver, shape: tuple[int, ...], dtype: Any) -> None:
    gradient, slots, told = norm_step(shape, dtype, "cuda")
    expected, there, _ = norm_step(shape, dtype, "cpu")
    room = 2e-2 if dtype is wg.bfloat16 else 1e-4
    for found, wanted in zip([gradient, *slots], [expected, *there]):
        np.testing.assert_allclose(found, wanted, rtol=room, atol=room)
    assert ("add up columns" in told) == (shape != (2049, 96))
