"""`wg.special` on log-spaced grids that include the points where methods change, against 40-digit arithmetic.

Values and derivatives in x agree to 1e-12 (oscillating functions relative to their amplitude), derivatives in orders
and shapes to 1e-9.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import wengert as wg

S = wg.special
INF, NAN = np.inf, np.nan
LOG = 10.0 ** np.linspace(-6, 2.5, 11)
ENDS = np.array([1.99, 2.01, 24.9, 25.1, 29.9, 30.1])
ORDERS = [0.0, 1.0, 2.0, 0.25, 1 / 3, 2.5, 7.0]


def grid(*axes: Any) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*itertools.product(*axes))]


def exact(function: Callable[..., Any], columns: Sequence[np.ndarray]) -> np.ndarray:
    with mp.workdps(40):
        return np.array([float(mp.re(function(*map(mp.mpf, map(float, row))))) for row in zip(*columns)])


def check(function: Any, truth: Any, columns: Sequence[np.ndarray], rtol: float = 1e-12, size: Any = 0.0) -> None:
    """`size` is what the error of an oscillating function is relative to."""
    found = function(*map(wg.tensor, columns)).numpy()
    wanted = exact(truth, columns)
    scale = np.maximum(np.abs(wanted), size)
    assert np.all(np.abs(found - wanted) <= rtol * scale + 1e-300), np.max(np.abs(found - wanted) / scale)


def slope(function: Any, argument: int = 0) -> Any:
    """The derivative in one argument, element by element."""

    def derived(*xs: wg.Tensor) -> wg.Tensor:
        return wg.grad(lambda *xs: wg.sum(function(*xs)), argnums=argument)(*xs)

    return derived


def mp_slope(function: Any, argument: int = 0) -> Any:
    def derived(*row: Any) -> Any:
        with mp.workdps(60):
            moved = lambda u: function(*row[:argument], u, *row[argument + 1 :])
            return mp.diff(moved, row[argument], h=mp.mpf(10) ** -18)

    return derived


def amplitude(v: Any, x: np.ndarray) -> np.ndarray:
    return np.where(x > np.maximum(v, 1.0), 0.02 * np.sqrt(2 / np.pi / x), 0.0)


def test_bessel_functions_of_real_order() -> None:
    v, x = grid([*ORDERS, -0.5, -2.25, -3.0], [*LOG, *ENDS])
    check(S.jv, mp.besselj, (v, x), size=amplitude(v, x))
    check(S.ive, lambda v, x: mp.besseli(v, x) * mp.exp(-x), (v, x))
    v, x = grid([*ORDERS, -0.5, -2.25], [*LOG[2:], *ENDS])
    check(S.yv, mp.bessely, (v, x), size=amplitude(v, x))
    check(S.kve, lambda v, x: mp.besselk(v, x) * mp.exp(x), (v, x))


def test_derivatives_of_bessel_functions_by_x() -> None:
    (x,) = grid([*LOG, *ENDS])
    size = amplitude(1.0, x)
    check(slope(S.bessel_j0), lambda x: -mp.besselj(1, x), (x,), size=size)
    check(slope(S.bessel_j1), lambda x: (mp.besselj(0, x) - mp.besselj(2, x)) / 2, (x,), size=size)
    check(slope(S.bessel_y0), lambda x: -mp.bessely(1, x), (x,), size=size)
    scaled = lambda n: lambda x: mp.exp(-x) * ((mp.besseli(n - 1, x) + mp.besseli(n + 1, x)) / 2 - mp.besseli(n, x))
    check(slope(S.i0e), scaled(0), (x,))
    check(slope(S.i1e), scaled(1), (x,), size=1e-6)
    check(slope(S.scaled_modified_bessel_k0), lambda x: mp.exp(x) * (mp.besselk(0, x) - mp.besselk(1, x)), (x,))
    check(slope(S.i1), lambda x: (mp.besseli(0, x) + mp.besseli(2, x)) / 2, (x,))


ORDERS_AND_EDGES = [*ORDERS, 1e-9, 1e-3, 7.5, 12.3, 40.5, -0.5, -1.0, -2.25, -3.0, -7.9]
OF_THE_ORDER = {
    "jv": mp.besselj,
    "yv": mp.bessely,
    "ive": lambda v, x: mp.besseli(v, x) * mp.exp(-x),
    "kve": lambda v, x: mp.besselk(v, x) * mp.exp(x),
}


@pytest.mark.parametrize("name", OF_THE_ORDER)
def test_derivatives_of_bessel_functions_by_the_order(name: str) -> None:
    """Relative to the derivative itself. Methods change at the orders -1 and 0, at x^2 = 4 (v + 1), at 25 and 30."""
    points = [1e-3, 0.1, 1.99, 2.01, 8.0, 24.9, 25.1, 29.9, 30.1, 90.0, 700.0]
    v, x = grid(ORDERS_AND_EDGES, points[:: {"kve": 4, "yv": 2}.get(name, 1)])
    check(slope(getattr(S, name)), mp_slope(OF_THE_ORDER[name]), (v, x), rtol=1e-11)


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "ive", "kv", "kve"])
def test_second_and_mixed_derivatives_by_the_order(name: str) -> None:
    function = getattr(S, name)
    v, x = grid([0.3, 2.0, -1.5], [1.2, 9.0, 29.0, 31.0])
    by_order, h = slope(function), 1e-5

    def difference(dv: float, dx: float) -> np.ndarray:
        ends = [by_order(wg.tensor(v + s * dv), wg.tensor(x + s * dx)).numpy() for s in (1, -1)]
        return (ends[0] - ends[1]) / (2 * h)

    for argument, step in ((0, (h, 0.0)), (1, (0.0, h))):
        found = slope(by_order, argument)(wg.tensor(v), wg.tensor(x)).numpy()
        np.testing.assert_allclose(found, difference(*step), rtol=2e-5)


def test_derivatives_by_the_order_at_zero_and_where_there_are_none() -> None:
    def by_order(function: Any, v: list[float], x: float) -> Any:
        return slope(function)(wg.tensor(np.array(v)), wg.tensor(np.full(len(v), x))).numpy()

    np.testing.assert_array_equal(by_order(S.jv, [0.0, 1.0, -0.5], 0.0), [-INF, 0.0, NAN])
    np.testing.assert_array_equal(by_order(S.iv, [0.0, 1.0], 0.0), [-INF, 0.0])
    np.testing.assert_array_equal(by_order(S.jv, [2.0], -1.0), [NAN])  # real at integers alone
    np.testing.assert_array_equal(by_order(S.jv, [2.0], INF), [0.0])
    np.testing.assert_array_equal(by_order(S.kv, [0.0, 2.0], 1.0)[0], 0.0)


def test_airy() -> None:
    (x,) = grid([*-LOG[4:9], *LOG[:9], -1.0, 1.0, -1.01, 1.01])
    size = np.where(x < -1, 0.02 / np.sqrt(np.pi), 0.0)
    check(S.airy_ai, mp.airyai, (x,), size=size)
    check(slope(S.airy_ai), lambda x: mp.airyai(x, derivative=1), (x,), size=size * np.sqrt(np.abs(x)))


SHAPES = [1e-3, 0.5, 0.59, 0.61, 1.0, 2.5, 9.99, 10.01, 60.0]


def lower(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def test_incomplete_gamma() -> None:
    columns = grid(SHAPES, [*LOG, 1.09, 1.11, 11.0])
    check(S.gammainc, lower, columns)
    check(S.gammaincc, upper, columns)
    columns = grid(SHAPES[1:], LOG[2:9:2])
    check(slope(S.gammainc, 1), lambda a, x: mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a)), columns)
    truth = lambda a, x: mp_slope(lower)(a, x) if x < a + 1 else -mp_slope(upper)(a, x)
    check(slope(S.gammainc), truth, columns, 1e-9)
    check(slope(S.gammaincc), lambda a, x: -truth(a, x), columns, 1e-9)


def test_incomplete_beta() -> None:
    truth = lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True)
    check(S.betainc, truth, grid([0.1, 1.0, 7.9, 30.0], [0.1, 1.0, 8.1, 30.0], [1e-6, 0.1, 0.5, 0.9, 0.999]))
    columns = grid([0.5, 2.5, 20.0], [0.5, 2.5, 20.0], [0.01, 0.4, 0.9])
    check(slope(S.betainc), mp_slope(truth), columns, 1e-9)
    check(slope(S.betainc, 1), mp_slope(truth, 1), columns, 1e-9)
    density = lambda a, b, x: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b)
    check(slope(S.betainc, 2), density, columns)


def test_beta() -> None:
    columns = grid([1e-3, 0.1, 1.5, 7.99, 8.0, 100.0, 1e6], [1e-3, 1.5, 7.99, 8.0, 100.0, 1e6])
    check(S.betaln, lambda a, b: mp.log(mp.beta(a, b)), columns)
    columns = grid([-0.5, -1.7, 2.5], [0.3, -3.6])
    check(S.beta, mp.beta, columns)


def test_zeta() -> None:
    columns = grid([1.001, 1.5, 2.0, 4.5, 10.0], [1e-3, 0.3, 1.0, 10.0, 1e4])
    check(S.zeta, mp.zeta, columns)
    check(slope(S.zeta), lambda s, q: mp.zeta(s, q, derivative=1), columns, 1e-9)
    check(slope(S.zeta, 1), lambda s, q: -s * mp.zeta(s + 1, q), columns)


def test_the_normal_distribution_in_its_tails() -> None:
    (x,) = grid([*-LOG[:8], -30.0, -1.0, -1.01, *LOG[:8]])
    check(S.ndtr, mp.ncdf, (x,))
    check(S.log_ndtr, lambda x: mp.log(mp.ncdf(x)), (x,))
    check(slope(S.log_ndtr), lambda x: mp.npdf(x) / mp.ncdf(x), (x,))
    (x,) = grid([-5.0, -1.0, *LOG[:9], 8.9, 9.1, 27.9, 28.1])
    scaled = lambda x: mp.exp(x * x) * mp.erfc(x)
    check(S.erfcx, scaled, (x,))
    check(slope(S.erfcx), lambda x: 2 * x * scaled(x) - 2 / mp.sqrt(mp.pi), (x,))
    p = np.concatenate([10.0 ** np.linspace(-300, -0.5, 15), 1 - LOG[:5], [0.0999, 0.1, 0.9, 0.9001]])
    found = S.ndtri(wg.tensor(p))
    np.testing.assert_allclose(S.log_ndtr(found).numpy(), np.log(p), rtol=1e-13, atol=1e-16)


def test_the_c_of_the_normal_distribution_is_its_reference() -> None:
    (x,) = grid([*-LOG[:8], *LOG, -30.0, -1.01, -0.99, 8.9, 9.1, 27.9, 28.1, INF, -INF, NAN, 0.0])
    (p,) = grid([*10.0 ** np.linspace(-300, -0.5, 15), *(1 - LOG[:5]), 0.0, 1.0, 0.0999, 0.1, 0.5, 0.9001, 1.5, NAN])
    for function, values in ((S.erfcx, x), (slope(S.erfcx), x[:-4]), (S.log_ndtr, x), (S.ndtri, p)):
        with wg.eager():
            expected = function(wg.tensor(values)).numpy()
        found = wg.compile(function)(wg.tensor(values)).numpy()
        np.testing.assert_allclose(found, expected, rtol=5e-14)


def test_orthogonal_polynomials_satisfy_their_equations() -> None:
    x = wg.tensor(np.linspace(-0.9, 0.9, 7))
    for n in (0, 1, 2, 5, 9):
        f = lambda x, n=n: wg.sum(S.legendre_polynomial_p(x, n))
        first, second = wg.grad(f)(x), wg.grad(lambda x, f=f: wg.sum(wg.grad(f)(x)))(x)
        left = (1 - x * x) * second - 2 * x * first + n * (n + 1) * S.legendre_polynomial_p(x, n)
        np.testing.assert_allclose(left.numpy(), 0, atol=1e-11)
        angle = np.arccos(x.numpy())
        np.testing.assert_allclose(
            S.chebyshev_polynomial_v(x, n).numpy(), np.cos((n + 0.5) * angle) / np.cos(angle / 2), atol=1e-13
        )
        np.testing.assert_allclose(
            S.chebyshev_polynomial_w(x, n).numpy(), np.sin((n + 0.5) * angle) / np.sin(angle / 2), atol=1e-13
        )
    assert S.chebyshev_polynomial_t(x, -1).tolist() == [0.0] * 7


POINTS = {
    "bessel_j0": ([0.0, INF, -INF, NAN], [1, 0, 0, NAN]),
    "bessel_y0": ([0.0, INF, -1.0, NAN], [-INF, 0, NAN, NAN]),
    "i0": ([0.0, INF, 800.0, NAN], [1, INF, INF, NAN]),
    "i1e": ([0.0, INF, NAN], [0, 0, NAN]),
    "modified_bessel_k0": ([0.0, INF, 800.0, -1.0, NAN], [INF, 0, 0, NAN, NAN]),
    "airy_ai": ([INF, -INF, 200.0, NAN], [0, 0, 0, NAN]),
    "erfcx": ([-INF, -30.0, INF, NAN], [INF, INF, 0, NAN]),
    "ndtri": ([0.0, 1.0, 0.5, -0.1, 1.1, NAN], [-INF, INF, 0, NAN, NAN, NAN]),
    "ndtr": ([-INF, INF, NAN], [0, 1, NAN]),
    "log_ndtr": ([-INF, INF, NAN], [-INF, 0, NAN]),
    "entr": ([0.0, -1.0, INF, NAN], [0, -INF, -INF, NAN]),
    "zeta": ([1.0, INF, 0.5, NAN], [INF, 1, NAN, NAN]),
}


@pytest.mark.parametrize("name", POINTS)
def test_ends_infinities_and_nan(name: str) -> None:
    points, expected = POINTS[name]
    np.testing.assert_array_equal(getattr(S, name)(wg.tensor(np.array(points))).numpy(), expected)


def test_ends_of_functions_of_shapes() -> None:
    one, half = wg.tensor(1.0), 0.5
    assert [S.gammainc(one, x).item() for x in (0.0, INF)] == [0, 1]
    assert [S.gammaincc(one, x).item() for x in (0.0, INF)] == [1, 0]
    assert S.gammainc(0.0, one).item() == 1 and np.isnan(S.gammainc(-1.0, one).item())
    assert [S.betainc(one, half, x).item() for x in (0.0, 1.0)] == [0, 1]
    assert S.xlog1py(wg.tensor(0.0), -1.0).item() == 0


def test_small_dtypes_stay_and_integers_become_floats() -> None:
    for dtype in (wg.float32, wg.float16, wg.bfloat16):
        assert S.gammainc(wg.tensor(1.5, dtype), 2.0).dtype is dtype
        assert S.i0(wg.tensor(1.5, dtype)).dtype is dtype
    assert S.bessel_j0(wg.tensor(1)).dtype is wg.float32


@pytest.mark.parametrize("degree", [S.legendre_polynomial_p, S.chebyshev_polynomial_t, S.hermite_polynomial_h])
def test_a_degree_is_a_step_and_a_gradient_of_integers_an_error(degree: Any) -> None:
    with pytest.raises(wg.errors.WengertError):
        wg.grad(lambda n: degree(wg.tensor(0.3), n))(wg.tensor(3))


def test_bad_arguments() -> None:
    with pytest.raises(wg.errors.ArgumentError, match="dimension d"):
        S.multigammaln(wg.tensor(3.0), 0)
    with pytest.raises(wg.errors.DTypeError, match="complex"):
        S.i0(wg.tensor(1j))
    with pytest.raises(AttributeError, match="did you mean"):
        _ = S.bessel_j  # type: ignore[attr-defined]
