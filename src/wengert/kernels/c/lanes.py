"""Lanes: many neighbouring rows are processed together, vectorised across them.

Sums down the columns are cut into a fixed number of parts, which are added in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wengert.kernels.c.source import Body, ParallelFor, Writer, is_position
from wengert.kernels.ir.index import Loop
from wengert.kernels.ir.loops import Accumulate, Stage, Statement
from wengert.kernels.ir.transforms import definitions, reductions_in, used

LANES, MANY_LANES = 128, 2048  # rows processed together: enough for all threads, at most what the cache holds
COLUMN_PARTS, PARTIAL_SUMS = 8, 1 << 16  # of sums down the columns: the parts, and the most reductions to keep for them


class Lanes(Writer):
    """Rows whose elements are adjacent to those of other rows."""

    def body(self) -> Body:
        """The body of a function of the whole kernel."""
        self.line(f"// {self.kernel.comment}")
        if self._is_split():
            self._lane_parts()
        else:
            self._lanes()
        return self.written()

    def _lanes(self) -> None:
        kernel = self.kernel
        *outer, last = kernel.outer
        width = LANES if math.prod(loop.extent for loop in kernel.outer) < 8 * MANY_LANES else MANY_LANES
        blocks = self._blocks(last, width)
        for k, loop in enumerate([*outer, blocks]):
            threads = k == 0 and self._threads()
            self._open(loop, ParallelFor(len(outer) + 1) if threads else "")
        self._open_block(last, width)
        rows: dict[str, str] = {}  # what has one value a lane, by name with its type
        for stage in kernel.stages:
            self._lane_scalars(stage.before, rows, last, width)
            self._lane_pass(stage, rows, last, width, kernel.inner)
            for reduction in reductions_in(stage.inside):
                self._finish_lanes(reduction, rows)
        self._after_lanes(rows, last)
        self.close(len(outer) + 1)

    def _lane_parts(self) -> None:
        """Sums down the columns: COLUMN_PARTS partial sums of each, in parallel, added in order."""
        self.in_parts = True
        (stage,), (last,), (first, *inner) = self.kernel.stages, self.kernel.outer, self.kernel.inner
        reductions, size, blocks = (
            reductions_in(stage.inside),
            -(-first.extent // COLUMN_PARTS),
            self._blocks(last, MANY_LANES),
        )
        held = {name: kind for reduction in reductions for name, kind in self._held(reduction).items()}
        for name, (kind, _) in held.items():
            self.line(f"{kind} {name}_parts[{COLUMN_PARTS}][{last.extent}];")
        self._open(Loop("part", COLUMN_PARTS), ParallelFor(2))
        self._open(blocks)
        self._open_block(last, MANY_LANES)
        rows: dict[str, str] = {}
        self._lane_scalars(stage.before, rows, last, MANY_LANES)
        stop = f"(part + 1) * {size}L < {first.extent} ? (part + 1) * {size}L : {first.extent}"
        self.line(f"long stop = {stop};")
        part = f"for (long {first.name} = part * {size}L; {first.name} < stop; {first.name}++)"
        self._lane_pass(stage, rows, last, MANY_LANES, inner, part)
        for name in held:
            self.line(f"memcpy({name}_parts[part] + start, {name}_lanes, lanes * sizeof *{name}_lanes);")
        self.close(2)
        self._open(blocks)
        self._open_block(last, MANY_LANES)
        self._declare_lanes(reductions, MANY_LANES)
        self._open(Loop("part", COLUMN_PARTS))
        self.open("for (long lane = 0; lane < lanes; lane++)")
        for reduction in reductions:
            name = reduction.name
            self.line(f"{self._combine(f'{name}_lanes[lane]', reduction, f'{name}_parts[part][start + lane]')};")
            if self._checks_nan(reduction):
                self.line(f"{name}_nan_lanes[lane] |= {name}_nan_parts[part][start + lane];")
        self.close(2)
        rows = {}
        for reduction in reductions:
            self._finish_lanes(reduction, rows)
        self._after_lanes(rows, last)
        self.close()

    def _is_split(self) -> bool:
        """Whether a column sum is cut into parts: it is long, and its partial sums are small."""
        kernel = self.kernel
        if len(kernel.stages) != 1 or len(kernel.outer) != 1 or not self._threads() or not self._accumulated():
            return False
        made, reads = definitions(kernel.stages[0].before).keys(), used(kernel.after)
        kept = COLUMN_PARTS * kernel.outer[0].extent * len(self._accumulated())
        plain = not any(is_position(reduction) for reduction in self._accumulated()) and made.isdisjoint(reads)
        return plain and kept <= PARTIAL_SUMS and kernel.inner[0].extent >= 4 * COLUMN_PARTS

    def _blocks(self, last: Loop, width: int) -> Loop:
        return Loop("block", -(-last.extent // width))

    def _open_block(self, last: Loop, width: int) -> None:
        self.line(f"long start = block * {width}L;")
        self.line(f"long lanes = {last.extent} - start < {width} ? {last.extent} - start : {width};")

    def _lane_pass(
        self, stage: Stage, rows: dict[str, str], last: Loop, width: int, loops: Sequence[Loop], outermost: str = ""
    ) -> None:
        """One pass over the inner loops, perhaps inside another."""
        self._declare_lanes(reductions_in(stage.inside), width)
        if outermost:
            self.open(outermost)
        for loop in loops:
            self._open(loop)
        self._open_lanes(last, stage.inside, rows)
        self._write(stage.inside, lane="[lane]")
        self.close(1 + len(loops) + bool(outermost))

    def _after_lanes(self, rows: dict[str, str], last: Loop) -> None:
        if self.kernel.after:
            self._open_lanes(last, self.kernel.after, rows)
            self._write(self.kernel.after)
            self.close()

    def _open_lanes(self, last: Loop, statements: Sequence[Statement], rows: dict[str, str]) -> None:
        self.line("#pragma omp simd")
        self.open("for (long lane = 0; lane < lanes; lane++)")
        self.line(f"long {last.name} = start + lane;")
        for name in sorted(used(statements) & rows.keys()):
            self.line(f"{rows[name]} {name} = {name}_lanes[lane];")

    def _lane_scalars(self, before: Sequence[Statement], rows: dict[str, str], last: Loop, width: int) -> None:
        if not before:
            return
        made = definitions(before).values()
        for statement in made:
            self.line(f"{self._type(statement)} {statement.name}_lanes[{width}];")
        self._open_lanes(last, before, rows)
        self._write(before)
        for statement in made:
            self.line(f"{statement.name}_lanes[lane] = {statement.name};")
            rows[statement.name] = self._type(statement)
        self.close()

    def _declare_lanes(self, reductions: Sequence[Accumulate], width: int) -> None:
        held = {name: kind for reduction in reductions for name, kind in self._held(reduction).items()}
        for name, (kind, _) in held.items():
            self.line(f"{kind} {name}_lanes[{width}];")
        self.open("for (long lane = 0; lane < lanes; lane++)")
        for name, (_, start) in held.items():
            self.line(f"{name}_lanes[lane] = {start};")
        self.close()

    def _finish_lanes(self, reduction: Accumulate, rows: dict[str, str]) -> None:
        name = reduction.name
        if self._checks_nan(reduction):
            self.line(
                f"for (long lane = 0; lane < lanes; lane++) if ({name}_nan_lanes[lane]) {name}_lanes[lane] = NAN;"
            )
        rows[name] = "int64_t" if is_position(reduction) else self._scalar_type(reduction)
