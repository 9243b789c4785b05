"""Linearity: which ops distribute over the terms of a sum across ranks, and how other partial results combine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wengert.core.dtypes import INEXACT
from wengert.core.graph import Node
from wengert.core.mesh import Group
from wengert.ops import elementwise as e
from wengert.ops.collective import ALL_GATHER, ALL_REDUCE_MAX
from wengert.ops.core import CAST
from wengert.ops.factors import is_zero
from wengert.ops.movement import reshape
from wengert.ops.op import Op
from wengert.ops.reduce import ALL, ANY, PROD


def is_linear(node: Node, summed: Sequence[int]) -> bool:
    """Whether a node is linear in these sources jointly, with the others fixed."""
    if node.op is CAST:
        return False  # a cast to integers truncates, to fewer bits rounds, and a widening one is cheaper after the sum
    jointly = _JOINTLY.get(node.op) or node.op.linear or ((0,) if node.op.kind == "identity" else ())
    if jointly and all(i in jointly for i in summed):
        fixed = [source for i, source in enumerate(node.sources) if i in jointly and i not in summed]
        return all(map(is_zero, fixed))  # zeros are the sum of zeros
    return len(summed) == 1 and summed[0] in (_EACH.get(node.op) or node.op.multilinear)


_JOINTLY: dict[Any, tuple[int, ...]] = {
    e.add: (0, 1),
    e.subtract: (0, 1),
    e.negative: (0,),
    e.positive: (0,),
    e.where: (1, 2),
}
_EACH: dict[Any, tuple[int, ...]] = {e.multiply: (0, 1), e.divide: (0,)}
"""Elementwise ops that are linear in some sources together, or in each alone."""


# --- reductions that are no sums ------------------------------------------------------------------------------------


def _least(x: Node, group: Group) -> Node:
    """A minimum as a maximum: integers are complemented, because the negative of the smallest one may wrap."""
    turned = e.negative if x.dtype in INEXACT else e.bitwise_invert
    return turned(ALL_REDUCE_MAX(turned(x), group=group))


def _over_gathered(op: Op) -> Callable[[Node, Group], Node]:
    """The reduction of all ranks' partial results by an op."""

    def combined(x: Node, group: Group) -> Node:
        return op(ALL_GATHER(reshape(x, (1, *x.shape)), axis=0, group=group), axes=(0,), keepdims=False)

    return combined


COMBINED: dict[str, Callable[[Node, Group], Node]] = {
    "max": lambda x, group: ALL_REDUCE_MAX(x, group=group),
    "min": _least,
    "prod": _over_gathered(PROD),
    "all": _over_gathered(ALL),
    "any": _over_gathered(ANY),
}
