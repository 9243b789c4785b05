"""Constants: what is known about values at compile time, and constant folding.

A constant is a literal, a literal broadcast to a shape, or a small array (a `data` node that is not an input). Whatever
varies from call to call (slots, a user's floats) must be an input of the graph, or it is folded like any other
constant. Ramps (`iota`) are not folded: computing one in a kernel is cheaper than reading it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.compiler.rewrite import made_by, with_sources
from wengert.core.dtypes import COMPLEX, FLOATING, INEXACT, bool_
from wengert.core.graph import Node, Shape
from wengert.ops import elementwise as e
from wengert.ops.core import CAST, DATA, LITERAL, data, literal
from wengert.ops.movement import BROADCAST, CONCAT, FLIP, PERMUTE, PLACE, RESHAPE, SLICE
from wengert.ops.recorders import Elementwise
from wengert.ops.reduce import ALL, ANY, MAX, MIN, PROD, SUM

LIMIT = 4096
"""Bytes up to which an array of constants is computed while compiling."""

_REARRANGING = frozenset((RESHAPE, PERMUTE, SLICE, FLIP))
_FOLDED = frozenset((CAST, PLACE, CONCAT, SUM, MAX, MIN, PROD, ALL, ANY)) | _REARRANGING


def number_behind(node: Node) -> Node | None:
    """The literal that every element of a value equals, or None."""
    if made_by(node, BROADCAST):
        node = node.sources[0]
    if made_by(node, LITERAL):
        return node
    if made_by(node, DATA) and node.shape == () and isinstance(node.buffer, np.ndarray):
        return literal(node.buffer.item(), node.dtype, node.device)
    return None


def number(node: Node) -> Any:
    """The Python number that every element equals, rounded to the dtype; None if the elements may differ."""
    if node.op is not LITERAL and node.op is not BROADCAST and node.op is not DATA:
        return None  # the common case, decided without a call
    found = number_behind(node)
    return None if found is None else _as_array(found).item()


def _as_array(node: Node) -> np.ndarray[Any, Any]:
    return np.asarray(node.attrs["value"], node.dtype)


def full(value: complex, shape: Shape, like: Node) -> Node:
    """A number broadcast to a shape, with the dtype and device of a node."""
    found = literal(value, like.dtype, like.device)
    return BROADCAST(found, shape=shape) if shape else found


def fold(node: Node) -> Node | None:
    """An op over constants, as a constant; 0-d arrays become literals."""
    sources = node.sources
    foldable, arrays = bool(sources), False
    for source in sources:
        op = source.op
        if op is DATA:
            arrays = True
        elif op is not LITERAL and (op is not BROADCAST or number_behind(source) is None):
            foldable = False
    if foldable and (isinstance(node.op, Elementwise) or node.op in _FOLDED):
        folded = _computed(node)
        if folded is not None:
            return folded
    return _with_literals(node) if arrays else None


def folds_exactly(node: Node) -> bool:
    """Whether an op over constants only moves elements, so that the result is the same wherever it is computed."""
    return node.op in _REARRANGING or node.op in (PLACE, CONCAT) or not node.sources


def _with_literals(node: Node) -> Node | None:
    """A node with its 0-d constant arrays replaced by literals."""
    found = [number_behind(s) if s.op is DATA and s.shape == () else None for s in node.sources]
    if not any(found):
        return None
    return with_sources(node, tuple(s if f is None else f for s, f in zip(node.sources, found)))


def _computed(node: Node) -> Node | None:
    op = node.op
    found = [number_behind(source) for source in node.sources]
    numbers = [_as_array(n) for n in found if n is not None]
    one_number = len(numbers) == len(found) and op is not CONCAT and op is not PLACE
    if one_number and (op is CAST or isinstance(op, Elementwise)):
        return full(_run(node, numbers).item(), node.shape, node)
    if one_number and op in _REARRANGING:
        return full(numbers[0].item(), node.shape, node)
    if node.size * node.dtype.itemsize > LIMIT:
        return None
    values = [_value(source) for source in node.sources]
    small = [array for array in values if array is not None]
    if len(small) < len(values):
        return None
    result = _run(node, small)
    if result.size == 1 or (one_number and result.size):
        return full(result.flat[0].item(), node.shape, node)
    return data(np.ascontiguousarray(result), node.device)


def _value(node: Node) -> np.ndarray[Any, Any] | None:
    """The array of a small constant."""
    if node.size * node.dtype.itemsize > LIMIT:
        return None
    found = number_behind(node)
    if found is not None:
        return np.broadcast_to(_as_array(found), node.shape)
    return node.buffer if made_by(node, DATA) and isinstance(node.buffer, np.ndarray) else None


def _run(node: Node, arrays: list[np.ndarray[Any, Any]]) -> Any:
    with np.errstate(all="ignore"):
        return node.op.run(arrays, node)


# --- what is known of values that are not constant ------------------------------------------------------------------

_MOVES = frozenset((RESHAPE, PERMUTE, BROADCAST, SLICE, FLIP))
_NEVER_NEGATIVE_ZERO = frozenset((e.exp, e.square, e.absolute, e.sigmoid, e.cosh))
_LOOK = 8
"""How many nodes back a fact about a value is looked for."""


def _unmoved(node: Node) -> Node:
    """The value below movement ops: the same elements, before they were moved."""
    for _ in range(_LOOK):
        if node.op not in _MOVES or not made_by(node, node.op):
            break
        node = node.sources[0]
    return node


def never_negative_zero(node: Node) -> bool:
    """Whether no element can be -0.0, so that adding 0.0 changes nothing."""
    if node.dtype not in INEXACT:
        return True
    node = _unmoved(node)
    if node.op is LITERAL:
        value = number(node)
        return node.dtype not in COMPLEX and value is not None and not (value == 0 and math.copysign(1, value) < 0)
    if not made_by(node, node.op) or node.dtype in COMPLEX:
        return False
    if node.op is CAST:
        return node.sources[0].dtype not in INEXACT
    if node.op is e.add:  # only -0.0 + -0.0 is -0.0
        return any(number(s) is not None and never_negative_zero(s) for s in node.sources)
    return node.op in _NEVER_NEGATIVE_ZERO


def is_finite(node: Node) -> bool:
    """Whether every element is known to be finite: numbers, integers, selections among them."""
    stack = [node]
    for _ in range(_LOOK):
        if not stack:
            return True
        node = _unmoved(stack.pop())
        if node.dtype not in INEXACT:
            continue
        value = number(node)
        if value is not None:
            if not math.isfinite(abs(value)):
                return False
        elif made_by(node, e.where):
            stack += node.sources[1:]
        elif made_by(node, PLACE):
            stack.append(node.sources[0])
        elif not (made_by(node, CAST) and _holds_all(node.sources[0].dtype, node.dtype)):
            return False
    return not stack


def _holds_all(narrow: Any, wide: Any) -> bool:
    """Whether every value of an integer dtype is finite in a float dtype."""
    return narrow is bool_ or (narrow.kind in "iu" and (wide.itemsize > 2 or narrow.itemsize == 1))


_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "complex64": 24, "complex128": 53}


def widens(narrow: Any, wide: Any) -> bool:
    """Whether a dtype represents every value of another exactly, so that a cast there and back is the identity."""
    if narrow is wide or narrow is bool_:
        return True
    if narrow.kind in "iu":
        bits = 8 * narrow.itemsize - (narrow.kind == "i")
        if wide.kind in "iu":
            return (wide.kind == "i" or narrow.kind == "u") and 8 * wide.itemsize - (wide.kind == "i") >= bits
        return wide is not bool_ and bits <= _DIGITS[wide.name]
    if narrow in FLOATING:
        return wide in INEXACT and _DIGITS[narrow.name] < _DIGITS[wide.name] and wide.itemsize > narrow.itemsize
    return narrow in COMPLEX and wide in COMPLEX and wide.itemsize > narrow.itemsize
