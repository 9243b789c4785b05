"""Divisions of a row's elements by one number, as multiplications by its reciprocal with a step that makes them exact.

A division takes about ten instructions and a branch; by a number that is the same for a whole row (the total of a
softmax, the deviation of a norm) four do, since the reciprocal is computed once.
"""

from __future__ import annotations

import re
from dataclasses import replace

from wengert.core.dtypes import HALF, float32
from wengert.kernels.ir.loops import Kernel, Let, Load, Position, Stage, Statement
from wengert.kernels.ir.transforms import statements_of

_QUOTIENT = re.compile(r"\((\w+) / ([vr]\d+)\)")


def with_reciprocals(kernel: Kernel) -> Kernel:
    """The kernel with divisions by numbers of a row changed."""
    if not kernel.inner:
        return kernel
    made = [s.name for s in statements_of(kernel) if isinstance(s, Let | Load | Position)]
    fresh = iter(range(1 + max([int(name[1:]) for name in made], default=0), 1 << 30))
    reciprocals: dict[str, str] = {}
    stages = []
    for stage in kernel.stages:
        inside_names = {s.name for s in stage.inside if isinstance(s, Let | Load | Position)}
        before, inside = list(stage.before), []
        for statement in stage.inside:
            divisor = _divisor(statement)
            if divisor is None or divisor in inside_names:
                inside.append(statement)
                continue
            if divisor not in reciprocals:
                reciprocals[divisor] = f"v{next(fresh)}"
                before.append(Let(reciprocals[divisor], float32, f"(1 / {divisor})"))
            inside.append(_by_reciprocal(statement, reciprocals[divisor]))
        stages.append(Stage(before, inside))
    return replace(kernel, stages=stages)


def _divisor(statement: Statement) -> str | None:
    """What a statement divides by, if a division is all it does."""
    if not isinstance(statement, Let) or not (statement.dtype is float32 or statement.dtype in HALF):
        return None
    found = _QUOTIENT.fullmatch(statement.text)
    return found[2] if found else None


def _by_reciprocal(statement: Statement, reciprocal: str) -> Let:
    assert isinstance(statement, Let)
    return replace(statement, text=_QUOTIENT.sub(rf"wg_divide_f32(\1, \2, {reciprocal})", statement.text))
