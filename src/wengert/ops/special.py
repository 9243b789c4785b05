"""Special functions: the error function and its relatives, the gamma function's logarithm and its derivatives.

Each is a primitive. The references are NumPy only and compute in float64 whatever the dtype, to about 1e-15 relative
(near the roots that lgamma and polygamma have on the negative axis, absolute). The rational approximations are
least-squares fits of our own (50-digit arithmetic, reweighted until the error was level), each below 1e-16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import float64
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.graph import Node
from wengert.ops.core import as_node, cast
from wengert.ops.elementwise import SMOOTH_REAL, exp, safe_multiply, square
from wengert.ops.op import Op
from wengert.ops.recorders import Unary

Array = Any


def _in_float64(reference: Callable[..., Array]) -> Callable[..., Array]:
    """The reference computed in float64; Op.run rounds the result to the node's dtype."""
    return lambda x, **attrs: reference(np.asarray(x, float64), **attrs)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial with these coefficients, lowest power first, by Horner's rule."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


def _to_nearest_integer(x: Array) -> Array:
    """How far `x` is from the nearest integer, exactly: the argument of functions of period 1."""
    return x - np.round(x)


# --- the error function ---------------------------------------------------------------------------------------------

# erf(x) / x in x^2, |x| < 1
_ERF_TOP = (
    1.1283791670955126, 0.14214916543924506, 0.045304001252692237, 0.0018273013509439323, 0.00019495923726023075,
)  # fmt: skip
_ERF_BOTTOM = (
    1.0, 0.45930975117623058, 0.093252876132968135, 0.010582244394242084, 0.00068122213763916209, 2.029790462265773e-5,
)  # fmt: skip
# exp(x^2) erfc(x) / t in t = 1 / (x + 2), 1 <= x <= 28
_ERFC_TOP = (
    0.56418958354774858, -0.40608501091899897, 9.1351493613685968, 0.82001244871641458, 46.764990851762619,
    36.236123155840777, 110.03632957079972, 119.35373295888698, 129.81660200530926, 82.651498433468679,
)  # fmt: skip
_ERFC_BOTTOM = (
    1.0, -2.7197669414041645, 18.131164547711858, -30.289710628525685, 88.85797029617172, -84.712087955277845,
    130.29747466808296, -54.68732176971416, 40.894087039416082,
)  # fmt: skip


def _erf_near_zero(x: Array) -> Array:
    z = x * x
    return x * _polynomial(_ERF_TOP, z) / _polynomial(_ERF_BOTTOM, z)


def _erfc_from_one(x: Array) -> Array:
    """erfc for x >= 1. e^-x^2 is taken in two factors, one with an exact exponent: rounding x^2 would cost digits."""
    x = np.minimum(x, 28.0)  # from 27.3 on it is less than the smallest number
    t = 1 / (x + 2)
    high = np.floor(x * 16) / 16
    decay = np.exp(-high * high) * np.exp((high - x) * (high + x))
    return decay * t * _polynomial(_ERFC_TOP, t) / _polynomial(_ERFC_BOTTOM, t)


def _erf(x: Array) -> Array:
    pieces = [np.abs(x) < 1, x >= 1, x <= -1]
    return np.piecewise(
        x, pieces, [_erf_near_zero, lambda x: 1 - _erfc_from_one(x), lambda x: _erfc_from_one(-x) - 1, np.nan]
    )


def _erfc(x: Array) -> Array:
    pieces = [np.abs(x) < 1, x >= 1, x <= -1]
    return np.piecewise(
        x, pieces, [lambda x: 1 - _erf_near_zero(x), _erfc_from_one, lambda x: 2 - _erfc_from_one(-x), np.nan]
    )


def _erfinv(y: Array) -> Array:
    """Winitzki's closed form, good to 0.2 %, and two of Halley's steps, each of which cubes the error."""
    size = np.abs(y)
    logarithm = np.log1p(-size * size)
    half = 2 / (math.pi * 0.147) + logarithm / 2
    x = np.sqrt(-logarithm / 0.147 / (np.sqrt(half * half - logarithm / 0.147) + half))
    for _ in range(2):
        # near 1 the distance to the target is taken between complements, where it is exact
        error = np.where(size < 0.5, _erf(x) - size, (1 - size) - _erfc(x))
        step = error * math.sqrt(math.pi) / 2 * np.exp(x * x)
        x = x - step / (1 + x * step)
    x = np.where(size < 1, x, np.where(size == 1, np.inf, np.nan))
    return np.copysign(x, y)


_ERF_SLOPE = 2 / math.sqrt(math.pi)
erf = Unary(
    "erf",
    _in_float64(_erf),
    (lambda y, x: _ERF_SLOPE * exp(-square(x)),),
    SMOOTH_REAL,
    "The error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to `x`.",
    example=("wg.erf(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="erf",
    long=True,
    symbolic="erf",
    domain=((-3.0, 3.0),),
    ulp=3,
)
erfc = Unary(
    "erfc",
    _in_float64(_erfc),
    (lambda y, x: -_ERF_SLOPE * exp(-square(x)),),
    SMOOTH_REAL,
    "`1 - erf(x)`, exact also where erf is almost 1.",
    example=("wg.erfc(wg.tensor([0.0])).tolist()", "[1.0]"),
    c="erfc",
    long=True,
    symbolic="erfc",
    domain=((-3.0, 3.0),),
    ulp=12,
)
erfinv = Unary(
    "erfinv",
    _in_float64(_erfinv),
    (lambda y, x: exp(square(y)) / _ERF_SLOPE,),
    SMOOTH_REAL,
    "The inverse of the error function.",
    example=("wg.erfinv(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="erfinv",
    precision="full",
    long=True,
    symbolic="erfinv",
    domain=((-0.95, 0.95),),
    ulp=8,
)

# --- the logarithm of the gamma function ----------------------------------------------------------------------------

# lgamma(x) / ((x - 1) (x - 2)) in x, 0.5 <= x <= 2.5; in this variable no coefficient is negative, and nothing cancels
_LGAMMA_TOP = (
    2.7573562411470015, 115.97371479361496, 1034.6564829931297, 3075.7260923180075, 3528.8389320758474,
    1582.4104975695402, 253.73324900808709, 10.90170257603801, 0.028491708015303525,
)  # fmt: skip
_LGAMMA_BOTTOM = (
    1.0, 68.905676953361319, 899.8335652753582, 3805.6432489374881, 6270.7553753252332, 4284.2467018304336,
    1188.5394464926238, 118.3999583377497, 2.9495040444380974,
)  # fmt: skip
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
_HALF_LOG_TWO_PI = math.log(2 * math.pi) / 2


def _lgamma_middle(x: Array) -> Array:
    """0.5 <= x < 8: down in steps of 1 to below 2.5, as gamma(x) = (x - 1) gamma(x - 1)."""
    product = np.ones_like(x)
    for _ in range(6):
        above = x >= 2.5
        x = np.where(above, x - 1, x)
        product = np.where(above, product * x, product)
    rational = _polynomial(_LGAMMA_TOP, x) / _polynomial(_LGAMMA_BOTTOM, x)
    return (x - 1) * (x - 2) * rational + np.log(product)


def _lgamma_large(x: Array) -> Array:
    logarithm = np.log(x)
    return x * (logarithm - 1) - 0.5 * logarithm + _HALF_LOG_TWO_PI + _polynomial(_STIRLING, 1 / (x * x)) / x


def _lgamma_negative(x: Array) -> Array:
    """Euler's reflection. Every number below -2^52 is an integer, and so a pole."""
    sine = np.sin(math.pi * np.abs(_to_nearest_integer(x)))
    return np.where(sine > 0, np.log(math.pi / sine) - _lgamma(1 - x), np.inf)


def _lgamma(x: Array) -> Array:
    finite = np.isfinite(x)
    pieces = [np.isinf(x), np.abs(x) < 0.5, finite & (x <= -0.5), finite & (x >= 8), (x >= 0.5) & (x < 8)]
    near_zero = lambda x: _lgamma_middle(1 + x) - np.log(np.abs(x))  # noqa: E731
    return np.piecewise(x, pieces, [np.inf, near_zero, _lgamma_negative, _lgamma_large, _lgamma_middle, np.nan])


lgamma = Unary(
    "lgamma",
    _in_float64(_lgamma),
    (lambda y, x: digamma(x),),
    SMOOTH_REAL,
    "The logarithm of the absolute value of the gamma function.",
    example=("wg.lgamma(wg.tensor(2.0)).item()", "0.0"),
    c="lgamma",
    long=True,
    symbolic="loggamma",
    domain=((0.3, 6.0), (-1.8, -1.2)),
    ulp=16,
    terms=lambda x: 1 + np.minimum(np.abs(x), 1e30) * np.log1p(np.minimum(np.abs(x), 1e30)),
)

# --- its derivatives ------------------------------------------------------------------------------------------------

# the root of digamma as the sum of two numbers, and digamma(x) / (x - root) in x - 1, 1 <= x <= 2
_DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)
_DIGAMMA_TOP = (
    1.2503801375034053, 1.6688494588084343, 0.71582813249555085, 0.11380972053231725, 0.0054181409092182644,
    1.6967203356793116e-5,
)  # fmt: skip
_DIGAMMA_BOTTOM = (
    1.0, 2.0182204944880807, 1.350244990653301, 0.37088638761398203, 0.040094175832378058, 0.0012320589032494183,
)  # fmt: skip
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)


def _digamma_middle(x: Array) -> Array:
    """1 <= x < 8: down in steps of 1 to below 2, as digamma(x) = digamma(x - 1) + 1 / (x - 1)."""
    total = np.zeros_like(x)
    for _ in range(6):
        above = x >= 2
        x = np.where(above, x - 1, x)
        total = np.where(above, total + 1 / x, total)
    from_root = (x - _DIGAMMA_ROOT[0]) - _DIGAMMA_ROOT[1]
    return from_root * _polynomial(_DIGAMMA_TOP, x - 1) / _polynomial(_DIGAMMA_BOTTOM, x - 1) + total


def _digamma_large(x: Array) -> Array:
    z = 1 / (x * x)
    return np.log(x) - 0.5 / x - z * _polynomial(_DIGAMMA_SERIES, z)


def _digamma_negative(x: Array) -> Array:
    """Reflection. At the negative integers the two sides go to opposite infinities: there is no value."""
    r = _to_nearest_integer(x)
    return np.where(r != 0, _digamma(1 - x) - math.pi / np.tan(math.pi * r), np.nan)


def _digamma(x: Array) -> Array:
    pieces = [x == 0, x < 0, (x > 0) & (x < 1), (x >= 1) & (x < 8), x >= 8]
    at_zero = lambda x: np.copysign(np.inf, -x)  # noqa: E731
    near_zero = lambda x: _digamma_middle(1 + x) - 1 / x  # noqa: E731
    return np.piecewise(x, pieces, [at_zero, _digamma_negative, near_zero, _digamma_middle, _digamma_large, np.nan])


# the Bernoulli numbers B(2j) over (2j)!
_EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000,
)  # fmt: skip


def _hurwitz_zeta(s: int, x: Array) -> Array:
    """The sum of (x + k)^-s over k >= 0, for x > 0: the first terms one by one, the rest by Euler and Maclaurin."""
    total = np.zeros_like(x)
    terms = 10 + s
    for k in range(terms):
        total += (x + k) ** -s
    a = x + terms
    total += a ** (1 - s) / (s - 1) + a**-s / 2
    term = s * a ** (-s - 1)
    for j, coefficient in enumerate(_EULER_MACLAURIN, start=1):
        total += coefficient * term
        term = term * (s + 2 * j - 1) * (s + 2 * j) / (a * a)
    return total


def _cotangent_polynomial(n: int) -> list[int]:
    """The n-th derivative of cot as a polynomial in cot: the derivative of cot is -(1 + cot^2)."""
    coefficients = [0, 1]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(coefficients)][1:]
        coefficients = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope])]
    return coefficients


def _polygamma_positive(x: Array, n: int) -> Array:
    return (-1) ** (n + 1) * float(math.factorial(n)) * _hurwitz_zeta(n + 1, x)


def _polygamma_negative(x: Array, n: int) -> Array:
    """Reflection, as for digamma; for odd n the two sides of a pole both go to plus infinity."""
    r = _to_nearest_integer(x)
    cotangent = 1 / np.tan(math.pi * r)
    bend = math.pi ** (n + 1) * _polynomial([float(c) for c in _cotangent_polynomial(n)], cotangent)
    at_pole = np.inf if n % 2 else np.where(x == 0, np.copysign(np.inf, -x), np.nan)
    return np.where(r != 0, (-1) ** n * _polygamma_positive(1 - x, n) - bend, at_pole)


def _polygamma(x: Array, n: int) -> Array:
    return np.piecewise(x, [x > 0, x <= 0], [_polygamma_positive, _polygamma_negative, np.nan], n=n)


digamma: Unary = Unary(
    "digamma",
    _in_float64(_digamma),
    (lambda y, x: POLYGAMMA(x, n=1),),
    SMOOTH_REAL,
    "The derivative of lgamma.",
    example=("wg.digamma(wg.tensor(2.0)).item() > 0.42", "True"),
    c="digamma",
    long=True,
    symbolic="digamma",
    domain=((0.3, 6.0), (-0.8, -0.2)),
    ulp=16,
    terms=lambda x: 1 + 1 / np.maximum(np.abs(x - np.round(x)), 1e-300),
)
POLYGAMMA: Op = Op(
    "polygamma",
    infer=lambda x, n: (x.shape, x.dtype),
    numpy=_in_float64(_polygamma),
    vjp=(lambda g, y, x: safe_multiply(g, POLYGAMMA(x, n=y.attrs["n"] + 1)),),
    jvp=lambda tangents, y, x: safe_multiply(tangents[0], POLYGAMMA(x, n=y.attrs["n"] + 1)),
    batch=lambda y, sources, batched: POLYGAMMA(sources[0], **y.attrs),
    c="{wg.polygamma}_{t}({0}, {n})",
    kind="elementwise",
    ulp=64,
    terms=lambda x: 1 + 1 / np.maximum(np.abs(x - np.round(x)), 1e-100) ** 3,
)


def polygamma(n: int, x: Any, /) -> Node:
    """The n-th derivative of `digamma`, itself for n = 0.

    >>> import wengert as wg
    >>> f"{wg.polygamma(1, wg.tensor(1.0)).item():.4f}"
    '1.6449'
    """
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
        raise ArgumentError(f"polygamma(n, x): the order n is an integer from 0 on, not {n!r}")
    if n == 0:
        return digamma(as_node(x))
    x = as_node(x)
    compute, _ = SMOOTH_REAL.get(x.dtype, (None, None))
    if compute is None:
        raise DTypeError(f"polygamma does not take {x.dtype}")
    return POLYGAMMA(cast(x, compute), n=int(n))
