"""Draws without a closed form: gamma, Poisson, binomial and von Mises numbers, by rejection in loops over all at once.

Gamma draws are differentiable with respect to their concentration (Figurnov, Mohamed and Mnih, "Implicit
reparameterization gradients", 2018): a draw x at which the distribution function F has a value stays at that value, so
that dx/da = -(dF/da) / (dF/dx). The integral in dF/da is computed by quadrature, to about 1e-10 in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from wengert import Tensor

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(56)
_SERIES_TERMS = 22
_NEWTON_STEPS = 14


def _rejection(shape: tuple[int, ...], dtype: Any, propose: Callable[[Any], tuple[Tensor, Tensor]]) -> Tensor:
    """Proposals until each of `shape` was accepted once. `propose(generator)` gives values and which are accepted.

    The loop draws from a generator of its own: under `vmap` every lane ends by itself.
    """
    (generator,) = wg.random.default_generator.spawn(1)

    def once_more(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        is_done, kept = state
        value, is_accepted = propose(generator)
        return is_done | is_accepted, wg.where(is_done, kept, value)

    start = (wg.zeros(shape, dtype=bool), wg.zeros(shape, dtype=dtype))
    return wg.while_loop(lambda state: wg.any(wg.logical_not(state[0])), once_more, start)[1]


# --- gamma ----------------------------------------------------------------------------------------------------------


def log_gamma_draw(concentration: Tensor) -> Tensor:
    """The logarithm of a draw from Gamma(concentration, 1), differentiable with respect to the concentration.

    For small concentrations draws are below the smallest float; their logarithms are not.
    """
    with wg.no_grad():
        drawn = _log_gamma(concentration.detach())
    return _moving_with(concentration, drawn.detach())


def _log_gamma(concentration: Tensor) -> Tensor:
    """Marsaglia and Tsang (2000), of a concentration of at least 1; a smaller one by a uniform number's power."""
    shape, dtype = concentration.shape, concentration.dtype
    is_small = concentration < 1
    d = wg.where(is_small, concentration + 1, concentration) - 1 / 3
    c = 1 / wg.sqrt(9 * d)

    def propose(generator: Any) -> tuple[Tensor, Tensor]:
        z = wg.random.normal(shape, dtype=dtype, generator=generator)
        threshold = -wg.random.exponential(shape, dtype=dtype, generator=generator)
        root = 1 + c * z
        log_cube = 3 * wg.log(wg.where(root > 0, root, 1.0))
        bound = 0.5 * z * z + d - d * wg.exp(log_cube) + d * log_cube
        return wg.log(d) + log_cube, (root > 0) & (threshold < bound)

    drawn = _rejection(shape, dtype, propose)
    power = wg.random.exponential(shape, dtype=dtype) / concentration
    return wg.where(is_small, drawn - power, drawn)


@wg.custom_jvp
def _moving_with(concentration: Tensor, drawn: Tensor) -> Tensor:
    """`drawn`, which moves with the concentration."""
    return drawn


def _moving_rule(primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
    log_x = _moving_with(*primals)
    return log_x, log_gamma_slope(primals[0], log_x) * tangents[0]


_moving_with.defjvp(_moving_rule)


def log_gamma_slope(a: Tensor, log_x: Tensor) -> Tensor:
    """The derivative of the logarithm of a Gamma(a, 1) draw x with respect to a.

    Minus dF/da over x dF/dx, with dF/da as the integral over t below x of the density times log t - digamma(a), or
    that above x with the other sign. The one whose integrand has a constant sign of log t - digamma(a) is used, so that
    nothing cancels. Below x = 1 it is a short series.
    """
    is_below = log_x < 0
    series = _slope_series(a, wg.where(is_below, log_x, 0.0))
    return wg.where(is_below, series, _slope_integral(a, wg.where(is_below, 0.0, log_x)))


def _slope_series(a: Tensor, log_x: Tensor) -> Tensor:
    """The sum of x^n / (a)_(n+1) (digamma(a + n + 1) - log x)."""
    x = wg.exp(log_x)
    term, digamma = 1 / a, wg.digamma(a + 1)
    total = term * (digamma - log_x)
    for n in range(1, _SERIES_TERMS):
        term, digamma = term * x / (a + n), digamma + 1 / (a + n)
        total = total + term * (digamma - log_x)
    return total


def _slope_integral(a: Tensor, log_x: Tensor) -> Tensor:
    """The integral over log t of the density and log t - digamma(a), divided by the density at x."""
    side, reach, s, density = _tail(a, log_x)
    distance = side * (log_x - wg.digamma(a))
    return reach * (density * (distance[..., None] + s)).sum(-1)


def _tail(a: Tensor, log_x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The integral of the density over log t to one side of log x, as far as it is above exp(-limit) of that at x.

    The side (-1 below, 1 above), how far it goes, and along a new last axis the nodes and the density there, divided by
    that at x and times the weights of the quadrature.
    """
    x = wg.exp(log_x)
    side = wg.where(log_x < wg.digamma(a), wg.asarray(-1.0, dtype=a.dtype), wg.asarray(1.0, dtype=a.dtype))
    reach = _reach(wg.stop_gradient(a), wg.stop_gradient(x), wg.stop_gradient(side))
    s = reach[..., None] * wg.asarray((_NODES + 1) / 2, dtype=a.dtype)
    growth = side[..., None] * a[..., None] * s - x[..., None] * wg.expm1(side[..., None] * s)
    return side, reach, s, wg.exp(growth) * wg.asarray(_WEIGHTS / 2, dtype=a.dtype)


def gamma_cdf(a: Tensor, x: Tensor) -> Tensor:
    """The cumulative distribution function of Gamma(a, 1): the regularised incomplete gamma function, by the same
    integral."""
    a, x = wg.broadcast_arrays(a, x)
    is_below, safe = x < 1, wg.maximum(x, float(np.finfo(np.float32).tiny))
    log_x = wg.log(safe)
    inside = wg.where(is_below, safe, 1.0)
    term = total = 1 / a
    for n in range(1, _SERIES_TERMS):
        term = term * inside / (a + n)
        total = total + term
    side, reach, _, density = _tail(a, wg.where(is_below, 0.0, log_x))
    at_x = wg.exp(a * log_x - safe - wg.lgamma(a))
    tail = at_x * wg.where(is_below, total, reach * density.sum(-1))
    return wg.where(x <= 0, 0.0, wg.where(is_below | (side < 0), tail, 1 - tail))


def _reach(a: Tensor, x: Tensor, side: Tensor) -> Tensor:
    """Where x expm1(side s) - side a s, which is convex, is at the limit: Newton's method from the right."""
    limit = 40.0 if a.dtype == wg.float64 else 20.0
    above = ((a - x) + wg.sqrt((a - x) ** 2 + 2 * limit * x)) / x
    s = wg.where(side < 0, (limit + x) / a, above)
    for _ in range(_NEWTON_STEPS):
        value = x * wg.expm1(side * s) - side * a * s - limit
        s = s - value / (side * (x * wg.exp(side * s) - a))
    return s


# --- counts ---------------------------------------------------------------------------------------------------------


def poisson_draw(rate: Tensor) -> Tensor:
    """Poisson numbers: by inversion, and by Hörmann's transformed rejection (1993) for rates from 10 on.

    In float64: the logarithms of two probabilities of large counts, whose difference decides, are themselves large.
    """
    dtype, rate = rate.dtype, rate.astype(wg.float64)
    is_large = rate >= 10
    small = _inverted(
        wg.exp(-wg.where(is_large, 1.0, rate)), lambda k: wg.where(is_large, 1.0, rate) / (k + 1), rate.shape
    )
    large = _poisson_by_rejection(wg.where(is_large, rate, 10.0))
    return wg.where(is_large, large, small).astype(dtype)


def _inverted(first: Tensor, ratio: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Tensor:
    """The first count up to which the probabilities sum to more than a uniform number."""
    u = wg.random.uniform(shape, dtype=first.dtype)

    def next_count(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        k, p, total = state
        is_before = (u > total) & (p > 0)
        p = p * ratio(k)
        return wg.where(is_before, k + 1, k), wg.where(is_before, p, state[1]), wg.where(is_before, total + p, total)

    start = (wg.zeros(shape, dtype=first.dtype), first, first)
    return wg.while_loop(lambda state: wg.any((u > state[2]) & (state[1] > 0)), next_count, start)[0]


def _poisson_by_rejection(rate: Tensor) -> Tensor:
    log_rate = wg.log(rate)
    b = 0.931 + 2.53 * wg.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)

    def propose(generator: Any) -> tuple[Tensor, Tensor]:
        u, v, edge = _uniform_pair(rate.shape, rate.dtype, generator)
        k = wg.floor((2 * a / edge + b) * u + rate + 0.43)
        bound = k * log_rate - rate - wg.lgamma(wg.maximum(k, 0.0) + 1)
        is_quick = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        is_out = (k < 0) | ((edge < 0.013) & (v > edge))
        return k, is_quick | (wg.logical_not(is_out) & (wg.log(v * inverse / (a / (edge * edge) + b)) <= bound))

    return _rejection(rate.shape, rate.dtype, propose)


def _uniform_pair(shape: tuple[int, ...], dtype: Any, generator: Any) -> tuple[Tensor, Tensor, Tensor]:
    """u from -1/2 to 1/2, v from 0 to 1, and how far u is from its ends; never 0."""
    tiny = float(np.finfo(np.float32).tiny)
    u = wg.random.uniform(shape, -0.5, 0.5, dtype=dtype, generator=generator)
    v = wg.maximum(wg.random.uniform(shape, dtype=dtype, generator=generator), tiny)
    return u, v, wg.maximum(0.5 - wg.abs(u), 1e-7)


def binomial_draw(count: Tensor, probs: Tensor) -> Tensor:
    """Binomial numbers: by inversion, and by transformed rejection for means from 10 on, of the rarer outcome."""
    dtype, count, probs = probs.dtype, count.astype(wg.float64), probs.astype(wg.float64)
    is_rare = probs <= 0.5
    p = wg.where(is_rare, probs, 1 - probs)
    is_large = count * p >= 10
    odds = wg.where(is_large, 0.0, p) / (1 - wg.where(is_large, 0.0, p))
    small = _inverted(
        wg.exp(count * wg.log1p(-wg.where(is_large, 0.0, p))), lambda k: odds * (count - k) / (k + 1), p.shape
    )
    large = _binomial_by_rejection(wg.where(is_large, count, 40.0), wg.where(is_large, p, 0.5))
    drawn = wg.where(is_large, large, small)
    return wg.where(is_rare, drawn, count - drawn).astype(dtype)


def _binomial_by_rejection(n: Tensor, p: Tensor) -> Tensor:
    """Hörmann's BTRS (1993)."""
    spread = wg.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    scale = (2.83 + 5.1 / b) * spread
    mode = wg.floor((n + 1) * p)
    log_odds = wg.log(p) - wg.log1p(-p)
    at_mode = wg.lgamma(mode + 1) + wg.lgamma(n - mode + 1)

    def propose(generator: Any) -> tuple[Tensor, Tensor]:
        u, v, edge = _uniform_pair(p.shape, p.dtype, generator)
        k = wg.floor((2 * a / edge + b) * u + n * p + 0.5)
        is_in = (k >= 0) & (k <= n)
        safe = wg.clip(k, 0.0, n)
        bound = at_mode - wg.lgamma(safe + 1) - wg.lgamma(n - safe + 1) + (safe - mode) * log_odds
        is_quick = (edge >= 0.07) & (v <= 0.92 - 4.2 / b)
        return k, is_in & (is_quick | (wg.log(v * scale / (a / (edge * edge) + b)) <= bound))

    return _rejection(p.shape, p.dtype, propose)


# --- angles ---------------------------------------------------------------------------------------------------------


def von_mises_draw(concentration: Tensor) -> Tensor:
    """Angles around 0, by Best and Fisher's rejection from a wrapped Cauchy distribution (1979)."""
    tau = 1 + wg.sqrt(1 + 4 * concentration**2)
    rho = (tau - wg.sqrt(2 * tau)) / (2 * wg.where(concentration < 1e-4, 1.0, concentration))
    r = wg.where(concentration < 1e-4, 1 / wg.maximum(concentration, 1e-30) + concentration, (1 + rho**2) / (2 * rho))

    def propose(generator: Any) -> tuple[Tensor, Tensor]:
        parts = [wg.random.uniform(r.shape, dtype=r.dtype, generator=generator) for _ in range(3)]
        z = wg.cos(math.pi * parts[0])
        f = (1 + r * z) / (r + z)
        c = concentration * (r - f)
        u = wg.maximum(parts[1], float(np.finfo(np.float32).tiny))
        is_accepted = (c * (2 - c) - u > 0) | (wg.log(wg.maximum(c, 1e-37) / u) + 1 - c >= 0)
        return wg.sign(parts[2] - 0.5) * wg.acos(wg.clip(f, -1.0, 1.0)), is_accepted

    return _rejection(r.shape, r.dtype, propose)
