"""Failure: which groups may raise while they run, so that what is overwritten in place is overwritten after them.

In: the groups in order. Out: the numbers of those that may raise. An op that is computed by its reference may (a
matrix that has no inverse), and so may one that checks indices, unless an earlier group has checked the same ones: the
backward pass of an embedding adds rows at the places that the forward pass has read.
"""

from __future__ import annotations

from collections.abc import Iterable

from wengert.compiler.storage import storage
from wengert.core.graph import Node
from wengert.plan.groups import Group, Grouping

_SAFE = frozenset(
    (
        *("matmul", "concat", "pick", "max_pool", "sum_pool", "convolve", "convolve_input", "convolve_weight"),
        *("convolve_last", "convolve_input_last", "convolve_weight_last", "sum_pool_last"),
        *("max_pool_last", "max_pool_back_last"),
        *("attention", "attention_backward", "cumsum", "put_slice"),
    )
)
_ADDRESSING = {"gather": 1, "take_along": 1, "scatter": 2, "scatter_add": 2, "put_along": 2, "add_along": 2}
"""The ops that check indices, and how many operands stand before these."""

Check = tuple[Node, int]  # an array of indices, and the size of the axis that they name elements of


def fallible(plan: Grouping) -> list[int]:
    """The numbers of the groups that may raise, in order."""
    found, checked = [], set[Check]()
    for number, group in enumerate(plan.groups):
        opaque = group.roots[0] if group.opaque else None
        if opaque is not None and opaque.op.name not in _SAFE and opaque.op.name not in _ADDRESSING:
            found.append(number)
        checks = {*_checks_inside(group, plan), *([] if opaque is None else _checks_of(opaque))}
        if not checks <= checked:
            found.append(number)
            checked |= checks
    return found


def _checks_of(node: Node) -> list[Check]:
    """What an opaque op that addresses elements checks."""
    if node.op.name not in _ADDRESSING:
        return []
    axis, indices = node.attrs["axis"], node.sources[_ADDRESSING[node.op.name] :]
    return [(storage(index), size) for index, size in zip(indices, node.sources[0].shape[axis:])]


def _checks_inside(group: Group, plan: Grouping) -> Iterable[Check]:
    """What the expressions of a group check."""
    agenda, seen = list(group.roots), set(group.roots)
    while agenda:
        node = agenda.pop()
        if node.op.name == "checked_index":
            yield storage(node.sources[0]), node.attrs["size"]
        new = [s for s in node.sources if s not in seen and s in plan.inlined]
        seen.update(new)
        agenda += new
