"""Value: a number that remembers how it was computed, so that it can be differentiated.

An operation returns a new Value with its *sources*: each Value that went in, with the derivative of the result with
respect to it, the local derivative. That is all reverse mode needs. `backward` visits the values from the result to the
inputs and gives each source its share, local derivative times gradient of the result: the chain rule.
"""

from __future__ import annotations

import math


class Value:
    """A number, and its gradient once `backward` was called on something made from it.

    >>> a, b = Value(2.0), Value(-3.0)
    >>> y = a * b + a**2
    >>> y.backward()
    >>> y.data, a.grad, b.grad
    (-2.0, 1.0, 2.0)
    """

    __array_ufunc__ = None  # so that NumPy's numbers leave `number * value` to the Value

    def __init__(self, data: float, sources: tuple[tuple[Value, float], ...] = (), op: str = "") -> None:
        self.data = data
        self.grad = 0.0
        self._sources = sources
        self._op = op

    @property
    def sources(self) -> tuple[tuple[Value, float], ...]:
        """The Values it was computed from, each with the derivative with respect to it."""
        return self._sources

    @property
    def _prev(self) -> set[Value]:
        """The Values it was computed from, under micrograd's name: what draws the graph."""
        return {source for source, _ in self._sources}

    # --- the operations: a result, and its local derivatives --------------------------------------------------

    def __add__(self, other: Value | float) -> Value:
        other = as_value(other)
        return Value(self.data + other.data, ((self, 1.0), (other, 1.0)), "+")

    def __sub__(self, other: Value | float) -> Value:
        other = as_value(other)
        return Value(self.data - other.data, ((self, 1.0), (other, -1.0)), "-")

    def __mul__(self, other: Value | float) -> Value:
        other = as_value(other)
        return Value(self.data * other.data, ((self, other.data), (other, self.data)), "*")

    def __pow__(self, exponent: float) -> Value:
        if isinstance(exponent, Value):
            raise TypeError("the exponent is a number; for a Value b write (b * a.log()).exp()")
        slope = exponent * self.data ** (exponent - 1) if exponent else 0.0
        return Value(self.data**exponent, ((self, slope),), f"**{exponent}")

    def exp(self) -> Value:
        """e to this power."""
        result = math.exp(self.data)
        return Value(result, ((self, result),), "exp")

    def log(self) -> Value:
        """The natural logarithm."""
        return Value(math.log(self.data), ((self, 1 / self.data),), "log")

    def sqrt(self) -> Value:
        """The square root."""
        result = math.sqrt(self.data)
        return Value(result, ((self, 0.5 / result if result else math.inf),), "sqrt")

    def sin(self) -> Value:
        """The sine."""
        return Value(math.sin(self.data), ((self, math.cos(self.data)),), "sin")

    def cos(self) -> Value:
        """The cosine."""
        return Value(math.cos(self.data), ((self, -math.sin(self.data)),), "cos")

    def tanh(self) -> Value:
        """The hyperbolic tangent."""
        result = math.tanh(self.data)
        return Value(result, ((self, 1 - result**2),), "tanh")

    def relu(self) -> Value:
        """The number itself if it is positive, else 0."""
        result = 0.0 if self.data < 0 else self.data
        return Value(result, ((self, float(result > 0)),), "ReLU")

    # --- operations made of those -------------------------------------------------------------------------------

    def __neg__(self) -> Value:
        return self * -1

    def __truediv__(self, other: Value | float) -> Value:
        return self * as_value(other) ** -1

    def __radd__(self, other: float) -> Value:
        return self + other

    def __rmul__(self, other: float) -> Value:
        return self * other

    def __rsub__(self, other: float) -> Value:
        return as_value(other) - self

    def __rtruediv__(self, other: float) -> Value:
        return as_value(other) / self

    # --- reverse mode -------------------------------------------------------------------------------------------

    def backward(self) -> None:
        """Add to the `grad` of every value that this one depends on the derivative with respect to it."""
        order = in_order(self)
        share = {value: 0.0 for value in order}
        share[self] = 1.0
        for value in reversed(order):
            for source, slope in value._sources:
                share[source] += slope * share[value]
            value.grad += share[value]

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self.grad})"


def as_value(number: Value | float) -> Value:
    """A plain number as a Value without sources."""
    return number if isinstance(number, Value) else Value(number)


def in_order(result: Value) -> list[Value]:
    """A result and all the values it depends on, each after its sources."""
    order: list[Value] = []
    seen = {result}
    path = [(result, iter(result._sources))]  # from the result down to where we are: a stack, since chains are long
    while path:
        value, rest = path[-1]
        source, _ = next(rest, (None, 0.0))
        if source is None:
            order.append(value)
            path.pop()
        elif source not in seen:
            seen.add(source)
            path.append((source, iter(source._sources)))
    return order
