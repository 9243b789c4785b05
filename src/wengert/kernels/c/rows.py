"""Elements and rows: what lies along memory.

Without a reduction the loops are merged as far as the indices allow, and the last one is vectorised. A row at a time is
vectorised along it. A reduction of everything is cut into a fixed number of parts, which are added up in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from wengert.kernels.c.source import Body, ParallelFor, Writer, is_position, totals_in
from wengert.kernels.expressions import stored_type
from wengert.kernels.ir.index import Loop
from wengert.kernels.ir.loops import Accumulate, Stage, Statement

PARTS = 32
BLOCK = 4096  # elements that a long sum adds up in its own dtype before it goes on in double
CLAUSE = {"sum": "+", "prod": "*", "max": "max", "min": "min", "all": "&", "any": "|"}


class Rows(Writer):
    """Elements, rows, everything as one row, or some rows of a matrix product."""

    def body(self) -> Body:
        """The body of a function of the whole kernel."""
        self.line(f"// {self.kernel.comment}")
        if not self.kernel.inner and not self._accumulated():
            self._elements()
        elif self._is_total():
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
        totals = totals_in(stage)
        for total in totals:
            self._begin(total, "")
        *slow, fast = loops or [Loop("once", 1)]
        for loop in slow:
            self._open(loop)
        self._vector_loop(fast, "0", str(fast.size), totals, stage.inside)
        self.close(len(slow))
        for total in totals:
            self._finish(total, "")

    def _vector_loop(
        self, loop: Loop, first: str, last: str, totals: Sequence[Accumulate], statements: Sequence[Statement]
    ) -> None:
        """The innermost loop, vectorised. Long sums are made of sums of BLOCK elements, added up in double."""
        wide = {total.total: total for total in totals if self.widths[total.total] != self._scalar_type(total)}
        blocked = bool(wide) and loop.most > BLOCK
        if blocked:
            self.open(f"for (long block = {first}; block < {last}; block += {BLOCK})")
            self.line(f"long end = block + {BLOCK} < {last} ? block + {BLOCK} : {last};")
            first, last = "block", "end"
        for name, total in wide.items():
            self.line(f"{self._scalar_type(total)} {name}_sum = {self._start(total)};")
        self.summed = set(wide)
        self.line(self._simd(totals))
        self.open(f"for (long {loop.name} = {first}; {loop.name} < {last}; {loop.name}++)")
        self._write(statements)
        self.close()
        self.summed = set()
        for name, total in wide.items():
            self.line(f"{self._combine(name, total.kind, f'{name}_sum')};")
        self.close(int(blocked))

    def _parts(self) -> None:
        """A reduction of everything: PARTS sums, in parallel, added up in order."""
        self.in_parts = True
        stage, (loop, *rest) = self.kernel.stages[0], self.kernel.inner
        totals = totals_in(stage)
        size = -(-loop.extent // PARTS)
        for total in totals:
            self.line(f"{self.widths[total.total]} {total.total}_parts[{PARTS}];")
            if self._checks_nan(total):
                self.line(f"uint8_t {total.total}_nans[{PARTS}];")
        self._write(stage.before)
        self._open(Loop("part", PARTS), ParallelFor())
        for total in totals:
            self._begin(total, "")
        self.line(f"long stop = (part + 1) * {size}L < {loop.extent} ? (part + 1) * {size}L : {loop.extent};")
        if rest:
            self.open(f"for (long {loop.name} = part * {size}L; {loop.name} < stop; {loop.name}++)")
            for inner in rest[:-1]:
                self._open(inner)
            self._vector_loop(rest[-1], "0", str(rest[-1].extent), totals, stage.inside)
            self.close(len(rest))
        else:
            self._vector_loop(Loop(loop.name, size), f"part * {size}L", "stop", totals, stage.inside)
        for total in totals:
            self.line(f"{total.total}_parts[part] = {total.total};")
            if self._checks_nan(total):
                self.line(f"{total.total}_nans[part] = {total.total}_nan;")
        self.close()
        for total in totals:
            self._begin(total, "")
        self._open(Loop("part", PARTS))
        for total in totals:
            name = total.total
            self.line(f"{self._combine(name, total.kind, f'{name}_parts[part]')};")
            if self._checks_nan(total):
                self.line(f"{name}_nan |= {name}_nans[part];")
        self.close()
        for total in totals:
            self._finish(total, "")
        self._write(self.kernel.after)

    def _simd(self, totals: Sequence[Accumulate]) -> str:
        if any(is_position(total) for total in totals):
            return ""
        clauses = "".join(f" reduction({CLAUSE[t.kind]}:{self._inside_name(t)})" for t in totals)
        clauses += "".join(f" reduction(|:{t.total}_nan)" for t in totals if self._checks_nan(t))
        return f"#pragma omp simd{clauses}"

    def _is_total(self) -> bool:
        kernel = self.kernel
        if kernel.outer or len(kernel.stages) != 1 or not self._threads() or not kernel.inner:
            return False
        return kernel.inner[0].is_constant and not any(is_position(total) for total in self._accumulated())
