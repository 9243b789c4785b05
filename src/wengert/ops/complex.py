"""Size, direction and parts of numbers: what real and complex numbers have, and no holomorphic function gives.

The table is made as in `elementwise`. Of complex values these ops state their rules as `Parts`, linear in the real and
the imaginary part; cotangents are those of the real part of `conj(g) * t`, so that the cotangent of a complex value is
the derivative with respect to its real part plus i times that with respect to its imaginary part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, NUMERIC, default_float, is_floating
from wengert.core.graph import Node
from wengert.ops.comparison import equal, isnan, signbit, where
from wengert.ops.core import as_node, cast
from wengert.ops.facts import SIMPLE
from wengert.ops.recorders import Parts, Unary, add, conj, negative, real, safe_multiply
from wengert.ops.tables import TO_PART, TO_REAL, same
from wengert.ops.trigonometry import atan2

imag: Unary = Unary(
    "imag",
    np.imag,
    None,
    TO_PART,
    "The imaginary part.",
    example=("wg.imag(wg.tensor([1 + 2j])).tolist()", "[2.0]"),
    c={"f": "(({T})0)", "c": "imag"},
    parts=Parts(pull=lambda g, y, x: safe_multiply(g, 1j), push=lambda t, y, x: imag(t)),
)


def _along(t: Node, direction: Node) -> Node:
    """The component of a complex tangent along a direction, real."""
    return real(safe_multiply(t, conj(direction)))


def _turned(v: Node, y: Node, x: Node) -> Node:
    """How the direction `y` of `x` moves: by what is across it, over the size; its own adjoint. It is 0 at 0."""
    zero = equal(x, 0)
    across = add(v, negative(safe_multiply(_along(v, y), y)))
    return where(zero, 0, across / cast(absolute(where(zero, 1, x)), x.dtype))


absolute: Unary = Unary(
    "abs",
    np.abs,
    (lambda y, x: sign(x),),
    TO_REAL,
    "The absolute value; its derivative at 0 is 0.",
    example=("wg.abs(wg.tensor([-1.5, 2.0])).tolist()", "[1.5, 2.0]"),
    c={"fic": "abs", "u": "({0})"},
    cost=SIMPLE,
    symbolic="Abs",
    parts=Parts(pull=lambda g, y, x: safe_multiply(g, sign(x)), push=lambda t, y, x: _along(t, sign(x))),
)
sign: Unary = Unary(
    "sign",
    np.sign,
    (None,),
    same(NUMERIC),
    "-1, 0 or 1 as `x` is negative, zero or positive; of complex values `x / abs(x)`, and 0 at 0.",
    example=("wg.sign(wg.tensor([-3.0, 0.0, 2.0])).tolist()", "[-1.0, 0.0, 1.0]"),
    c="sign",
    cost=SIMPLE,
    symbolic="sign",
    parts=Parts(pull=_turned, push=_turned),
)


def angle(x: Any, /) -> Node:
    """The angle of complex numbers in the plane, between -pi and pi; of real ones 0 or pi. Its derivative at 0 is 0.

    >>> import wengert as wg
    >>> wg.angle(wg.tensor([1.0, 1j, -1.0])).tolist()
    [0.0, 1.570..., 3.141...]
    """
    x = as_node(x)
    if x.dtype in COMPLEX:
        return atan2(imag(x), real(x))
    x = x if is_floating(x.dtype) else cast(x, default_float)
    return where(isnan(x), x, cast(signbit(x), x.dtype) * float(np.pi))
