"""Ops of the loop IR alone: results of transforms that have no op in the graph.

An Intrinsic has a C template like an Op (see `kernels/writer.py`), and transforms compare it by identity.
"""

from __future__ import annotations


class Intrinsic:
    """An op for statements only, not for graph nodes."""

    long = False  # none takes tens of instructions

    def __init__(self, name: str, c: str) -> None:
        self.name, self.c = name, c

    def __repr__(self) -> str:
        return f"<intrinsic {self.name}>"


COPY = Intrinsic("copy", "{0}")
ZERO = Intrinsic("zero", "0")
PHILOX = Intrinsic("philox", "{wg.philox}({0}, {1}, {2}, {stream}u, {3})")  # two words of a key, counter, element

# x / y, from x, y and 1 / y: a multiplication, and a step that makes it exact
DIVIDE_BY_RECIPROCAL = Intrinsic("divide_by_reciprocal", "divide")

# Of a row's deviations d from its first element, with s = sum(d) and q = sum(d * d) over `count` elements:
SHIFTED_SUM = Intrinsic("shifted_sum", "fmaf({0}, {count}.0f, {1})")  # of the first element and s: the row's sum
SHIFTED_MEAN = Intrinsic("shifted_mean", "({0} + {1} / {count}.0f)")  # of the first element and s: its mean
# of s and q: the sum of the squares of the deviations from the mean
SHIFTED_SQUARES = Intrinsic("shifted_squares", "fmaxf({1} - {0} * {0} / {count}.0f, 0.0f)")
# of a factor and s: the sum of multiples of the deviations from the mean, which is 0 but for rounding
DEVIATIONS = Intrinsic("deviations", "({0} * fmaf(-({1} / {count}.0f), {count}.0f, {1}))")
