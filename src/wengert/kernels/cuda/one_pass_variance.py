"""Variances in one pass: the sum of a row and that of the squares of its deviations, where rows are not held.

Both are taken of the deviations from the row's first element, d: with s = sum(d) and q = sum(d * d) over n elements the
deviations from the mean have squares that add up to q - s * s / n. The first element is as far from the mean as others
are, so that little cancels, however large the mean is. Multiples of the deviations from the mean that are added up (a
variance's derivative with respect to the mean) are 0 but for rounding, and need no pass either.
"""

from __future__ import annotations

import math
from dataclasses import replace

from wengert.core.dtypes import float32
from wengert.kernels.cuda.reductions import reductions_in
from wengert.kernels.ir.index import ZERO, Index, Loop, substitute
from wengert.kernels.ir.intrinsics import DEVIATIONS, SHIFTED_MEAN, SHIFTED_SQUARES, SHIFTED_SUM
from wengert.kernels.ir.loops import (
    Accumulate,
    Let,
    Literal,
    LoopKernel,
    Operand,
    Stage,
    Statement,
    Value,
    let,
    literal,
)
from wengert.kernels.ir.match import Fresh, definitions, is_op, with_index, with_operands, written_out
from wengert.kernels.ir.transforms import statements_of
from wengert.ops.elementwise import divide, multiply, square, subtract


def one_pass_variance(kernel: LoopKernel) -> LoopKernel:
    """The kernel with sums of squared deviations taken in the pass that sums for the mean."""
    for number in range(len(kernel.stages) - 1):
        for mean in reductions_in(kernel.stages[number].inside):
            squares = _squares(kernel, number, mean)
            if squares is not None:
                return one_pass_variance(_joined(kernel, number, mean, squares))
    return kernel


def _squares(kernel: LoopKernel, number: int, mean: Accumulate) -> Accumulate | None:
    """The sum of the squared deviations from the mean of what `mean` sums, in the next stage."""
    first, second = kernel.stages[number : number + 2]
    if not _is_sum(mean) or mean.value not in definitions(first.inside):
        return None
    count = _count(kernel)
    means = [s.name for s in definitions(second.before).values() if _is_mean(s, mean.name, count)]
    inside = definitions(second.inside)
    for reduction in filter(_is_sum, reductions_in(second.inside)):
        difference = _squared(_defined(reduction.value, inside))
        apart = _defined(difference, inside)
        if not is_op(apart, subtract):
            continue
        value, origin = apart.operands
        if origin in means and written_out(value, inside) == written_out(mean.value, definitions(first.inside)):
            return reduction
    return None


def _count(kernel: LoopKernel) -> int:
    """The elements of a row."""
    return math.prod(loop.extent for loop in kernel.inner)


def _is_sum(reduction: Accumulate) -> bool:
    return reduction.kind == "sum" and reduction.dtype is float32


def _is_mean(statement: Statement, reduction: str, count: int) -> bool:
    """Whether a number is a reduction divided by how many elements it is of."""
    if not count or not is_op(statement, divide, multiply) or statement.operands[0] != reduction:
        return False
    by = statement.operands[1]
    return by == literal(count if statement.op is divide else 1 / count, float32)


def _defined(value: Operand | None, made: dict[str, Value]) -> Value | None:
    return made.get(value) if isinstance(value, str) else None


def _squared(value: Value | None) -> str | None:
    """What a value is the square of."""
    if not is_op(value, square, multiply) or len(set(value.operands)) > 1:
        return None
    return value.operands[0] if isinstance(value.operands[0], str) else None


def _deviations(second: Stage, squares: Accumulate) -> dict[str, Literal]:
    """The reductions of multiples of the deviations whose squares `squares` sums: by reduction, the factor."""
    inside = definitions(second.inside)
    difference = _squared(_defined(squares.value, inside))
    found = {}
    for reduction in filter(_is_sum, reductions_in(second.inside)):
        value = _defined(reduction.value, inside)
        if reduction.value == difference:
            found[reduction.name] = literal(1, float32)
        elif is_op(value, multiply) and value.operands[1] == difference and isinstance(value.operands[0], Literal):
            found[reduction.name] = value.operands[0]
    return found


def _joined(kernel: LoopKernel, number: int, mean: Accumulate, squares: Accumulate) -> LoopKernel:
    first, second = kernel.stages[number : number + 2]
    fresh = Fresh(statements_of(kernel))
    count = {"count": _count(kernel)}
    origin, at_first = _at_first_element(mean.value, first, kernel.inner, fresh)
    apart, squared = fresh.name(), fresh.name()
    sums = [fresh.name("r"), fresh.name("r")]
    inside = [s for s in first.inside if s is not mean]
    made = [s.name if isinstance(s, Value) else None for s in inside]
    last = made.index(str(mean.value)) + 1
    inside[last:last] = [
        let(apart, float32, subtract, mean.value, origin),
        let(squared, float32, multiply, apart, apart),
        Accumulate(sums[0], "sum", float32, apart),
        Accumulate(sums[1], "sum", float32, squared),
    ]
    zeros = _deviations(second, squares)
    scalars: list[Statement] = [
        let(mean.name, float32, SHIFTED_SUM, origin, sums[0], attributes=count),
        let(squares.name, float32, SHIFTED_SQUARES, *sums, attributes=count),
        *[
            let(reduction, float32, DEVIATIONS, factor, sums[0], attributes=count)
            for reduction, factor in zeros.items()
        ],
        *[_exact_mean(s, mean.name, _count(kernel), origin, sums[0]) for s in second.before],
    ]
    done = {squares.name, *zeros}
    rest = [s for s in second.inside if not (isinstance(s, Accumulate) and s.name in done)]
    stages = [*kernel.stages[:number], Stage([*first.before, *at_first], inside)]
    later, after = list(kernel.stages[number + 2 :]), list(kernel.after)
    if len(definitions(rest)) < len(rest):  # something is still accumulated or stored
        stages.append(Stage(scalars, rest))
    elif later:
        later[0] = Stage([*scalars, *later[0].before], later[0].inside)
    else:
        after = [*scalars, *after]
    return replace(kernel, stages=[*stages, *later], after=after)


def _exact_mean(statement: Statement, reduction: str, count: int, origin: Operand, apart: str) -> Statement:
    """The mean from what it is apart from the first element, which loses less than from the sum."""
    if not isinstance(statement, Let) or not _is_mean(statement, reduction, count):
        return statement
    return let(statement.name, statement.dtype, SHIFTED_MEAN, origin, apart, attributes={"count": count})


def _at_first_element(value: Operand, stage: Stage, inner: list[Loop], fresh: Fresh) -> tuple[Operand, list[Statement]]:
    """The statements that compute a value at the row's first element, and what it is called."""
    made = definitions(stage.inside)
    renamed: dict[str, str] = {}
    found: list[Statement] = []

    def at_zero(index: Index) -> Index:
        for loop in inner:
            index = substitute(index, loop, ZERO)
        return index

    def add(old: str) -> str:
        statement = made.get(old)
        if statement is None or old in renamed:
            return renamed.get(old, old)
        new = renamed[old] = fresh.name()
        if isinstance(statement, Let):
            statement = with_operands(statement, add)
        found.append(with_index(replace(statement, name=new), at_zero))
        return new

    return (add(value) if isinstance(value, str) else value), found
