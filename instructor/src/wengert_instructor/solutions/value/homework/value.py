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
        other = as_value(other)
        return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))

    def __sub__(self, other: Any) -> Value:
        """self - other."""
        other = as_value(other)
        return Value(self.data - other.data, ((self, 1.0), (other, -1.0)))

    def __mul__(self, other: Any) -> Value:
        """self * other."""
        other = as_value(other)
        return Value(self.data * other.data, ((self, other.data), (other, self.data)))

    def __truediv__(self, other: Any) -> Value:
        """self / other."""
        other = as_value(other)
        y = self.data / other.data
        return Value(y, ((self, 1 / other.data), (other, -y / other.data)))

    def __pow__(self, exponent: float) -> Value:
        """self to a constant power, also where self is 0."""
        slope = exponent * self.data ** (exponent - 1) if exponent else 0.0
        return Value(self.data**exponent, ((self, slope),))

    def __neg__(self) -> Value:
        """-self."""
        return Value(-self.data, ((self, -1.0),))

    def __radd__(self, other: float) -> Value:
        """other + self, where other is a plain number."""
        return self + other

    def __rsub__(self, other: float) -> Value:
        """other - self."""
        return as_value(other) - self

    def __rmul__(self, other: float) -> Value:
        """other * self."""
        return self * other

    def __rtruediv__(self, other: float) -> Value:
        """other / self."""
        return as_value(other) / self

    def exp(self) -> Value:
        """e to this power."""
        y = math.exp(self.data)
        return Value(y, ((self, y),))

    def log(self) -> Value:
        """The natural logarithm."""
        return Value(math.log(self.data), ((self, 1 / self.data),))

    def sin(self) -> Value:
        """The sine."""
        return Value(math.sin(self.data), ((self, math.cos(self.data)),))

    def tanh(self) -> Value:
        """The hyperbolic tangent."""
        y = math.tanh(self.data)
        return Value(y, ((self, 1 - y * y),))

    def relu(self) -> Value:
        """The number itself if it is positive, else 0. At 0 the derivative is 0."""
        return Value(max(self.data, 0.0), ((self, float(self.data > 0)),))

    def backward(self) -> None:
        """Add to the `grad` of every Value that this one depends on the derivative of this one with respect to it.

        A second call adds the same once more. A chain may be far longer than Python's recursion limit.
        """
        order, seen, stack = [], set(), [(self, False)]
        while stack:
            value, is_ready = stack.pop()
            if is_ready:
                order.append(value)
            elif value not in seen:
                seen.add(value)
                stack += [(value, True), *((source, False) for source, _ in value.sources)]
        share = {value: 0.0 for value in order}
        share[self] = 1.0
        for value in reversed(order):
            for source, slope in value.sources:
                share[source] += slope * share[value]
            value.grad += share[value]


def as_value(number: Any) -> Value:
    """A plain number as a Value without sources."""
    return number if isinstance(number, Value) else Value(number)
