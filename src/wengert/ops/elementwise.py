"""Elementwise ops: one number from one number of each operand, broadcast against each other.

The table: name, NumPy reference, derivatives, dtypes, what it says of itself, its C, and its facts. `recorders` tells
what the first ones mean, `facts` the last. Arithmetic and rounding are here; comparisons, exponentials, trigonometry
and the parts of complex numbers have files of their own, and are found here as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, FLOATING, INEXACT, INTEGER, NUMERIC, REAL, SIGNED, bool_
from wengert.core.errors import DTypeError
from wengert.core.graph import Node, recording
from wengert.ops.comparison import (
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    clip,
    equal,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    not_equal,
    signbit,
    where,
    zero_where,
)
from wengert.ops.complex import absolute, imag, sign
from wengert.ops.core import LITERAL, Argument, as_node, cast, literal
from wengert.ops.exponential import (
    exp,
    expm1,
    gelu_sigmoid,
    gelu_slope,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    sigmoid,
    sqrt,
)
from wengert.ops.facts import DIVISION, SIMPLE, itself
from wengert.ops.op import at_precision
from wengert.ops.recorders import Binary, Unary, add, conj, conjugate, negative, real, safe_multiply, wrapping
from wengert.ops.tables import ARITHMETIC, SMOOTH, SMOOTH_REAL, same
from wengert.ops.trigonometry import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    hypot,
    sin,
    sinh,
    tan,
    tanh,
)

__all__ = [
    "absolute",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "gelu_sigmoid",
    "gelu_slope",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "power",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "safe_multiply",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]

# --- arithmetic -----------------------------------------------------------------------------------------------------

subtract = Binary(
    "subtract",
    np.subtract,
    (1, -1),
    ARITHMETIC,
    "The difference `a - b`.",
    example=("wg.subtract(wg.tensor([1.0, 2.0]), 3.0).tolist()", "[-2.0, -1.0]"),
    c=wrapping("-"),
    symbolic=lambda s, a, b: a - b,
)
multiply = Binary(
    "multiply",
    np.multiply,
    (lambda y, a, b: b, lambda y, a, b: a),
    ARITHMETIC | {bool_: (bool_, bool_)},
    "The product `a * b`.",
    example=("wg.multiply(wg.tensor([1.0, 2.0]), 3.0).tolist()", "[3.0, 6.0]"),
    c={"c": "multiply"} | wrapping("*") | {"b": "({0} & {1})"},
    symbolic=lambda s, a, b: a * b,
)
divide = Binary(
    "divide",
    np.divide,
    (lambda y, a, b: 1 / b, lambda y, a, b: -y / b),
    SMOOTH,
    "The quotient `a / b`, a float.",
    example=("wg.divide(wg.tensor([1.0, 3.0]), 2.0).tolist()", "[0.5, 1.5]"),
    c={"f": "({0} / {1})", "c": "divide"},
    symbolic=lambda s, a, b: a / b,
    domain=((0.4, 3.0),),
)
floor_divide = Binary(
    "floor_divide",
    np.floor_divide,
    (None, None),
    same(REAL),
    "The quotient `a // b`, rounded towards minus infinity.",
    example=("wg.floor_divide(wg.tensor([7.0, -7.0]), 2.0).tolist()", "[3.0, -4.0]"),
    c="floor_divide",
    cost=DIVISION,
    symbolic=lambda s, a, b: s.floor(a / b),
    domain=((0.5, 3.0),),
)
remainder = Binary(
    "remainder",
    np.remainder,
    (1, lambda y, a, b: negative(floor_divide(a, b))),
    same(REAL),
    "The remainder `a % b`, with the sign of `b`.",
    example=("wg.remainder(wg.tensor([7.0, -7.0]), 4.0).tolist()", "[3.0, 1.0]"),
    c="remainder",
    cost=DIVISION,
    symbolic=lambda s, a, b: a - b * s.floor(a / b),
    domain=((0.5, 3.0),),
)
positive = Unary(
    "positive",
    np.positive,
    (1,),
    same(NUMERIC),
    "The value itself, `+x`.",
    example=("wg.positive(wg.tensor([1.0, -2.0])).tolist()", "[1.0, -2.0]"),
    c="({0})",
    symbolic=itself,
)
reciprocal = Unary(
    "reciprocal",
    lambda x: 1 / x,
    (lambda y, x: -y * y,),
    SMOOTH,
    "One over `x`.",
    example=("wg.reciprocal(wg.tensor([2.0, 4.0])).tolist()", "[0.5, 0.25]"),
    c={"f": "(1 / {0})", "c": "reciprocal"},
    precision="full",
    symbolic=lambda s, x: 1 / x,
    domain=((0.4, 3.0),),
)
square = Unary(
    "square",
    np.square,
    (lambda y, x: 2 * x,),
    ARITHMETIC,
    "The square `x * x`.",
    example=("wg.square(wg.tensor([3.0, -2.0])).tolist()", "[9.0, 4.0]"),
    c="square",
    precision="full",
    cost=SIMPLE,
    symbolic=lambda s, x: x**2,
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
    long=True,
    symbolic=lambda s, a, b: a**b,
    domain=((0.3, 2.5),),
    ulp=2,
)


def pow(x1: Any, x2: Any, /) -> Node:
    """The power `x1 ** x2`. A number for an exponent is part of the program; to the power 2 is a multiplication.

    >>> import wengert as wg
    >>> wg.pow(wg.tensor([1.0, 2.0, 3.0]), 2).tolist()
    [1.0, 4.0, 9.0]
    """
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
    return power(x1, _checked_exponent(x1, exponent))


def _checked_exponent(base: Any, exponent: Any) -> Any:
    """An exponent as it is, but for an integer's: that must not be negative, which its value alone tells."""
    if type(exponent) is not Node or exponent.dtype not in SIGNED:
        return exponent
    if type(base) is not int and getattr(base, "dtype", None) not in INTEGER:
        return exponent
    message = "pow: integers to negative integer powers are no integers; cast with astype"
    return add(exponent, cast(zero_where(greater_equal(exponent, 0), message), exponent.dtype))


# --- steps: their derivative is zero, or a sign ---------------------------------------------------------------------


class Rounding(Unary):
    """To an integer; integers are that already, and must not go through floats as in NumPy before 2.1."""

    def record(self, x: Any) -> Node:
        x = as_node(x)
        return positive.record(x) if x.dtype in INTEGER else super().record(x)


floor = Rounding(
    "floor",
    np.floor,
    (None,),
    same(REAL),
    "The next integer below, in the same dtype.",
    example=("wg.floor(wg.tensor([1.2, -1.2])).tolist()", "[1.0, -2.0]"),
    c={"f": "floor", "iu": "({0})"},
    cost=SIMPLE,
    symbolic="floor",
)
ceil = Rounding(
    "ceil",
    np.ceil,
    (None,),
    same(REAL),
    "The next integer above, in the same dtype.",
    example=("wg.ceil(wg.tensor([1.2, -1.2])).tolist()", "[2.0, -1.0]"),
    c={"f": "ceil", "iu": "({0})"},
    cost=SIMPLE,
    symbolic="ceiling",
)
trunc = Rounding(
    "trunc",
    np.trunc,
    (None,),
    same(REAL),
    "The integer part, in the same dtype.",
    example=("wg.trunc(wg.tensor([1.7, -1.7])).tolist()", "[1.0, -1.0]"),
    c={"f": "trunc", "iu": "({0})"},
    cost=SIMPLE,
    symbolic=lambda s, x: s.sign(x) * s.floor(s.Abs(x)),
)
round = Rounding(
    "round",
    np.round,
    (None,),
    same(NUMERIC),
    "The nearest integer, halves to even.",
    c={"fc": "round", "iu": "({0})"},
    cost=SIMPLE,
)
copysign = Binary(
    "copysign",
    np.copysign,
    (lambda y, a, b: sign(a) * where(signbit(b), -1.0, 1.0), None),
    SMOOTH_REAL,
    "The magnitude of `a` with the sign of `b`.",
    example=("wg.copysign(wg.tensor([1.0, 2.0]), wg.tensor([-0.0, 3.0])).tolist()", "[-1.0, 2.0]"),
    c="copysign",
    cost=SIMPLE,
)
nextafter = Binary(
    "nextafter",
    np.nextafter,
    (1, None),
    same(FLOATING),
    "The next number after `a` towards `b`.",
    example=("wg.nextafter(wg.tensor(0.0), 1.0).item() > 0", "True"),
    c="nextafter",
    cost=SIMPLE,
)
nextafter.moves = True  # the neighbour in the operands' own dtype, also in half precision
