"""Special functions over wide ranges: tiny, huge, negative, at poles, against SciPy and 40-digit arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special as sp

import wengert as wg

INF, NAN = np.inf, np.nan


def value(function: Callable[..., wg.Tensor], x: Any) -> np.ndarray:
    return function(wg.tensor(np.asarray(x, np.float64))).numpy()


def exact(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    with mpmath.workdps(40):
        return np.array([float(mpmath.re(function(mpmath.mpf(float(v))))) for v in x])


rng = np.random.default_rng(0)
SPREAD = np.concatenate([10.0 ** rng.uniform(-300, 1.4, 200), rng.uniform(0, 30, 200)])


@pytest.mark.parametrize("x", [SPREAD, -SPREAD, np.linspace(-1.01, 1.01, 203)], ids=["positive", "negative", "near 1"])
def test_erf_and_erfc_are_exact_to_rounding(x: np.ndarray) -> None:
    np.testing.assert_allclose(value(wg.erf, x), exact(mpmath.erf, x), rtol=1e-15)
    normal = x[x < 26]  # beyond, erfc is less than the smallest normal number
    np.testing.assert_allclose(value(wg.erfc, normal), exact(mpmath.erfc, normal), rtol=2e-15)


def test_erfinv_is_exact_up_to_the_last_number_before_one() -> None:
    y = np.concatenate(
        [rng.uniform(-1, 1, 200), 1 - 10.0 ** rng.uniform(-15, -1, 100), 10.0 ** rng.uniform(-300, 0, 100)]
    )
    y = np.append(y, 1 - 2.0**-53)
    np.testing.assert_allclose(value(wg.erfinv, y), sp.erfinv(y), rtol=3e-15)


POSITIVE = np.concatenate([10.0 ** rng.uniform(-300, 0, 150), rng.uniform(0, 12, 400), rng.uniform(12, 1e4, 100)])
NEAR_ROOTS = np.concatenate([1 + rng.uniform(-1e-3, 1e-3, 50), 2 + rng.uniform(-1e-6, 1e-6, 50), [1.4616321449683622]])
NEGATIVE = np.concatenate([rng.uniform(-40, 0, 300), -(10.0 ** rng.uniform(-300, -1, 50))])


@pytest.mark.parametrize("x", [POSITIVE, NEAR_ROOTS], ids=["positive", "near the roots"])
def test_gamma_functions_are_exact_on_the_positive_axis(x: np.ndarray) -> None:
    np.testing.assert_allclose(value(wg.lgamma, x), exact(mpmath.loggamma, x), rtol=2e-15)
    np.testing.assert_allclose(value(wg.digamma, x), exact(mpmath.digamma, x), rtol=2e-15)


def test_gamma_functions_on_the_negative_axis() -> None:
    np.testing.assert_allclose(value(wg.lgamma, NEGATIVE), exact(mpmath.loggamma, NEGATIVE), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(value(wg.digamma, NEGATIVE), exact(mpmath.digamma, NEGATIVE), rtol=1e-13, atol=1e-13)


def test_huge_arguments() -> None:
    x = 10.0 ** rng.uniform(4, 305, 100)
    np.testing.assert_allclose(value(wg.lgamma, x), exact(mpmath.loggamma, x), rtol=1e-15)
    np.testing.assert_allclose(value(wg.digamma, x), np.log(x), rtol=1e-4)
    assert value(wg.lgamma, [1e308, INF]).tolist() == [INF, INF]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_polygamma_of_every_order(n: int) -> None:
    polygamma = lambda x: wg.polygamma(n, x)
    x = np.concatenate([rng.uniform(0.01, 30, 100), rng.uniform(30, 1e5, 30)])
    np.testing.assert_allclose(value(polygamma, x), sp.polygamma(n, x), rtol=5e-15)
    x = rng.uniform(-20, 0, 60)
    truth = exact(lambda v: mpmath.polygamma(n, v), x)
    scale = np.abs(truth).min(initial=1) + sp.factorial(n) * np.pi ** (n + 1)
    np.testing.assert_allclose(value(polygamma, x), truth, rtol=1e-13, atol=1e-14 * scale)


SPECIAL_POINTS = {
    "erf": ([0.0, -0.0, INF, -INF, NAN], [0, -0.0, 1, -1, NAN]),
    "erfc": ([0.0, INF, -INF, 30.0, NAN], [1, 0, 2, 0, NAN]),
    "erfinv": ([0.0, -0.0, 1.0, -1.0, 1.5, -2.0, INF, NAN], [0, -0.0, INF, -INF, NAN, NAN, NAN, NAN]),
    "lgamma": (
        [1.0, 2.0, 0.0, -0.0, -1.0, -7.0, -1e20, INF, -INF, NAN],
        [0, 0, INF, INF, INF, INF, INF, INF, INF, NAN],
    ),
    "digamma": ([0.0, -0.0, -1.0, -3.0, -1e20, INF, -INF, NAN], [-INF, INF, NAN, NAN, NAN, INF, NAN, NAN]),
}


@pytest.mark.parametrize("name", SPECIAL_POINTS)
def test_zeros_poles_infinities_and_nan(name: str) -> None:
    points, expected = SPECIAL_POINTS[name]
    found = value(getattr(wg, name), points)
    np.testing.assert_array_equal(found, expected)
    zero = np.equal(expected, 0)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(np.array(expected)[zero]))


def test_polygamma_at_its_poles() -> None:
    assert value(lambda x: wg.polygamma(1, x), [0.0, -2.0, INF]).tolist() == [INF, INF, 0]
    np.testing.assert_array_equal(value(lambda x: wg.polygamma(2, x), [0.0, -0.0, -2.0]), [-INF, INF, NAN])


def test_digamma_differentiates_to_any_order() -> None:
    f, x = wg.lgamma, 2.3
    for n in range(5):
        assert f(wg.tensor(x, wg.float64)).item() == pytest.approx(sp.polygamma(n - 1, x) if n else sp.gammaln(x))
        f = wg.grad(f)


def test_integers_are_computed_as_floats_and_the_order_is_checked() -> None:
    assert wg.erf(wg.tensor([1])).dtype is wg.float32
    assert wg.polygamma(1, wg.tensor([1])).dtype is wg.float32
    with pytest.raises(wg.errors.ArgumentError, match="from 0 on"):
        wg.polygamma(-1, wg.tensor(1.0))
    with pytest.raises(wg.errors.ArgumentError, match="from 0 on"):
        wg.polygamma(1.5, wg.tensor(1.0))
    with pytest.raises(wg.errors.DTypeError, match="complex64"):
        wg.erf(wg.tensor(1j))
