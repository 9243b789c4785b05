"""The incomplete gamma and beta functions and Hurwitz's zeta function, with derivatives with respect to their
parameters.

The references compute with truncated series in the parameters (`taylor`), so that derivatives with respect to those, of
any order, are as accurate as the functions. Derivatives with respect to `x` are closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.ops import taylor
from wengert.ops.special import _LGAMMA_BOTTOM, _LGAMMA_TOP, _STIRLING, _lgamma, _polynomial

Array = Any
_EPS = 1e-17
_MOST = 1_000_000  # steps: the square root of the parameter counts
_TINY = 1e-300


def log1p_minus(x: Array) -> Array:
    """log(1 + x) - x: near 0 by the series of atanh, which avoids cancellation."""
    z = np.where(np.abs(x) < 0.3, x, 0) / (2 + np.where(np.abs(x) < 0.3, x, 0))
    square, total = z * z, np.zeros_like(z)
    for k in range(29, 1, -2):
        total = total * square + 1 / k
    near = 2 * total * square * z - x * z
    return np.where(np.abs(x) < 0.3, near, np.log1p(np.where(np.abs(x) < 0.3, 0, x)) - x)


def stirling(x: Array) -> Array:
    """log(gamma(x)) - ((x - 1/2) log(x) - x + log(2 pi) / 2), for x >= 8."""
    return _polynomial(_STIRLING, 1 / (x * x)) / x


def _log_gamma_one_plus(a: Array) -> Array:
    """lgamma(1 + a) for |a| < 1, relatively exact at 0."""
    x = 1 + a
    return a * (a - 1) * _polynomial(_LGAMMA_TOP, x) / _polynomial(_LGAMMA_BOTTOM, x)


# --- gamma ----------------------------------------------------------------------------------------------------------


def _gamma_factor(a: Array, x: Array, n: int) -> Array:
    """x^a e^-x / gamma(a + 1), as a series in a."""
    large = np.where(a >= 10, a, 10.0)
    ratio = x / large
    fall = np.where(np.abs(ratio - 1) < 0.3, log1p_minus((x - large) / large), np.log(ratio) + (1 - ratio))
    apart = np.exp(large * fall - stirling(large)) / np.sqrt(2 * math.pi * large)
    small = np.exp(a * np.log(x) - x - _lgamma(a + 1))
    exponent = -taylor.log_gamma(a + 1, 1, 0, (n, 0))
    if n:
        exponent[1, 0] += np.log(x)
    return taylor.exponential(exponent, np.where(a >= 10, apart, small))


def _gamma_series(a: Array, x: Array, n: int) -> Array:
    """P by the series of x^k / ((a + 1) ... (a + k))."""
    term = total = taylor.constant(np.ones_like(x), (n, 0))
    for k in range(1, _MOST):
        term = taylor.product(term, taylor.reciprocal(taylor.linear(a + k, 1, 0, (n, 0)))) * x
        total = total + term
        if not np.any(np.abs(term) > _EPS * np.abs(total)):
            break
    return taylor.product(_gamma_factor(a, x, n), total)


def _gamma_fraction(a: Array, x: Array, n: int) -> Array:
    """Q by Legendre's continued fraction, evaluated forwards (Lentz)."""
    orders = (n, 0)
    b = taylor.linear(x + 1 - a, -1, 0, orders)
    c = taylor.constant(np.full_like(x, 1 / _TINY), orders)
    d = total = taylor.reciprocal(b)
    for i in range(1, _MOST):
        step = taylor.linear(i * (a - i), i, 0, orders)
        b[0, 0] += 2
        d = taylor.reciprocal(b + taylor.product(step, d))
        c = b + taylor.product(step, taylor.reciprocal(c))
        factor = taylor.product(c, d)
        total = taylor.product(total, factor)
        if not np.any(np.abs(factor[0, 0] - 1) > 2e-16) and not np.any(np.abs(factor[1:]) > _EPS * 10):
            break
    return taylor.product(taylor.product(_gamma_factor(a, x, n), taylor.linear(a, 1, 0, orders)), total)


def _gamma_small(a: Array, x: Array, n: int) -> Array:
    """Q for small a and x, where P is almost 1: 1 - x^a / gamma(1 + a) - the rest of the alternating series of P."""
    orders = (n, 0)
    exponent = -taylor.log_gamma(a + 1, 1, 0, orders)
    exponent[0, 0] = a * np.log(x) - _log_gamma_one_plus(a)
    if n:
        exponent[1, 0] += np.log(x)
    power = taylor.exponential(exponent)
    rest, term = taylor.constant(np.zeros_like(x), orders), np.ones_like(x)
    for k in range(1, 40):
        term = -term * x / k
        rest = rest + taylor.reciprocal(taylor.linear(a + k, 1, 0, orders)) * term
    less = -power
    less[0, 0] = -np.expm1(exponent[0, 0])
    return less - taylor.product(taylor.product(power, taylor.linear(a, 1, 0, orders)), rest)


def igamma(a: Array, x: Array, upper: bool, n: int) -> Array:
    """The n-th derivative with respect to a of P, the regularised lower incomplete gamma function, or of Q = 1 - P."""
    result = np.full(x.shape, np.nan)

    def fill(here: Array, method: Callable[..., Array], of_upper: bool) -> None:
        if here.any():
            series = method(a[here], x[here], n)
            if of_upper != upper:
                series = -series
                series[0, 0] += 1
            result[here] = taylor.derivative(series, n, 0)

    valid = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    small = valid & (x <= 1.1) & (a <= 0.6)
    series = valid & ~small & (x < a + 1)
    fill(small if upper else np.zeros_like(small), _gamma_small, True)
    fill(series if upper else series | small, _gamma_series, False)
    fill(valid & ~small & ~series, _gamma_fraction, True)
    one = np.where(n == 0, 1.0, 0.0)
    ends = [(x == 0) & (a > 0), np.isinf(x) & (x > 0) & (a >= 0) & np.isfinite(a), (a == 0) & (x > 0)]
    values = [one if upper else 0.0, 0.0 if upper else one, 0.0 if upper else one]
    for here, value in zip(ends, values):
        result[here & (np.ones_like(x, bool) if n == 0 else a > 0)] = value
    return result


# --- beta -----------------------------------------------------------------------------------------------------------


def log_beta(a: Array, b: Array) -> Array:
    """log(|B(a, b)|): for large arguments by Stirling's series, to avoid cancellation."""
    low: Array = np.where(np.abs(a) < np.abs(b), a, b)
    high: Array = np.where(np.abs(a) < np.abs(b), b, a)
    direct = _lgamma(a) + _lgamma(b) - _lgamma(a + b)
    large = np.maximum(high, 8.0)
    # log(gamma(high) / gamma(low + high))
    fall = low * (1 - np.log(large)) - (low + large - 0.5) * np.log1p(low / large)
    one = _lgamma(low) + fall + stirling(large) - stirling(low + large)
    most = np.maximum(low, 8.0)
    ratio = most / large
    both = (
        0.5 * math.log(2 * math.pi)
        - 0.5 * np.log(large)
        + (most - 0.5) * np.log(ratio / (1 + ratio))
        - large * np.log1p(ratio)
        + stirling(most)
        + stirling(large)
        - stirling(most + large)
    )
    return np.where((low >= 8) & (high >= 8), both, np.where((high >= 8) & (low > 0), one, direct))


def _beta_factor(a: Array, b: Array, x: Array, orders: tuple[int, int]) -> Array:
    """x^a (1 - x)^b / B(a, b), as a series in a and b."""
    exponent = (
        taylor.log_gamma(a + b, 1, 1, orders) - taylor.log_gamma(a, 1, 0, orders) - taylor.log_gamma(b, 0, 1, orders)
    )
    if orders[0]:
        exponent[1, 0] += np.log(x)
    if orders[1]:
        exponent[0, 1] += np.log1p(-x)
    return taylor.exponential(exponent, np.exp(a * np.log(x) + b * np.log1p(-x) - log_beta(a, b)))


def _beta_fraction(a: Array, b: Array, x: Array, orders: tuple[int, int]) -> Array:
    """I by its continued fraction (DLMF 8.17.22), for x < (a + 1) / (a + b + 2)."""

    def number(value: Array, by_a: float, by_b: float) -> Array:
        return taylor.linear(value, by_a, by_b, orders)

    one = taylor.constant(np.ones_like(x), orders)
    c = one
    d = taylor.reciprocal(one - taylor.product(number(a + b, 1, 1), taylor.reciprocal(number(a + 1, 1, 0))) * x)
    total = d
    for m in range(1, _MOST):
        lower = taylor.product(number(a + 2 * m - 1, 1, 0), number(a + 2 * m, 1, 0))
        step = taylor.product(number(m * (b - m), 0, m), taylor.reciprocal(lower)) * x
        d = taylor.reciprocal(one + taylor.product(step, d))
        c = one + taylor.product(step, taylor.reciprocal(c))
        total = taylor.product(total, taylor.product(c, d))
        upper = taylor.product(number(a + m, 1, 0), number(a + b + m, 1, 1))
        lower = taylor.product(number(a + 2 * m, 1, 0), number(a + 2 * m + 1, 1, 0))
        step = -taylor.product(upper, taylor.reciprocal(lower)) * x
        d = taylor.reciprocal(one + taylor.product(step, d))
        c = one + taylor.product(step, taylor.reciprocal(c))
        factor = taylor.product(c, d)
        total = taylor.product(total, factor)
        rest = factor - one
        if not np.any(np.abs(rest) > 4e-16):
            break
    before = taylor.product(_beta_factor(a, b, x, orders), taylor.reciprocal(number(a, 1, 0)))
    return taylor.product(before, total)


def betainc(a: Array, b: Array, x: Array, i: int, j: int) -> Array:
    """The derivative of order i with respect to a and j with respect to b of the regularised incomplete beta
    function."""
    result = np.full(x.shape, np.nan)
    valid = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    below = x < (a + 1) / (a + b + 2)
    here = valid & below
    if here.any():
        result[here] = taylor.derivative(_beta_fraction(a[here], b[here], x[here], (i, j)), i, j)
    here = valid & ~below
    if here.any():
        turned = -_beta_fraction(b[here], a[here], 1 - x[here], (j, i))
        turned[0, 0] += 1
        result[here] = taylor.derivative(turned, j, i)
    ends = (a > 0) & (b > 0)
    result[ends & (x == 0)] = 0.0
    result[ends & (x == 1)] = 0.0 if i or j else 1.0
    return result


# --- zeta -----------------------------------------------------------------------------------------------------------

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


def zeta(s: Array, q: Array, n: int) -> Array:
    """The n-th derivative with respect to s of Hurwitz's zeta function, by the Euler-Maclaurin formula."""
    whole = s == np.floor(s)
    valid = (s > 1) & ((q > 0) | (whole & (q != np.floor(q)))) & (q > -1e5) & np.isfinite(s) & np.isfinite(q)
    valid &= (q > 0) | (n == 0)
    result = np.full(s.shape, np.nan)
    result[(s == 1) | ((s > 1) & (q <= 0) & (q == np.floor(q)))] = np.inf * (-1.0) ** n
    result[(s > 1) & np.isinf(q) & (q > 0)] = 0.0
    for here, value in ((q > 1, 0.0), (q == 1, 1.0 if n == 0 else 0.0), ((q > 0) & (q < 1), np.inf * (-1.0) ** n)):
        result[np.isinf(s) & (s > 0) & here] = value
    if valid.any():
        result[valid] = taylor.derivative(_zeta_series(s[valid], q[valid], n), n, 0)
    return result


def _zeta_series(s: Array, q: Array, n: int) -> Array:
    orders = (n, 0)

    def power(base: Array) -> Array:
        """base^-s."""
        exponent = taylor.linear(np.zeros_like(s), 1, 0, orders)
        exponent = exponent * -np.log(np.where(base > 0, base, 1))
        return taylor.exponential(exponent, base**-s)

    terms = np.ceil(np.maximum(12 + np.minimum(s, 60.0), 12 + np.minimum(s, 60.0) - q))
    total = taylor.constant(np.zeros_like(s), orders)
    for k in range(int(terms.max())):
        total = total + np.where(k < terms, power(np.where(k < terms, q + k, 1.0)), 0.0)
    a = q + terms
    last = power(a)
    total = total + taylor.product(last, taylor.reciprocal(taylor.linear(s - 1, 1, 0, orders))) * a + last / 2
    term = taylor.product(last, taylor.linear(s, 1, 0, orders)) / a
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        total = total + term * (bernoulli / math.factorial(2 * j))
        grown = taylor.product(taylor.linear(s + 2 * j - 1, 1, 0, orders), taylor.linear(s + 2 * j, 1, 0, orders))
        term = taylor.product(term, grown) / (a * a)
    return total
