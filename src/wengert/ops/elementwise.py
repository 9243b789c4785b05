"""Elementwise ops: one number from one number of each operand, broadcast against each other.

The table: name, NumPy reference, derivatives, dtypes, what it says of itself, its C. `recorders` tells what they mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import (
    ALL,
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER,
    NUMERIC,
    REAL,
    bool_,
    default_int,
    promote,
    real_of,
)
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.graph import Node, recording
from wengert.ops.core import LITERAL, Argument, as_node, cast, literal, operand, operands
from wengert.ops.op import Op, at_precision
from wengert.ops.recorders import Binary, Elementwise, Unary, add, negative, weigh, weigh_arrays, wrapping
from wengert.ops.tables import ARITHMETIC, SMOOTH, SMOOTH_REAL, same, to_bool

# `add`, `negative` and `weigh` come with the recorders, whose rules are made of them.
__all__ = ["add", "negative", "weigh"]

# --- arithmetic -----------------------------------------------------------------------------------------------------

subtract = Binary("subtract", np.subtract, (1, -1), ARITHMETIC, "The difference `a - b`.", c=wrapping("-"))
multiply = Binary(
    "multiply",
    np.multiply,
    (lambda y, a, b: b, lambda y, a, b: a),
    ARITHMETIC | {bool_: (bool_, bool_)},
    "The product `a * b`.",
    c=wrapping("*") | {"b": "({0} & {1})"},
)
divide = Binary(
    "divide",
    np.divide,
    (lambda y, a, b: 1 / b, lambda y, a, b: -y / b),
    SMOOTH,
    "The quotient `a / b`, a float.",
    c="({0} / {1})",
)
floor_divide = Binary(
    "floor_divide",
    np.floor_divide,
    None,
    same(REAL),
    "The quotient `a // b`, rounded towards minus infinity.",
    c="floor_divide",
)
remainder = Binary(
    "remainder",
    np.remainder,
    (1, lambda y, a, b: negative(floor_divide(a, b))),
    same(REAL),
    "The remainder `a % b`, with the sign of `b`.",
    c="remainder",
)
positive = Unary("positive", np.positive, (1,), same(NUMERIC), "The value itself, `+x`.", c="({0})")
reciprocal = Unary(
    "reciprocal", lambda x: 1 / x, (lambda y, x: -y * y,), SMOOTH, "One over `x`.", c="(1 / {0})", precision="full"
)
square = Unary(
    "square", np.square, (lambda y, x: 2 * x,), ARITHMETIC, "The square `x * x`.", c="square", precision="full"
)


def _power_by_base(y: Node, a: Node, b: Node) -> Node:
    if b.op is LITERAL:
        n = b.attrs["value"]
        return n * pow(a, n - 1) if n else literal(0, a.dtype, a.device)
    return where(equal(b, 0), 0, b * power(a, where(equal(b, 0), 1, b - 1)))


def _power_by_exponent(y: Node, a: Node, b: Node) -> Node:
    at_zero = logical_and(equal(a, 0), greater_equal(real(b) if b.dtype in COMPLEX else b, 0))
    return where(at_zero, 0, y * log(where(at_zero, 1, a)))


power = Binary(
    "pow",
    np.power,
    (_power_by_base, _power_by_exponent),
    same(NUMERIC),
    "The power `a ** b`.",
    c="pow",
    precision="full",
)


def pow(x1: Any, x2: Any, /) -> Node:
    """The power `x1 ** x2`. A number for an exponent is part of the program; to the power 2 is a multiplication."""
    if recording.autocast is not None:
        x1, x2 = at_precision(power.precision, (x1, x2))
    exponent = float(x2) if type(x2) is Argument else x2
    if type(x1) is Node and (type(exponent) is int or (type(exponent) is float and x1.dtype in INEXACT)):
        if exponent < 0 and x1.dtype in INTEGER:
            raise DTypeError(f"pow: an integer to the power {x2} is no integer; cast with astype, or write {x2}.0")
        if exponent == 2:
            return square(x1)
        if exponent == 1:
            return positive(x1)
    return power(x1, exponent)


# --- exponentials and logarithms ------------------------------------------------------------------------------------

exp = Unary("exp", np.exp, (lambda y, x: y,), SMOOTH, "e to the power `x`.", c="exp", precision="full")
expm1 = Unary(
    "expm1", np.expm1, (lambda y, x: exp(x),), SMOOTH, "`exp(x) - 1`, exact for small `x`.", c="expm1", precision="full"
)
log = Unary("log", np.log, (lambda y, x: 1 / x,), SMOOTH, "The natural logarithm.", c="log", precision="full")
log1p = Unary(
    "log1p",
    np.log1p,
    (lambda y, x: 1 / (1 + x),),
    SMOOTH,
    "`log(1 + x)`, exact for small `x`.",
    c="log1p",
    precision="full",
)
log2 = Unary(
    "log2",
    np.log2,
    (lambda y, x: 1 / (x * float(np.log(2))),),
    SMOOTH,
    "The logarithm to base 2.",
    c="log2",
    precision="full",
)
log10 = Unary(
    "log10",
    np.log10,
    (lambda y, x: 1 / (x * float(np.log(10))),),
    SMOOTH,
    "The logarithm to base 10.",
    c="log10",
    precision="full",
)
sqrt = Unary("sqrt", np.sqrt, (lambda y, x: 0.5 / y,), SMOOTH, "The square root.", c="sqrt")
logaddexp = Binary(
    "logaddexp",
    np.logaddexp,
    (lambda y, a, b: sigmoid(a - b), lambda y, a, b: sigmoid(b - a)),
    SMOOTH_REAL,
    "`log(exp(a) + exp(b))` without overflow.",
    c="logaddexp",
)

# --- trigonometry ---------------------------------------------------------------------------------------------------

sin = Unary("sin", np.sin, (lambda y, x: cos(x),), SMOOTH, "The sine.", c="sin")
cos: Unary = Unary("cos", np.cos, (lambda y, x: -sin(x),), SMOOTH, "The cosine.", c="cos")
tan = Unary("tan", np.tan, (lambda y, x: 1 + y * y,), SMOOTH, "The tangent.", c="tan", precision="full")
asin = Unary(
    "asin",
    np.arcsin,
    (lambda y, x: 1 / sqrt((1 - x) * (1 + x)),),
    SMOOTH,
    "The inverse sine.",
    c="asin",
    precision="full",
)
acos = Unary(
    "acos",
    np.arccos,
    (lambda y, x: -1 / sqrt((1 - x) * (1 + x)),),
    SMOOTH,
    "The inverse cosine.",
    c="acos",
    precision="full",
)
atan = Unary("atan", np.arctan, (lambda y, x: 1 / (1 + x * x),), SMOOTH, "The inverse tangent.", c="atan")
sinh = Unary("sinh", np.sinh, (lambda y, x: cosh(x),), SMOOTH, "The hyperbolic sine.", c="sinh", precision="full")
cosh: Unary = Unary(
    "cosh", np.cosh, (lambda y, x: sinh(x),), SMOOTH, "The hyperbolic cosine.", c="cosh", precision="full"
)
tanh = Unary("tanh", np.tanh, (lambda y, x: 1 - y * y,), SMOOTH, "The hyperbolic tangent.", c="tanh")
asinh = Unary(
    "asinh", np.arcsinh, (lambda y, x: 1 / sqrt(x * x + 1),), SMOOTH, "The inverse hyperbolic sine.", c="asinh"
)
acosh = Unary(
    "acosh",
    np.arccosh,
    (lambda y, x: 1 / (sqrt(x - 1) * sqrt(x + 1)),),
    SMOOTH,
    "The inverse hyperbolic cosine.",
    c="acosh",
)
atanh = Unary(
    "atanh", np.arctanh, (lambda y, x: 1 / ((1 - x) * (1 + x)),), SMOOTH, "The inverse hyperbolic tangent.", c="atanh"
)


def _over_radius(part: Node, radius: Node) -> Node:
    """`part / radius`, and 0 at the origin, where neither radius nor angle has a derivative."""
    origin = equal(radius, 0)
    return where(origin, 0, part / where(origin, 1, radius))


def _turn(part: Node, radius: Node) -> Node:
    """`part` over the radius squared, which itself may overflow."""
    return _over_radius(_over_radius(part, radius), radius)


atan2 = Binary(
    "atan2",
    np.arctan2,
    (lambda y, a, b: _turn(b, hypot(a, b)), lambda y, a, b: _turn(-a, hypot(a, b))),
    SMOOTH_REAL,
    "The angle of the point (b, a), between -pi and pi; its derivative at the origin is 0.",
    c="atan2",
)
hypot: Binary = Binary(
    "hypot",
    np.hypot,
    (lambda y, a, b: _over_radius(a, y), lambda y, a, b: _over_radius(b, y)),
    SMOOTH_REAL,
    "`sqrt(a*a + b*b)` without overflow; its derivative at the origin is 0.",
    c="hypot",
)

# --- steps: their derivative is zero, or a sign ---------------------------------------------------------------------

_TO_REAL = same(REAL) | {bool_: (default_int, default_int)} | {c: (c, real_of(c)) for c in COMPLEX}
_TO_PART = same(FLOATING) | {c: (c, real_of(c)) for c in COMPLEX}
absolute = Unary(
    "abs",
    np.abs,
    (lambda y, x: sign(x),),
    _TO_REAL,
    "The absolute value; its derivative at 0 is 0.",
    c={"fi": "abs", "u": "({0})"},
)
sign: Unary = Unary("sign", np.sign, None, same(NUMERIC), "-1, 0 or 1 as `x` is negative, zero or positive.", c="sign")


class Rounding(Unary):
    """To an integer; integers are that already, and must not go through floats as in NumPy before 2.1."""

    def record(self, x: Any) -> Node:
        x = as_node(x)
        return positive.record(x) if x.dtype in INTEGER else super().record(x)


floor = Rounding(
    "floor", np.floor, None, same(REAL), "The next integer below, in the same dtype.", c={"f": "floor", "iu": "({0})"}
)
ceil = Rounding(
    "ceil", np.ceil, None, same(REAL), "The next integer above, in the same dtype.", c={"f": "ceil", "iu": "({0})"}
)
trunc = Rounding(
    "trunc", np.trunc, None, same(REAL), "The integer part, in the same dtype.", c={"f": "trunc", "iu": "({0})"}
)
round = Rounding(
    "round", np.round, None, same(NUMERIC), "The nearest integer, halves to even.", c={"f": "round", "iu": "({0})"}
)
copysign = Binary(
    "copysign",
    np.copysign,
    (lambda y, a, b: sign(a) * where(signbit(b), -1.0, 1.0), None),
    SMOOTH_REAL,
    "The magnitude of `a` with the sign of `b`.",
    c="copysign",
)
nextafter = Binary(
    "nextafter", np.nextafter, (1, None), same(FLOATING), "The next number after `a` towards `b`.", c="nextafter"
)
nextafter.moves = True  # the neighbour in the operands' own dtype, also in half precision


# --- comparisons and logic ------------------------------------------------------------------------------------------

equal = Binary("equal", np.equal, None, to_bool(ALL), "Whether `a == b`.", c="({0} == {1})")
not_equal = Binary("not_equal", np.not_equal, None, to_bool(ALL), "Whether `a != b`.", c="({0} != {1})")
less = Binary("less", np.less, None, to_bool((bool_, *REAL)), "Whether `a < b`.", c="({0} < {1})")
less_equal = Binary("less_equal", np.less_equal, None, to_bool((bool_, *REAL)), "Whether `a <= b`.", c="({0} <= {1})")
greater = Binary("greater", np.greater, None, to_bool((bool_, *REAL)), "Whether `a > b`.", c="({0} > {1})")
greater_equal = Binary(
    "greater_equal", np.greater_equal, None, to_bool((bool_, *REAL)), "Whether `a >= b`.", c="({0} >= {1})"
)
logical_and = Binary(
    "logical_and",
    np.logical_and,
    None,
    to_bool(ALL),
    "Whether both are true (not zero).",
    c="(({0} != 0) & ({1} != 0))",
)
logical_or = Binary(
    "logical_or", np.logical_or, None, to_bool(ALL), "Whether either is true (not zero).", c="(({0} != 0) | ({1} != 0))"
)
logical_xor = Binary(
    "logical_xor",
    np.logical_xor,
    None,
    to_bool(ALL),
    "Whether just one is true (not zero).",
    c="(({0} != 0) ^ ({1} != 0))",
)
logical_not = Unary("logical_not", np.logical_not, None, to_bool(ALL), "Whether `x` is false (zero).", c="({0} == 0)")
isfinite = Unary(
    "isfinite",
    np.isfinite,
    None,
    to_bool(ALL),
    "Whether `x` is neither infinite nor NaN.",
    c={"f": "isfinite", "iub": "1"},
)
isinf = Unary("isinf", np.isinf, None, to_bool(ALL), "Whether `x` is infinite.", c={"f": "isinf", "iub": "0"})
isnan = Unary("isnan", np.isnan, None, to_bool(ALL), "Whether `x` is NaN.", c={"f": "({0} != {0})", "iub": "0"})
signbit: Unary = Unary(
    "signbit", np.signbit, None, to_bool(FLOATING), "Whether the sign bit is set, as in -0.0.", c="signbit"
)

_BITS = same((bool_, *INTEGER))
bitwise_and = Binary("bitwise_and", np.bitwise_and, None, _BITS, "The bits set in both.", c="(({T})({0} & {1}))")
bitwise_or = Binary("bitwise_or", np.bitwise_or, None, _BITS, "The bits set in either.", c="(({T})({0} | {1}))")
bitwise_xor = Binary("bitwise_xor", np.bitwise_xor, None, _BITS, "The bits set in just one.", c="(({T})({0} ^ {1}))")
bitwise_invert = Unary(
    "bitwise_invert",
    np.bitwise_not,
    None,
    _BITS,
    "The bits the other way round.",
    c={"iu": "(({T})~{0})", "b": "(!{0})"},
)
bitwise_left_shift = Binary(
    "bitwise_left_shift", np.left_shift, None, same(INTEGER), "The bits of `a` moved up by `b`.", c="bitwise_left_shift"
)
bitwise_right_shift = Binary(
    "bitwise_right_shift", np.right_shift, None, same(INTEGER), "The bits of `a` down by `b`.", c="bitwise_right_shift"
)

# --- choices --------------------------------------------------------------------------------------------------------


def _share(wins: Node, ties: Node) -> Node:
    """1 where the operand wins, 1/2 where the two are equal."""
    return where(ties, 0.5, where(wins, 1.0, 0.0))


_ORDERED = same((bool_, *REAL))
maximum = Binary(
    "maximum",
    np.maximum,
    (lambda y, a, b: _share(greater(a, b), equal(a, b)), lambda y, a, b: _share(less(a, b), equal(a, b))),
    _ORDERED,
    "The larger of the two; where they are equal each gets half of the derivative.",
    c="maximum",
)
minimum = Binary(
    "minimum",
    np.minimum,
    (lambda y, a, b: _share(less(a, b), equal(a, b)), lambda y, a, b: _share(greater(a, b), equal(a, b))),
    _ORDERED,
    "The smaller of the two; where they are equal each gets half of the derivative.",
    c="minimum",
)


class Where(Elementwise):
    """`where(condition, a, b)`: linear in `a` and `b`."""

    def __call__(self, condition: Any, x1: Any = None, x2: Any = None) -> Node:  # type: ignore[override]
        if x1 is None or x2 is None:
            raise ArgumentError("where takes a condition and two values; wg.nonzero(condition) gives the places")
        condition = condition if type(condition) is Node else operand(condition, None)
        a, b = operands(x1, x2) if type(x1) is not Node or type(x2) is not Node else (x1, x2)
        meet = promote(a.dtype, b.dtype)
        return Op.__call__(self, cast(condition, bool_), cast(a, meet), cast(b, meet))


where: Where = Where(
    "where",
    np.where,
    (None, 1, 1),
    same(ALL),
    "Elements of `x1` where the condition is true, of `x2` elsewhere. Both are computed; the derivative of the one\n"
    "    not taken is 0 even where it is infinite or NaN.",
    c="({0} ? {1} : {2})",
)
where.vjp = (
    None,
    lambda g, y, condition, a, b: where(condition, g, 0),
    lambda g, y, condition, a, b: where(condition, 0, g),
)
where.jvp = None
where.linear = (1, 2)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Node:
    """`x` held between `min` and `max`; the derivative is 1 up to and at the bounds, 0 beyond.

    The bounds are numbers or broadcast against `x`. Where they cross, `max` holds; a NaN bound gives NaN.
    """
    x = as_node(x)
    if min is not None:
        x, low = operands(x, min)
        x = where(greater_equal(x, low), x, maximum(x, low))
    if max is not None:
        x, high = operands(x, max)
        x = where(less_equal(x, high), x, minimum(x, high))
    return x


# --- complex numbers ------------------------------------------------------------------------------------------------

real = Unary("real", np.real, (1,), _TO_PART, "The real part.", c="({0})")
imag = Unary("imag", np.imag, None, _TO_PART, "The imaginary part.", c="(({T})0)")
conj = Unary("conj", np.conj, (1,), same(NUMERIC), "The complex conjugate.", c="({0})")

# --- the logistic function, a primitive because its stable form is -------------------------------------------------


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, np.ones((), e.dtype), e) / (1 + e)


sigmoid: Unary = Unary(
    "sigmoid", _sigmoid, (lambda y, x: y * (1 - y),), SMOOTH_REAL, "The logistic function.", c="sigmoid"
)

# --- gelu by the logistic function, a primitive because one factor is its whole derivative: a primitive, too ---------

_GELU, _GELU_CUBED = float(np.sqrt(8 / np.pi)), float(np.sqrt(8 / np.pi) * 0.044715)


def _gelu_sigmoid(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return x * _sigmoid(x * (_GELU + _GELU_CUBED * (x * x)))


def _gelu_slope(x: Any) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        s = _sigmoid(x * (_GELU + _GELU_CUBED * (x * x)))
        return s + weigh_arrays(s * (1 - s), x * (_GELU + 3 * _GELU_CUBED * (x * x)))


def _gelu_bend(y: Node, x: Node) -> Node:
    s = sigmoid(x * (_GELU + _GELU_CUBED * (x * x)))
    rate = _GELU + 3 * _GELU_CUBED * (x * x)
    return weigh(s * (1 - s), 2 * rate + 6 * _GELU_CUBED * (x * x) + x * (rate * rate) * (1 - 2 * s))


_SIGMOID = f"{{wg.sigmoid}}_{{t}}({{0}} * (({{T}}){_GELU!r} + ({{T}}){_GELU_CUBED!r} * ({{0}} * {{0}})))"
_RATE = f"({{0}} * (({{T}}){_GELU!r} + ({{T}}){3 * _GELU_CUBED!r} * ({{0}} * {{0}})))"

gelu_sigmoid: Unary = Unary(
    "gelu_sigmoid",
    _gelu_sigmoid,
    (lambda y, x: gelu_slope(x),),
    SMOOTH_REAL,
    "`x` times the logistic function of `sqrt(8 / pi) * (x + 0.044715 * x ** 3)`.",
    c=f"({{0}} * {_SIGMOID})",
)
gelu_slope: Unary = Unary(
    "gelu_slope",
    _gelu_slope,
    (_gelu_bend,),
    SMOOTH_REAL,
    "The derivative of `gelu_sigmoid` at `x`.",
    c=f"({_SIGMOID} + {{wg.weigh}}_{{t}}({_SIGMOID} * (1 - {_SIGMOID}), {_RATE}))",
)
