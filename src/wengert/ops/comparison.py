"""Comparisons, logic and bits, and choices by them: `where`, the larger and the smaller, `clip`; and what must hold.

Their derivative is zero, or a choice itself. The table is made as in `elementwise`. Conditions are checked while a
program runs, however it is computed: `CHECKED_INDEX` notes an error, in C and on a GPU too. What is no index is checked
by adding `zero_where` to it, which is 0 or raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from wengert.core.dtypes import ALL, FLOATING, INTEGER, REAL, bool_, int64, promote
from wengert.core.errors import ArgumentError
from wengert.core.graph import Node
from wengert.ops.core import as_node, cast, operand, operands
from wengert.ops.facts import SIMPLE, Sample, no_flops
from wengert.ops.op import Op
from wengert.ops.recorders import Binary, Elementwise, Unary
from wengert.ops.symbolic import choose, truth
from wengert.ops.tables import same, to_bool

# --- comparisons and logic ------------------------------------------------------------------------------------------

equal = Binary(
    "equal",
    np.equal,
    None,
    to_bool(ALL),
    "Whether `a == b`.",
    example=("wg.equal(wg.tensor([1.0, 2.0]), 2.0).tolist()", "[False, True]"),
    c="({0} == {1})",
    symbolic="Eq",
)
not_equal = Binary(
    "not_equal",
    np.not_equal,
    None,
    to_bool(ALL),
    "Whether `a != b`.",
    example=("wg.not_equal(wg.tensor([1.0, 2.0]), 2.0).tolist()", "[True, False]"),
    c="({0} != {1})",
    symbolic="Ne",
)
less = Binary(
    "less",
    np.less,
    None,
    to_bool((bool_, *REAL)),
    "Whether `a < b`.",
    example=("wg.less(wg.tensor([1.0, 3.0]), 2.0).tolist()", "[True, False]"),
    c="({0} < {1})",
    symbolic=lambda s, a, b: a < b,
)
less_equal = Binary(
    "less_equal",
    np.less_equal,
    None,
    to_bool((bool_, *REAL)),
    "Whether `a <= b`.",
    example=("wg.less_equal(wg.tensor([2.0, 3.0]), 2.0).tolist()", "[True, False]"),
    c="({0} <= {1})",
    symbolic=lambda s, a, b: a <= b,
)
greater = Binary(
    "greater",
    np.greater,
    None,
    to_bool((bool_, *REAL)),
    "Whether `a > b`.",
    example=("wg.greater(wg.tensor([1.0, 3.0]), 2.0).tolist()", "[False, True]"),
    c="({0} > {1})",
    symbolic=lambda s, a, b: a > b,
)
greater_equal = Binary(
    "greater_equal",
    np.greater_equal,
    None,
    to_bool((bool_, *REAL)),
    "Whether `a >= b`.",
    example=("wg.greater_equal(wg.tensor([1.0, 2.0]), 2.0).tolist()", "[False, True]"),
    c="({0} >= {1})",
    symbolic=lambda s, a, b: a >= b,
)
logical_and = Binary(
    "logical_and",
    np.logical_and,
    None,
    to_bool(ALL),
    "Whether both are true (not zero).",
    example=("wg.logical_and(wg.tensor([True, True]), wg.tensor([True, False])).tolist()", "[True, False]"),
    c="(({0} != 0) & ({1} != 0))",
    symbolic=lambda s, a, b: s.And(truth(s, a), truth(s, b)),
)
logical_or = Binary(
    "logical_or",
    np.logical_or,
    None,
    to_bool(ALL),
    "Whether either is true (not zero).",
    example=("wg.logical_or(wg.tensor([True, False]), wg.tensor([False, False])).tolist()", "[True, False]"),
    c="(({0} != 0) | ({1} != 0))",
    symbolic=lambda s, a, b: s.Or(truth(s, a), truth(s, b)),
)
logical_xor = Binary(
    "logical_xor",
    np.logical_xor,
    None,
    to_bool(ALL),
    "Whether just one is true (not zero).",
    example=("wg.logical_xor(wg.tensor([True, True]), wg.tensor([True, False])).tolist()", "[False, True]"),
    c="(({0} != 0) ^ ({1} != 0))",
)
logical_not = Unary(
    "logical_not",
    np.logical_not,
    None,
    to_bool(ALL),
    "Whether `x` is false (zero).",
    example=("wg.logical_not(wg.tensor([True, False])).tolist()", "[False, True]"),
    c="({0} == 0)",
    symbolic=lambda s, x: s.Not(truth(s, x)),
)
isfinite = Unary(
    "isfinite",
    np.isfinite,
    None,
    to_bool(ALL),
    "Whether `x` is neither infinite nor NaN.",
    example=("wg.isfinite(wg.tensor([1.0, wg.inf, wg.nan])).tolist()", "[True, False, False]"),
    c={"fc": "isfinite", "iub": "1"},
    cost=SIMPLE,
    symbolic=lambda s, x: s.true,
)
isinf = Unary(
    "isinf",
    np.isinf,
    None,
    to_bool(ALL),
    "Whether `x` is infinite.",
    example=("wg.isinf(wg.tensor([1.0, wg.inf, wg.nan])).tolist()", "[False, True, False]"),
    c={"fc": "isinf", "iub": "0"},
    cost=SIMPLE,
    symbolic=lambda s, x: s.false,
)
isnan = Unary(
    "isnan",
    np.isnan,
    None,
    to_bool(ALL),
    "Whether `x` is NaN.",
    example=("wg.isnan(wg.tensor([1.0, wg.inf, wg.nan])).tolist()", "[False, False, True]"),
    c={"fc": "({0} != {0})", "iub": "0"},
    symbolic=lambda s, x: s.false,
)
signbit: Unary = Unary(
    "signbit",
    np.signbit,
    None,
    to_bool(FLOATING),
    "Whether the sign bit is set, as in -0.0.",
    example=("wg.signbit(wg.tensor([-0.0, 1.0])).tolist()", "[True, False]"),
    c="signbit",
    cost=SIMPLE,
)

_BITS = same((bool_, *INTEGER))
bitwise_and = Binary(
    "bitwise_and",
    np.bitwise_and,
    None,
    _BITS,
    "The bits set in both.",
    example=("wg.bitwise_and(wg.tensor([6]), 3).tolist()", "[2]"),
    c="(({T})({0} & {1}))",
)
bitwise_or = Binary(
    "bitwise_or",
    np.bitwise_or,
    None,
    _BITS,
    "The bits set in either.",
    example=("wg.bitwise_or(wg.tensor([6]), 3).tolist()", "[7]"),
    c="(({T})({0} | {1}))",
)
bitwise_xor = Binary(
    "bitwise_xor",
    np.bitwise_xor,
    None,
    _BITS,
    "The bits set in just one.",
    example=("wg.bitwise_xor(wg.tensor([6]), 3).tolist()", "[5]"),
    c="(({T})({0} ^ {1}))",
)
bitwise_invert = Unary(
    "bitwise_invert",
    np.bitwise_not,
    None,
    _BITS,
    "The bits the other way round.",
    example=("wg.bitwise_invert(wg.tensor([0])).tolist()", "[-1]"),
    c={"iu": "(({T})~{0})", "b": "(!{0})"},
)
bitwise_left_shift = Binary(
    "bitwise_left_shift",
    np.left_shift,
    None,
    same(INTEGER),
    "The bits of `a` moved up by `b`.",
    example=("wg.bitwise_left_shift(wg.tensor([1]), 3).tolist()", "[8]"),
    c="bitwise_left_shift",
    cost=SIMPLE,
)
bitwise_right_shift = Binary(
    "bitwise_right_shift",
    np.right_shift,
    None,
    same(INTEGER),
    "The bits of `a` down by `b`.",
    example=("wg.bitwise_right_shift(wg.tensor([8]), 3).tolist()", "[1]"),
    c="bitwise_right_shift",
    cost=SIMPLE,
)

# --- choices --------------------------------------------------------------------------------------------------------


def _share(wins: Node, ties: Node) -> Node:
    """1 where the operand wins, 1/2 where the two are equal."""
    return where(ties, 0.5, where(wins, 1.0, 0.0))


_ORDERED = same((bool_, *REAL))
maximum = Binary(
    "maximum",
    np.maximum,
    (lambda y, a, b: _share(greater(a, b), equal(a, b)), lambda y, a, b: _share(less(a, b), equal(a, b))),
    _ORDERED,
    "The larger of the two; where they are equal each gets half of the derivative.",
    example=("wg.maximum(wg.tensor([1.0, 5.0]), 3.0).tolist()", "[3.0, 5.0]"),
    c="maximum",
    cost=SIMPLE,
    symbolic="Max",
)
minimum = Binary(
    "minimum",
    np.minimum,
    (lambda y, a, b: _share(less(a, b), equal(a, b)), lambda y, a, b: _share(greater(a, b), equal(a, b))),
    _ORDERED,
    "The smaller of the two; where they are equal each gets half of the derivative.",
    example=("wg.minimum(wg.tensor([1.0, 5.0]), 3.0).tolist()", "[1.0, 3.0]"),
    c="minimum",
    cost=SIMPLE,
    symbolic="Min",
)


class Where(Elementwise):
    """`where(condition, a, b)`: linear in `a` and `b`."""

    operands = 3

    def __call__(self, condition: Any, x1: Any = None, x2: Any = None) -> Node:  # type: ignore[override]
        if x1 is None or x2 is None:
            raise ArgumentError("where takes a condition and two values; wg.nonzero(condition) gives the places")
        condition = condition if type(condition) is Node else operand(condition, None)
        a, b = operands(x1, x2) if type(x1) is not Node or type(x2) is not Node else (x1, x2)
        meet = promote(a.dtype, b.dtype)
        return Op.__call__(self, cast(condition, bool_), cast(a, meet), cast(b, meet))


def _where_samples() -> Iterable[Sample]:
    from wengert.ops.samples import of_where

    return of_where()


where: Where = Where(
    "where",
    np.where,
    (None, 1, 1),
    same(ALL),
    "Elements of `x1` where the condition is true, of `x2` elsewhere. Both are computed; the derivative of the one\n"
    "    not taken is 0 even where it is infinite or NaN.",
    example=("wg.where(wg.tensor([True, False]), wg.tensor([1.0, 2.0]), 0.0).tolist()", "[1.0, 0.0]"),
    c="({0} ? {1} : {2})",
    symbolic=choose,
    samples=_where_samples,
)
where.vjp = (
    None,
    lambda g, y, condition, a, b: where(condition, g, 0),
    lambda g, y, condition, a, b: where(condition, 0, g),
)
where.jvp = None
where.linear = (1, 2)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Node:
    """`x` held between `min` and `max`; the derivative is 1 up to and at the bounds, 0 beyond.

    The bounds are numbers or broadcast against `x`. Where they cross, `max` holds; a NaN bound gives NaN.

    >>> import wengert as wg
    >>> wg.clip(wg.tensor([-2.0, 0.5, 3.0]), 0.0, 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    x = as_node(x)
    if min is not None:
        x, low = operands(x, min)
        x = where(greater_equal(x, low), x, maximum(x, low))
    if max is not None:
        x, high = operands(x, max)
        x = where(less_equal(x, high), x, minimum(x, high))
    return x


# --- conditions that must hold --------------------------------------------------------------------------------------


def _checked_index(index: Any, size: int, message: str = "") -> Any:
    wrong = index[(index < -size) | (index >= size)]
    if wrong.size:
        raise IndexError(message or f"index {int(wrong[0])} is out of range for an axis of size {size}")
    return np.where(index < 0, index + index.dtype.type(size), index)


CHECKED_INDEX: Op = Op(
    "checked_index",
    infer=lambda index, size, message="": (index.shape, index.dtype),
    numpy=_checked_index,
    differentiable=False,
    batch=lambda y, sources, batched: CHECKED_INDEX(sources[0], **y.attrs),
    c={"i": "{wg.checked_index}({error}{0}, {size})"},
    kind="elementwise",
    cost=SIMPLE,
    can_fail=True,
    flops=no_flops,
    checks=lambda node: [(node.sources[0], node.attrs["size"])],
)
"""An index counted from the front; one out of range raises. The compiler records it where it turns a gather into a
comparison."""


def zero_where(holds: Node, message: str) -> Node:
    """0 for every element of a condition that holds; one that does not hold raises when the value is computed."""
    return CHECKED_INDEX(cast(logical_not(holds), int64), size=1, message=message)
