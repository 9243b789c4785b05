"""Solving: beside SciPy, compiled as interpreted, and many trajectories at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ode.problems import LORENZ, RATES, STIFF, lorenz, real, robertson
from wengert import Tensor

scipy = pytest.importorskip("scipy.integrate")


def test_lorenz_beside_scipy() -> None:
    ts = np.linspace(0, 5, 11)
    slope = lambda t, y: [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]
    exact = scipy.solve_ivp(slope, (0, 5), [1.0, 1.0, 1.0], "DOP853", ts, rtol=1e-12, atol=1e-12).y
    start = (real(1.0), real(1.0), real(1.0))
    found = wg.ode.solve(lorenz, start, ts, LORENZ, method="dopri8", rtol=1e-10, atol=1e-10)
    assert np.abs(np.stack([one.numpy() for one in found.ys]) - exact).max() < 1e-5  # errors grow by e^4.5


@pytest.mark.parametrize("method", STIFF)
def test_robertson_beside_scipy(method: str) -> None:
    ts = np.array([0, 0.4, 40, 4e3, 4e5])

    def slope(t: float, y: Any) -> list[float]:
        slow, middle, fast = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return [middle - slow, slow - middle - fast, fast]

    exact = scipy.solve_ivp(slope, (0, 4e5), [1.0, 0, 0], "Radau", ts, rtol=1e-10, atol=1e-15).y[:, 1:]
    start = (real(1.0), real(0.0), real(0.0))
    found = wg.ode.solve(robertson, start, ts, RATES, method=method, rtol=1e-5, atol=(1e-7, 1e-11, 1e-7))
    assert np.abs(np.stack([one.numpy()[1:] for one in found.ys]) / exact - 1).max() < 1e-3
    assert found.steps.item() < 300


def test_many_rows_of_a_jacobian_go_through_linalg() -> None:
    """Heat in a rod of 12 parts, where the matrix is too large to be eliminated element by element."""
    n = 12
    start = np.sin(np.pi * np.arange(1, n + 1) / (n + 1))
    rate = 4 * (n + 1) ** 2 * np.sin(np.pi / 2 / (n + 1)) ** 2

    def heat(t: Tensor, u: Tensor, conductivity: Tensor) -> Tensor:
        ends = wg.zeros((1,), dtype=u.dtype)
        beside = wg.concat([ends, u[:-1]]) + wg.concat([u[1:], ends])
        return conductivity * (beside - 2 * u) * (n + 1) ** 2

    def warmth(conductivity: Tensor) -> Tensor:
        found = wg.ode.solve(heat, real(start), [0.0, 0.1], conductivity, method="rodas4")
        return found.y.sum()

    value, slope = wg.value_and_grad(warmth)(real(1.0))
    exact = np.exp(-0.1 * rate) * start.sum()
    assert abs(value.item() - exact) < 1e-5 and abs(slope.item() + 0.1 * rate * exact) < 1e-4


def test_elimination_exchanges_rows() -> None:
    from wengert.ode.factored import factored

    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 9):
        matrix, right = rng.normal(size=(n, n)), rng.normal(size=n)
        matrix[0, 0] = 0.0 if n > 1 else 2.0
        assert np.abs(matrix @ factored(real(matrix))(real(right)).numpy() - right).max() < 1e-10


def bent(x: Tensor, rate: Tensor) -> Tensor:
    return wg.ode.solve(lambda t, y, r: -r * y * y, x, np.linspace(0, 1, 4), rate).ys


def test_an_ensemble_is_its_trajectories() -> None:
    x, rates = np.linspace(0.1, 4, 40), np.linspace(0.5, 20, 40)
    exact = x[:, None] / (1 + rates[:, None] * x[:, None] * np.linspace(0, 1, 4))
    whole = wg.vmap(bent)
    found = whole(real(x), real(rates)).numpy()
    assert np.abs(found - exact).max() < 2e-6
    program: Any = wg.compile(whole)
    assert np.abs(program(real(x), real(rates)).numpy() - found).max() < 1e-12
    alone = wg.vmap(lambda x, rate: wg.ode.solve(lambda t, y, r: -r * y * y, x, [0.0, 1.0], rate).steps)
    steps = alone(real(x), real(rates)).numpy()
    assert steps.min() < steps.max()  # each lane takes the steps that it needs
    first = wg.ode.solve(lambda t, y, r: -r * y * y, real(x[0]), [0.0, 1.0], real(rates[0]))
    assert steps[0] == first.steps.item()


def test_the_gradient_of_an_ensemble() -> None:
    x, rates = real(np.linspace(0.1, 4, 8)), real(np.linspace(0.5, 20, 8))
    total = lambda x, rate: wg.ode.solve(lambda t, y, r: -r * y * y, x, [0.0, 1.0], rate).y
    found = wg.vmap(wg.grad(total))(x, rates).numpy()
    assert np.abs(found - 1 / (1 + rates.numpy() * x.numpy()) ** 2).max() < 2e-6


@pytest.mark.parametrize("method", ["tsit5", "rodas5"])
def test_compiled_as_interpreted(method: str) -> None:
    solve = lambda x: wg.ode.solve(lorenz, (x, x, x), [0.0, 0.5], LORENZ, method=method)
    apart = solve(real(1.0))
    program: Any = wg.compile(lambda x: (lambda found: (found.y, found.steps))(solve(x)))
    y, steps = program(real(1.0))
    assert steps.item() == apart.steps.item()
    assert max(abs(a.item() - b.item()) for a, b in zip(y, apart.y)) < 1e-12


def test_values_between_stiff_steps_are_as_exact() -> None:
    """Slopes at the ends of steps are not amplified by the stiffness, which Hermite's polynomial would pass on."""
    start, ts = (real(1.0), real(0.0), real(0.0)), [0.0, 4.0, 4e3, 4e5, 4e6]
    exact = wg.ode.solve(robertson, start, ts, RATES, method="rodas5", rtol=1e-8, atol=1e-12).ys
    found = wg.ode.solve(robertson, start, ts, RATES, method="kvaerno5", rtol=1e-6, atol=1e-10).ys
    for a, b in zip(found, exact):
        np.testing.assert_allclose(a.numpy()[1:], b.numpy()[1:], rtol=5e-5)
