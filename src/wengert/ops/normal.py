"""The normal cumulative distribution function, its logarithm and its inverse, and the underlying scaled error
function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.core.graph import Node
from wengert.ops.elementwise import exp, reciprocal, square
from wengert.ops.parameters import Several, real_operands
from wengert.ops.special import _ERFC_BOTTOM, _ERFC_TOP, _erfc, _erfinv, _polynomial, erfc

Array = Any
_ROOT_TWO, _ROOT_PI, _ROOT_TWO_PI = math.sqrt(2), math.sqrt(math.pi), math.sqrt(2 * math.pi)


def _erfcx_value(x: Array) -> Array:
    t = 1 / (np.clip(x, 1, 28) + 2)
    middle = t * _polynomial(_ERFC_TOP, t) / _polynomial(_ERFC_BOTTOM, t)
    low = np.minimum(x, 1)
    high = np.floor(low * 16) / 16  # e^x^2 in two factors, as in erfc: rounding x^2 would cost digits
    grown = np.exp(high * high) * np.exp((low - high) * (low + high)) * _erfc(low)
    near = np.where(x < 1, np.where(x < -26.7, np.inf, grown), np.where(x < 28, middle, _erfcx_far(x, 0)))
    return np.where(np.isnan(x), np.nan, near)


def _erfcx_far(x: Array, n: int) -> Array:
    """The asymptotic series, of the n-th derivative: each term the derivative of x^-(2k+1)."""
    x = np.where(x > 7, x, np.inf)
    total, term = np.zeros_like(x), np.ones_like(x)
    last = np.full_like(x, np.inf)
    for k in range(40):
        slope = math.prod(2 * k + 1 + i for i in range(n))
        part = np.abs(term) * slope
        term = np.where(part < last, term, 0.0)  # up to the smallest
        last = np.where(part < last, part, -1.0)
        total = total + term * slope
        term = term * -(2 * k + 1) / (2 * x * x)
    return (-1.0) ** n * total / (x ** (n + 1) * _ROOT_PI)


def erfcx_derivative(x: Array, n: int) -> Array:
    """The n-th derivative of e^(x^2) erfc(x), by y(n+1) = 2 x y(n) + 2 n y(n-1), except where that cancels (from x = 9
    on)."""
    before, now = _erfcx_value(x), np.zeros_like(x)
    if n == 0:
        return before
    near = np.minimum(x, 10)
    before = _erfcx_value(near)
    now = 2 * near * before - 2 / _ROOT_PI
    for k in range(1, n):
        before, now = now, 2 * near * now + 2 * k * before
    return np.where(x > 9, _erfcx_far(x, n), now)


def log_ndtr_value(x: Array) -> Array:
    """Above -1 by the complement; below it by the scaled function, which does not underflow."""
    above = np.log1p(-_erfc(np.maximum(x, -1) / _ROOT_TWO) / 2)
    low = np.minimum(x, -1)
    return np.where(x > -1, above, np.log(_erfcx_value(-low / _ROOT_TWO) / 2) - low * low / 2)


def ndtri_value(p: Array) -> Array:
    """In the middle by erfinv; in the tails by two Halley steps on the logarithm, starting from Abramowitz and Stegun
    26.2.23."""
    tail = np.minimum(p, 1 - p)
    middle = _ROOT_TWO * _erfinv(2 * np.clip(p, 0.05, 0.95) - 1)
    small = np.where((tail > 0) & (tail < 0.25), tail, 0.2)
    wanted = np.log(small)
    t = np.sqrt(-2 * wanted)
    top, bottom = 2.515517 + t * (0.802853 + t * 0.010328), 1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    x = top / bottom - t
    for _ in range(3):
        slope = math.sqrt(2 / math.pi) / _erfcx_value(-x / _ROOT_TWO)  # of the logarithm
        error = (log_ndtr_value(x) - wanted) / slope
        x = x - error / (1 - error * (x + slope) / 2)
    far = np.where(p < 0.5, x, -x)
    ends = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.nan))
    return np.where((p > 0) & (p < 1), np.where((p >= 0.1) & (p <= 0.9), middle, far), ends)


def _samples(*spans: tuple[float, float], **attrs: Any) -> Any:
    from wengert.ops.samples import of_one

    return lambda: (((x,), attrs) for i, span in enumerate(spans) for (x,) in of_one(90 + i, *span))


ERFCX: Several = Several(
    "erfcx",
    erfcx_derivative,
    (lambda y, x: ERFCX(x, n=y.attrs["n"] + 1),),
    c="{wg.erfcx}_{t}({0}, {n})",
    long=True,
    samples=_samples((-2.0, 3.0), (3.0, 40.0), n=0),
)
LOG_NDTR: Several = Several(
    "log_ndtr",
    log_ndtr_value,
    (lambda y, x: math.sqrt(2 / math.pi) * reciprocal(ERFCX(x * -math.sqrt(0.5), n=0)),),
    c="log_ndtr",
    long=True,
    samples=_samples((-3.0, 3.0), (-60.0, -10.0)),
)
NDTRI: Several = Several(
    "ndtri",
    ndtri_value,
    (lambda y, p: _ROOT_TWO_PI * exp(square(y) * 0.5),),
    c="ndtri",
    long=True,
    samples=_samples((0.02, 0.98), (1e-5, 1e-2)),
)


def erfcx(x: Any, /) -> Node:
    """The scaled error function e^(x^2) erfc(x), without underflow.

    >>> import wengert as wg
    >>> f"{wg.special.erfcx(wg.tensor(100.0)).item():.6f}"
    '0.005642'
    """
    return ERFCX(*real_operands("erfcx", x), n=0)


def ndtr(x: Any, /) -> Node:
    """The cumulative distribution function of the standard normal distribution: the probability of a value below `x`.

    >>> import wengert as wg
    >>> wg.special.ndtr(wg.tensor(0.0)).item()
    0.5
    """
    (x,) = real_operands("ndtr", x)
    return 0.5 * erfc(x * -math.sqrt(0.5))


def log_ndtr(x: Any, /) -> Node:
    """The logarithm of `ndtr`, accurate in both tails.

    >>> import wengert as wg
    >>> f"{wg.special.log_ndtr(wg.tensor(-100.0)).item():.2f}"
    '-5005.52'
    """
    return LOG_NDTR(*real_operands("log_ndtr", x))


def ndtri(p: Any, /) -> Node:
    """The inverse of `ndtr`: the quantile of the standard normal distribution.

    >>> import wengert as wg
    >>> f"{wg.special.ndtri(wg.tensor(0.975)).item():.4f}"
    '1.9600'
    """
    return NDTRI(*real_operands("ndtri", p))
