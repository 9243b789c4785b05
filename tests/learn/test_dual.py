"""Dual numbers: their derivatives are Wengert's, to second order, and a direction costs one call."""

from __future__ import annotations

import pytest

import wengert as wg
from wengert.learn import dual
from wengert.learn.dual import Dual


def on(functions):
    return lambda x, y: functions.log(x) + x * y - functions.sin(y) / (2.0 - x) + 3.0 / y + functions.exp(-x) * y**3


def test_gradients_are_wengert_s():
    found = dual.gradient(on(dual), (0.7, 1.3))
    expected = wg.grad(on(wg), argnums=(0, 1))(wg.tensor(0.7, wg.float64), wg.tensor(1.3, wg.float64))
    assert found == pytest.approx([slope.item() for slope in expected], rel=1e-12)


def test_a_direction_takes_one_call():
    calls = []

    def f(x, y):
        calls.append(1)
        return dual.cos(x) * y

    assert dual.jvp(f, (0.5, 2.0), (3.0, -1.0)) == pytest.approx(3 * dual.gradient(f, (0.5, 2.0))[0] - dual.cos(0.5))
    assert len(calls) == 3


def test_dual_numbers_of_dual_numbers_give_second_derivatives():
    second = dual.gradient(lambda x: dual.gradient(lambda z: dual.sin(z) * z**2, [x])[0], [0.8])[0]
    expected = wg.grad(wg.grad(lambda z: wg.sin(z) * z**2))(wg.tensor(0.8, wg.float64)).item()
    assert second == pytest.approx(expected, rel=1e-12)


def test_a_constant_does_not_move():
    assert dual.gradient(lambda x: dual.as_dual(4.0), [1.0]) == [0.0]
    assert repr(Dual(2.0, 1.0) - 1) == "1.0 + 1.0ε"
