"""The C of a kernel: loops, OpenMP over the outer ones, SIMD in the innermost, indented and named for readers.

Three shapes of work:

    elements   no reduction: the loops are merged as far as the indices allow, the last one is vectorised
    rows       the reduced axes are the innermost in memory: a row at a time, vectorised along it
    lanes      they are not: neighbouring rows are worked on together, many at a time, vectorised across them

A sum over everything, or down the columns, is cut into a fixed number of parts that are added up in order: the same
bits whatever the number of threads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wengert.compiler.index import Loop
from wengert.dtypes import bool_, float32, float64
from wengert.kernels.expressions import load as widened
from wengert.kernels.expressions import scalar_type, stored_type
from wengert.kernels.expressions import store as narrowed
from wengert.kernels.loops import Accumulate, Kernel, Let, Load, Position, Stage, Statement, Store
from wengert.kernels.lower import guard_text
from wengert.kernels.nest import crosses, merge_loops, statements_of

LANES, MANY_LANES = 128, 2048  # rows worked on together: so many that all threads have work, or as the cache holds
PARTS = 32
COLUMN_PARTS, PARTIAL_SUMS = 8, 1 << 16  # of sums down the columns: the parts, and the most totals to keep for them
BLOCK = 4096  # elements that a long sum adds up in its own dtype before it goes on in double
WORTH_THREADS = (
    600_000  # statements executed (about 20 us): below, waking the other threads may cost more than it saves
)


@dataclass(frozen=True)
class Function:
    """A kernel as C: its text without its name, and the buffers it takes in order."""

    body: str
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]

    def named(self, name: str) -> str:
        """The definition under a name."""
        return f"{self.declared(name)}\n{{\n{self.body}}}\n"

    def declared(self, name: str) -> str:
        """The declaration: seen by the program's other units, and by nobody else."""
        return f"KERNEL {name}({', '.join(self.parameters)})"

    @property
    def is_parallel(self) -> bool:
        """Whether its outer loop is worth the threads."""
        return "#pragma omp parallel" in self.body

    @property
    def is_one_loop(self) -> bool:
        """Whether all it does is inside its outer loops; a sum in parts has something to do after them."""
        return "_parts[" not in self.body

    def shared(self) -> Function:
        """The function for all threads of a parallel region to call: they share its outer loop and do not wait."""
        return replace(self, body=re.sub(r"#pragma omp parallel for( simd)?", r"#pragma omp for\1 nowait", self.body))


def write(kernel: Kernel) -> Function:
    """The C of a kernel."""
    kernel = merge_loops(kernel)
    names, parameters = _parameters(kernel)
    return Function(_Writer(kernel, names).text(), parameters, tuple(kernel.buffers))


def _parameters(kernel: Kernel) -> tuple[dict[str, str], tuple[str, ...]]:
    """What the buffers are called in C, and how they are declared."""
    names = {buffer: f"b{i}" for i, buffer in enumerate(kernel.buffers)}
    declared = tuple(
        f"{'' if written else 'const '}{stored_type(dtype)} *restrict {names[buffer]}"
        for buffer, (dtype, written) in kernel.buffers.items()
    )
    return names | {row: row for row in kernel.scratch}, declared


def write_rows(kernel: Kernel, columns: str) -> Function | None:
    """The C of an elementwise kernel for the rows from `first` to `last`; None where its rows are not one loop.

    `columns` names the loop over the last axis. It is what runs on the rows of a matrix product that a thread has made.
    """
    inner = [loop for loop in kernel.outer if loop.name == columns]
    kernel = merge_loops(replace(kernel, outer=[loop for loop in kernel.outer if loop.name != columns], inner=inner))
    if len(kernel.outer) != 1:
        return None
    names, parameters = _parameters(kernel)
    return Function(_Writer(kernel, names).rows_text(), (*parameters, "long first", "long last"), tuple(kernel.buffers))


# --- writing --------------------------------------------------------------------------------------------------------

_START = {"sum": "0", "prod": "1", "all": "1", "any": "0"}
_CLAUSE = {"sum": "+", "prod": "*", "max": "max", "min": "min", "all": "&", "any": "|"}


class _Writer:
    def __init__(self, kernel: Kernel, names: dict[str, str]) -> None:
        self.kernel, self.names = kernel, names
        self.lines: list[str] = []
        self.depth = 1
        self.widths = {a.total: self._total_type(a) for a in self._accumulated()}
        self.summed: set[str] = set()  # the totals that the innermost loop sums on the side
        self.scalar = _mixes_widths_under_guards(kernel)

    def text(self) -> str:
        """The body of the function."""
        kernel = self.kernel
        self.line(f"// {kernel.comment}")
        if not kernel.inner and not any(isinstance(s, Accumulate) for s in statements_of(kernel)):
            self._elements()
        elif crosses(kernel):
            self._lanes()
        elif self._is_total():
            self._parts()
        else:
            self._rows()
        return "\n".join(self.lines) + "\n"

    def rows_text(self) -> str:
        """The body of a function of some rows."""
        (rows,), columns = self.kernel.outer, self.kernel.inner
        self.line(f"// {self.kernel.comment}")
        self.line(f"for (long {rows.name} = first; {rows.name} < last; {rows.name}++) {{")
        self.depth += 1
        for loop in columns:
            self._open(loop, "#pragma omp simd")
        for stage in self.kernel.stages:
            self._write([*stage.before, *stage.inside])
        self._write(self.kernel.after)
        self._close(1 + len(columns))
        return "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _open(self, loop: Loop, pragma: str = "") -> None:
        if pragma:
            self.line(pragma)
        self.line(f"for (long {loop.name} = 0; {loop.name} < {loop.extent}; {loop.name}++) {{")
        self.depth += 1

    def _close(self, count: int = 1) -> None:
        for _ in range(count):
            self.depth -= 1
            self.line("}")

    # --- the three shapes -----------------------------------------------------------------------------------------

    def _elements(self) -> None:
        loops = self.kernel.outer
        for k, loop in enumerate(loops):
            pragma = ""
            if k == len(loops) - 1:
                pragma = "#pragma omp parallel for simd" if k == 0 and self._threads() else "#pragma omp simd"
            elif k == 0 and self._threads():
                pragma = f"#pragma omp parallel for{self._collapse(len(loops) - 1)}"
            self._open(loop, pragma)
        for stage in self.kernel.stages:
            self._write([*stage.before, *stage.inside])
        self._write(self.kernel.after)
        self._close(len(loops))

    def _rows(self) -> None:
        kernel = self.kernel
        for k, loop in enumerate(kernel.outer):
            threads = k == 0 and self._threads()
            self._open(loop, f"#pragma omp parallel for{self._collapse(len(kernel.outer))}" if threads else "")
        for row, (dtype, length) in kernel.scratch.items():
            self.line(f"{stored_type(dtype)} {row}[{length}] __attribute__((aligned(64)));")
        for stage in kernel.stages:
            self._write(stage.before)
            self._row_pass(stage, kernel.inner)
        self._write(kernel.after)
        self._close(len(kernel.outer))

    def _row_pass(self, stage: Stage, loops: Sequence[Loop]) -> None:
        totals = _totals(stage)
        for total in totals:
            self._begin(total, "")
        *slow, fast = loops or [Loop("once", 1)]
        for loop in slow:
            self._open(loop)
        self._vector_loop(fast, "0", str(fast.extent), totals, stage.inside)
        self._close(len(slow))
        for total in totals:
            self._finish(total, "")

    def _vector_loop(
        self, loop: Loop, first: str, last: str, totals: Sequence[Accumulate], statements: Sequence[Statement]
    ) -> None:
        """The innermost loop, vectorised. Long sums are made of sums of BLOCK elements, added up in double."""
        wide = {total.total: total for total in totals if self.widths[total.total] != self._scalar_type(total)}
        blocked = bool(wide) and loop.extent > BLOCK
        if blocked:
            self.line(f"for (long block = {first}; block < {last}; block += {BLOCK}) {{")
            self.depth += 1
            self.line(f"long end = block + {BLOCK} < {last} ? block + {BLOCK} : {last};")
            first, last = "block", "end"
        for name, total in wide.items():
            self.line(f"{self._scalar_type(total)} {name}_sum = {self._start(total)};")
        self.summed = set(wide)
        self.line(self._simd(totals))
        self.line(f"for (long {loop.name} = {first}; {loop.name} < {last}; {loop.name}++) {{")
        self.depth += 1
        self._write(statements)
        self._close()
        self.summed = set()
        for name, total in wide.items():
            self.line(f"{_combine(name, total.kind, f'{name}_sum')};")
        self._close(int(blocked))

    def _parts(self) -> None:
        """A reduction of everything: PARTS sums, in parallel, added up in order."""
        stage, (loop, *rest) = self.kernel.stages[0], self.kernel.inner
        totals = _totals(stage)
        size = -(-loop.extent // PARTS)
        for total in totals:
            self.line(f"{self.widths[total.total]} {total.total}_parts[{PARTS}];")
            if self._checks_nan(total):
                self.line(f"uint8_t {total.total}_nans[{PARTS}];")
        self._write(stage.before)
        self._open(Loop("part", PARTS), "#pragma omp parallel for")
        for total in totals:
            self._begin(total, "")
        self.line(f"long stop = (part + 1) * {size}L < {loop.extent} ? (part + 1) * {size}L : {loop.extent};")
        if rest:
            self.line(f"for (long {loop.name} = part * {size}L; {loop.name} < stop; {loop.name}++) {{")
            self.depth += 1
            for inner in rest[:-1]:
                self._open(inner)
            self._vector_loop(rest[-1], "0", str(rest[-1].extent), totals, stage.inside)
            self._close(len(rest))
        else:
            self._vector_loop(Loop(loop.name, size), f"part * {size}L", "stop", totals, stage.inside)
        for total in totals:
            self.line(f"{total.total}_parts[part] = {total.total};")
            if self._checks_nan(total):
                self.line(f"{total.total}_nans[part] = {total.total}_nan;")
        self._close()
        for total in totals:
            self._begin(total, "")
        self._open(Loop("part", PARTS))
        for total in totals:
            name = total.total
            self.line(f"{_combine(name, total.kind, f'{name}_parts[part]')};")
            if self._checks_nan(total):
                self.line(f"{name}_nan |= {name}_nans[part];")
        self._close()
        for total in totals:
            self._finish(total, "")
        self._write(self.kernel.after)

    def _lanes(self) -> None:
        kernel = self.kernel
        if self._is_split():
            self._lane_parts()
            return
        *outer, last = kernel.outer
        width = LANES if math.prod(loop.extent for loop in kernel.outer) < 8 * MANY_LANES else MANY_LANES
        blocks = self._blocks(last, width)
        for k, loop in enumerate([*outer, blocks]):
            threads = k == 0 and self._threads()
            self._open(loop, f"#pragma omp parallel for{self._collapse(len(outer) + 1)}" if threads else "")
        self._open_block(last, width)
        rows: dict[str, str] = {}  # what has one value a lane, by name with its type
        for stage in kernel.stages:
            self._lane_scalars(stage.before, rows, last, width)
            self._lane_pass(stage, rows, last, width, kernel.inner)
            for total in _totals(stage):
                self._finish_lanes(total, rows)
        self._after_lanes(rows, last)
        self._close(len(outer) + 1)

    def _lane_parts(self) -> None:
        """Sums down the columns: COLUMN_PARTS sums of each, in parallel, added up in order."""
        (stage,), (last,), (first, *inner) = self.kernel.stages, self.kernel.outer, self.kernel.inner
        totals, size, blocks = _totals(stage), -(-first.extent // COLUMN_PARTS), self._blocks(last, MANY_LANES)
        held = {name: kind for total in totals for name, kind in self._held(total).items()}
        for name, (kind, _) in held.items():
            self.line(f"{kind} {name}_parts[{COLUMN_PARTS}][{last.extent}];")
        self._open(Loop("part", COLUMN_PARTS), f"#pragma omp parallel for{self._collapse(2)}")
        self._open(blocks)
        self._open_block(last, MANY_LANES)
        rows: dict[str, str] = {}
        self._lane_scalars(stage.before, rows, last, MANY_LANES)
        stop = f"(part + 1) * {size}L < {first.extent} ? (part + 1) * {size}L : {first.extent}"
        self.line(f"long stop = {stop};")
        part = f"for (long {first.name} = part * {size}L; {first.name} < stop; {first.name}++) {{"
        self._lane_pass(stage, rows, last, MANY_LANES, inner, part)
        for name in held:
            self.line(f"memcpy({name}_parts[part] + start, {name}_lanes, lanes * sizeof *{name}_lanes);")
        self._close(2)
        self._open(blocks)
        self._open_block(last, MANY_LANES)
        self._declare_lanes(totals, MANY_LANES)
        self._open(Loop("part", COLUMN_PARTS))
        self.line("for (long lane = 0; lane < lanes; lane++) {")
        self.depth += 1
        for total in totals:
            name = total.total
            self.line(f"{_combine(f'{name}_lanes[lane]', total.kind, f'{name}_parts[part][start + lane]')};")
            if self._checks_nan(total):
                self.line(f"{name}_nan_lanes[lane] |= {name}_nan_parts[part][start + lane];")
        self._close(2)
        rows = {}
        for total in totals:
            self._finish_lanes(total, rows)
        self._after_lanes(rows, last)
        self._close()

    def _is_split(self) -> bool:
        """Whether a sum down the columns is cut into parts: it is long, and what is kept of the parts is little."""
        kernel = self.kernel
        if len(kernel.stages) != 1 or len(kernel.outer) != 1 or not self._threads() or not self._accumulated():
            return False
        made = {s.name for s in kernel.stages[0].before if isinstance(s, (Load, Let, Position))}
        reads = set(re.findall(r"\bv\d+\b", " ".join(map(_names_in, kernel.after))))
        kept = COLUMN_PARTS * kernel.outer[0].extent * len(self._accumulated())
        plain = not any(_is_position(total) for total in self._accumulated()) and made.isdisjoint(reads)
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
        self._declare_lanes(_totals(stage), width)
        if outermost:
            self.line(outermost)
            self.depth += 1
        for loop in loops:
            self._open(loop)
        self._open_lanes(last, stage.inside, rows)
        self._write(stage.inside, lane="[lane]")
        self._close(1 + len(loops) + bool(outermost))

    def _after_lanes(self, rows: dict[str, str], last: Loop) -> None:
        if self.kernel.after:
            self._open_lanes(last, self.kernel.after, rows)
            self._write(self.kernel.after)
            self._close()

    def _open_lanes(self, last: Loop, statements: Sequence[Statement], rows: dict[str, str]) -> None:
        self.line("#pragma omp simd")
        self.line("for (long lane = 0; lane < lanes; lane++) {")
        self.depth += 1
        self.line(f"long {last.name} = start + lane;")
        used = set(re.findall(r"\b[vr]\d+\b", " ".join(map(_names_in, statements))))
        for name in sorted(used & rows.keys()):
            self.line(f"{rows[name]} {name} = {name}_lanes[lane];")

    def _lane_scalars(self, before: Sequence[Statement], rows: dict[str, str], last: Loop, width: int) -> None:
        if not before:
            return
        made = [s for s in before if isinstance(s, (Load, Let, Position))]
        for statement in made:
            self.line(f"{self._type(statement)} {statement.name}_lanes[{width}];")
        self._open_lanes(last, before, rows)
        self._write(before)
        for statement in made:
            self.line(f"{statement.name}_lanes[lane] = {statement.name};")
            rows[statement.name] = self._type(statement)
        self._close()

    def _declare_lanes(self, totals: Sequence[Accumulate], width: int) -> None:
        held = {name: kind for total in totals for name, kind in self._held(total).items()}
        for name, (kind, _) in held.items():
            self.line(f"{kind} {name}_lanes[{width}];")
        self.line("for (long lane = 0; lane < lanes; lane++) {")
        self.depth += 1
        for name, (_, start) in held.items():
            self.line(f"{name}_lanes[lane] = {start};")
        self._close()

    def _held(self, total: Accumulate) -> dict[str, tuple[str, str]]:
        """What a pass keeps of a reduction, by name: the type and what it starts from."""
        name, kind, start = total.total, self.widths[total.total], self._start(total)
        if _is_position(total):
            return {f"{name}_best": (kind, start), name: ("int64_t", "0")}
        flag = f"int{8 * total.dtype.itemsize}_t"  # as wide as the values: flags of one byte would be repacked
        return {name: (kind, start)} | ({f"{name}_nan": (flag, "0")} if self._checks_nan(total) else {})

    def _finish_lanes(self, total: Accumulate, rows: dict[str, str]) -> None:
        name = total.total
        if self._checks_nan(total):
            self.line(
                f"for (long lane = 0; lane < lanes; lane++) if ({name}_nan_lanes[lane]) {name}_lanes[lane] = NAN;"
            )
        rows[name] = "int64_t" if _is_position(total) else self._scalar_type(total)

    # --- accumulating ---------------------------------------------------------------------------------------------

    def _accumulated(self) -> list[Accumulate]:
        return [total for stage in self.kernel.stages for total in _totals(stage)]

    def _total_type(self, total: Accumulate) -> str:
        """Long sums of floats go on in double: the error does not grow with the length.

        Only from block to block: gcc 12 makes wrong code of AVX-512 loops that add floats to doubles under a mask.
        """
        length = math.prod(loop.extent for loop in self.kernel.inner)
        wide = total.kind in ("sum", "prod") and total.dtype == float32 and length > 1 << 12
        return "double" if wide else self._scalar_type(total)

    def _scalar_type(self, total: Accumulate) -> str:
        return scalar_type(total.dtype)

    def _start(self, total: Accumulate) -> str:
        if total.kind in _START:
            return _START[total.kind]
        biggest = total.kind in ("min", "argmin")
        if total.dtype in (float32, float64):
            return "INFINITY" if biggest else "-INFINITY"
        if total.dtype == bool_:
            return "1" if biggest else "0"
        bits = 8 * total.dtype.itemsize
        if total.dtype.kind == "u":
            return f"UINT{bits}_MAX" if biggest else "0"
        return f"INT{bits}_MAX" if biggest else f"INT{bits}_MIN"

    def _checks_nan(self, total: Accumulate) -> bool:
        return total.kind in ("max", "min") and total.dtype in (float32, float64)

    def _begin(self, total: Accumulate, lane: str) -> None:
        for name, (kind, start) in self._held(total).items():
            self.line(f"{kind} {name} = {start};")

    def _finish(self, total: Accumulate, lane: str) -> None:
        if self._checks_nan(total):
            self.line(f"if ({total.total}_nan) {total.total} = NAN;")

    def _inside_name(self, total: Accumulate) -> str:
        """What the innermost loop calls a total."""
        return f"{total.total}_sum" if total.total in self.summed else total.total

    def _simd(self, totals: Sequence[Accumulate]) -> str:
        if any(_is_position(total) for total in totals):
            return ""
        clauses = "".join(f" reduction({_CLAUSE[t.kind]}:{self._inside_name(t)})" for t in totals)
        clauses += "".join(f" reduction(|:{t.total}_nan)" for t in totals if self._checks_nan(t))
        return f"#pragma omp simd{clauses}"

    # --- statements -----------------------------------------------------------------------------------------------

    def _write(self, statements: Sequence[Statement], lane: str = "") -> None:
        if self.scalar and statements:
            self.line('__asm__ volatile("");  // keeps the loop from being vectorised')
        for statement in statements:
            for text in self._lines_of(statement, lane):
                self.line(text)

    def _lines_of(self, statement: Statement, lane: str) -> list[str]:
        if isinstance(statement, Load):
            return [f"{self._type(statement)} {statement.name} = {self._loaded(statement)};"]
        if isinstance(statement, Let):
            return [f"{self._type(statement)} {statement.name} = {statement.text};"]
        if isinstance(statement, Position):
            return [f"{self._type(statement)} {statement.name} = ({self._type(statement)})({statement.index});"]
        if isinstance(statement, Store):
            target = f"{self.names[statement.buffer]}[{statement.index}]"
            return [f"{target} = {narrowed(statement.dtype, statement.name)};"]
        return self._accumulation(statement, lane)

    def _accumulation(self, total: Accumulate, lane: str) -> list[str]:
        name, value = total.total, total.name
        held = {key: f"{key}_lanes{lane}" if lane else key for key in self._held(total)}
        if _is_position(total):
            best, at = held[f"{name}_best"], held[name]
            better = f"{value} {'>' if total.kind == 'argmax' else '<'} {best}"
            if total.dtype in (float32, float64):
                better = f"({better} || {value} != {value}) && {best} == {best}"
            first = f"({total.position}) == 0"
            return [f"if ({first} || ({better})) {{ {best} = {value}; {at} = {total.position}; }}"]
        target = held[name] if lane else self._inside_name(total)
        lines = [f"{_combine(target, total.kind, value)};"]
        if self._checks_nan(total):
            lines.append(f"{held[f'{name}_nan']} |= ({value} != {value});")
        return lines

    def _type(self, statement: Load | Let | Position) -> str:
        return scalar_type(statement.dtype)

    def _loaded(self, load: Load) -> str:
        text = widened(load.dtype, f"{self.names[load.buffer]}[{load.index}]")
        return f"({' && '.join(map(guard_text, load.guards))}) ? {text} : 0" if load.guards else text

    # --- choices --------------------------------------------------------------------------------------------------

    def _work(self) -> int:
        loops = math.prod(loop.extent for loop in (*self.kernel.outer, *self.kernel.inner))
        return loops * max(1, sum(_effort(s) for stage in self.kernel.stages for s in stage.inside))

    def _threads(self) -> bool:
        return self._work() > WORTH_THREADS

    def _collapse(self, loops: int) -> str:
        return f" collapse({loops})" if loops > 1 else ""

    def _is_total(self) -> bool:
        kernel = self.kernel
        arguments = any(_is_position(total) for total in self._accumulated())
        return not kernel.outer and len(kernel.stages) == 1 and self._threads() and not arguments and bool(kernel.inner)


def _mixes_widths_under_guards(kernel: Kernel) -> bool:
    """Whether float64 and narrower numbers meet where guards hold: gcc 12 makes wrong vector code of such loops."""
    statements = list(statements_of(kernel))
    guarded = any(s.guards if isinstance(s, Load) else isinstance(s, Let) and " && " in s.text for s in statements)
    doubles = any(s.dtype is float64 for s in statements)
    return guarded and doubles and any(s.dtype.itemsize < 8 for s in statements)


def _effort(statement: Statement) -> int:
    """What a statement costs; an addition is 1, a call of a mathematical function 8."""
    return 8 if isinstance(statement, Let) and "wg_" in statement.text else 1


def _totals(stage: Stage) -> list[Accumulate]:
    return [s for s in stage.inside if isinstance(s, Accumulate)]


def _is_position(total: Accumulate) -> bool:
    return total.kind in ("argmax", "argmin")


def _combine(target: str, kind: str, value: str) -> str:
    if kind in ("sum", "prod"):
        return f"{target} {'+' if kind == 'sum' else '*'}= {value}"
    if kind in ("all", "any"):
        return f"{target} {'&' if kind == 'all' else '|'}= ({value} != 0)"
    return f"{target} = {value} {'>' if kind == 'max' else '<'} {target} ? {value} : {target}"


def _names_in(statement: Statement) -> str:
    if isinstance(statement, Let):
        return statement.text
    return statement.name if isinstance(statement, (Store, Accumulate)) else ""
