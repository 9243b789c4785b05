"""Failure: the groups that may raise at run time, so that in-place updates are ordered after them.

In: the groups in order. Out: the numbers of those that may raise. An op that runs its reference may raise (a singular
matrix), and so may one that checks indices, unless an earlier group checked the same ones: the backward pass of an
embedding adds rows at the indices that the forward pass has read.
"""

from __future__ import annotations

from collections.abc import Iterable

from wengert.compiler.memory import storage
from wengert.core.graph import Node
from wengert.ops.facts import Check
from wengert.plan.groups import FusionGroup, Grouping


def fallible(plan: Grouping) -> list[int]:
    """The numbers of the groups that may raise, in order."""
    found, checked = [], set[Check]()
    for number, group in enumerate(plan.groups):
        opaque = group.roots[0] if group.opaque else None
        if opaque is not None and opaque.op.can_fail:
            found.append(number)
        checks = {*_checks_inside(group, plan), *([] if opaque is None else _checks_of(opaque))}
        if not checks <= checked:
            found.append(number)
            checked |= checks
    return found


def _checks_of(node: Node) -> list[Check]:
    """The index arrays that an op checks, and the sizes that they are checked against."""
    return [(storage(index), size) for index, size in node.op.checks(node)]


def _checks_inside(group: FusionGroup, plan: Grouping) -> Iterable[Check]:
    """The checks in the expressions of a group."""
    agenda, seen = list(group.roots), set(group.roots)
    while agenda:
        node = agenda.pop()
        yield from _checks_of(node)
        new = [s for s in node.sources if s not in seen and s in plan.inlined]
        seen.update(new)
        agenda += new
