"""Nests of loops: neighbouring loops that every index treats as one become one, whichever way they are written down."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from wengert.compiler.index import Index, Loop, substitute
from wengert.kernels.loops import Accumulate, Kernel, Let, Load, Stage, Statement, Store


def merge_loops(kernel: Kernel) -> Kernel:
    """Neighbouring loops that every index treats as one become one: longer loops, cheaper indices."""
    changed = True
    while changed:
        changed = False
        for group in ("outer", "inner"):
            loops: list[Loop] = getattr(kernel, group)
            for a, b in pairwise(loops):
                if _mergeable(kernel, a, b):
                    kernel = _merged(kernel, group, a, b)
                    changed = True
                    break
    return kernel


def statements_of(kernel: Kernel) -> Iterable[Statement]:
    """All statements, in order."""
    for stage in kernel.stages:
        yield from stage.before
        yield from stage.inside
    yield from kernel.after


def indices_of(statement: Statement) -> list[Index]:
    """The indices that a statement names."""
    if isinstance(statement, Load):
        return [statement.index, *[guard.index for guard in statement.guards]]
    if isinstance(statement, Accumulate):
        return [] if statement.position is None else [statement.position]
    return [] if isinstance(statement, Let) else [statement.index]


def _mergeable(kernel: Kernel, a: Loop, b: Loop) -> bool:
    for statement in statements_of(kernel):
        if isinstance(statement, Let) and re.search(rf"\b({a.name}|{b.name})\b", statement.text):
            return False
        for index in indices_of(statement):
            slow, fast = index.factor(a), index.factor(b)
            if slow is None or fast is None or slow != fast * b.extent:
                return False
    return True


def _merged(kernel: Kernel, group: str, a: Loop, b: Loop) -> Kernel:
    both = Loop(f"{a.name}_{b.name[1:]}", a.extent * b.extent)

    def moved(index: Index) -> Index:
        """The slow loop is part of the fast one's factor."""
        zero = Index(())
        return substitute(substitute(index, a, zero), b, Index(((both, 1),)))

    def change(statement: Statement) -> Statement:
        if isinstance(statement, Load):
            guards = tuple(replace(guard, index=moved(guard.index)) for guard in statement.guards)
            return replace(statement, index=moved(statement.index), guards=guards)
        if isinstance(statement, Accumulate):
            return statement if statement.position is None else replace(statement, position=moved(statement.position))
        return statement if isinstance(statement, Let) else replace(statement, index=moved(statement.index))

    stages = [Stage([change(s) for s in st.before], [change(s) for s in st.inside]) for st in kernel.stages]
    loops = [both if loop == a else loop for loop in getattr(kernel, group) if loop != b]
    after = [change(s) for s in kernel.after]
    return replace(kernel, **{group: loops, "stages": stages, "after": after})  # type: ignore[arg-type]


def crosses(kernel: Kernel) -> bool:
    """Whether neighbouring elements in memory belong to different rows.

    Rows that are kept for later passes are worked on one at a time.
    """
    if kernel.scratch or not kernel.outer or not kernel.inner:
        return False
    across = along = 0
    for statement in (statement for stage in kernel.stages for statement in stage.inside):
        if isinstance(statement, Load | Store):
            elements = math.prod(loop.extent for loop in statement.index.loops())
            across += elements * (statement.index.step(kernel.outer[-1]) == 1)
            along += elements * (statement.index.step(kernel.inner[-1]) == 1)
    return across > along
