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
        raise NotImplementedError("TODO: Dual.__add__")

    def __sub__(self, other: Any) -> Any:
        """self - other."""
        raise NotImplementedError("TODO: Dual.__sub__")

    def __mul__(self, other: Any) -> Any:
        """self * other: the product rule."""
        raise NotImplementedError("TODO: Dual.__mul__")

    def __truediv__(self, other: Any) -> Any:
        """self / other: the quotient rule."""
        raise NotImplementedError("TODO: Dual.__truediv__")

    def __pow__(self, exponent: float) -> Any:
        """self to a constant power, also where self is 0."""
        raise NotImplementedError("TODO: Dual.__pow__")

    def __neg__(self) -> Any:
        """-self."""
        raise NotImplementedError("TODO: Dual.__neg__")

    def __radd__(self, other: Any) -> Any:
        """other + self, where other is a plain number."""
        raise NotImplementedError("TODO: Dual.__radd__")

    def __rsub__(self, other: Any) -> Any:
        """other - self, where other is a plain number."""
        raise NotImplementedError("TODO: Dual.__rsub__")

    def __rmul__(self, other: Any) -> Any:
        """other * self, where other is a plain number."""
        raise NotImplementedError("TODO: Dual.__rmul__")

    def __rtruediv__(self, other: Any) -> Any:
        """other / self, where other is a plain number."""
        raise NotImplementedError("TODO: Dual.__rtruediv__")


def split(a: Any, b: Any) -> tuple[tuple[Any, Any], tuple[Any, Any], int]:
    """Two operands as pairs (real, tangent) for the newest tag of the two, and that tag.

    An operand of an older tag, or a plain number, does not move: its tangent is 0.
    """
    raise NotImplementedError("TODO: split")


def sin(x: Any) -> Any:
    """The sine of a number or a Dual."""
    raise NotImplementedError("TODO: sin")


def cos(x: Any) -> Any:
    """The cosine of a number or a Dual."""
    raise NotImplementedError("TODO: cos")


def exp(x: Any) -> Any:
    """The exponential function of a number or a Dual."""
    raise NotImplementedError("TODO: exp")


def log(x: Any) -> Any:
    """The natural logarithm of a number or a Dual."""
    raise NotImplementedError("TODO: log")


def derivative(f: Callable[[Any], Any], x: Any) -> Any:
    """The derivative of f at x. x may be a Dual of an outer derivative, and f may use numbers of outer ones."""
    raise NotImplementedError("TODO: derivative")


def gradient(f: Callable[..., Any], point: list[Any]) -> list[Any]:
    """The derivatives of f with respect to each of its arguments."""
    raise NotImplementedError("TODO: gradient")
