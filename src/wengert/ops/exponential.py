"""Exponentials and logarithms, and what is made of them: the square root, the logistic function, gelu by it.

The table is made as in `elementwise`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.graph import Node
from wengert.ops.facts import DIVISION
from wengert.ops.recorders import Binary, Unary, safe_multiply, safe_multiply_arrays
from wengert.ops.tables import SMOOTH, SMOOTH_REAL

# --- exponentials and logarithms ------------------------------------------------------------------------------------

exp = Unary(
    "exp",
    np.exp,
    (lambda y, x: y,),
    SMOOTH,
    "e to the power `x`.",
    example=("wg.exp(wg.tensor([0.0])).tolist()", "[1.0]"),
    c="exp",
    precision="full",
    symbolic="exp",
    ulp=2,
)
expm1 = Unary(
    "expm1",
    np.expm1,
    (lambda y, x: exp(x),),
    SMOOTH,
    "`exp(x) - 1`, exact for small `x`.",
    example=("wg.expm1(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="expm1",
    precision="full",
    symbolic=lambda s, x: s.exp(x) - 1,
    ulp=2,
)
log = Unary(
    "log",
    np.log,
    (lambda y, x: 1 / x,),
    SMOOTH,
    "The natural logarithm.",
    example=("wg.log(wg.tensor([1.0])).tolist()", "[0.0]"),
    c="log",
    precision="full",
    long=True,
    symbolic="log",
    domain=((0.2, 4.0),),
    ulp=2,
)
log1p = Unary(
    "log1p",
    np.log1p,
    (lambda y, x: 1 / (1 + x),),
    SMOOTH,
    "`log(1 + x)`, exact for small `x`.",
    example=("wg.log1p(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="log1p",
    precision="full",
    long=True,
    symbolic=lambda s, x: s.log(1 + x),
    domain=((-0.8, 4.0),),
    ulp=2,
)
log2 = Unary(
    "log2",
    np.log2,
    (lambda y, x: 1 / (x * float(np.log(2))),),
    SMOOTH,
    "The logarithm to base 2.",
    example=("wg.log2(wg.tensor(8.0)).item()", "3.0"),
    c="log2",
    precision="full",
    long=True,
    symbolic=lambda s, x: s.log(x, 2),
    domain=((0.2, 4.0),),
    ulp=2,
)
log10 = Unary(
    "log10",
    np.log10,
    (lambda y, x: 1 / (x * float(np.log(10))),),
    SMOOTH,
    "The logarithm to base 10.",
    example=("wg.log10(wg.tensor(100.0)).item()", "2.000000238418579"),
    c="log10",
    precision="full",
    long=True,
    symbolic=lambda s, x: s.log(x, 10),
    domain=((0.2, 4.0),),
    ulp=2,
)
sqrt = Unary(
    "sqrt",
    np.sqrt,
    (lambda y, x: 0.5 / y,),
    SMOOTH,
    "The square root.",
    example=("wg.sqrt(wg.tensor([4.0, 9.0])).tolist()", "[2.0, 3.0]"),
    c="sqrt",
    cost=DIVISION,
    symbolic="sqrt",
    domain=((0.2, 4.0),),
)


def _larger(a: Any, b: Any) -> Any:
    """What a sum of exponentials near 1 is the difference of."""
    return np.maximum(np.abs(a), np.abs(b)) + 1


logaddexp = Binary(
    "logaddexp",
    np.logaddexp,
    (lambda y, a, b: sigmoid(a - b), lambda y, a, b: sigmoid(b - a)),
    SMOOTH_REAL,
    "`log(exp(a) + exp(b))` without overflow.",
    example=("wg.logaddexp(wg.tensor(0.0), -wg.inf).item()", "0.0"),
    c="logaddexp",
    long=True,
    symbolic=lambda s, a, b: s.log(s.exp(a) + s.exp(b)),
    domain=((-5.0, 5.0),),
    terms=_larger,
)

_LN2 = float(np.log(2))
_POWER = f"{{wg.exp}}_{{t}}({{wg.abs}}_{{t}}({{0}} - {{1}}) * ({{T}}){-_LN2!r})"
_LOG2 = f"{{wg.log1p}}_{{t}}({_POWER}) * ({{T}}){1 / _LN2!r}"
logaddexp2 = Binary(
    "logaddexp2",
    np.logaddexp2,
    (lambda y, a, b: sigmoid((a - b) * _LN2), lambda y, a, b: sigmoid((b - a) * _LN2)),
    SMOOTH_REAL,
    "`log2(2**a + 2**b)` without overflow.",
    example=("wg.logaddexp2(wg.tensor(0.0), 0.0).item()", "1.0"),
    c=f"({{0}} == {{1}} ? {{0}} + 1 : {{wg.maximum}}_{{t}}({{0}}, {{1}}) + {_LOG2})",
    symbolic=lambda s, a, b: s.log(2**a + 2**b, 2),
    terms=_larger,
)

# --- the logistic function, a primitive because its stable form is -------------------------------------------------


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, np.ones((), e.dtype), e) / (1 + e)


sigmoid: Unary = Unary(
    "sigmoid",
    _sigmoid,
    (lambda y, x: y * (1 - y),),
    SMOOTH_REAL,
    "The logistic function.",
    example=("wg.sigmoid(wg.tensor([0.0])).tolist()", "[0.5]"),
    c="sigmoid",
    symbolic=lambda s, x: 1 / (1 + s.exp(-x)),
    domain=((-5.0, 5.0),),
)

# --- gelu by the logistic function, a primitive because one factor is its whole derivative: a primitive, too ---------

_GELU, _GELU_CUBED = float(np.sqrt(8 / np.pi)), float(np.sqrt(8 / np.pi) * 0.044715)


def _gelu_sigmoid(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return x * _sigmoid(x * (_GELU + _GELU_CUBED * (x * x)))


def _gelu_slope(x: Any) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        s = _sigmoid(x * (_GELU + _GELU_CUBED * (x * x)))
        return s + safe_multiply_arrays(s * (1 - s), x * (_GELU + 3 * _GELU_CUBED * (x * x)))


def _gelu_bend(y: Node, x: Node) -> Node:
    s = sigmoid(x * (_GELU + _GELU_CUBED * (x * x)))
    rate = _GELU + 3 * _GELU_CUBED * (x * x)
    return safe_multiply(s * (1 - s), 2 * rate + 6 * _GELU_CUBED * (x * x) + x * (rate * rate) * (1 - 2 * s))


def _gelu_symbolic(s: Any, x: Any) -> Any:
    return x / (1 + s.exp(-s.sqrt(8 / s.pi) * (x + s.Float("0.044715") * x**3)))


def _gelu_slope_symbolic(s: Any, x: Any) -> Any:
    place = s.Dummy("x")
    return _gelu_symbolic(s, place).diff(place).subs(place, x)


_SIGMOID = f"{{wg.sigmoid}}_{{t}}({{0}} * (({{T}}){_GELU!r} + ({{T}}){_GELU_CUBED!r} * ({{0}} * {{0}})))"
_RATE = f"({{0}} * (({{T}}){_GELU!r} + ({{T}}){3 * _GELU_CUBED!r} * ({{0}} * {{0}})))"

gelu_sigmoid: Unary = Unary(
    "gelu_sigmoid",
    _gelu_sigmoid,
    (lambda y, x: gelu_slope(x),),
    SMOOTH_REAL,
    "`x` times the logistic function of `sqrt(8 / pi) * (x + 0.044715 * x ** 3)`.",
    c=f"({{0}} * {_SIGMOID})",
    symbolic=_gelu_symbolic,
    ulp=8,
    terms=lambda x: np.abs(x) / (1 + np.exp(-1.6 * x - 0.0714 * x**3)) * np.minimum(1 + np.abs(x) ** 3, 1e3),
)
gelu_slope: Unary = Unary(
    "gelu_slope",
    _gelu_slope,
    (_gelu_bend,),
    SMOOTH_REAL,
    "The derivative of `gelu_sigmoid` at `x`.",
    c=f"({_SIGMOID} + {{wg.safe_multiply}}_{{t}}({_SIGMOID} * (1 - {_SIGMOID}), {_RATE}))",
    symbolic=_gelu_slope_symbolic,
    ulp=8,
    terms=lambda x: (1 + np.abs(x) ** 3) ** 2 / (1 + np.exp(-1.6 * x - 0.0714 * x**3)) + 1e-35,
)
