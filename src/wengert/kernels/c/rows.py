"""Elements and rows: work along contiguous memory.

Without a reduction the loops are merged as far as the indices allow, and the last one is vectorised. With one, each row
is vectorised along its length. A reduction of everything is cut into a fixed number of parts, which are added in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from wengert.core.dtypes import COMPLEX
from wengert.kernels.c.source import Body, ParallelFor, Writer, is_position
from wengert.kernels.ir.index import Loop
from wengert.kernels.ir.loops import Accumulate, Stage, Statement
from wengert.kernels.ir.transforms import reductions_in
from wengert.kernels.writer import stored_type

PARTS = 32
BLOCK = 4096  # elements that a long sum adds up in its own dtype before it goes on in double
CLAUSE = {"sum": "+", "prod": "*", "max": "max", "min": "min", "all": "&", "any": "|"}


class RowWriter(Writer):
    """Elements, rows, everything as one row, or some rows of a matrix product."""

    def body(self) -> Body:
        """The body of a function of the whole kernel."""
        self.line(f"// {self.kernel.comment}")
        if not self.kernel.inner and not self._accumulated():
            self._elements()
        elif self._is_one_row():
            self._parts()
        else:
            self._rows()
        return self.written()

    def body_of_rows(self) -> Body:
        """The body of a function of some rows."""
        (rows,), columns = self.kernel.outer, self.kernel.inner
        self.line(f"// {self.kernel.comment}")
        self.open(f"for (long {rows.name} = first; {rows.name} < last; {rows.name}++)")
        for loop in columns:
            self._open(loop, "#pragma omp simd")
        for stage in self.kernel.stages:
            self._write([*stage.before, *stage.inside])
        self._write(self.kernel.after)
        self.close(1 + len(columns))
        return self.written()

    def _elements(self) -> None:
        loops = self.kernel.outer
        for k, loop in enumerate(loops):
            pragma: str | ParallelFor = ""
            if k == len(loops) - 1:
                pragma = ParallelFor(simd=True) if k == 0 and self._threads() else "#pragma omp simd"
            elif k == 0 and self._threads():
                pragma = ParallelFor(len(loops) - 1)
            self._open(loop, pragma)
        for stage in self.kernel.stages:
            self._write([*stage.before, *stage.inside])
        self._write(self.kernel.after)
        self.close(len(loops))

    def _rows(self) -> None:
        kernel = self.kernel
        for k, loop in enumerate(kernel.outer):
            threads = k == 0 and self._threads()
            self._open(loop, ParallelFor(len(kernel.outer)) if threads else "")
        for row, (dtype, length) in kernel.scratch.items():
            self.line(f"{stored_type(dtype)} {row}[{length}] __attribute__((aligned(64)));")
        for stage in kernel.stages:
            self._write(stage.before)
            self._row_pass(stage, kernel.inner)
        self._write(kernel.after)
        self.close(len(kernel.outer))

    def _row_pass(self, stage: Stage, loops: Sequence[Loop]) -> None:
        reductions = reductions_in(stage.inside)
        for reduction in reductions:
            self._begin(reduction, "")
        *slow, fast = loops or [Loop("once", 1)]
        for loop in slow:
            self._open(loop)
        self._vector_loop(fast, "0", str(fast.size), reductions, stage.inside)
        self.close(len(slow))
        for reduction in reductions:
            self._finish(reduction, "")

    def _vector_loop(
        self, loop: Loop, first: str, last: str, reductions: Sequence[Accumulate], statements: Sequence[Statement]
    ) -> None:
        """The innermost loop, vectorised. Long sums are split into blocks of BLOCK elements, added up in double."""
        wide = {
            reduction.name: reduction
            for reduction in reductions
            if self.widths[reduction.name] != self._scalar_type(reduction)
        }
        blocked = bool(wide) and loop.most > BLOCK
        if blocked:
            self.open(f"for (long block = {first}; block < {last}; block += {BLOCK})")
            self.line(f"long end = block + {BLOCK} < {last} ? block + {BLOCK} : {last};")
            first, last = "block", "end"
        for name, reduction in wide.items():
            self.line(f"{self._scalar_type(reduction)} {name}_sum = {self._start(reduction)};")
        self.summed = set(wide)
        self.line(self._simd(reductions))
        self.open(f"for (long {loop.name} = {first}; {loop.name} < {last}; {loop.name}++)")
        self._write(statements)
        self.close()
        self.summed = set()
        for name, reduction in wide.items():
            self.line(f"{self._combine(name, reduction, f'{name}_sum')};")
        self.close(int(blocked))

    def _parts(self) -> None:
        """A reduction of everything: PARTS partial reductions, in parallel, combined in order."""
        self.in_parts = True
        stage, (loop, *rest) = self.kernel.stages[0], self.kernel.inner
        reductions = reductions_in(stage.inside)
        size = -(-loop.extent // PARTS)
        for reduction in reductions:
            self.line(f"{self.widths[reduction.name]} {reduction.name}_parts[{PARTS}];")
            if self._checks_nan(reduction):
                self.line(f"uint8_t {reduction.name}_nans[{PARTS}];")
        self._write(stage.before)
        self._open(Loop("part", PARTS), ParallelFor())
        for reduction in reductions:
            self._begin(reduction, "")
        self.line(f"long stop = (part + 1) * {size}L < {loop.extent} ? (part + 1) * {size}L : {loop.extent};")
        if rest:
            self.open(f"for (long {loop.name} = part * {size}L; {loop.name} < stop; {loop.name}++)")
            for inner in rest[:-1]:
                self._open(inner)
            self._vector_loop(rest[-1], "0", str(rest[-1].extent), reductions, stage.inside)
            self.close(len(rest))
        else:
            self._vector_loop(Loop(loop.name, size), f"part * {size}L", "stop", reductions, stage.inside)
        for reduction in reductions:
            self.line(f"{reduction.name}_parts[part] = {reduction.name};")
            if self._checks_nan(reduction):
                self.line(f"{reduction.name}_nans[part] = {reduction.name}_nan;")
        self.close()
        for reduction in reductions:
            self._begin(reduction, "")
        self._open(Loop("part", PARTS))
        for reduction in reductions:
            name = reduction.name
            self.line(f"{self._combine(name, reduction, f'{name}_parts[part]')};")
            if self._checks_nan(reduction):
                self.line(f"{name}_nan |= {name}_nans[part];")
        self.close()
        for reduction in reductions:
            self._finish(reduction, "")
        self._write(self.kernel.after)

    def _simd(self, reductions: Sequence[Accumulate]) -> str:
        if any(is_position(reduction) or _is_complex_product(reduction) for reduction in reductions):
            return ""
        clauses = "".join(f" reduction({CLAUSE[t.kind]}:{self._inside_name(t)})" for t in reductions)
        clauses += "".join(f" reduction(|:{t.name}_nan)" for t in reductions if self._checks_nan(t))
        return f"#pragma omp simd{clauses}"

    def _is_one_row(self) -> bool:
        kernel = self.kernel
        if kernel.outer or len(kernel.stages) != 1 or not self._threads() or not kernel.inner:
            return False
        return kernel.inner[0].is_constant and not any(is_position(reduction) for reduction in self._accumulated())


def _is_complex_product(reduction: Accumulate) -> bool:
    """Whether OpenMP would multiply the parts by C's own product, which is slow."""
    return reduction.kind == "prod" and reduction.dtype in COMPLEX
