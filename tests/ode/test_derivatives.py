"""Derivatives of solutions: the discrete adjoint in every mode and order, the continuous one within tolerances."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ode.problems import LORENZ, RATES, flat, lorenz, real, robertson
from wengert import Tensor

AT = (real(1.0), LORENZ, real(0.5))
"""Where the Lorenz equations begin, their parameters, and the end time."""


def ending(method: str, **options: Any) -> Any:
    """A number made from the state at the end, by start, parameters and end time."""

    def function(x: Tensor, parameters: Any, end: Tensor) -> Tensor:
        start = (x, real(1.0), real(1.0))
        chosen = {"rtol": 1e-8, "atol": 1e-8, **options}
        found = wg.ode.solve(lorenz, start, [0.0, end], parameters, method=method, **chosen)
        return found.y[0] + 2.0 * found.y[2]

    return function


@pytest.mark.parametrize("method", ["tsit5", "dopri8", "rodas4", "kvaerno5"])
def test_the_discrete_adjoint_is_forward_mode(method: str) -> None:
    function = ending(method, rtol=1e-5, atol=1e-5)
    gradient = flat(wg.grad(function, argnums=(0, 1, 2))(*AT))
    structure = wg.tree.flatten(AT)[1]
    for along in (np.array([1.0, 0.3, -0.7, 0.2, 0.0]), np.array([0.0, 0.0, 0.0, 0.0, 1.0])):
        direction = wg.tree.unflatten(structure, [real(one) for one in along])
        pushed = wg.jvp(function, AT, direction)[1].item()
        assert abs(pushed - gradient @ along) <= 1e-10 * abs(pushed)


def test_gradients_are_those_of_numeric_differences() -> None:
    function = ending("tsit5")
    gradient = flat(wg.grad(function, argnums=(0, 1, 2))(*AT))
    leaves, structure = wg.tree.flatten(AT)
    for i in (0, 2, 4):  # the start, a parameter, the end time
        values = []
        for sign in (1, -1):
            moved = [leaf + sign * 1e-4 if i == k else leaf for k, leaf in enumerate(leaves)]
            values.append(function(*wg.tree.unflatten(structure, moved)).item())
        assert abs((values[0] - values[1]) / 2e-4 - gradient[i]) < 1e-4 * max(1, abs(gradient[i]))


def test_compiled_gradients_are_the_interpreted_ones() -> None:
    ts = np.linspace(0, 0.5, 4)

    def total(x: Tensor) -> Tensor:
        found = wg.ode.solve(lambda t, y, rate: -rate * y * y, x, ts, 2.0)
        return (found.ys * found.ys).sum()

    both: Any = wg.value_and_grad(total)
    program: Any = wg.compile(both)
    assert np.abs(flat(program(real(1.5))) - flat(both(real(1.5)))).max() < 1e-12


def decaying(rate: Tensor, **options: Any) -> Tensor:
    return wg.ode.solve(lambda t, y, r: -r * y, real(1.0), [0.0, 1.0], rate, rtol=1e-9, atol=1e-9, **options).y


@pytest.mark.parametrize("method", ["tsit5", "rodas5", "kvaerno5"])
def test_second_derivatives(method: str) -> None:
    twice = wg.grad(wg.grad(lambda rate: decaying(rate, method=method)))
    assert abs(twice(real(0.5)).item() - np.exp(-0.5)) < 1e-7


def test_times_have_gradients() -> None:
    def between(ts: Tensor) -> Tensor:
        return wg.ode.solve(lambda t, y, _: y * t, real(1.0), ts, rtol=1e-10, atol=1e-10, method="dopri8").ys

    ts = np.array([0.3, 0.8, 1.0])
    found = wg.jacobian(between)(real(ts)).numpy()
    y = np.exp((ts**2 - ts[0] ** 2) / 2)
    assert np.abs(found - (np.diag(ts * y) - np.outer(ts[0] * y, [1, 0, 0]))).max() < 1e-7


def test_fewer_checkpoints_give_the_same_gradient() -> None:
    gradient = wg.grad(ending("tsit5", rtol=1e-6))(*AT).item()
    assert abs(wg.grad(ending("tsit5", rtol=1e-6, memory="1 kB"))(*AT).item() - gradient) < 1e-12 * abs(gradient)


def test_a_stiff_gradient_is_forward_mode_s() -> None:
    def left(rates: Any) -> Tensor:
        start = (real(1.0), real(0.0), real(0.0))
        return wg.ode.solve(robertson, start, [0.0, 4.0], rates, method="rodas5", rtol=1e-4, atol=1e-8).y[0]

    gradient = flat(wg.grad(left)(RATES))
    pushed = wg.jvp(left, (RATES,), ((real(0.0), real(1.0), real(0.0)),))[1].item()
    assert abs(pushed / gradient[1] - 1) < 1e-10
    moved = [left((RATES[0] * (1 + sign * 1e-4), *RATES[1:])).item() for sign in (1, -1)]
    assert abs((moved[0] - moved[1]) / (2e-4 * 0.04) / gradient[0] - 1) < 1e-3


def test_steps_into_nan_leave_no_nan_in_the_gradient() -> None:
    """A first step that is too long leaves the domain of the square root; it is taken again, shorter."""

    def emptied(rate: Tensor) -> Any:
        level = lambda t, y, rate: -rate * wg.sqrt(y)
        return wg.ode.solve(level, real(1.0), [0.0, 1.5], rate, first_step=5.0, rtol=1e-8)

    assert emptied(real(1.0)).rejected.item() > 0
    assert abs(wg.grad(lambda rate: emptied(rate).y)(real(1.0)).item() + 2 * 0.25 * 0.75) < 1e-5


# --- the continuous adjoint -------------------------------------------------------------------------------------------


def squares(y0: Tensor, parameters: Any, ts: Tensor, **options: Any) -> Tensor:
    def slope(t: Tensor, y: Tensor, given: Any) -> Tensor:
        return wg.sin(y * given[0]) + given[1] * wg.cos(t)

    return (wg.ode.solve(slope, y0, ts, parameters, **options).ys ** 2).sum()


def test_the_error_of_the_continuous_adjoint_falls_with_the_tolerance() -> None:
    at = (real([0.3, -0.4]), (real([1.0, 2.0]), real(0.7)), real([0.0, 0.5, 1.3, 2.0]))
    gradient = wg.grad(squares, argnums=(0, 1, 2))
    exact = flat(gradient(*at, method="dopri8", rtol=1e-11, atol=1e-12))
    wrong = []
    for tolerance in (1e-3, 1e-5, 1e-7, 1e-9):
        found = gradient(*at, adjoint="continuous", rtol=tolerance, atol=tolerance)
        wrong.append(np.abs(flat(found) - exact).max())
    assert wrong[0] < 1e-2 and wrong[3] < 1e-7
    assert all(after < before / 3 for before, after in pairwise(wrong))


def test_the_continuous_adjoint_reaches_what_f_captured() -> None:
    def total(rate: Tensor) -> Tensor:
        slope = lambda t, y, _: -rate * y
        return wg.ode.solve(slope, real(1.0), [0.0, 0.3, 1.0], adjoint="continuous").ys.sum()

    assert abs(wg.grad(total)(real(0.7)).item() + 0.3 * np.exp(-0.21) + np.exp(-0.7)) < 1e-6


@pytest.mark.parametrize("adjoint", ["discrete", "continuous"])
def test_a_module_s_parameters_get_gradients(adjoint: str) -> None:
    wg.manual_seed(0)
    net = wg.nn.Linear(2, 2)
    found = wg.ode.solve(lambda t, y, net: wg.tanh(net(y)), wg.ones((2,)), [0.0, 1.0], net, adjoint=adjoint)
    found.y.sum().backward()
    weight = net.weight.detach().numpy().copy()
    values = []
    for sign in (1, -1):
        net.weight.assign(wg.tensor(weight + sign * np.array([[1e-2, 0], [0, 0]], np.float32)))
        ended = wg.ode.solve(lambda t, y, net: wg.tanh(net(y)), wg.ones((2,)), [0.0, 1.0], net)
        values.append(ended.y.detach().sum().item())
    assert abs((values[0] - values[1]) / 2e-2 - net.weight.grad.numpy()[0, 0]) < 1e-3


def test_forward_mode_goes_through_a_continuous_solve() -> None:
    pushed = wg.jvp(lambda rate: decaying(rate, adjoint="continuous"), (real(0.5),), (real(1.0),))[1]
    assert abs(pushed.item() + np.exp(-0.5)) < 1e-7


@pytest.mark.parametrize("method", ["tsit5", "dopri8"])
def test_a_compiled_jacobian_takes_the_steps_of_the_values(method: str) -> None:
    """The loop with the tangents of all columns computes the values once, by the steps of the loop of values."""
    ts = np.array([0.0, 1.0, 2.0])

    def slope(t: wg.Tensor, y: wg.Tensor, k: wg.Tensor) -> wg.Tensor:
        return wg.stack([y[1], -k * wg.sin(y[0])])

    def states(p: wg.Tensor) -> wg.Tensor:
        return wg.ode.solve(slope, p[:2], ts, p[2], method=method, rtol=1e-12, atol=1e-13).ys.reshape((-1,))

    jacobian = wg.jacobian(states, mode="forward")
    at = wg.tensor(np.array([1.0, 0.3, 2.0]))
    np.testing.assert_allclose(wg.compile(jacobian)(at).numpy(), jacobian(at).numpy(), rtol=1e-11, atol=1e-12)
