"""Common divisors of integers, and floating-point numbers taken apart into a fraction and a power of 2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import INTEGER, int32
from wengert.core.errors import DTypeError
from wengert.core.graph import Node
from wengert.ops.comparison import logical_or
from wengert.ops.core import cast, operands
from wengert.ops.elementwise import absolute, equal, floor_divide, multiply, safe_multiply, where
from wengert.ops.factors import Factors
from wengert.ops.formulas import inexact
from wengert.ops.op import Op, picks
from wengert.ops.parameters import Several, real_operands
from wengert.ops.recorders import Binary
from wengert.ops.tables import same

gcd = Binary(
    "gcd",
    np.gcd,
    None,
    same(INTEGER),
    "The greatest common divisor of integers; 0 of two zeros.",
    example=("wg.gcd(wg.tensor([12]), 18).tolist()", "[6]"),
    c="gcd",
)


def lcm(x1: Any, x2: Any, /) -> Node:
    """The least common multiple of integers; 0 where one of them is 0.

    >>> import wengert as wg
    >>> wg.lcm(wg.tensor([4, 0]), 6).tolist()
    [12, 0]
    """
    a, b = operands(x1, x2)
    if a.dtype not in INTEGER or b.dtype not in INTEGER:
        raise DTypeError(f"lcm takes integers, not {a.dtype} and {b.dtype}")
    zero = logical_or(equal(a, 0), equal(b, 0))
    divisor = gcd(a, b)
    return absolute(multiply(floor_divide(a, where(zero, 1, divisor)), b))


# --- powers of 2 ----------------------------------------------------------------------------------------------------


def _scaled(x: Any, n: Any) -> Any:
    """By the integer part exactly; by what is left of the exponent, where it is no integer, as a power."""
    whole = np.floor(np.clip(np.nan_to_num(n), -5000, 5000))
    scaled = np.ldexp(x, whole.astype(np.int64))
    return np.where(np.isnan(n), np.nan, np.where(n == whole, scaled, scaled * 2.0 ** (n - whole)))


LDEXP: Several = Several(
    "times_power_of_two",
    _scaled,
    (lambda y, x, n: LDEXP(x * 0 + 1, n), lambda y, x, n: y * math.log(2)),
    samples=lambda: iter([((np.array([[0.5], [-1.5]]), np.array([-3.5, 0.0, 4.5])), {})]),
)


def ldexp(x: Any, n: Any, /) -> Node:
    """`x * 2**n`, for integers `n` exact wherever the result is a number of the dtype.

    >>> import wengert as wg
    >>> wg.ldexp(wg.tensor([1.0, 3.0]), wg.tensor([4, -1])).tolist()
    [16.0, 1.5]
    """
    a, b = operands(x, n)
    a = inexact(a)
    return LDEXP(*real_operands("ldexp", a, cast(b, a.dtype) if b.dtype in INTEGER else b))


class Frexp(NamedTuple):
    """A fraction between 1/2 and 1 (or 0), and the power of 2 that it is to be multiplied with."""

    mantissa: Any
    exponent: Any


def _frexp_jvp(tangents: Sequence[Any], y: Node, x: Node) -> list[Any]:
    exponent = picks(y)[1]
    return [safe_multiply(tangents[0], LDEXP(x * 0 + 1, cast(-exponent, x.dtype))), None]


def _every_axis(node: Node) -> Factors:
    labels = tuple(range(len(node.sources[0].shape)))
    return Factors((labels,), (labels, labels))


FREXP: Op = Op(
    "frexp",
    infer=lambda x: ((x.shape, x.shape), (x.dtype, int32)),
    numpy=lambda x: tuple(np.frexp(x)),
    jvp=_frexp_jvp,
    batch=lambda y, sources, batched: FREXP(*sources),
    factors=_every_axis,
    can_fail=False,
)


def frexp(x: Any, /) -> Frexp:
    """The fraction and the power of 2 with `x = mantissa * 2**exponent`.

    >>> import wengert as wg
    >>> [part.tolist() for part in wg.frexp(wg.tensor([8.0, 0.75]))]
    [[0.5, 0.75], [4, 0]]
    """
    return Frexp(*picks(FREXP(*real_operands("frexp", x))))
