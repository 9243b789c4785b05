"""Elementwise formulas made of other ops: no rules of their own.

In: nodes or numbers, which broadcast. Out: a node.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, INEXACT, bool_, default_float
from wengert.core.errors import DTypeError
from wengert.core.graph import Node
from wengert.ops import elementwise
from wengert.ops.comparison import (
    clip,
    equal,
    greater,
    isfinite,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_or,
    maximum,
    minimum,
    where,
)
from wengert.ops.core import as_node, cast, literal, operands
from wengert.ops.elementwise import absolute, divide, multiply, pow, reciprocal, remainder, square
from wengert.ops.exponential import log, log1p, sqrt
from wengert.ops.trigonometry import sin


def inexact(x: Any) -> Node:
    """Convert a value to floating-point, unless it is floating-point or complex already."""
    x = as_node(x)
    return x if x.dtype in INEXACT else cast(x, default_float)


def _inexact_pair(a: Any, b: Any) -> list[Node]:
    a, b = operands(a, b)
    return [inexact(a), inexact(b)]


# --- exponentials and logarithms ------------------------------------------------------------------------------------


def exp2(x: Any, /) -> Node:
    """2 to the power `x`.

    >>> import wengert as wg
    >>> wg.exp2(wg.tensor([0.0, 3.0, -1.0])).tolist()
    [1.0, 8.0, 0.5]
    """
    return pow(2.0, inexact(x))


def rsqrt(x: Any, /) -> Node:
    """One over the square root.

    >>> import wengert as wg
    >>> wg.rsqrt(wg.tensor([1.0, 4.0])).tolist()
    [1.0, 0.5]
    """
    return reciprocal(sqrt(inexact(x)))


def xlogy(x1: Any, x2: Any, /) -> Node:
    """`x1 * log(x2)`, and 0 where `x1` is 0, even if the logarithm is infinite there.

    >>> import wengert as wg
    >>> wg.xlogy(wg.tensor([0.0, 2.0]), wg.tensor([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    a, b = _inexact_pair(x1, x2)
    nothing = logical_and(equal(a, 0), _has_no_finite_logarithm(b))  # elsewhere the derivative in x1 is log(x2)
    return where(nothing, 0, a * log(where(nothing, 1, b)))


def xlog1py(x1: Any, x2: Any, /) -> Node:
    """`x1 * log(1 + x2)`, and 0 where `x1` is 0, even if the logarithm is infinite there.

    >>> import wengert as wg
    >>> wg.special.xlog1py(wg.tensor([0.0, 2.0]), wg.tensor([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    a, b = _inexact_pair(x1, x2)
    nothing = logical_and(equal(a, 0), _has_no_finite_logarithm(1 + b))
    return where(nothing, 0, a * log1p(where(nothing, 0, b)))


def entr(x: Any, /) -> Node:
    """`-x * log(x)`, the terms of an entropy: 0 at 0, and minus infinity below it.

    >>> import wengert as wg
    >>> wg.special.entr(wg.tensor([0.0, 0.5, -1.0])).numpy().round(4).tolist()
    [0.0, 0.3465999960899353, -inf]
    """
    x = inexact(x)
    positive = greater(x, 0)
    inside = -x * log(where(positive, x, 1))
    return where(logical_or(positive, isnan(x)), inside, where(equal(x, 0), zero_like(x), -math.inf))


def _has_no_finite_logarithm(x: Node) -> Node:
    """Where the logarithm is infinite, or NaN for a number that is not."""
    return equal(x, 0) if x.dtype in COMPLEX else logical_or(less_equal(x, 0), equal(x, math.inf))


def logit(x: Any, /, eps: float | None = None) -> Node:
    """`log(x / (1 - x))`, the inverse of the sigmoid; with `eps`, `x` is first clipped to between `eps` and `1 - eps`.

    >>> import wengert as wg
    >>> wg.logit(wg.tensor([0.5, 1.0]), eps=0.5).tolist()
    [0.0, 0.0]
    """
    x = inexact(x)
    x = x if eps is None else clip(x, eps, 1 - eps)
    return log(x) - log1p(-x)


def sinc(x: Any, /) -> Node:
    """`sin(pi x) / (pi x)`, and 1 at 0; with correct derivatives of every order there.

    >>> import wengert as wg
    >>> wg.sinc(wg.tensor([0.0])).tolist()
    [1.0]
    """
    return sin_over(math.pi * inexact(x))


def sin_over(angle: Node) -> Node:
    """The sine of an angle divided by the angle, and 1 at 0."""
    near = less(absolute(angle), 0.1)
    t = square(where(near, angle, 0))
    series = 1 - t / 6 * (1 - t / 20 * (1 - t / 42 * (1 - t / 72 * (1 - t / 110))))
    away = where(near, 1, angle)
    return where(near, series, sin(away) / away)


# --- NaN and infinities ---------------------------------------------------------------------------------------------


def nan_to_num(x: Any, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Node:
    """`x` with NaN and the infinities replaced by numbers; by default 0 and the dtype's largest and smallest numbers.

    >>> import wengert as wg
    >>> wg.nan_to_num(wg.tensor([1.0, wg.nan, wg.inf]), posinf=9.0).tolist()
    [1.0, 0.0, 9.0]
    """
    x = as_node(x)
    if x.dtype not in INEXACT:
        return x
    if x.dtype in COMPLEX:
        raise DTypeError("nan_to_num takes real numbers: apply it to wg.real(x) and wg.imag(x)")
    low, high = _range(x.dtype)
    x = where(equal(x, math.inf), high if posinf is None else posinf, x)
    x = where(equal(x, -math.inf), low if neginf is None else neginf, x)
    return where(isnan(x), nan, x)


def _range(dtype: Any) -> tuple[float, float]:
    from ml_dtypes import finfo  # knows bfloat16 and the like, and NumPy's dtypes

    return float(finfo(dtype).min), float(finfo(dtype).max)


def fmax(x1: Any, x2: Any, /) -> Node:
    """The larger of the two; if one is NaN, the other.

    >>> import wengert as wg
    >>> wg.fmax(wg.tensor([1.0, wg.nan]), wg.tensor([2.0, 3.0])).tolist()
    [2.0, 3.0]
    """
    a, b = operands(x1, x2)
    return where(isnan(a), b, where(isnan(b), a, maximum(a, b)))


def fmin(x1: Any, x2: Any, /) -> Node:
    """The smaller of the two; if one is NaN, the other.

    >>> import wengert as wg
    >>> wg.fmin(wg.tensor([1.0, wg.nan]), wg.tensor([2.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    a, b = operands(x1, x2)
    return where(isnan(a), b, where(isnan(b), a, minimum(a, b)))


def isclose(x1: Any, x2: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Node:
    """Where `|x1 - x2| <= atol + rtol * |x2|`. Infinities are close only to themselves; NaN is close to NaN only with
    `equal_nan`.

    >>> import wengert as wg
    >>> wg.isclose(wg.tensor([1.0, 1.1]), wg.tensor([1.0 + 1e-9, 1.0])).tolist()
    [True, False]
    """
    a, b = operands(x1, x2)
    if a.dtype is bool_ and b.dtype is bool_:
        return equal(a, b)
    near = less_equal(absolute(inexact(a - b)), atol + rtol * absolute(inexact(b)))
    close = logical_or(equal(a, b), logical_and(near, isfinite(b)))
    return logical_or(close, logical_and(isnan(a), isnan(b))) if equal_nan else close


# --- products, quotients, remainders --------------------------------------------------------------------------------


def fmod(x1: Any, x2: Any, /) -> Node:
    """The remainder of `x1 / x2` rounded towards 0, as in C: it has the sign of `x1`, whereas `remainder` has that of
    `x2`.

    >>> import wengert as wg
    >>> wg.fmod(wg.tensor([-3.0, 3.0]), 2.0).tolist()
    [-1.0, 1.0]
    """
    a, b = operands(x1, x2)
    size, negative = absolute(b), greater(0, a)
    left = remainder(where(negative, -a, a), size)
    return where(negative, -left, left)


def heaviside(x1: Any, x2: Any, /) -> Node:
    """0 below 0, 1 above it, and `x2` at 0.

    >>> import wengert as wg
    >>> wg.heaviside(wg.tensor([-1.0, 0.0, 2.0]), 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    a, b = _inexact_pair(x1, x2)
    step = where(greater(a, 0), 1, where(isnan(a), math.nan, zero_like(a)))
    return where(equal(a, 0), b, step)


def deg2rad(x: Any, /) -> Node:
    """Convert degrees to radians.

    >>> import wengert as wg
    >>> f"{wg.deg2rad(wg.tensor(180.0)).item():.4f}"
    '3.1416'
    """
    return inexact(x) * (math.pi / 180)


def rad2deg(x: Any, /) -> Node:
    """Convert radians to degrees.

    >>> import wengert as wg
    >>> wg.rad2deg(wg.tensor(wg.pi)).item()
    180.0
    """
    return inexact(x) * (180 / math.pi)


def round(x: Any, /, decimals: int = 0) -> Node:
    """The nearest integer, or the nearest number with this many decimals; ties round to even.

    >>> import wengert as wg
    >>> wg.round(wg.tensor([0.5, 1.5, 2.6])).tolist(), wg.round(wg.tensor([1234.0]), decimals=-2).tolist()
    ([0.0, 2.0, 3.0], [1200.0])
    """
    x = as_node(x)
    if not decimals:
        return elementwise.round(x)
    if x.dtype not in INEXACT:
        raise DTypeError(f"round: integers have no decimals; cast with astype(wg.float64), not {x.dtype}")
    power = 10.0 ** abs(decimals)  # exact, where its inverse is not
    return elementwise.round(x * power) / power if decimals > 0 else elementwise.round(x / power) * power


def addcmul(x: Any, x1: Any, x2: Any, /, value: float = 1) -> Node:
    """`x + value * x1 * x2`.

    >>> import wengert as wg
    >>> wg.addcmul(wg.tensor([1.0]), wg.tensor([2.0]), wg.tensor([3.0]), value=10.0).tolist()
    [61.0]
    """
    return as_node(x) + _times(value, multiply(x1, x2))


def addcdiv(x: Any, x1: Any, x2: Any, /, value: float = 1) -> Node:
    """`x + value * x1 / x2`.

    >>> import wengert as wg
    >>> wg.addcdiv(wg.tensor([1.0]), wg.tensor([6.0]), wg.tensor([3.0]), value=10.0).tolist()
    [21.0]
    """
    return as_node(x) + _times(value, divide(x1, x2))


def _times(factor: Any, x: Node) -> Node:
    """A product that is not recorded where the factor is 1."""
    return x if isinstance(factor, (int, float)) and factor == 1 else multiply(factor, x)


def zero_like(x: Node) -> Node:
    """A zero of the dtype of `x`, so that combining the two keeps the dtype."""
    return literal(0, np.dtype(x.dtype), x.device)
