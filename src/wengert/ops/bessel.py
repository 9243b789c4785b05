"""The references of Bessel functions of real order, modified ones, and Airy functions, in float64 throughout.

Each method is exact where it is used: power series where no terms cancel, recurrence from large orders downwards
(Miller) in the middle, asymptotic series (Hankel) from 25 or 30 on, and integrals by rules that converge exponentially.
The accuracy is about 1e-14 relative to the function's amplitude; next to a zero of J or Y it is absolute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.ops.special import _lgamma

Array = Any

_EPS = 1e-17
_FAR = 25.0  # from here on, and from v^2 / 2 on, Hankel's series are exact


def chosen(regions: list[tuple[Array, Callable[..., Array]]], *operands: Array) -> Array:
    """For each element, the value of the first method whose region contains it, or NaN if none does."""
    result = np.full(operands[0].shape, np.nan)
    left = np.ones(operands[0].shape, bool)
    for region, method in regions:
        here = left & region
        if here.any():
            result[here] = method(*[x[here] for x in operands])
        left &= ~region
    return result


def _is_integer(v: Array) -> Array:
    return v == np.floor(v)


def _parity(v: Array) -> Array:
    """(-1)^v for integers."""
    return np.where(v % 2 == 0, 1.0, -1.0)


def _sin_pi(v: Array) -> Array:
    r = v - 2 * np.round(v / 2)
    return np.where(np.abs(r) == 1, 0.0, np.sin(math.pi * r))


def _cos_pi(v: Array) -> Array:
    return _sin_pi(v + 0.5) if not np.any(np.abs(v) > 1e15) else np.ones_like(v)


# --- power series and asymptotic series -----------------------------------------------------------------------------


def _power_over_gamma(v: Array, x: Array, scale: Array) -> Array:
    """(x / 2)^v / gamma(v + 1) times e^scale; by logarithms only where the power is beyond the range of numbers."""
    half = x / 2
    direct = half**v * np.exp(scale - _lgamma(v + 1))
    return np.where(np.abs(v) < 40, direct, np.exp(v * np.log(half) + scale - _lgamma(v + 1)))


def _series(v: Array, x: Array, sign: float, scale: Array) -> Array:
    """The sum of (sign x^2 / 4)^k / (k! (v + 1)_k), times what stands before it; v > -1."""
    z = sign * x * x / 4
    term = total = np.ones_like(x)
    logarithm = np.zeros_like(x)
    k = 0
    while np.any(np.abs(term) > _EPS * np.abs(total)) and k < 100_000:
        k += 1
        term = term * (z / (k * (v + k)))
        total = total + term
        large = np.abs(total) > 1e200
        if large.any():
            term, total = np.where(large, term * 1e-200, term), np.where(large, total * 1e-200, total)
            logarithm = np.where(large, logarithm + 200 * math.log(10), logarithm)
    return _power_over_gamma(v, x, scale + logarithm) * total


def _hankel_sums(v: Array, x: Array, derivatives: int = 0) -> tuple[Array, Array]:
    """The even and the odd terms of sum a_k(v) / x^k, each up to the smallest; signs are for the caller."""
    even: list[Array] = []
    odd: list[Array] = []
    term = np.ones_like(x)
    k, best = 0, np.full_like(x, np.inf)
    while np.any(np.abs(term) > _EPS) and k < 200:
        (odd if k % 2 else even).append(term)
        k += 1
        nearer = term * ((4 * v * v - (2 * k - 1) ** 2) / (8 * k * x))
        smaller = (np.abs(nearer) < best) | (k < np.abs(v) + 1)
        best = np.where(smaller, np.abs(nearer), -1.0)
        term = np.where(smaller, nearer, 0.0)
    return even, odd


def _far(v: Array, x: Array) -> tuple[Array, Array]:
    """J and Y by Hankel's series."""
    even, odd = _hankel_sums(v, x)
    p, q = (sum(((-1) ** i * term for i, term in enumerate(terms)), np.zeros_like(x)) for terms in (even, odd))
    turn = (np.fmod(v, 4) / 2 + 0.25) * math.pi
    cosine = np.cos(x) * np.cos(turn) + np.sin(x) * np.sin(turn)
    sine = np.sin(x) * np.cos(turn) - np.cos(x) * np.sin(turn)
    size = np.sqrt(2 / (math.pi * x))
    return size * (p * cosine - q * sine), size * (p * sine + q * cosine)


def _is_far(v: Array, x: Array) -> Array:
    return x >= np.maximum(_FAR, v * v / 2)


# --- J --------------------------------------------------------------------------------------------------------------


def _miller(v: Array, x: Array) -> Array:
    """From far above down to the order's fraction u, scaled by sum (u + 2k) gamma(u + k) / k! J(u + 2k) = (x / 2)^u."""
    steps = np.where(v < 0, 0, np.floor(v))
    u = v - steps
    top = np.maximum(steps, x).max()
    start = 2 * int((top + 30 + 10 * top ** (1 / 3)) / 2) + 2
    after, now, wanted, total = np.zeros_like(x), np.full_like(x, 1e-250), np.zeros_like(x), np.zeros_like(x)
    half = start // 2
    weight = np.exp(_lgamma(u + 1))  # gamma(u + k) / k!, by products: exact where lgamma of hundreds would not be
    for i in range(1, half):
        weight = weight * (u + i) / (i + 1)
    for k in range(start, -1, -1):
        wanted = np.where(steps == k, now, wanted)
        if k % 2 == 0:
            i = k // 2
            total = total + now * ((u + k) * weight if i else np.exp(_lgamma(u + 1)))
            weight = weight * i / (u + i - 1) if i > 1 else weight
        if k:
            after, now = now, 2 * (u + k) / x * now - after
            large = np.abs(now) > 1e200
            if large.any():
                now, after, total, wanted = (np.where(large, y * 1e-250, y) for y in (now, after, total, wanted))
    return wanted / total * (x / 2) ** u


def _j_positive(v: Array, x: Array) -> Array:
    """v > -1 and x > 0."""
    regions = [
        (x * x <= 4 * (v + 1), lambda v, x: _series(v, x, -1.0, np.zeros_like(x))),
        (_is_far(v, x), lambda v, x: _far(v, x)[0]),
        (np.isfinite(x), _miller),
    ]
    return chosen(regions, v, x)


def _j_downwards(v: Array, x: Array) -> Array:
    """v < -1, no integer: the recurrence is stable towards negative orders."""
    up = np.ceil(-v - 1)
    order = v + up
    now, above = _j_positive(order, x), _j_positive(order + 1, x)
    for _ in range(int(up.max())):
        going = order > v
        now, above = np.where(going, 2 * order / x * now - above, now), np.where(going, now, above)
        order = np.where(going, order - 1, order)
    return now


def jv(v: Array, x: Array) -> Array:
    """The Bessel function of the first kind."""
    whole, size = _is_integer(v), np.abs(x)
    order: Array = np.where(whole, np.abs(v), v)
    sign = np.where(whole & ((x < 0) != (v < 0)), _parity(v), 1.0)
    regions: list[tuple[Array, Callable[..., Array]]] = [
        (np.isnan(v) | np.isnan(x) | ((x < 0) & ~whole), lambda v, x: np.full_like(x, np.nan)),
        (np.isinf(size), lambda v, x: np.zeros_like(x)),
        (size == 0, lambda v, x: np.where(v == 0, 1.0, np.where(v > 0, 0.0, np.nan))),
        (order > -1, _j_positive),
        (order < -1, _j_downwards),
    ]
    return sign * chosen(regions, order, size)


# --- Y --------------------------------------------------------------------------------------------------------------

_PANEL = np.polynomial.legendre.leggauss(20)
_CIRCLE = np.polynomial.legendre.leggauss(80)


def _y_near(v: Array, x: Array) -> Array:
    """Schlaefli's integrals, for 0 <= v < 2 and x < 25: along the unit circle, and of what falls off like exp(-e^t)."""
    nodes, weights = (_CIRCLE[0][:, None] + 1) * (math.pi / 2), _CIRCLE[1][:, None]
    circle = (weights * np.sin(x * np.sin(nodes) - v * nodes)).sum(0) / 2
    length = np.arcsinh((60 + v * 10) / x)
    length = np.arcsinh((60 + v * length) / x)
    panels = max(4, math.ceil(2 * length.max()))
    step, total, bend = length / panels, np.zeros_like(x), _cos_pi(v)
    for panel in range(panels):
        t = (panel + (_PANEL[0][:, None] + 1) / 2) * step
        fall = x * np.sinh(t)
        total += (_PANEL[1][:, None] * (np.exp(v * t - fall) + bend * np.exp(-v * t - fall))).sum(0)
    return circle - total * step / (2 * math.pi)


def _y_positive(v: Array, x: Array) -> Array:
    """v >= 0: from the order's fraction upwards, which is stable."""
    base = np.where(_is_far(v, x), v, v - np.floor(v))
    pair = [(_is_far(base, x), lambda v, x: _far(v, x)[1]), (np.ones(x.shape, bool), _y_near)]
    now, above, order = chosen(pair, base, x), chosen(pair, base + 1, x), base
    for _ in range(int((v - base).max(initial=0))):
        going = order < v
        now, above = np.where(going, above, now), np.where(going, 2 * (order + 1) / x * above - now, above)
        order = np.where(going, order + 1, order)
    return np.where(np.isnan(now) & ~np.isnan(v), -np.inf, now)  # it fell below all numbers


def yv(v: Array, x: Array) -> Array:
    """The Bessel function of the second kind."""
    size = np.abs(v)
    regions: list[tuple[Array, Callable[..., Array]]] = [
        (np.isnan(v) | ~(x >= 0), lambda v, x: np.full_like(x, np.nan)),
        (np.isinf(x), lambda v, x: np.zeros_like(x)),
        (x == 0, lambda v, x: np.full_like(x, -np.inf)),
        (np.isfinite(x), _y_positive),
    ]
    found = chosen(regions, size, x)
    negative = (v < 0) & (x > 0) & np.isfinite(x)
    if negative.any():
        turned = _cos_pi(size) * found + np.where(_is_integer(v), 0.0, _sin_pi(size) * jv(size, x))
        found = np.where(negative, turned, found)
    return found


# --- K --------------------------------------------------------------------------------------------------------------


def kv(v: Array, x: Array, scaled: bool, n: int, m: int) -> Array:
    """The n-th derivative with respect to v of the m-th derivative with respect to x of K (of K times e^x, if scaled).

    The trapezoidal rule over exp(-x cosh t) cosh(v t), which is even and falls off doubly exponentially. Its error is
    about exp(-2 pi y / h) cos(y)^-v for any y below pi / 2; the step is chosen for y = 1.
    """
    regions: list[tuple[Array, Callable[..., Array]]] = [
        (np.isnan(v) | ~(x >= 0), lambda v, x: np.full_like(x, np.nan)),
        (x == 0, lambda v, x: np.full_like(x, (-1.0) ** m * np.inf) * (np.sign(v) if n % 2 else 1.0)),
        (np.isinf(x), lambda v, x: np.zeros_like(x)),
        (np.abs(x) < 0.01, lambda v, x: _k_integral(v, x, scaled, n, m)),  # apart: it takes more steps
        (np.isfinite(x), lambda v, x: _k_integral(v, x, scaled, n, m)),
    ]
    return chosen(regions, v, x)


def _k_integral(v: Array, x: Array, scaled: bool, n: int, m: int) -> Array:
    order, length = np.abs(v), np.zeros_like(x)
    for _ in range(6):
        length = 2 * np.arcsinh(np.sqrt((45 + 5 * m + (order + n) * length) / (2 * x)))
    steps = math.ceil((length * (45 + 0.62 * order) / (2 * math.pi)).max() + 24)
    h = length / steps
    total = np.zeros_like(x)
    for i in range(steps + 1):
        t = i * h
        risen = 2 * np.sinh(t / 2) ** 2  # cosh t - 1, exactly
        fall = x * risen if scaled else x * (risen + 1)
        odd = np.exp(-fall) * np.sinh(np.clip(v * t, -1, 1))  # near order 0 a difference of exponentials loses digits
        both = 0.5 * (np.exp(v * t - fall) + (-1) ** n * np.exp(-v * t - fall))
        side = np.where(np.abs(v * t) < 1, odd, both) if n % 2 else both
        weight = t**n * (-(risen if scaled else risen + 1)) ** m
        total += (0.5 if i == 0 else 1.0) * weight * side
    return total * h


# --- I --------------------------------------------------------------------------------------------------------------


def iv(v: Array, x: Array, scaled: bool, m: int) -> Array:
    """The m-th derivative with respect to x of I (of I times e^-|x|, if scaled)."""
    whole, size = _is_integer(v), np.abs(x)
    order: Array = np.where(whole, np.abs(v), v)
    regions: list[tuple[Array, Callable[..., Array]]] = [
        (np.isnan(v) | np.isnan(x) | ((x < 0) & ~whole), lambda v, x: np.full_like(x, np.nan)),
        (np.isinf(x), lambda v, x: np.full_like(x, 0.0 if scaled else np.inf)),
        (size >= np.maximum(30.0, v * v / 2), lambda v, x: _i_far(v, x, scaled, m)),
        (np.isfinite(x), lambda v, x: _i_near(v, x, scaled, m)),
    ]
    found = chosen(regions, order, size)
    mirrored = np.where(whole, _parity(v), 1.0) * (-1) ** m
    kink = scaled & (x == 0) & (mirrored < 0)  # of e^-|x|: the mean of both sides
    return np.where(kink, 0.0, np.where(x < 0, mirrored * found, found))


def _i_far(v: Array, x: Array, scaled: bool, m: int) -> Array:
    """Hankel's series; the scaled function is differentiated term by term, as its derivatives are far smaller."""
    even, odd = _hankel_sums(v, x)
    terms = [term for pair in zip(even, [*odd, np.zeros_like(x)]) for term in pair]
    total = np.zeros_like(x)
    for k, term in enumerate(terms):
        slope = math.prod(-(k + 0.5) - i for i in range(m)) if scaled else 1.0
        total += (-1) ** k * term * slope
    if scaled:
        return total * x**-m / np.sqrt(2 * math.pi * x)
    if m:
        return _i_mean(v, x, m, lambda v, x: _i_far(v, x, False, 0))
    return np.exp(x / 2) * (np.exp(x / 2) * total / np.sqrt(2 * math.pi * x))


def _i_mean(v: Array, x: Array, m: int, function: Callable[[Array, Array], Array]) -> Array:
    """The derivative is the mean of the orders below and above: m times."""
    weights = [math.comb(m, i) / 2**m for i in range(m + 1)]
    return sum(
        w * function(np.abs(v - m + 2 * i) if _all_integers(v) else v - m + 2 * i, x) for i, w in enumerate(weights)
    )


def _all_integers(v: Array) -> bool:
    return bool(_is_integer(v).all())


def _i_near(v: Array, x: Array, scaled: bool, m: int) -> Array:
    if _all_integers(v) or not np.any(_is_integer(v)):
        value = lambda v, x: _i_value(v, x, scaled)  # noqa: E731
        if not scaled:
            return _i_mean(v, x, m, value)
        return sum(math.comb(m, j) * (-1) ** (m - j) * _i_mean(v, x, j, value) for j in range(m + 1))
    whole = _is_integer(v)
    apart = [(whole, lambda v, x: _i_near(v, x, scaled, m)), (~whole, lambda v, x: _i_near(v, x, scaled, m))]
    return chosen(apart, v, x)


def _i_value(v: Array, x: Array, scaled: bool) -> Array:
    """The series; of negative orders, by reflection to positive ones and K."""
    order = np.abs(v)
    scale = -x if scaled else np.zeros_like(x)
    with_zero = np.where(x == 0, np.where(order == 0, 1.0, 0.0), _series(order, np.where(x == 0, 1, x), 1.0, scale))
    negative = (v < 0) & ~_is_integer(v)
    if not negative.any():
        return with_zero
    beside = kv(order, x, True, 0, 0) * np.exp(-2 * x if scaled else -x)
    return np.where(negative, with_zero + 2 / math.pi * _sin_pi(order) * beside, with_zero)


# --- Airy -----------------------------------------------------------------------------------------------------------

_AI, _AI_PRIME = 0.35502805388781724, -0.25881940379280680  # at 0


def airy(x: Array, prime: bool) -> Array:
    """Ai or its derivative: a series near 0, K of order 1/3 (2/3) for larger x, J and Y of those orders for negative
    x."""
    regions: list[tuple[Array, Callable[..., Array]]] = [
        (np.isnan(x) | np.isinf(x), lambda x: np.where(np.isnan(x), np.nan, 0.0)),
        (np.abs(x) <= 1, lambda x: _airy_series(x, prime)),
        (x > 1, lambda x: _airy_above(x, prime)),
        (x < -1, lambda x: _airy_below(-x, prime)),
    ]
    return chosen(regions, x)


def _airy_series(x: Array, prime: bool) -> Array:
    """Both solutions of y'' = x y by their power series: each coefficient follows from the one three before."""
    total = np.zeros_like(x)
    coefficients = [_AI, _AI_PRIME, 0.0]
    for k in range(3, 34):
        coefficients.append(coefficients[k - 3] / (k * (k - 1)))
    if prime:
        coefficients = [k * c for k, c in enumerate(coefficients)][1:]
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _airy_above(x: Array, prime: bool) -> Array:
    z = 2 / 3 * x * np.sqrt(x)
    order = np.full_like(x, 2 / 3 if prime else 1 / 3)
    scale = -x / math.sqrt(3) if prime else np.sqrt(x / 3)
    return scale / math.pi * np.exp(-z) * kv(order, z, True, 0, 0)


def _airy_below(x: Array, prime: bool) -> Array:
    """At -x. The sums and differences of J of orders u and -u, by J and Y of order u."""
    z = 2 / 3 * x * np.sqrt(x)
    order = np.full_like(x, 2 / 3 if prime else 1 / 3)
    j, y = jv(order, z), yv(order, z)
    if prime:  # x / 3 (J(2/3) - J(-2/3))
        return x / 3 * (j * (1 - math.cos(2 * math.pi / 3)) + y * math.sin(2 * math.pi / 3))
    return np.sqrt(x) / 3 * (j * (1 + math.cos(math.pi / 3)) - y * math.sin(math.pi / 3))
