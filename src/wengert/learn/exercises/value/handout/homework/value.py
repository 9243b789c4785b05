"""Value: a number that remembers how it was computed. Reverse mode on single numbers."""

from __future__ import annotations

import math
from typing import Any


class Value:
    """A number; `sources` are the Values it was computed from, each with the local derivative with respect to it."""

    def __init__(self, data: float, sources: tuple[tuple[Value, float], ...] = ()) -> None:
        self.data = data
        self.grad = 0.0
        self.sources = sources

    def __add__(self, other: Any) -> Value:
        """self + other, where other may be a plain number."""
        raise NotImplementedError("TODO: Value.__add__")

    def __sub__(self, other: Any) -> Value:
        """self - other."""
        raise NotImplementedError("TODO: Value.__sub__")

    def __mul__(self, other: Any) -> Value:
        """self * other."""
        raise NotImplementedError("TODO: Value.__mul__")

    def __truediv__(self, other: Any) -> Value:
        """self / other."""
        raise NotImplementedError("TODO: Value.__truediv__")

    def __pow__(self, exponent: float) -> Value:
        """self to a constant power, also where self is 0."""
        raise NotImplementedError("TODO: Value.__pow__")

    def __neg__(self) -> Value:
        """-self."""
        raise NotImplementedError("TODO: Value.__neg__")

    def __radd__(self, other: float) -> Value:
        """other + self, where other is a plain number."""
        raise NotImplementedError("TODO: Value.__radd__")

    def __rsub__(self, other: float) -> Value:
        """other - self."""
        raise NotImplementedError("TODO: Value.__rsub__")

    def __rmul__(self, other: float) -> Value:
        """other * self."""
        raise NotImplementedError("TODO: Value.__rmul__")

    def __rtruediv__(self, other: float) -> Value:
        """other / self."""
        raise NotImplementedError("TODO: Value.__rtruediv__")

    def exp(self) -> Value:
        """e to this power."""
        raise NotImplementedError("TODO: Value.exp")

    def log(self) -> Value:
        """The natural logarithm."""
        raise NotImplementedError("TODO: Value.log")

    def sin(self) -> Value:
        """The sine."""
        raise NotImplementedError("TODO: Value.sin")

    def tanh(self) -> Value:
        """The hyperbolic tangent."""
        raise NotImplementedError("TODO: Value.tanh")

    def relu(self) -> Value:
        """The number itself if it is positive, else 0. At 0 the derivative is 0."""
        raise NotImplementedError("TODO: Value.relu")

    def backward(self) -> None:
        """Add to the `grad` of every Value that this one depends on the derivative of this one with respect to it.

        A second call adds the same once more. A chain may be far longer than Python's recursion limit.
        """
        raise NotImplementedError("TODO: Value.backward")


def as_value(number: Any) -> Value:
    """A plain number as a Value without sources."""
    return number if isinstance(number, Value) else Value(number)
