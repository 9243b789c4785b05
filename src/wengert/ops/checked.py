"""Checks of values while a program runs: an index, a class or an exponent out of range raises, however it is computed.

`CHECKED_INDEX` is an elementwise op that notes an error, in C and on a GPU too. What is no index is checked by adding
`zero_where` to it, which is 0 or raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import INTEGER, SIGNED, int64
from wengert.core.graph import Node
from wengert.ops.comparison import greater_equal, logical_not
from wengert.ops.core import cast
from wengert.ops.facts import SIMPLE, no_flops
from wengert.ops.op import Op
from wengert.ops.recorders import add


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


def integer_exponent(base: Any, exponent: Any) -> Any:
    """An exponent as it is, but for an integer's: that must not be negative, which its value alone tells."""
    if type(exponent) is not Node or exponent.dtype not in SIGNED:
        return exponent
    if type(base) is not int and getattr(base, "dtype", None) not in INTEGER:
        return exponent
    message = "pow: integers to negative integer powers are no integers; cast with astype"
    return add(exponent, cast(zero_where(greater_equal(exponent, 0), message), exponent.dtype))
