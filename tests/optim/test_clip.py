"""Gradient clipping beside torch's, and what it does with infinities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.optim.problem import SHAPES, values, wengert_parameters


def with_gradients(dtype: Any = np.float64) -> list[wg.Tensor]:
    params = wengert_parameters(values(SHAPES, dtype))
    for p, g in zip(params[:-1], values(SHAPES, dtype, seed=1)):  # the last has none
        p.grad = wg.tensor(g)
    return params


def with_torch_gradients(dtype: Any = np.float64) -> list[Any]:
    import torch

    params = [torch.tensor(value) for value in values(SHAPES, dtype)]
    for p, g in zip(params[:-1], values(SHAPES, dtype, seed=1)):
        p.grad = torch.tensor(g)
    return params


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("norm_type", [2.0, 1, 3.0, math.inf, 0.5])
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1000.0])
def test_by_norm(max_norm: float, norm_type: float, dtype: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    mine, theirs = with_gradients(dtype), with_torch_gradients(dtype)
    total = wg.optim.clip_grad_norm_(mine, max_norm, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    rtol = 1e-9 if dtype is np.float64 else 2e-6
    np.testing.assert_allclose(total.numpy(), expected.numpy(), rtol=rtol)
    assert mine[-1].grad is None
    for a, b in zip(mine[:-1], theirs):
        assert a.grad is not None
        assert a.grad.dtype == dtype
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=rtol)


@pytest.mark.parametrize("clip_value", [0.0, 0.3, 100.0])
def test_by_value(clip_value: float) -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    mine, theirs = with_gradients(), with_torch_gradients()
    wg.optim.clip_grad_value_(mine, clip_value)
    torch.nn.utils.clip_grad_value_(theirs, clip_value)
    for a, b in zip(mine[:-1], theirs):
        assert a.grad is not None
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())


def test_one_tensor_and_none() -> None:
    w = with_gradients()[0]
    assert wg.optim.clip_grad_norm_(w, 0.5).item() > 0.5
    assert w.grad is not None
    assert w.grad.norm().item() == pytest.approx(0.5, rel=1e-5)
    w.grad = None
    assert wg.optim.clip_grad_norm_([w], 0.5).item() == 0.0


def test_norms_of_halves_are_taken_in_float32() -> None:
    w = wg.zeros((300,), dtype=wg.float16, requires_grad=True)
    w.grad = wg.full((300,), 300.0, dtype=wg.float16)  # the sum of squares is beyond float16
    total = wg.optim.clip_grad_norm_([w], 1.0)
    assert total.item() == pytest.approx(300 * math.sqrt(300), rel=1e-6)
    assert w.grad.dtype == wg.float16


def test_a_norm_that_is_not_finite() -> None:
    w = with_gradients()[0]
    assert w.grad is not None
    w.grad[0, 0] = np.inf
    with pytest.raises(wg.errors.GradientError, match="the norm of the gradients is inf"):
        wg.optim.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)
    assert wg.optim.clip_grad_norm_([w], 1.0).item() == math.inf


def test_a_negative_bound() -> None:
    with pytest.raises(wg.errors.ArgumentError, match="negative"):
        wg.optim.clip_grad_value_(with_gradients(), -1.0)


def test_clipping_looks_at_no_value() -> None:
    w = wg.tensor([3.0, 4.0], requires_grad=True)
    optimizer = wg.optim.SGD([w], lr=1.0)

    def step(carry: wg.Tensor, gradient: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        w.grad = gradient
        norm = wg.optim.clip_grad_norm_([w], 1.0)
        wg.optim.clip_grad_value_([w], 0.7)
        optimizer.step()
        optimizer.zero_grad()
        return carry, norm

    _, norms = wg.scan(step, wg.tensor(0.0), wg.tensor([[3.0, 4.0], [0.0, 0.5]]))
    assert norms.tolist() == [5.0, 0.5]
    np.testing.assert_allclose(w.detach().numpy(), [3.0 - 0.6, 4.0 - 0.7 - 0.5], rtol=1e-6)
