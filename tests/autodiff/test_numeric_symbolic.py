"""One function, differentiated in every way there is."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff import numeric, symbolic
from wengert.core.errors import ArgumentError, DTypeError, GradientError


def f(x1: Any, x2: Any) -> wg.Tensor:
    return wg.log(x1) + x1 * x2 - wg.sin(x2)


SLOPES = (5.5, 2 - np.cos(5.0))  # of f at (2, 5)


def test_every_way_agrees() -> None:
    point = (wg.tensor(2.0, wg.float64), wg.tensor(5.0, wg.float64))
    one, zero = wg.tensor(1.0, wg.float64), wg.tensor(0.0, wg.float64)
    reverse = [g.item() for g in wg.grad(f, (0, 1))(*point)]
    forward = [wg.jvp(f, point, tangents)[1].item() for tangents in ((one, zero), (zero, one))]
    assert reverse == pytest.approx(SLOPES, rel=1e-14)
    assert forward == pytest.approx(SLOPES, rel=1e-14)
    assert [g.item() for g in numeric.grad(f, (0, 1))(*point)] == pytest.approx(SLOPES, rel=1e-8)
    assert list(symbolic.grad(f, (0, 1))(*point)) == pytest.approx(SLOPES, rel=1e-14)


# --- numeric --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "accuracy"), [("central", 1e-8), ("complex", 1e-15), ("richardson", 1e-10)])
def test_methods_are_as_exact_as_they_say(method: str, accuracy: float) -> None:
    slopes = [g.item() for g in numeric.grad(f, (0, 1), method=method)(2.0, 5.0)]
    assert slopes == pytest.approx(SLOPES, rel=accuracy)


def test_the_gradient_has_the_structure_of_the_argument() -> None:
    model = {"w": wg.tensor([[1.0, 2.0], [3.0, 4.0]]), "b": [np.array([0.5, -0.5]), 2.0]}
    loss = lambda m, k: wg.sum(m["w"] * m["w"]) * k + wg.sum(m["b"][0]) * m["b"][1]
    found = numeric.grad(loss)(model, 3)
    np.testing.assert_allclose(found["w"].numpy(), 6 * model["w"].numpy(), rtol=1e-7)
    np.testing.assert_allclose(found["b"][0].numpy(), [2.0, 2.0], rtol=1e-7)
    assert found["b"][1].item() == pytest.approx(0.0, abs=1e-9)
    assert found["w"].dtype is wg.float64


def test_a_given_step_is_used() -> None:
    cube = lambda x: x**3  # a central difference is off by the step squared
    assert numeric.grad(cube, step=0.5)(1.0).item() == pytest.approx(3.25)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: wg.abs(x) * x, "abs is not analytic"),
        (lambda x: wg.maximum(x, 0.0) * x, "maximum does not take complex128"),
        (lambda x: x if x > 0 else -x, "greater does not take complex128"),
        (lambda x: wg.real(x) ** 2, "real is not analytic"),
    ],
)
def test_the_complex_step_refuses_what_it_cannot_see_through(function: Any, reason: str) -> None:
    with pytest.raises(GradientError, match=f'{reason}.*try "central"'):
        numeric.grad(function, method="complex")(2.0)


def test_numeric_arguments_are_checked() -> None:
    with pytest.raises(ArgumentError, match="method must be"):
        numeric.grad(f, method="symbolic")
    with pytest.raises(ArgumentError, match="argnums 2"):
        numeric.grad(f, 2)(1.0, 2.0)
    with pytest.raises(DTypeError, match="only floating-point values have derivatives"):
        numeric.grad(f)(2, 5.0)
    with pytest.raises(ArgumentError, match="must return one number"):
        numeric.grad(lambda x: x)(np.ones(3))


# --- symbolic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: wg.tanh(x * 0.5) ** 3,
        lambda x: wg.sigmoid(x) / (1 + wg.exp(-x)) + wg.expm1(x) * wg.log1p(x * x),
        lambda x: wg.sqrt(wg.abs(x)) * wg.sign(x) + wg.maximum(x, 0.3) * wg.minimum(x, 2.0),
        lambda x: wg.where(x > 0, wg.sin(x) / x, wg.cos(x)) + wg.floor(3 * x * x) * x,
        lambda x: wg.atan2(x, 2.0) + wg.hypot(x, 1.0) + wg.logaddexp(x, 0.5) + wg.log2(x * x) + 2.0**x,
        lambda x: wg.stop_gradient(x * x) * x + wg.sum(wg.reshape(x, (1,))) * wg.mean(x),
        lambda x: wg.asinh(x) + wg.atan(x) + wg.cosh(x) * wg.sinh(x) + wg.reciprocal(1 + wg.square(x)) + x % 0.7,
        lambda x: wg.erf(x) * wg.lgamma(3 + x) + wg.digamma(4 + x),
        lambda x: wg.clip(x, -0.5, 0.5) * x + wg.logsumexp(x) + wg.astype(x > 0.1, wg.float64) * x,
    ],
)
@pytest.mark.parametrize("at", [1.3, -0.7])
def test_symbolic_is_reverse_mode(function: Any, at: float) -> None:
    expected = wg.grad(function)(wg.tensor(at, wg.float64)).item()
    assert float(symbolic.grad(function)(at)) == pytest.approx(expected, rel=1e-12)


def test_formulas_can_be_read() -> None:
    slope = symbolic.grad(f, (0, 1))
    assert str(slope.expression) == "x1*x2 + log(x1) - sin(x2)"
    assert str(slope.derivative) == "(x2 + 1/x1, x1 - cos(x2))"


def test_formulas_take_arrays() -> None:
    points = np.array([0.5, 1.0, -2.0])
    np.testing.assert_allclose(symbolic.grad(lambda x: x**3)(points), 3 * points**2)
    np.testing.assert_array_equal(symbolic.grad(lambda x: x * 2)(points), [2, 2, 2])


def test_what_has_no_formula_is_named_with_its_line() -> None:
    with pytest.raises(GradientError, match=r"round has no symbolic form\n  at test_numeric_symbolic.py:\d+"):
        symbolic.grad(lambda x: wg.round(x) * x)
    with pytest.raises(GradientError, match=r"returns shape \(3,\); only scalars"):
        symbolic.grad(lambda x: wg.sum(wg.broadcast_to(x, (3,))))
    with pytest.raises(GradientError, match="must return one number"):
        symbolic.grad(lambda x: 3.0)
    with pytest.raises(ArgumentError, match="argnums 1"):
        symbolic.grad(lambda x: x, 1)


def test_without_sympy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without_sympy(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "sympy":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "sympy", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_sympy)
    with pytest.raises(ImportError, match=r"wengert\[symbolic\]"):
        symbolic.grad(lambda x: x)
