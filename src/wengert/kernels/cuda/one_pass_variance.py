"""Variances in one pass: the sum of a row and that of the squares of its deviations, where rows are not held.

Both are taken of the deviations from the row's first element, d: with s = sum(d) and q = sum(d * d) over n elements the
deviations from the mean have squares that add up to q - s * s / n. The first element is as far from the mean as others
are, so that little cancels, however large the mean is. Multiples of the deviations from the mean that are added up (a
variance's derivative by the mean) are 0 but for rounding, and need no pass either.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from wengert.core.dtypes import float32
from wengert.kernels.cuda.reductions import totals_in
from wengert.kernels.expressions import let_text
from wengert.kernels.ir.index import ZERO, Index, Loop, substitute
from wengert.kernels.ir.loops import Accumulate, Kernel, Let, Load, Position, Stage, Statement
from wengert.kernels.ir.transforms import statements_of

_MEAN = r"\({total} [*/] [\d.e+-]+f\)"
Made = Let | Load | Position


def one_pass_variance(kernel: Kernel) -> Kernel:
    """The kernel with sums of squared deviations taken in the pass that sums for the mean."""
    for number in range(len(kernel.stages) - 1):
        for mean in totals_in(kernel.stages[number].inside):
            square = _squares(kernel, number, mean)
            if square is not None:
                return one_pass_variance(_joined(kernel, number, mean, square))
    return kernel


def _squares(kernel: Kernel, number: int, mean: Accumulate) -> Accumulate | None:
    """The sum of the squared deviations from the mean of what `mean` sums, in the next stage."""
    first, second = kernel.stages[number : number + 2]
    if mean.kind != "sum" or mean.dtype is not float32:
        return None
    pattern = re.compile(_MEAN.format(total=mean.total))
    means = [s.name for s in second.before if isinstance(s, Let) and pattern.fullmatch(s.text)]
    inside = _by_name(second)
    for total in totals_in(second.inside):
        square = inside.get(total.name)
        if total.kind != "sum" or total.dtype is not float32 or not isinstance(square, Let):
            continue
        found = re.fullmatch(r"wg_square_f32\((v\d+)\)|\((v\d+) \* (?=\2\))\2\)", square.text)
        difference = inside.get(found[1] or found[2]) if found else None
        parts = re.fullmatch(r"\((\w+) - (\w+)\)", difference.text) if isinstance(difference, Let) else None
        if parts and parts[2] in means and _whole(parts[1], inside) == _whole(mean.name, _by_name(first)):
            return total
    return None


def _deviations(second: Stage, square: Accumulate) -> dict[str, str]:
    """The totals of multiples of the deviations whose squares `square` sums: by total, the factor."""
    inside = _by_name(second)
    squared = inside[square.name]
    assert isinstance(squared, Let)
    difference = re.findall(r"\bv\d+\b", squared.text)[0]
    found = {}
    for total in totals_in(second.inside):
        value = inside.get(total.name)
        multiple = re.fullmatch(rf"\(([\d.e+-]+f) \* {difference}\)", value.text) if isinstance(value, Let) else None
        if total.kind == "sum" and total.dtype is float32 and (multiple or total.name == difference):
            found[total.total] = multiple[1] if multiple else "1.0f"
    return found


def _by_name(stage: Stage) -> dict[str, Made]:
    return {s.name: s for s in stage.inside if isinstance(s, Made)}


def _whole(name: str, made: dict[str, Made]) -> str:
    """What a value is computed from, written out."""
    statement = made.get(name)
    if statement is None:
        return name
    if isinstance(statement, Let):
        return re.sub(r"\bv\d+\b", lambda part: _whole(part[0], made), f"<{let_text(statement)}>")
    return str(replace(statement, name=""))


def _joined(kernel: Kernel, number: int, mean: Accumulate, square: Accumulate) -> Kernel:
    first, second = kernel.stages[number : number + 2]
    fresh = _Fresh(kernel)
    count = math.prod(loop.extent for loop in kernel.inner)
    origin, at_first = _at_first_element(mean.name, first, kernel.inner, fresh)
    apart, squared = fresh.name("v"), fresh.name("v")
    sums = [fresh.name("r"), fresh.name("r")]
    inside = [s for s in first.inside if s is not mean]
    last = max(i for i, s in enumerate(inside) if isinstance(s, Made) and s.name == mean.name) + 1
    inside[last:last] = [
        Let(apart, float32, f"({mean.name} - {origin})"),
        Let(squared, float32, f"({apart} * {apart})"),
        Accumulate(sums[0], "sum", float32, apart),
        Accumulate(sums[1], "sum", float32, squared),
    ]
    made: list[Statement] = [
        Let(mean.total, float32, f"fmaf({origin}, {count}.0f, {sums[0]})"),
        Let(square.total, float32, f"fmaxf({sums[1]} - {sums[0]} * {sums[0]} / {count}.0f, 0.0f)"),
    ]
    zeros = _deviations(second, square)
    rounding = f"fmaf(-({sums[0]} / {count}.0f), {count}.0f, {sums[0]})"
    made += [Let(total, float32, f"({factor} * {rounding})") for total, factor in zeros.items()]
    before = [_exact_mean(s, mean.total, f"({origin} + {sums[0]} / {count}.0f)") for s in second.before]
    done = {square.total, *zeros}
    rest = [s for s in second.inside if not (isinstance(s, Accumulate) and s.total in done)]
    stages = [*kernel.stages[:number], Stage([*first.before, *at_first], inside)]
    later, after = list(kernel.stages[number + 2 :]), list(kernel.after)
    if any(not isinstance(s, Made) for s in rest):
        stages.append(Stage([*made, *before], rest))
    elif later:
        later[0] = Stage([*made, *before, *later[0].before], later[0].inside)
    else:
        after = [*made, *before, *after]
    return replace(kernel, stages=[*stages, *later], after=after)


def _exact_mean(statement: Statement, total: str, text: str) -> Statement:
    """The mean from what it is apart from the first element, which loses less than from the sum."""
    is_mean = isinstance(statement, Let) and re.fullmatch(_MEAN.format(total=total), statement.text)
    return replace(statement, text=text) if isinstance(statement, Let) and is_mean else statement


def _at_first_element(name: str, stage: Stage, inner: list[Loop], fresh: _Fresh) -> tuple[str, list[Statement]]:
    """The statements that compute a value at the row's first element, and what it is called."""
    made = _by_name(stage)
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
        new = renamed[old] = fresh.name("v")
        if isinstance(statement, Let):
            text = re.sub(r"\bv\d+\b", lambda part: add(part[0]), statement.text)
            guards = tuple(replace(guard, index=at_zero(guard.index)) for guard in statement.guards)
            found.append(replace(statement, name=new, text=text, guards=guards))
        elif isinstance(statement, Load):
            guards = tuple(replace(guard, index=at_zero(guard.index)) for guard in statement.guards)
            found.append(replace(statement, name=new, index=at_zero(statement.index), guards=guards))
        else:
            found.append(replace(statement, name=new, index=at_zero(statement.index)))
        return new

    return add(name), found


class _Fresh:
    """Names that a kernel does not have."""

    def __init__(self, kernel: Kernel) -> None:
        statements = list(statements_of(kernel))
        names = [s.name for s in statements if isinstance(s, Made)]
        names += [total.total for total in totals_in(statements)]
        self.next = 1 + max(int(name[1:]) for name in names)

    def name(self, letter: str) -> str:
        """One more, of values (v) or totals (r)."""
        self.next += 1
        return f"{letter}{self.next - 1}"
