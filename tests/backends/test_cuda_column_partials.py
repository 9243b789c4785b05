"""Totals of columns that steps over rows take in: the backward pass of a norm with the gradients of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from wengert.plan import lowering

SHAPES = [(2048, 96), (4, 600, 100), (16, 2500), (2049, 96)]  # of the last, rows are left over


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "LARGE", 1)


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
    return gradients[1], [slot.detach().numpy() for slot in slots], train.explain()


@pytest.mark.parametrize("dtype", [wg.float32, wg.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_norm_and_its_weights_are_one_step(gpu: EmulatedDriver, shape: tuple[int, ...], dtype: Any) -> None:
    gradient, slots, told = norm_step(shape, dtype, "cuda")
    expected, there, _ = norm_step(shape, dtype, "cpu")
    room = 2e-2 if dtype is wg.bfloat16 else 1e-4
    for found, wanted in zip([gradient, *slots], [expected, *there]):
        np.testing.assert_allclose(found, wanted, rtol=room, atol=room)
    assert ("add up columns" in told) == (shape != (2049, 96))


def norms_step(layers: int, device: str) -> tuple[list[np.ndarray], str]:
    """Two steps of some norms with products between them: their weights and biases, and what is told of them."""
    rng = np.random.default_rng(0)
    draw = lambda *sizes: wg.tensor(rng.normal(size=sizes).astype(np.float32), device=device)
    x, cotangent, turn = draw(1024, 96), draw(1024, 96), draw(96, 96) / 10
    slots = [draw(96) for _ in range(3 * layers)]

    def forward(*slots: Any) -> Any:
        y = x
        for k in range(layers):
            y = y @ turn + slots[3 * k]
            y = wg.layer_norm(y, (96,), slots[3 * k + 1], slots[3 * k + 2])
        return y

    @wg.compile
    def train() -> None:
        for slot, gradient in zip(slots, wg.vjp(forward, *slots)[1](cotangent)):
            slot.assign(slot - 0.01 * gradient)

    train()
    train()
    return [slot.detach().numpy() for slot in slots], train.explain()


@pytest.mark.parametrize("layers", [3, 4])
@pytest.mark.slow
def test_gradients_of_several_norms_are_closed_at_once(gpu: EmulatedDriver, layers: int) -> None:
    """But for the last norm, whose cotangent is given, and the first, which has no gradient of its operand."""
    slots, told = norms_step(layers, "cuda")
    for found, wanted in zip(slots, norms_step(layers, "cpu")[0]):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert told.count("add up columns") == layers - 1
    assert (f"{layers - 2} kernels of one text" in told) == (layers > 3)


def test_who_needs_a_gradient_at_once_has_it(gpu: EmulatedDriver) -> None:
    """The gradient of one norm's weight takes part in the next step of the backward pass: nothing may be put off."""

    def step(device: str) -> tuple[list[np.ndarray], str]:
        rng = np.random.default_rng(0)
        draw = lambda *sizes: wg.tensor(rng.normal(size=sizes).astype(np.float32), device=device)
        x, cotangent, turn = draw(1024, 96), draw(1024, 96), draw(96, 96) / 10
        weights = [draw(96) for _ in range(3)]

        @wg.compile
        def gradients() -> Any:
            found, running = [], cotangent
            for weight in weights:
                forward = lambda x, weight: wg.layer_norm(x, (96,), weight)
                running, gradient = wg.vjp(forward, x, weight)[1](running)
                running = running * wg.tanh(gradient) @ turn
                found.append(gradient)
            return (*found, running)

        return [gradient.numpy() for gradient in gradients()], gradients.explain()

    found, told = step("cuda")
    for one, other in zip(found, step("cpu")[0]):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    assert "kernels of one text" not in told


TOTALS: dict[str, Any] = {
    "any and all of floats": lambda x, z: (
        wg.any(wg.where(z > 0.3, 0.5, 0.0), 0),
        wg.all(wg.where(z > -0.3, 0.5, 0.0), 0),
    ),
    "three of one load, and one more": lambda x, z: (wg.sum(x, 0), wg.max(x, 0), wg.min(x, 0), wg.sum(z, 0)),
    "products and a mean": lambda x, z: (wg.prod(wg.cos(z / 100), 0), wg.mean(z, 0)),
    "counts": lambda x, z: (wg.sum((z > 0).to(wg.int32), 0), wg.sum(z, 0)),
}


@pytest.mark.parametrize("name", TOTALS)
def test_totals_of_all_kinds_are_taken_along(gpu: EmulatedDriver, name: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(1024, 96)).astype(np.float32) for _ in range(2)]

    def found(device: str) -> tuple[list[np.ndarray], str]:
        @wg.compile
        def function(x: Any, y: Any) -> Any:
            z = x * wg.sum(x * y, -1, keepdims=True) * 0.01
            return (z, *TOTALS[name](x, z))

        return [y.numpy() for y in function(*(wg.tensor(a, device=device) for a in arrays))], function.explain()

    results, told = found("cuda")
    assert "add up columns" in told
    for one, other in zip(results, found("cpu")[0]):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
