"""GPU-specific rewrites of a kernel's statements: one-pass variance, fast exponentials, reciprocals, one-hot lanes.

`one_pass_variance`: the sum of a row and the sum of its squared deviations in one pass, for rows that are not kept in
registers. Both use the deviations d from the row's first element: with s = sum(d) and q = sum(d * d) over n elements,
the squared deviations from the mean add up to q - s * s / n. The first element is about as far from the mean as the
others, so little cancels, however large the mean is. Sums of multiples of the deviations from the mean (a variance's
derivative with respect to the mean) are 0 up to rounding, and need no pass either.

`with_fast_exponentials`: an element loaded as bfloat16 or float16 carries a thousand times the rounding error of
float32, which the exponential amplifies. The hardware instruction for powers of two, within 2 ulp, is then as good as a
full exponential, and a half-precision softmax, gelu and its derivative become bound by memory instead of arithmetic.

`with_reciprocals`: a division takes about ten instructions and a branch. Division by a row scalar (the sum of a
softmax, the deviation of a norm) takes four, with its reciprocal and a correction step that makes the quotient exact.

One-hot lanes are the elements whose index equals a row scalar, such as the target of a cross-entropy. All other
elements compare and select for nothing. `one_hots` finds such comparisons in a pass, `may_be_among` is the condition
for vectors that may contain one, and `without_one_hots` gives the statements for all other vectors: about 70
instructions for 8 elements of GPT-2's loss instead of 112, and 941 us instead of 1124 on an H200 (rows of 50304 scores
in bfloat16, edited by hand).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from wengert.core.dtypes import HALF, float32, int32, int64, uint32, uint64
from wengert.kernels.ir.index import ZERO, Index, Loop, substitute, variable
from wengert.kernels.ir.intrinsics import (
    COPY,
    DEVIATIONS,
    DIVIDE_BY_RECIPROCAL,
    SHIFTED_MEAN,
    SHIFTED_SQUARES,
    SHIFTED_SUM,
)
from wengert.kernels.ir.loops import (
    Accumulate,
    DType,
    Let,
    Literal,
    Load,
    LoopKernel,
    Operand,
    Position,
    Stage,
    Statement,
    Value,
    let,
    literal,
)
from wengert.kernels.ir.transforms import (
    Fresh,
    definitions,
    is_op,
    reductions_in,
    statements_of,
    uses,
    with_index,
    with_operands,
    written_out,
)
from wengert.ops.elementwise import divide, equal, multiply, reciprocal, square, subtract, where


def one_pass_variance(kernel: LoopKernel) -> LoopKernel:
    """The kernel with sums of squared deviations computed in the same pass as the mean."""
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
    """Whether a number is a reduction divided by its number of elements."""
    if not count or not is_op(statement, divide, multiply) or statement.operands[0] != reduction:
        return False
    by = statement.operands[1]
    return by == literal(count if statement.op is divide else 1 / count, float32)


def _defined(value: Operand | None, made: dict[str, Value]) -> Value | None:
    return made.get(value) if isinstance(value, str) else None


def _squared(value: Value | None) -> str | None:
    """The value that this one is the square of."""
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


# --- fast exp -------------------------------------------------------------------------------------------------------


def with_fast_exponentials(kernel: LoopKernel) -> LoopKernel:
    """The kernel with fast exponentials of half-precision values."""
    if not any(isinstance(s, Load) and s.dtype in HALF for s in statements_of(kernel)):
        return kernel
    known: set[str] = set()  # values of half precision
    stages = [Stage(_changed(stage.before, known), _changed(stage.inside, known)) for stage in kernel.stages]
    return replace(kernel, stages=stages, after=_changed(kernel.after, known))


def _changed(statements: Iterable[Statement], known: set[str]) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Load) and statement.dtype in HALF:
            known.add(statement.name)
        if isinstance(statement, Let) and not known.isdisjoint(uses(statement)):
            known.add(statement.name)
            statement = replace(statement, fast=True)
        found.append(statement)
    return found


# --- reciprocal -----------------------------------------------------------------------------------------------------


def with_reciprocals(kernel: LoopKernel) -> LoopKernel:
    """The kernel with divisions by row scalars replaced."""
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


# --- one hot lane ---------------------------------------------------------------------------------------------------


_EXACT = (int32, int64, uint32, uint64)  # in less, or as floats, places wrap around or are rounded: several are equal

OneHots = Mapping[str, tuple[str, DType]]  # by name of a comparison: the number that the place is compared with


def places(statements: Sequence[Statement], loop: Loop | None) -> dict[str, DType]:
    """The names that places along a loop go by."""
    found = [s for s in statements if isinstance(s, Position)]
    return {s.name: s.dtype for s in found if loop is not None and s.index == variable(loop)}


def one_hots(statements: Sequence[Statement], loop: Loop | None) -> OneHots:
    """Comparisons of the index along a loop with a row scalar that is already known."""
    along = {name: dtype for name, dtype in places(statements, loop).items() if dtype in _EXACT}
    made = definitions(statements)
    found: dict[str, tuple[str, DType]] = {}
    for comparison in (s for s in statements if is_op(s, equal)):
        for place, number in (comparison.operands, comparison.operands[::-1]):
            if place in along and isinstance(place, str) and isinstance(number, str) and number not in made:
                found[comparison.name] = number, along[place]
    return found


def may_be_among(found: OneHots, first: str, vector: int) -> str:
    """The condition that one of the numbers is among the `vector` positions from `first` on."""
    kinds = {number: f"uint{8 * dtype.itemsize}_t" for number, dtype in found.values()}
    # a number before the first wraps around and is large, so that one comparison does for both ends
    return " || ".join(f"({kind}){number} - ({kind}){first} < {vector}" for number, kind in kinds.items())


def without_one_hots(statements: Sequence[Statement], found: OneHots) -> list[Statement]:
    """The statements for elements whose index equals none of the scalars.

    A sum drops terms that are 0: it starts at +0, and no term makes it the -0 that adding +0 would change.
    """
    zeros: set[Operand] = set()
    left: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Let) and (statement.name in found or _is_zero(statement, zeros)):
            zeros.add(statement.name)
            statement = let(statement.name, statement.dtype, COPY, literal(0, statement.dtype))
        if not (isinstance(statement, Accumulate) and statement.kind == "sum" and statement.value in zeros):
            left.append(statement)
    return left


def _is_zero(value: Let, zeros: set[Operand]) -> bool:
    """Whether a number that is chosen from two is +0, given some that are."""
    if not is_op(value, where):
        return False
    known = {*zeros, literal(0, value.dtype)}
    asked, one, other = value.operands
    return other in known and (asked in zeros or one in known)
