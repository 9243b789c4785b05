"""Trigonometric and hyperbolic functions and their inverses; angle and length of a point in the plane.

The table is made as in `elementwise`.
"""

from __future__ import annotations

import numpy as np

from wengert.core.dtypes import COMPLEX
from wengert.core.graph import Node
from wengert.ops.comparison import equal, where
from wengert.ops.exponential import sqrt
from wengert.ops.recorders import Binary, Unary, negative
from wengert.ops.tables import SMOOTH, SMOOTH_REAL

sin = Unary(
    "sin",
    np.sin,
    (lambda y, x: cos(x),),
    SMOOTH,
    "The sine.",
    example=("wg.sin(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="sin",
    long=True,
    symbolic="sin",
    ulp=2,
)
cos: Unary = Unary(
    "cos",
    np.cos,
    (lambda y, x: -sin(x),),
    SMOOTH,
    "The cosine.",
    example=("wg.cos(wg.tensor([0.0])).tolist()", "[1.0]"),
    c="cos",
    long=True,
    symbolic="cos",
    ulp=2,
)
tan = Unary(
    "tan",
    np.tan,
    (lambda y, x: 1 + y * y,),
    SMOOTH,
    "The tangent.",
    example=("wg.tan(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="tan",
    precision="full",
    long=True,
    symbolic="tan",
    domain=((-1.2, 1.2),),
)


def _root_of_one_minus_square(x: Node) -> Node:
    """The root of `1 - x*x`; of complex values by one root a factor, and so on the side of the cuts that the inverse
    functions take. Zeros keep their signs in `x - 1`, and would lose them in `1 - x` and `1 + x`.
    """
    if x.dtype in COMPLEX:
        return sqrt(negative(x - 1)) * sqrt(x - -1)
    return sqrt((1 - x) * (1 + x))


asin = Unary(
    "asin",
    np.arcsin,
    (lambda y, x: 1 / _root_of_one_minus_square(x),),
    SMOOTH,
    "The inverse sine.",
    example=("wg.asin(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="asin",
    precision="full",
    symbolic="asin",
    domain=((-0.9, 0.9),),
    ulp=3,
)
acos = Unary(
    "acos",
    np.arccos,
    (lambda y, x: -1 / _root_of_one_minus_square(x),),
    SMOOTH,
    "The inverse cosine.",
    example=("wg.acos(wg.tensor([1.0])).tolist()", "[0.0]"),
    c="acos",
    precision="full",
    symbolic="acos",
    domain=((-0.9, 0.9),),
    ulp=2,
)
atan = Unary(
    "atan",
    np.arctan,
    (lambda y, x: 1 / (1 + x * x),),
    SMOOTH,
    "The inverse tangent.",
    example=("wg.atan(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="atan",
    symbolic="atan",
    ulp=2,
)
sinh = Unary(
    "sinh",
    np.sinh,
    (lambda y, x: cosh(x),),
    SMOOTH,
    "The hyperbolic sine.",
    example=("wg.sinh(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="sinh",
    precision="full",
    long=True,
    symbolic="sinh",
    ulp=3,
)
cosh: Unary = Unary(
    "cosh",
    np.cosh,
    (lambda y, x: sinh(x),),
    SMOOTH,
    "The hyperbolic cosine.",
    example=("wg.cosh(wg.tensor([0.0])).tolist()", "[1.0]"),
    c="cosh",
    precision="full",
    long=True,
    symbolic="cosh",
    ulp=3,
)
tanh = Unary(
    "tanh",
    np.tanh,
    (lambda y, x: 1 - y * y,),
    SMOOTH,
    "The hyperbolic tangent.",
    example=("wg.tanh(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="tanh",
    long=True,
    symbolic="tanh",
)
asinh = Unary(
    "asinh",
    np.arcsinh,
    (lambda y, x: 1 / (cosh(y) if x.dtype in COMPLEX else sqrt(x * x + 1)),),
    SMOOTH,
    "The inverse hyperbolic sine.",
    example=("wg.asinh(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="asinh",
    symbolic="asinh",
    ulp=3,
)
acosh = Unary(
    "acosh",
    np.arccosh,
    (lambda y, x: 1 / (sqrt(x - 1) * sqrt(x - -1 if x.dtype in COMPLEX else x + 1)),),
    SMOOTH,
    "The inverse hyperbolic cosine.",
    example=("wg.acosh(wg.tensor([1.0])).tolist()", "[0.0]"),
    c="acosh",
    symbolic="acosh",
    domain=((1.1, 4.0),),
)
atanh = Unary(
    "atanh",
    np.arctanh,
    (lambda y, x: 1 / ((1 - x) * (1 + x)),),
    SMOOTH,
    "The inverse hyperbolic tangent.",
    example=("wg.atanh(wg.tensor([0.0])).tolist()", "[0.0]"),
    c="atanh",
    symbolic="atanh",
    domain=((-0.9, 0.9),),
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
    example=("wg.atan2(wg.tensor([0.0]), wg.tensor([1.0])).tolist()", "[0.0]"),
    c="atan2",
    symbolic="atan2",
    ulp=3,
)
hypot: Binary = Binary(
    "hypot",
    np.hypot,
    (lambda y, a, b: _over_radius(a, y), lambda y, a, b: _over_radius(b, y)),
    SMOOTH_REAL,
    "`sqrt(a*a + b*b)` without overflow; its derivative at the origin is 0.",
    example=("wg.hypot(wg.tensor([3.0]), wg.tensor([4.0])).tolist()", "[5.0]"),
    c="hypot",
    symbolic=lambda s, a, b: s.sqrt(a**2 + b**2),
    ulp=2,
)
