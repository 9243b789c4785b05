"""Derivatives of Bessel functions with respect to the order: the references of J, Y and I, as truncated series in it.

In: real orders and arguments, and which derivative. Out: that derivative. Every method is one of `bessel`, computed
with Taylor series in the order (`taylor`) instead of numbers, so that a derivative is as exact as the function.
Negative orders follow by reflection, whose sines and cosines have series as well: at integers, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.ops import bessel, taylor
from wengert.ops.bessel import _EPS, _cos_pi, _is_far, _power_over_gamma, _sin_pi
from wengert.ops.special import _lgamma

Array = Any
Method = Callable[[Array, Array, int], Array]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_LARGE = 1e200


def jv(v: Array, x: Array, n: int = 0) -> Array:
    """The n-th derivative of J by the order."""
    return bessel.jv(v, x) if n == 0 else taylor.derivative(_j(v, x, n), n, 0)


def yv(v: Array, x: Array, n: int = 0) -> Array:
    """The n-th derivative of Y by the order."""
    return bessel.yv(v, x) if n == 0 else taylor.derivative(_y(v, x, n), n, 0)


def iv(v: Array, x: Array, scaled: bool, m: int, n: int = 0) -> Array:
    """The n-th derivative in the order of the m-th in x of I (of I times e^-|x|, if scaled)."""
    return bessel.iv(v, x, scaled, m) if n == 0 else taylor.derivative(_i(v, x, n, scaled, m), n, 0)


# --- series in the order --------------------------------------------------------------------------------------------


def _chosen(regions: list[tuple[Array, Method]], v: Array, x: Array, n: int) -> Array:
    """For each element the series of the first method whose region it is in; NaN in none."""
    result = np.full((n + 1, 1, x.size), np.nan)
    left = np.ones(x.shape, bool)
    for region, method in regions:
        here = left & region
        if here.any():
            result[:, :, here] = method(v[here], x[here], n)
        left &= ~region
    return result


def _order(v: Array, n: int) -> Array:
    return taylor.linear(v, 1, 0, (n, 0))


def _mirrored(series: Array) -> Array:
    """A series in the order as one in its negative."""
    found = series.copy()
    found[1::2] *= -1
    return found


def _turn(v: Array, n: int, first: int) -> Array:
    """The series of cos(pi v) for `first` 0, of -sin(pi v) for 1."""
    ways = (_cos_pi(v), -_sin_pi(v), -_cos_pi(v), _sin_pi(v))
    return np.stack([[ways[(first + k) % 4] * (math.pi**k / math.factorial(k))] for k in range(n + 1)])


def _constant(value: float) -> Method:
    """What is the same for all elements, and whose derivatives with respect to the order are, too."""
    return lambda v, x, n: np.full((n + 1, 1, x.size), value)


def _nothing(v: Array, x: Array, n: int) -> Array:
    return np.zeros((n + 1, 1, x.size))


def _at_zero(v: Array, x: Array, n: int) -> Array:
    """J and I at 0: (x / 2)^v falls there for orders above 0, and is log(x / 2)^n of order 0."""
    infinite = np.array([(-1.0) ** k * np.inf for k in range(n + 1)])[:, None, None]
    return np.where(v > 0, 0.0, np.where(v == 0, infinite, np.nan))


def _power_series(v: Array, x: Array, n: int, sign: float, scale: Array) -> Array:
    """As `bessel._series`, for x^2 <= 4 (v + 1), where nothing cancels."""
    orders, z = (n, 0), sign * x * x / 4
    term = total = taylor.constant(np.ones_like(x), orders)
    for k in range(1, 100_000):
        term = taylor.product(term, taylor.reciprocal(_order(v + k, n))) * (z / k)
        total = total + term
        if not np.any(np.abs(term) > _EPS * np.abs(total[0, 0])):
            break
    exponent = -taylor.log_gamma(v + 1, 1, 0, orders)
    exponent[1, 0] += np.log(x / 2)
    return taylor.product(taylor.exponential(exponent, _power_over_gamma(v, x, scale)), total)


def _hankel_terms(v: Array, x: Array, n: int) -> list[Array]:
    """The terms a_k(v) / x^k of Hankel's series, up to the smallest."""
    square = taylor.product(_order(v, n), _order(v, n))
    term, terms, best = taylor.constant(np.ones_like(x), (n, 0)), [], np.full_like(x, np.inf)
    for k in range(1, 200):
        terms.append(term)
        factor = 4 * square
        factor[0, 0] -= (2 * k - 1) ** 2
        nearer = taylor.product(term, factor) / (8 * k * x)
        size = np.abs(nearer).max((0, 1))
        going = (size < best) | (k < np.abs(v) + 1)
        best = np.where(going, size, -1.0)
        term = np.where(going, nearer, 0.0)
        if not np.any(np.abs(term) > _EPS):
            break
    return terms


# --- J and Y --------------------------------------------------------------------------------------------------------


def _j(v: Array, x: Array, n: int) -> Array:
    """For x below 0 there is no derivative: J is real at integers alone."""
    regions: list[tuple[Array, Method]] = [
        (np.isnan(v) | ~(x >= 0) | np.isinf(v), _constant(np.nan)),
        (np.isinf(x), _nothing),
        (x == 0, _at_zero),
        (v > -1, _j_positive),
        (v <= -1, _j_reflected),
    ]
    return _chosen(regions, v, x, n)


def _j_reflected(v: Array, x: Array, n: int) -> Array:
    """J(-u) = cos(pi u) J(u) - sin(pi u) Y(u)."""
    j, y = _j_positive(-v, x, n), _y_positive(-v, x, n)
    return _mirrored(taylor.product(_turn(-v, n, 0), j) + taylor.product(_turn(-v, n, 1), y))


def _j_positive(v: Array, x: Array, n: int) -> Array:
    """v > -1 and x > 0."""
    regions: list[tuple[Array, Method]] = [
        (x * x <= 4 * (v + 1), lambda v, x, n: _power_series(v, x, n, -1.0, np.zeros_like(x))),
        (_is_far(v, x), lambda v, x, n: _far(v, x, n)[0]),
        (np.isfinite(x), _miller),
    ]
    return _chosen(regions, v, x, n)


def _far(v: Array, x: Array, n: int) -> tuple[Array, Array]:
    """J and Y by Hankel's series."""
    terms = _hankel_terms(v, x, n)
    p = np.sum([(-1) ** i * term for i, term in enumerate(terms[::2])], axis=0)
    q = np.sum([(-1) ** i * term for i, term in enumerate(terms[1::2])], axis=0) + np.zeros_like(p)
    angle = (np.fmod(v, 4) / 2 + 0.25) * math.pi
    turns = [np.cos(angle), -np.sin(angle), -np.cos(angle), np.sin(angle)]
    scale = [(math.pi / 2) ** k / math.factorial(k) for k in range(n + 1)]
    cosine_turn = np.stack([[turns[k % 4] * scale[k]] for k in range(n + 1)])
    sine_turn = np.stack([[-turns[(k + 1) % 4] * scale[k]] for k in range(n + 1)])
    cosine = np.cos(x) * cosine_turn + np.sin(x) * sine_turn  # of x - (v / 2 + 1 / 4) pi
    sine = np.sin(x) * cosine_turn - np.cos(x) * sine_turn
    size, product = np.sqrt(2 / (math.pi * x)), taylor.product
    return size * (product(p, cosine) - product(q, sine)), size * (product(p, sine) + product(q, cosine))


def _miller(v: Array, x: Array, n: int) -> Array:
    """As `bessel._miller`: downwards from far above, scaled by a sum that is known."""
    steps = np.where(v < 0, 0, np.floor(v))
    u, orders = v - steps, (n, 0)
    top = np.maximum(steps, x).max()
    start = 2 * int((top + 30 + 10 * top ** (1 / 3)) / 2) + 2
    after, now = _nothing(v, x, n), taylor.constant(np.full_like(x, 1e-250), orders)
    wanted, total, first = _nothing(v, x, n), _nothing(v, x, n), _gamma(u + 1, n)
    weight = first  # gamma(u + k) / k!, by products
    for i in range(1, start // 2):
        weight = taylor.product(weight, _order(u + i, n)) / (i + 1)
    for k in range(start, -1, -1):
        wanted = np.where(steps == k, now, wanted)
        if k % 2 == 0:
            i = k // 2
            part = taylor.product(_order(u + k, n), weight) if i else first
            total = total + taylor.product(now, part)
            weight = taylor.product(weight, taylor.reciprocal(_order(u + i - 1, n))) * i if i > 1 else weight
        if k:
            after, now = now, taylor.product(now, _order(u + k, n)) * (2 / x) - after
            now, after, total, wanted = _within_range(now, after, total, wanted)
    exponent = taylor.constant(u * np.log(x / 2), orders)
    exponent[1, 0] = np.log(x / 2)
    return taylor.product(taylor.product(wanted, taylor.reciprocal(total)), taylor.exponential(exponent))


def _within_range(first: Array, *others: Array) -> tuple[Array, ...]:
    """The same numbers scaled down where the first has become large."""
    large = np.abs(first).max((0, 1)) > _LARGE
    return tuple(np.where(large, one * 1e-250, one) for one in (first, *others)) if large.any() else (first, *others)


def _gamma(x: Array, n: int) -> Array:
    return taylor.exponential(taylor.log_gamma(x, 1, 0, (n, 0)), np.exp(_lgamma(x)))


def _y(v: Array, x: Array, n: int) -> Array:
    regions: list[tuple[Array, Method]] = [
        (np.isnan(v) | ~(x > 0) | np.isinf(v), _constant(np.nan)),
        (np.isinf(x), _nothing),
        (v >= 0, _y_positive),
        (v < 0, _y_reflected),
    ]
    return _chosen(regions, v, x, n)


def _y_reflected(v: Array, x: Array, n: int) -> Array:
    """Y(-u) = sin(pi u) J(u) + cos(pi u) Y(u)."""
    j, y = _j_positive(-v, x, n), _y_positive(-v, x, n)
    return _mirrored(taylor.product(_turn(-v, n, 0), y) - taylor.product(_turn(-v, n, 1), j))


def _y_positive(v: Array, x: Array, n: int) -> Array:
    """v >= 0: from the order's fraction upwards, which is stable."""
    base = np.where(_is_far(v, x), v, v - np.floor(v))
    pair: list[tuple[Array, Method]] = [
        (_is_far(base, x), lambda v, x, n: _far(v, x, n)[1]),
        (np.ones(x.shape, bool), _y_near),
    ]
    now, above, order = _chosen(pair, base, x, n), _chosen(pair, base + 1, x, n), base
    for _ in range(int((v - base).max(initial=0))):
        going = order < v
        higher = taylor.product(above, _order(order + 1, n)) * (2 / x) - now
        now, above = np.where(going, above, now), np.where(going, higher, above)
        order = np.where(going, order + 1, order)
    return np.where(np.isnan(now) & ~np.isnan(v), -np.inf, now)  # it fell below all numbers


def _y_near(v: Array, x: Array, n: int) -> Array:
    """As `bessel._y_near`: Schlaefli's integrals for 0 <= v < 2 and x < 25, differentiated under the integral."""
    angle = (_NODES[:, None] + 1) * (math.pi / 2)
    phase = x * np.sin(angle) - v * angle
    found = np.stack([[_moment(np.sin(phase + k * math.pi / 2), -angle, k) / 2] for k in range(n + 1)])
    length = np.arcsinh((60 + v * 10) / x)
    length = np.arcsinh((60 + v * length) / x)
    panels = max(4, math.ceil(2 * length.max()))
    step, nodes = length / panels, np.polynomial.legendre.leggauss(20)
    rising, falling = np.zeros((n + 1, 1, x.size)), np.zeros((n + 1, 1, x.size))
    for panel in range(panels):
        t = (panel + (nodes[0][:, None] + 1) / 2) * step
        fall = x * np.sinh(t)
        for k in range(n + 1):
            powers = nodes[1][:, None] * t**k / math.factorial(k)
            rising[k, 0] += (powers * np.exp(v * t - fall)).sum(0)
            falling[k, 0] += (-1) ** k * (powers * np.exp(-v * t - fall)).sum(0)
    return found - (rising + taylor.product(_turn(v, n, 0), falling)) * (step / (2 * math.pi))


def _moment(values: Array, t: Array, k: int) -> Array:
    return (_WEIGHTS[:, None] * values * t**k).sum(0) / math.factorial(k)


# --- I --------------------------------------------------------------------------------------------------------------


def _i(v: Array, x: Array, n: int, scaled: bool, m: int) -> Array:
    value: Method = lambda v, x, n: _i_value(v, x, n, scaled)  # noqa: E731
    if m == 0:
        return value(v, x, n)
    mean = lambda j: sum(  # noqa: E731 - the derivative in x is the mean of the orders below and above: j times
        math.comb(j, i) / 2**j * value(v - j + 2 * i, x, n) for i in range(j + 1)
    )
    near = sum(math.comb(m, j) * (-1) ** (m - j) * mean(j) for j in range(m + 1)) if scaled else mean(m)
    if not scaled:
        return near
    far = (np.abs(x) >= np.maximum(30.0, v * v / 2)) & (x > 0) & np.isfinite(x)
    regions = [(far, lambda v, x, n: _i_far(v, x, n, True, m))]
    return np.where(far, _chosen(regions, v, x, n), near)


def _i_value(v: Array, x: Array, n: int, scaled: bool) -> Array:
    """For x below 0 there is no derivative: I is real at integers alone."""
    regions: list[tuple[Array, Method]] = [
        (np.isnan(v) | ~(x >= 0) | np.isinf(v), _constant(np.nan)),
        (np.isinf(x), _nothing if scaled else _constant(np.nan)),
        (x == 0, _at_zero),
        (x >= np.maximum(30.0, v * v / 2), lambda v, x, n: _i_far(v, x, n, scaled, 0)),
        (v >= 0, lambda v, x, n: _i_near(v, x, n, scaled)),
        (v < 0, lambda v, x, n: _i_reflected(v, x, n, scaled)),
    ]
    return _chosen(regions, v, x, n)


def _i_reflected(v: Array, x: Array, n: int, scaled: bool) -> Array:
    """I(-u) = I(u) + 2 / pi sin(pi u) K(u)."""
    beside = taylor.product(_turn(-v, n, 1), _k(-v, x, n, scaled, 0)) * (2 / math.pi)
    return _mirrored(_i_near(-v, x, n, scaled) - beside)


def _k(v: Array, x: Array, n: int, scaled: bool, m: int) -> Array:
    """K, or the m-th derivative of e^-x K."""
    if not scaled:
        return _k_series(v, x, n, m)
    return np.exp(-x) * sum(math.comb(m, j) * (-1) ** (m - j) * _k_series(v, x, n, j) for j in range(m + 1))


def _k_series(v: Array, x: Array, n: int, m: int) -> Array:
    return np.stack([[bessel.kv(v, x, False, k, m) / math.factorial(k)] for k in range(n + 1)])


def _i_far(v: Array, x: Array, n: int, scaled: bool, m: int) -> Array:
    """Hankel's series is that of the part of I that is even in the order; the odd part is -sin(pi v) K(v) / pi.

    K is less than I by e^-2x, but near order 0 the even part's derivative vanishes.
    """
    total = np.zeros((n + 1, 1, x.size))
    for k, term in enumerate(_hankel_terms(v, x, n)):
        total += (-1) ** k * term * math.prod(-(k + 0.5) - i for i in range(m))
    even = total * x**-m / np.sqrt(2 * math.pi * x)
    if not scaled:
        even = np.exp(x / 2) * (np.exp(x / 2) * even)
    return even + taylor.product(_turn(v, n, 1), _k(v, x, n, scaled, m)) / math.pi


def _i_near(v: Array, x: Array, n: int, scaled: bool) -> Array:
    """v >= 0: the power series, or recurrence downwards to the order's fraction, where an integral tells the scale."""
    series = x * x <= 4 * (v + 1)
    regions: list[tuple[Array, Method]] = [
        (series, lambda v, x, n: _power_series(v, x, n, 1.0, -x if scaled else np.zeros_like(x))),
        (~series, _i_downwards),
    ]
    found = _chosen(regions, v, x, n)
    return found if scaled else found * np.exp(np.where(series, 0, x))


def _i_downwards(v: Array, x: Array, n: int) -> Array:
    """Times e^-x."""
    steps = np.floor(v)
    u = v - steps
    start = int(np.sqrt(v * v + 100 * x).max()) + 40
    after, now = _nothing(v, x, n), taylor.constant(np.full_like(x, 1e-250), (n, 0))
    wanted = _nothing(v, x, n)
    for k in range(start, -1, -1):
        wanted = np.where(steps == k, now, wanted)
        if k:
            after, now = now, taylor.product(now, _order(u + k, n)) * (2 / x) + after
            now, after, wanted = _within_range(now, after, wanted)
    ratio = taylor.product(wanted, taylor.reciprocal(now))
    one = taylor.constant(np.ones_like(x), (n, 0))  # exactly, next to order 0, where the derivative is small
    return taylor.product(np.where(steps == 0, one, ratio), _i_integral(u, x, n))


def _i_integral(v: Array, x: Array, n: int) -> Array:
    """e^-x I of an order from 0 to 1, by Schlaefli's integrals (DLMF 10.32.4). Of the first one, the derivatives
    by the order have integrands of one sign: no digits are lost next to order 0.
    """
    length = 2 * np.arcsin(np.minimum(1.0, np.sqrt(45 / (2 * x))))
    angle = (_NODES[:, None] + 1) / 2 * length
    weight = np.exp(-2 * x * np.sin(angle / 2) ** 2)
    turns = [np.cos(v * angle), -np.sin(v * angle), -np.cos(v * angle), np.sin(v * angle)]
    circle = np.stack([[_moment(weight * turns[k % 4], angle, k) * length / (2 * math.pi)] for k in range(n + 1)])
    span = np.arccosh(1 + 60 / x)
    t = (_NODES[:, None] + 1) / 2 * span
    fall = np.exp(-2 * x * (1 + np.sinh(t / 2) ** 2) - v * t)
    beyond = np.stack([[_moment(fall, -t, k) * span / 2] for k in range(n + 1)])
    return circle + taylor.product(_turn(v, n, 1), beyond) / math.pi
