"""Statements as C, indented and with readable names: the parts common to every shape of work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wengert.core.dtypes import COMPLEX, bool_, complex64, float32, float64, real_of
from wengert.kernels.ir.index import Loop
from wengert.kernels.ir.loops import Accumulate, Let, Load, LoopKernel, Position, Statement, Store
from wengert.kernels.ir.transforms import reductions_in, statements_of
from wengert.kernels.writer import (
    C,
    Page,
    expression,
    functions_of,
    loaded,
    narrowed,
    operand_text,
    position_text,
    scalar_type,
    suffix,
)

WORTH_THREADS = (
    600_000  # statements executed (about 20 us): below, waking the other threads may cost more than it saves
)
WIDER = {float32: "double", complex64: "wg_c128"}  # in what long sums go on
START = {"sum": "0", "prod": "1", "all": "1", "any": "0"}


class ParallelFor(NamedTuple):
    """The pragma of a loop shared by threads. Inside a parallel region the loop ends without a barrier."""

    collapse: int = 1  # loops that are shared as one
    simd: bool = False

    def text(self, in_region: bool) -> str:
        """The line of C."""
        simd = " simd" if self.simd else ""
        collapse = f" collapse({self.collapse})" if self.collapse > 1 else ""
        return f"#pragma omp for{simd} nowait{collapse}" if in_region else f"#pragma omp parallel for{simd}{collapse}"


Body = tuple[str | ParallelFor, ...]  # of a function: lines of C, and pragmas that depend on the caller


class Writer(Page):
    """The lines of a kernel's body, for every shape of work."""

    def __init__(self, kernel: LoopKernel, names: dict[str, str]) -> None:
        super().__init__()
        self.kernel, self.names = kernel, names | {row: row for row in kernel.scratch}
        self.widths = {a.name: self._total_type(a) for a in self._accumulated()}
        self.summed: set[str] = set()  # the reductions that the innermost loop sums on the side
        self.scalar = _mixes_widths_under_guards(kernel)
        self.in_parts = False  # whether a reduction is cut into parts, which are combined after the outer loop
        self._before: list[str | ParallelFor] = []  # the lines up to the last pragma that may change

    def written(self) -> Body:
        """All lines."""
        return (*self._before, "\n".join(self.lines) + "\n")

    def _open(self, loop: Loop, pragma: str | ParallelFor = "") -> None:
        if isinstance(pragma, ParallelFor):
            self._before += ["".join(f"{line}\n" for line in self.lines) + "    " * self.depth, pragma]
            self.lines = [""]
        elif pragma:
            self.line(pragma)
        self.open(f"for (long {loop.name} = 0; {loop.name} < {loop.size}; {loop.name}++)")

    # --- accumulating ---------------------------------------------------------------------------------------------

    def _accumulated(self) -> list[Accumulate]:
        return [reduction for stage in self.kernel.stages for reduction in reductions_in(stage.inside)]

    def _total_type(self, reduction: Accumulate) -> str:
        """The type of a long float sum: double, so that the error does not grow with the length.

        Only between blocks: gcc 12 miscompiles AVX-512 loops that add floats to doubles under a mask.
        """
        length = math.prod(loop.most for loop in self.kernel.inner)
        kinds = ("sum",) if reduction.dtype in COMPLEX else ("sum", "prod")
        wide = reduction.kind in kinds and reduction.dtype in WIDER and length > 1 << 12
        return WIDER[reduction.dtype] if wide else self._scalar_type(reduction)

    def _scalar_type(self, reduction: Accumulate) -> str:
        return scalar_type(reduction.dtype)

    def _start(self, reduction: Accumulate) -> str:
        if reduction.kind in START:
            return START[reduction.kind]
        biggest = reduction.kind in ("min", "argmin")
        if reduction.dtype in (float32, float64):
            return "INFINITY" if biggest else "-INFINITY"
        if reduction.dtype == bool_:
            return "1" if biggest else "0"
        bits = 8 * reduction.dtype.itemsize
        if reduction.dtype.kind == "u":
            return f"UINT{bits}_MAX" if biggest else "0"
        return f"INT{bits}_MAX" if biggest else f"INT{bits}_MIN"

    def _checks_nan(self, reduction: Accumulate) -> bool:
        return reduction.kind in ("max", "min") and reduction.dtype in (float32, float64)

    def _begin(self, reduction: Accumulate, lane: str) -> None:
        for name, (kind, start) in self._held(reduction).items():
            self.line(f"{kind} {name} = {start};")

    def _finish(self, reduction: Accumulate, lane: str) -> None:
        if self._checks_nan(reduction):
            self.line(f"if ({reduction.name}_nan) {reduction.name} = NAN;")

    def _held(self, reduction: Accumulate) -> dict[str, tuple[str, str]]:
        """The accumulators of a pass, by name: type and initial value."""
        name, kind, start = reduction.name, self.widths[reduction.name], self._start(reduction)
        if is_position(reduction):
            return {f"{name}_best": (kind, start), name: ("int64_t", "0")}
        flag = f"int{8 * reduction.dtype.itemsize}_t"  # as wide as the values: flags of one byte would be repacked
        return {name: (kind, start)} | ({f"{name}_nan": (flag, "0")} if self._checks_nan(reduction) else {})

    def _inside_name(self, reduction: Accumulate) -> str:
        """A reduction's name in the innermost loop."""
        return f"{reduction.name}_sum" if reduction.name in self.summed else reduction.name

    # --- statements -----------------------------------------------------------------------------------------------

    def _write(self, statements: Sequence[Statement], lane: str = "") -> None:
        if self.scalar and statements:
            self.line('__asm__ volatile("");  // keeps the loop from being vectorised')
        for statement in statements:
            for text in self._lines_of(statement, lane):
                self.line(text)

    def _lines_of(self, statement: Statement, lane: str) -> list[str]:
        if isinstance(statement, Load):
            element = f"{self.names[statement.buffer]}[{statement.index}]"
            return [f"{self._type(statement)} {statement.name} = {loaded(statement, element)};"]
        if isinstance(statement, Let):
            return [f"{self._type(statement)} {statement.name} = {expression(statement, C)};"]
        if isinstance(statement, Position):
            return [f"{self._type(statement)} {statement.name} = {position_text(statement)};"]
        if isinstance(statement, Store):
            target = f"{self.names[statement.buffer]}[{statement.index}]"
            return [f"{target} = {narrowed(statement.dtype, operand_text(statement.value))};"]
        return self._accumulation(statement, lane)

    def _accumulation(self, reduction: Accumulate, lane: str) -> list[str]:
        name, value = reduction.name, operand_text(reduction.value)
        held = {key: f"{key}_lanes{lane}" if lane else key for key in self._held(reduction)}
        if is_position(reduction):
            best, at = held[f"{name}_best"], held[name]
            better = f"{value} {'>' if reduction.kind == 'argmax' else '<'} {best}"
            if reduction.dtype in (float32, float64):
                better = f"({better} || {value} != {value}) && {best} == {best}"
            first = f"({reduction.position}) == 0"
            return [f"if ({first} || ({better})) {{ {best} = {value}; {at} = {reduction.position}; }}"]
        target = held[name] if lane else self._inside_name(reduction)
        lines = [f"{self._combine(target, reduction, value)};"]
        if self._checks_nan(reduction):
            lines.append(f"{held[f'{name}_nan']} |= ({value} != {value});")
        return lines

    def _combine(self, target: str, reduction: Accumulate, value: str) -> str:
        """The statement that adds a value to a reduction."""
        kind = reduction.kind
        if kind == "prod" and reduction.dtype in COMPLEX:
            return f"{target} = wg_multiply_{suffix(reduction.dtype)}({target}, {value})"
        if kind in ("sum", "prod"):
            return f"{target} {'+' if kind == 'sum' else '*'}= {value}"
        if kind in ("all", "any"):
            return f"{target} {'&' if kind == 'all' else '|'}= ({value} != 0)"
        return f"{target} = {value} {'>' if kind == 'max' else '<'} {target} ? {value} : {target}"

    def _type(self, statement: Load | Let | Position) -> str:
        return scalar_type(statement.dtype)

    # --- choices --------------------------------------------------------------------------------------------------

    def _work(self) -> int:
        loops = math.prod(loop.most for loop in (*self.kernel.outer, *self.kernel.inner))
        return loops * max(1, sum(_effort(s) for stage in self.kernel.stages for s in stage.inside))

    def _threads(self) -> bool:
        return self._work() > WORTH_THREADS


def _mixes_widths_under_guards(kernel: LoopKernel) -> bool:
    """Whether float64 meets narrower numbers under guards: gcc 12 miscompiles the vectorised loop."""
    statements = list(statements_of(kernel))
    guarded = any(isinstance(s, Load | Let) and s.guards for s in statements)
    parts = [real_of(s.dtype) if s.dtype in COMPLEX else s.dtype for s in statements]
    return guarded and float64 in parts and any(part.itemsize < 8 for part in parts)


def _effort(statement: Statement) -> int:
    """The cost of a statement; an addition is 1, a call of a mathematical function 8."""
    return 8 if isinstance(statement, Let) and functions_of(statement) else 1


def is_position(reduction: Accumulate) -> bool:
    """Whether a reduction returns the index of an extreme, not the extreme."""
    return reduction.kind in ("argmax", "argmin")
