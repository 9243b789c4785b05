"""Divisions of a row's elements by one number, as multiplications by its reciprocal with a step that makes them exact.

A division takes about ten instructions and a branch; by a number that is the same for a whole row (the sum of a
softmax, the deviation of a norm) four do, since the reciprocal is computed once.
"""

from __future__ import annotations

from dataclasses import replace

from wengert.core.dtypes import HALF, float32, int32
from wengert.kernels.ir.intrinsics import DIVIDE_BY_RECIPROCAL
from wengert.kernels.ir.loops import Let, LoopKernel, Operand, Stage, Statement, let, literal
from wengert.kernels.ir.match import Fresh, definitions, is_op
from wengert.kernels.ir.transforms import statements_of
from wengert.ops.elementwise import divide, reciprocal


def with_reciprocals(kernel: LoopKernel) -> LoopKernel:
    """The kernel with divisions by numbers of a row changed."""
    if not kernel.inner:
        return kernel
    fresh = Fresh(definitions(statements_of(kernel)).values())
    reciprocals: dict[str, str] = {}
    stages = []
    for stage in kernel.stages:
        before, inside, varying = list(stage.before), list[Statement](), definitions(stage.inside)
        for statement in stage.inside:
            found = _division(statement)
            if found is None or found[2] in varying:
                inside.append(statement)
                continue
            division, dividend, divisor = found
            if divisor not in reciprocals:
                reciprocals[divisor] = fresh.name()
                before.append(let(reciprocals[divisor], float32, reciprocal, divisor))
            operands = (dividend, divisor, reciprocals[divisor])
            inside.append(replace(division, op=DIVIDE_BY_RECIPROCAL, operands=operands))
        stages.append(Stage(before, inside))
    return replace(kernel, stages=stages)


def _division(statement: Statement) -> tuple[Let, Operand, str] | None:
    """A statement that divides, with what it divides and by what, if a division of values is all it does."""
    if not is_op(statement, divide, reciprocal) or not (statement.dtype is float32 or statement.dtype in HALF):
        return None
    *dividend, divisor = statement.operands
    if not isinstance(divisor, str) or not all(isinstance(one, str) for one in dividend):
        return None
    return statement, dividend[0] if dividend else literal(1, int32), divisor
