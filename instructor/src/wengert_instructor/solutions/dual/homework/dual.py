"""Dual numbers: forward mode that is hidden in the numbers.

A Dual is `real + tangent·ε` with ε² = 0. Every derivative has an ε of its own, its `tag`: numbers of a newer derivative
hold those of an older one in their fields, so that derivatives nest without confusion.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

_TAGS = itertools.count(1)


class Dual:
    """A number and its tangent, for the derivative with this tag."""

    def __init__(self, real: Any, tangent: Any, tag: int) -> None:
        self.real, self.tangent, self.tag = real, tangent, tag

    def __add__(self, other: Any) -> Any:
        """self + other."""
        a, b, tag = split(self, other)
        return Dual(a[0] + b[0], a[1] + b[1], tag)

    def __sub__(self, other: Any) -> Any:
        """self - other."""
        a, b, tag = split(self, other)
        return Dual(a[0] - b[0], a[1] - b[1], tag)

    def __mul__(self, other: Any) -> Any:
        """self * other: the product rule."""
        a, b, tag = split(self, other)
        return Dual(a[0] * b[0], a[0] * b[1] + a[1] * b[0], tag)

    def __truediv__(self, other: Any) -> Any:
        """self / other: the quotient rule."""
        a, b, tag = split(self, other)
        return Dual(a[0] / b[0], (a[1] - a[0] / b[0] * b[1]) / b[0], tag)

    def __pow__(self, exponent: float) -> Any:
        """self to a constant power, also where self is 0."""
        if exponent == 0:
            return Dual(self.real**0, 0.0, self.tag)
        return Dual(self.real**exponent, exponent * self.real ** (exponent - 1) * self.tangent, self.tag)

    def __neg__(self) -> Any:
        """-self."""
        return Dual(-self.real, -self.tangent, self.tag)

    def __radd__(self, other: Any) -> Any:
        """other + self, where other is a plain number."""
        return self + other

    def __rsub__(self, other: Any) -> Any:
        """other - self, where other is a plain number."""
        return -self + other

    def __rmul__(self, other: Any) -> Any:
        """other * self, where other is a plain number."""
        return self * other

    def __rtruediv__(self, other: Any) -> Any:
        """other / self, where other is a plain number."""
        return Dual(other, 0.0, self.tag) / self


def split(a: Any, b: Any) -> tuple[tuple[Any, Any], tuple[Any, Any], int]:
    """Two operands as pairs (real, tangent) for the newest tag of the two, and that tag.

    An operand of an older tag, or a plain number, does not move: its tangent is 0.
    """
    tag = max(a.tag if isinstance(a, Dual) else 0, b.tag if isinstance(b, Dual) else 0)
    first, second = ((x.real, x.tangent) if isinstance(x, Dual) and x.tag == tag else (x, 0.0) for x in (a, b))
    return first, second, tag


def sin(x: Any) -> Any:
    """The sine of a number or a Dual."""
    return Dual(sin(x.real), cos(x.real) * x.tangent, x.tag) if isinstance(x, Dual) else math.sin(x)


def cos(x: Any) -> Any:
    """The cosine of a number or a Dual."""
    return Dual(cos(x.real), -sin(x.real) * x.tangent, x.tag) if isinstance(x, Dual) else math.cos(x)


def exp(x: Any) -> Any:
    """The exponential function of a number or a Dual."""
    return Dual(exp(x.real), exp(x.real) * x.tangent, x.tag) if isinstance(x, Dual) else math.exp(x)


def log(x: Any) -> Any:
    """The natural logarithm of a number or a Dual."""
    return Dual(log(x.real), x.tangent / x.real, x.tag) if isinstance(x, Dual) else math.log(x)


def derivative(f: Callable[[Any], Any], x: Any) -> Any:
    """The derivative of f at x. x may be a Dual of an outer derivative, and f may use numbers of outer ones."""
    tag = next(_TAGS)
    y = f(Dual(x, 1.0, tag))
    return y.tangent if isinstance(y, Dual) and y.tag == tag else 0.0


def gradient(f: Callable[..., Any], point: list[Any]) -> list[Any]:
    """The derivatives of f with respect to each of its arguments."""
    return [derivative(lambda z, i=i: f(*point[:i], z, *point[i + 1 :]), point[i]) for i in range(len(point))]
