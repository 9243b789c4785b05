"""Lion and Muon against their papers' formulas in NumPy, on given gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.optim.problem import MATRICES, SHAPES, assert_same, values, wengert_parameters

Arrays = list[np.ndarray[Any, Any]]


def gradients(shapes: list[tuple[int, ...]], dtype: Any, step: int) -> Arrays:
    return values(shapes, dtype, seed=100 + step)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", [{}, {"lr": 0.01, "betas": (0.8, 0.95)}, {"lr": 0.01, "weight_decay": 0.3}])
@pytest.mark.parametrize("maximize", [False, True])
def test_lion(options: dict[str, Any], dtype: Any, maximize: bool) -> None:
    """Algorithm 2 of arXiv:2302.06675."""
    lr, decay = options.get("lr", 1e-4), options.get("weight_decay", 0)
    beta1, beta2 = options.get("betas", (0.9, 0.99))
    theta = values(SHAPES, dtype)
    m: Arrays = [np.zeros_like(p) for p in theta]
    mine = wengert_parameters(theta)
    optimizer = wg.optim.Lion(mine, maximize=maximize, **options)
    for step in range(50):
        grads = gradients(SHAPES, dtype, step)
        optimizer.update(grads)
        for i, g in enumerate(-g if maximize else g for g in grads):
            update = np.sign(beta1 * m[i] + (1 - beta1) * g)
            theta[i] = np.asarray(theta[i] - lr * (update + decay * theta[i]), dtype)
            m[i] = np.asarray(beta2 * m[i] + (1 - beta2) * g, dtype)
    assert_same(mine, theta, *((1e-9, 1e-9) if dtype is np.float64 else (2e-5, 2e-6)))


def newton_schulz(g: np.ndarray[Any, Any], steps: int = 5, eps: float = 1e-7) -> np.ndarray[Any, Any]:
    """`zeropower_via_newtonschulz5` of Keller Jordan's post, in the dtype of its argument."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / max(np.linalg.norm(x), eps)
    for _ in range(steps):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if g.shape[0] > g.shape[1] else x


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("adjust", [None, "original", "match_rms_adamw"])
def test_muon(dtype: Any, nesterov: bool, adjust: str | None) -> None:
    lr, mu, decay = 0.02, 0.9, 0.2
    theta = values(MATRICES, dtype)
    m: Arrays = [np.zeros_like(p) for p in theta]
    mine = wengert_parameters(theta)
    optimizer = wg.optim.Muon(mine, lr, decay, mu, nesterov, adjust_lr_fn=adjust)
    for step in range(50):
        grads = gradients(MATRICES, dtype, step)
        optimizer.update(grads)
        for i, g in enumerate(grads):
            m[i] = np.asarray(mu * m[i] + (1 - mu) * g, dtype)
            along = (1 - mu) * g + mu * m[i] if nesterov else m[i]
            rows, columns = g.shape
            ratio = 0.2 * math.sqrt(max(g.shape)) if adjust == "match_rms_adamw" else math.sqrt(max(1, rows / columns))
            theta[i] = np.asarray(theta[i] * (1 - lr * decay) - lr * ratio * newton_schulz(along), dtype)
    assert_same(mine, theta, *((1e-9, 1e-9) if dtype is np.float64 else (1e-4, 1e-4)))


def test_newton_schulz_makes_singular_values_near_one() -> None:
    from wengert.optim.muon import orthogonalized

    matrix = values([(6, 9)])[0]
    result = orthogonalized(wg.tensor(matrix), (3.4445, -4.7750, 2.0315), 5, 1e-7).numpy()
    assert np.all(np.abs(np.linalg.svd(result)[1] - 1) < 0.35)


def test_muon_takes_matrices_only() -> None:
    with pytest.raises(wg.errors.ShapeError, match=r"shape \(4,\) goes to AdamW"):
        wg.optim.Muon([wg.zeros((4,), requires_grad=True)])
    with pytest.raises(wg.errors.ArgumentError, match="match_rms_adamw"):
        wg.optim.Muon([wg.zeros((4, 2), requires_grad=True)], adjust_lr_fn="adam")
