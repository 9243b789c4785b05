"""Simplify: constant folding, algebra, merged movement ops, and removal of differentiation markers.

In: a graph. Out: a graph with the same values in which no op costs more. The rules are in `constants` (compile-time
knowledge), `movement` (movement, reductions, picks) and here (elementwise ops). A simplified graph is only for running:
its markers are gone, so it must not be differentiated.

Every algebraic rule preserves the bits, with these exceptions.
- `pow` by a small integer becomes multiplications: within one or two units in the last place of the reference.
- `safe_multiply` by a value known to be finite becomes `multiply`: the sign of a zero may differ.

So `x + 0.0` stays unless x cannot be -0.0 (`-0.0 + 0.0` is 0.0), and `x * 0` stays, because NaN and infinity times 0
are NaN. Complex numbers are left alone: even `x * 1` multiplies infinities with the zero imaginary part.
"""

from __future__ import annotations

import math
from typing import Any

from wengert.compiler.constants import fold, folds_exactly, full, is_finite, never_negative_zero, number, widens
from wengert.compiler.movement import MOVES, reduce_reduced, reduce_repeated
from wengert.compiler.rewrite import Rule, fuel, made_by, rewrite, with_sources
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.dtypes import COMPLEX, HALF, INEXACT, bool_
from wengert.core.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.core import ALIAS, CAST, STOP_GRADIENT, VARIABLE, cast, literal
from wengert.ops.movement import BROADCAST, broadcast_to
from wengert.ops.op import Op
from wengert.ops.recorders import Elementwise, broadcast_shapes


def _as(x: Node, node: Node) -> Node:
    """`x`, broadcast to the type of the node it replaces."""
    return broadcast_to(x, node.shape)


def _other_way(node: Node) -> tuple[tuple[Node, Node], tuple[Node, Node]]:
    a, b = node.sources
    return (a, b), (b, a)


# --- plus and minus -------------------------------------------------------------------------------------------------


def add_zero(node: Node) -> Node | None:
    """x + 0 is x for integers, x + -0.0 for all numbers, x + 0.0 where x cannot be -0.0."""
    for x, other in _other_way(node):
        if _changes_nothing(other, x, node, sign=-1):
            return _as(x, node)
    return None


def _changes_nothing(zero: Node, x: Node, node: Node, sign: int) -> bool:
    """Whether an operand is a zero of this sign, or of any sign if `x` is such that the sign does not matter."""
    value = number(zero)
    if value is None or value != 0 or node.dtype in COMPLEX:
        return False
    return node.dtype not in INEXACT or math.copysign(1, value) == sign or never_negative_zero(x)


def add_negative(node: Node) -> Node | None:
    """a + -b is a - b."""
    for x, other in _other_way(node):
        if made_by(other, e.negative):
            return e.subtract(x, other.sources[0])
    return None


def subtract_zero(node: Node) -> Node | None:
    """x - 0 is x; x - -0.0 only where x cannot be -0.0."""
    x, other = node.sources
    return _as(x, node) if _changes_nothing(other, x, node, sign=1) else None


def subtract_negative(node: Node) -> Node | None:
    """a - -b is a + b."""
    a, b = node.sources
    return e.add(a, b.sources[0]) if made_by(b, e.negative) else None


def negative_negative(node: Node) -> Node | None:
    """-(-x) is x, and -(x * c) is x * -c."""
    x = node.sources[0]
    if made_by(x, e.negative):
        return x.sources[0]
    if made_by(x, e.multiply) and x.dtype in INEXACT and x.dtype not in COMPLEX:
        for factor, other in _other_way(x):
            value = number(other)
            if value is not None:
                return e.multiply(_as(factor, node), literal(-value, node.dtype, node.device))
    return None


# --- times and over -------------------------------------------------------------------------------------------------


def _times(x: Node, value: Any, node: Node) -> Node | None:
    """x * 1 and x * -1."""
    if value == 1:
        return _as(x, node)
    return e.negative(_as(x, node)) if value == -1 and node.dtype is not bool_ else None


def multiply_one(node: Node) -> Node | None:
    """x * 1 is x; x * -1 is -x."""
    if node.dtype in COMPLEX:
        return None
    for x, other in _other_way(node):
        value = number(other)
        if value is not None:
            return _times(x, value, node)
    return None


def multiply_negatives(node: Node) -> Node | None:
    """-a * -b is a * b."""
    a, b = node.sources
    if made_by(a, e.negative) and made_by(b, e.negative) and node.dtype not in COMPLEX:
        return e.multiply(a.sources[0], b.sources[0])
    return None


def multiply_itself(node: Node) -> Node | None:
    """x * x is square(x)."""
    a, b = node.sources
    return e.square(a) if a is b and node.dtype not in COMPLEX and node.dtype is not bool_ else None


def divide_number(node: Node) -> Node | None:
    """x / 1 is x, x / -1 is -x, x over a power of two is x times its inverse, which is exact."""
    x, other = node.sources
    value = number(other)
    if value is None or node.dtype in COMPLEX or not math.isfinite(value) or value == 0:
        return None
    found = _times(x, value, node)
    if found is not None:
        return found
    fraction, exponent = math.frexp(value)
    if abs(fraction) != 0.5 or abs(exponent) > (14 if node.dtype in HALF else 100):
        return None
    return e.multiply(x, full(1 / value, other.shape, other))


def multiply_finite(node: Node) -> Node | None:
    """safe_multiply(g, d) is g * d where d is finite or g is never 0: they differ only for 0 times NaN or infinity."""
    g, d = node.sources
    if node.dtype in COMPLEX:
        return None
    value = number(g)
    if value == 0:
        return full(0, node.shape, node)
    return e.multiply(g, d) if value is not None or is_finite(d) else None


def power_number(node: Node) -> Node | None:
    """pow by 0, 1, 2, 3, 4 and -1 as multiplications or a reciprocal. In half precision only those that round once."""
    x, other = node.sources
    exponent = number(other)
    if exponent is None or node.dtype in COMPLEX:
        return None
    if exponent == 0:
        return full(1, node.shape, node)
    x = _as(x, node)
    if exponent == 1:
        return x
    if exponent == 2:
        return e.square(x)
    if exponent == -1 and node.dtype in INEXACT:
        return e.reciprocal(x)
    if exponent == 3 and node.dtype not in HALF:
        return e.multiply(x, e.square(x))
    return e.square(e.square(x)) if exponent == 4 and node.dtype not in HALF else None


def square_of_sign(node: Node) -> Node | None:
    """square(-x), square(abs(x)), abs(-x) and abs(abs(x)) do not need the inner op; -x wraps where x is unsigned."""
    x = node.sources[0]
    if x.dtype.kind == "u" and node.op is e.absolute and made_by(x, e.negative):
        return None
    if (made_by(x, e.negative) or made_by(x, e.absolute)) and x.sources[0].dtype is x.dtype and x.dtype not in COMPLEX:
        return node.op(x.sources[0])
    return None


# --- the same value -------------------------------------------------------------------------------------------------


def same_value(node: Node) -> Node | None:
    """Copies and markers for differentiation disappear."""
    return node.sources[0]


def same_if_real(node: Node) -> Node | None:
    """real(x) and conj(x) of a real x."""
    return node.sources[0] if node.sources[0].dtype not in COMPLEX else None


def same_twice(node: Node) -> Node | None:
    """The maximum, minimum, and, or of x and x is x."""
    a, b = node.sources
    return a if a is b and a.dtype is node.dtype else None


# --- choices and logic ----------------------------------------------------------------------------------------------


def where_known(node: Node) -> Node | None:
    """A selection whose condition is known, or between equal values."""
    condition, a, b = node.sources
    value = number(condition)
    if value is not None:
        return _as(a if value else b, node)
    return _as(a, node) if a is b else None


def where_not(node: Node) -> Node | None:
    """where(not c, a, b) is where(c, b, a)."""
    condition, a, b = node.sources
    if made_by(condition, e.logical_not) and condition.sources[0].dtype is bool_:
        return e.where(condition.sources[0], b, a)
    return None


def where_where(node: Node) -> Node | None:
    """Nested selections by the same condition: the outer one decides the inner one."""
    condition, a, b = node.sources
    inner_a = a.sources[1] if made_by(a, e.where) and a.sources[0] is condition else a
    inner_b = b.sources[2] if made_by(b, e.where) and b.sources[0] is condition else b
    if inner_a is a and inner_b is b:
        return None
    shapes_agree = broadcast_shapes("where", condition.shape, inner_a.shape, inner_b.shape) == node.shape
    return e.where(condition, inner_a, inner_b) if shapes_agree else None


def not_not(node: Node) -> Node | None:
    """Not not x is x, for booleans."""
    x = node.sources[0]
    return x.sources[0] if made_by(x, e.logical_not) and x.sources[0].dtype is bool_ else None


def logic_known(node: Node) -> Node | None:
    """`and` and `or` with a known operand."""
    for x, other in _other_way(node):
        value = number(other)
        if value is None or x.dtype is not bool_:
            continue
        if bool(value) is (node.op is e.logical_or):  # or True, and False: whatever x is
            return full(bool(value), node.shape, node)
        return _as(x, node)
    return None


# --- casts ----------------------------------------------------------------------------------------------------------


def cast_of_cast(node: Node) -> Node | None:
    """Drop a cast to a wider dtype in between. A rounding cast to a narrower one stays."""
    x = node.sources[0]
    if x.dtype is node.dtype:
        return x
    if not made_by(x, CAST):
        return None
    start = x.sources[0]
    if not widens(start.dtype, x.dtype) or (start.dtype in COMPLEX and node.dtype not in COMPLEX):
        return None
    if x.dtype in INEXACT and node.dtype not in INEXACT and node.dtype is not bool_:
        # Out of range the float's width matters; and a float saturates where an integer wraps.
        return cast(start, node.dtype) if widens(start.dtype, node.dtype) else None
    return cast(start, node.dtype)


# --- broadcasting ---------------------------------------------------------------------------------------------------


def broadcast_by_itself(node: Node) -> Node | None:
    """Drop an explicit broadcast to the shape that the other operands give anyway."""
    for source in node.sources:
        if source.op is BROADCAST:
            break
    else:
        return None
    sources = list(node.sources)
    for i, source in enumerate(sources):
        if made_by(source, BROADCAST):
            inner = source.sources[0]
            trial = [*sources[:i], inner, *sources[i + 1 :]]
            if broadcast_shapes(node.op.name, *[s.shape for s in trial]) == node.shape:
                sources = trial
    found = tuple(sources)
    return with_sources(node, found) if found != node.sources else None


ALGEBRA: dict[Op, tuple[Rule, ...]] = {
    e.add: (add_zero, add_negative),
    e.subtract: (subtract_zero, subtract_negative),
    e.negative: (negative_negative,),
    e.multiply: (multiply_one, multiply_negatives, multiply_itself),
    e.divide: (divide_number,),
    e.safe_multiply: (multiply_finite,),
    e.power: (power_number,),
    e.square: (square_of_sign,),
    e.absolute: (square_of_sign,),
    e.positive: (same_value,),
    ALIAS: (same_value,),
    VARIABLE: (same_value,),
    STOP_GRADIENT: (same_value,),
    e.real: (same_if_real,),
    e.conj: (same_if_real,),
    e.maximum: (same_twice,),
    e.minimum: (same_twice,),
    e.logical_and: (logic_known, same_twice),
    e.logical_or: (logic_known, same_twice),
    e.bitwise_and: (same_twice,),
    e.bitwise_or: (same_twice,),
    e.where: (where_known, where_not, where_where),
    e.logical_not: (not_not,),
    CAST: (cast_of_cast,),
}
"""What each op may become; every elementwise op also goes through `broadcast_by_itself`."""


# --- simplify -------------------------------------------------------------------------------------------------------


_table: dict[Op, tuple[Rule, ...]] = {}
_ROUNDING = frozenset((power_number, multiply_finite, reduce_repeated, reduce_reduced))  # after which bits may differ


def _rules_for(op: Op) -> tuple[Rule, ...]:
    broadcasting = (broadcast_by_itself,) if isinstance(op, Elementwise) else ()
    found = _table[op] = (fold, *broadcasting, *ALGEBRA.get(op, ()), *MOVES.get(op, ()))
    return found


def simpler(node: Node) -> Node | None:
    """The result of the first rule that applies to a node."""
    for rule in _table.get(node.op) or _rules_for(node.op):
        found = rule(node)
        if found is not None:
            fuel.rule = rule.__name__
            return found
    return None


def exactly_simpler(node: Node) -> Node | None:
    """The same with only bit-preserving rules, for any part of a program; constants are not folded."""
    for rule in _table.get(node.op) or _rules_for(node.op):
        found = None if rule in _ROUNDING or (rule is fold and not folds_exactly(node)) else rule(node)
        if found is not None:
            fuel.rule = rule.__name__
            return found
    return None


def simplify(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with every node simplified.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> y = -(-x * 1.0) / 4.0
    >>> [node.op.name for node in simplify(Graph([x], [y])).nodes if node.sources]  # the first minus is dead code now
    ['negative', 'multiply']
    """
    return rewrite(graph, exactly_simpler if target.invariant else simpler)
