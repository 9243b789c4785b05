"""Forward mode in fifty lines of code: a dual number carries its derivative along.

A dual number is a + b·ε with ε² = 0. Computing with it as with any number gives f(a) + f'(a) b·ε, since Taylor's series
ends after its second term: so the coefficient of ε is the derivative. Nothing is recorded, and nothing is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


class Dual:
    """A number `real` and, as the coefficient of ε, its `tangent`.

    >>> x = Dual(2.0, 1.0)
    >>> y = x * x + sin(x)
    >>> y.tangent == 2 * 2.0 + math.cos(2.0)
    True
    """

    def __init__(self, real: float | Dual, tangent: float | Dual = 0.0) -> None:
        self.real, self.tangent = real, tangent

    def __add__(self, other: Dual | float) -> Dual:
        other = as_dual(other)
        return Dual(self.real + other.real, self.tangent + other.tangent)

    def __mul__(self, other: Dual | float) -> Dual:
        other = as_dual(other)
        return Dual(self.real * other.real, self.real * other.tangent + self.tangent * other.real)

    def __pow__(self, exponent: float) -> Dual:
        return Dual(self.real**exponent, exponent * self.real ** (exponent - 1) * self.tangent)

    def __neg__(self) -> Dual:
        return self * -1.0

    def __sub__(self, other: Dual | float) -> Dual:
        return self + as_dual(other) * -1.0

    def __truediv__(self, other: Dual | float) -> Dual:
        return self * as_dual(other) ** -1

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Dual:
        return as_dual(other) - self

    def __rtruediv__(self, other: float) -> Dual:
        return as_dual(other) / self

    def __repr__(self) -> str:
        return f"{self.real} + {self.tangent}ε"


def as_dual(number: Dual | float) -> Dual:
    """A plain number does not move: its tangent is 0."""
    return number if isinstance(number, Dual) else Dual(number)


def sin(x: Dual | float) -> Dual | float:
    """The sine."""
    return Dual(sin(x.real), cos(x.real) * x.tangent) if isinstance(x, Dual) else math.sin(x)


def cos(x: Dual | float) -> Dual | float:
    """The cosine."""
    return Dual(cos(x.real), -1.0 * sin(x.real) * x.tangent) if isinstance(x, Dual) else math.cos(x)


def exp(x: Dual | float) -> Dual | float:
    """The exponential function."""
    return Dual(exp(x.real), exp(x.real) * x.tangent) if isinstance(x, Dual) else math.exp(x)


def log(x: Dual | float) -> Dual | float:
    """The natural logarithm."""
    return Dual(log(x.real), x.tangent / x.real) if isinstance(x, Dual) else math.log(x)


def jvp(f: Callable[..., Dual], point: Sequence[float | Dual], direction: Sequence[float]) -> Dual | float:
    """The derivative of f at a point along a direction: one walk."""
    return as_dual(f(*map(Dual, point, direction))).tangent


def gradient(f: Callable[..., Dual], point: Sequence[float | Dual]) -> list[Dual | float]:
    """All partial derivatives: one walk for each input."""
    return [jvp(f, point, [float(i == j) for j in range(len(point))]) for i in range(len(point))]
