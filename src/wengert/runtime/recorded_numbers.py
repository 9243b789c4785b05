"""Numbers that are values of the graph: they adopt the dtype of the other operand, as Python numbers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.dtypes import float64
from wengert.core.graph import Node
from wengert.ops import elementwise as e
from wengert.ops.core import Weak, cast, stop_gradient

_NUMBERS = (float, int, bool)


class Recorded(Weak):
    """A number that is the value of a 0-d node: a NumPy scalar argument, or an optimizer's option read inside a
    recording. Arithmetic with numbers is done in the node's dtype, as in NumPy and Python.
    """

    __slots__ = ("alone", "like", "recorded")

    def __init__(self, node: Node, alone: np.dtype[Any] | None = None) -> None:
        self.recorded = stop_gradient(node)
        self.alone = node.dtype if alone is None else alone
        self.like = _LIKE[node.dtype.kind]

    def at(self, dtype: np.dtype[Any]) -> Node:
        """The number in this dtype."""
        return cast(self.recorded, dtype)

    def __neg__(self) -> Recorded:
        return self._made(e.negative(self.recorded))

    def __abs__(self) -> Recorded:
        return self._made(e.absolute(self.recorded))

    def _made(self, node: Node) -> Recorded:
        return Recorded(node, self.alone if node.dtype is self.recorded.dtype else None)

    def _meeting(self, other: Any, divides: bool) -> tuple[Node, Any]:
        """Its node, and a number beside it, as two operands: an integer that meets a fraction becomes a double."""
        fraction = divides or not isinstance(other, (int, Recorded))
        node = cast(self.recorded, float64) if fraction and self.recorded.dtype.kind in "iub" else self.recorded
        if isinstance(other, Recorded):
            return node, other.recorded
        return node, other.at(node.dtype) if isinstance(other, Weak) else other


_LIKE: dict[str, Any] = {"b": True, "i": 0, "u": 0, "f": 0.0, "V": 0.0, "c": 0j}


def operators(symbol: str, record: Callable[..., Node]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The methods of `Recorded` for an operator with a number, or another one, on its right or on its left."""
    divides = symbol == "truediv"

    def left(self: Recorded, other: Any) -> Any:
        if type(other) not in _NUMBERS and not isinstance(other, Weak):
            return NotImplemented
        return self._made(record(*self._meeting(other, divides)))

    def right(self: Recorded, other: Any) -> Any:
        if type(other) not in _NUMBERS and not isinstance(other, Weak):
            return NotImplemented
        node, number = self._meeting(other, divides)
        return self._made(record(number, node))

    return left, right
