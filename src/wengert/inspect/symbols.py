"""Derivatives in symbols: what an op's rule records, written as an expression of the values it reads.

Rules are made of ops, so their text is exact and needs no second table. With 1 as the cotangent, the rule of an
elementwise op is its local derivative (`cos(v2)` for `sin(v2)`). With a symbol as the cotangent, any rule shows how it
is pulled back (`ḡ @ wᵀ` for `x @ w`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wengert.autodiff.reverse import pull_back
from wengert.core.errors import GradientError
from wengert.core.graph import Node, recorded_as
from wengert.inspect.summary import number
from wengert.ops.core import ALIAS, CAST, LITERAL, STOP_GRADIENT, VARIABLE, placeholder
from wengert.ops.elementwise import (
    add,
    divide,
    multiply,
    negative,
    power,
    reciprocal,
    safe_multiply,
    square,
    subtract,
)
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import BROADCAST, PERMUTE, RESHAPE
from wengert.ops.op import Op
from wengert.ops.recorders import Elementwise
from wengert.ops.reduce import SUM

_INFIX: dict[Op, str] = {
    add: "+",
    subtract: "-",
    multiply: "*",
    safe_multiply: "*",
    divide: "/",
    MATMUL: "@",
    power: "^",
}
_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "@": 2, "^": 4}
_UNSEEN = (RESHAPE, BROADCAST, CAST, STOP_GRADIENT, VARIABLE, ALIAS)
_LONG = 90  # characters: a longer expression is cut
_ATOM = 9
COTANGENT = "ḡ"


def local_derivatives(node: Node, names: Mapping[Node, str]) -> list[tuple[Node, str, Node | None, Node]] | None:
    """For each tracked source of a node: the derivative in symbols, its node where it is elementwise, the cotangent's.

    None where the op has no derivative.
    """
    if isinstance(node.dtype, tuple):
        return None
    wanted = {source for source in node.sources if source.tracked}
    with recorded_as(node.location, False):
        cotangent = placeholder(node.shape, node.dtype, node.device)
        try:
            found = pull_back(node, cotangent, wanted)
        except GradientError:
            return None
    is_local = isinstance(node.op, Elementwise) or node.op is SUM
    named = {**names, cotangent: "1" if is_local else COTANGENT}
    pairs = [(s, pulled) for s, pulled in zip(node.sources, found) if s in wanted and isinstance(pulled, Node)]
    return [(s, expression(pulled, named), pulled if is_local else None, cotangent) for s, pulled in pairs]


def expression(node: Node, names: Mapping[Node, str]) -> str:
    """A node in terms of the nodes that have names, as mathematics on one line."""
    text = _written(node, names, 0)[0]
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def call_text(node: Node, names: Mapping[Node, str]) -> str:
    """One op on its sources, by their names: `sin(v2)`, `v1 * v2`."""
    named = {source: names.get(source) or literal_text(source) for source in node.sources}
    if node.op in _UNSEEN:
        return f"{node.op.name}({', '.join(named.values())})"
    return expression(node, named)


def literal_text(node: Node) -> str:
    """A number written in the program; anything else without a name by its op."""
    return number(node.attrs["value"]) if node.op is LITERAL else node.op.name


def _written(node: Node, names: Mapping[Node, str], depth: int) -> tuple[str, int]:
    """The text of a node, and how tightly its outermost operator binds."""
    if node in names:
        return names[node], _ATOM
    op = node.op
    if op is LITERAL:
        return literal_text(node), _ATOM
    if not node.sources or depth > 6:
        return _short(node), _ATOM
    parts = [_written(source, names, depth + 1) for source in node.sources]
    if op in _UNSEEN and depth < 6:
        return parts[0]
    if op is PERMUTE:
        return f"{_bound(parts[0], _ATOM)}ᵀ", _ATOM
    if op is negative:
        return f"-{_bound(parts[0], 3)}", 3
    if op is square:
        return f"{_bound(parts[0], 5)}^2", 4
    if op is reciprocal:
        return f"1 / {_bound(parts[0], 3)}", 2
    if op in _INFIX and len(parts) == 2:
        return _infix(_INFIX[op], *parts)
    return f"{op.name}({', '.join(text for text, _ in parts)})", _ATOM


def _infix(sign: str, left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
    if sign == "*" and "1" in (left[0], right[0]):
        return right if left[0] == "1" else left
    binds = _BINDS[sign]
    return f"{_bound(left, binds)} {sign} {_bound(right, binds + (sign in '-/^@'))}", binds


def _bound(part: tuple[str, int], least: int) -> str:
    text, binds = part
    return text if binds >= least else f"({text})"


def _short(node: Node) -> str:
    value: Any = node.buffer
    return number(value.item()) if isinstance(value, np.ndarray) and value.size == 1 else node.op.name
