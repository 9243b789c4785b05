"""Rows: the reduced axes are contiguous, and the threads of a warp or a block share a row.

A row that fits stays in registers: every vector is loaded once, and all passes use the registers. A longer row is read
again by each pass. Reductions are combined by shuffles and, beyond a warp, through shared memory. Where there are too
few rows to fill the device, blocks share a row: each pass is a launch that writes partial reductions to memory, and
another combines them in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wengert.kernels.cuda.shapes import Rows, kept_words, registers_beside, same_for_all_rows
from wengert.kernels.cuda.source import CudaPage, Names, Pass, result_type, start, state_bytes, state_type, unravel
from wengert.kernels.ir.index import flat, variable
from wengert.kernels.ir.loops import Access, Accumulate, DType, Load, LoopKernel, Stage, Statement, Store, access
from wengert.kernels.ir.transforms import reductions_in
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList
from wengert.kernels.writer import stored_type

Copies = Mapping[Access, Load]  # by what is read: the same from its copy


def copies_of(kernel: LoopKernel) -> Copies:
    """Copies of what the passes read and later overwrite."""
    written = {s.buffer for s in kernel.after if isinstance(s, Store)}
    loads = {access(s): s for stage in kernel.stages for s in stage.before if isinstance(s, Load)}
    row = flat([variable(loop) for loop in kernel.outer], [loop.extent for loop in kernel.outer])
    read = [(key, load) for key, load in loads.items() if load.buffer in written]
    return {key: replace(load, buffer=f"kept{i}", index=row) for i, (key, load) in enumerate(read)}


def declare(copies: Copies, names: Names) -> None:
    """Declare the temporaries under their names."""
    for copy in copies.values():
        names.buffers[copy.buffer] = copy.buffer
        names.workspace[copy.buffer] = stored_type(copy.dtype)


def bytes_of(copies: Copies, rows: int) -> dict[str, int]:
    """The bytes of the temporaries."""
    return {copy.buffer: rows * copy.dtype.itemsize for copy in copies.values()}


def copying(copies: Copies) -> list[Statement]:
    """The launches that make the copies."""
    found: list[Statement] = []
    for (buffer, index, guards), copy in copies.items():
        found.append(Load(copy.name, buffer, copy.dtype, index, guards))
        found.append(Store(copy.buffer, copy.dtype, copy.index, copy.name))
    return found


def reading(stages: list[Stage], copies: Copies) -> list[Stage]:
    """The stages with the copies read instead."""

    def instead(statement: Statement) -> Statement:
        if not isinstance(statement, Load) or access(statement) not in copies:
            return statement
        return replace(copies[access(statement)], name=statement.name)

    return [Stage([instead(s) for s in stage.before], stage.inside) for stage in stages]


# --- rows -----------------------------------------------------------------------------------------------------------


def rows(kernel: LoopKernel, shape: Rows, device: DeviceProperties, why: str) -> LaunchList:
    """The launches of a kernel whose rows are contiguous."""
    return _SplitRows(kernel, shape, why).work() if shape.splits > 1 else WholeRows(kernel, shape, device, why).work()


class RowsText:
    """The parts common to both variants: a thread's row, and reductions over a row's threads."""

    def __init__(self, kernel: LoopKernel, shape: Rows, why: str) -> None:
        self.kernel, self.shape, self.why = kernel, shape, why
        self.count = math.prod(loop.extent for loop in kernel.outer)
        self.loop = kernel.inner[-1] if kernel.inner else None
        self.vectors = math.prod(loop.extent for loop in kernel.inner) // shape.vector
        self.page = CudaPage()
        self.names = Names(kernel)
        self.ragged = self.count % shape.rows != 0
        self.numbers: dict[Access, str] = {}  # loads that a row has one of, if something has loaded them already

    def begin(self, row: str) -> None:
        """Compute a thread's row; one past the end computes the last row and stores nothing."""
        page, shape, index = self.page, self.shape, self.names.index
        page.line(f"const int lane = threadIdx.x{f' % {shape.lanes}' if shape.rows > 1 else ''};")
        if self.ragged:
            page.line(f"const {index} wanted = {row};")
            page.line(f"const bool alive = wanted < {self.count};")
            page.line(f"const {index} row = alive ? wanted : {self.count - 1};")
        else:
            page.line(f"const {index} row = {row};")
        unravel(page, "row", self.kernel.outer, self.names)

    def scalars(self, statements: Sequence[Statement]) -> None:
        """Row scalars: every thread computes them."""
        if statements:
            work = Pass(statements, None, 1, self.names)
            work.kept = self.numbers
            work.load(self.page)
            work.compute(self.page)

    def declare_states(self, reductions: Sequence[Accumulate]) -> None:
        """The accumulators of each thread."""
        for reduction in reductions:
            self.page.line(f"{state_type(reduction)} {reduction.name}_ = {start(reduction)};")

    def put_together(self, reductions: Sequence[Accumulate]) -> None:
        """Combine reductions over the threads of a row."""
        page, lanes = self.page, self.shape.lanes
        assert lanes <= 32 or self.shape.rows < 16, "a block has 16 barriers, one of them for all of it"
        if lanes > 32 and reductions:
            for reduction in reductions:
                self.declare_parts(reduction)
                page.line(f"wg_leave_part({reduction.name}_, wg_{reduction.kind}(), {reduction.name}_parts);")
            page.line(f"wg_row_barrier<{lanes}>();" if self.shape.rows > 1 else "__syncthreads();")
        for reduction in reductions:
            name, kind = reduction.name, f"wg_{reduction.kind}()"
            if lanes > 32:
                page.line(f"{name}_ = wg_over_parts<{lanes}, {state_type(reduction)}>({kind}, {name}_parts);")
            elif lanes > 1:
                page.line(f"{name}_ = wg_over_lanes<{lanes}>({name}_, {kind});")

    def declare_parts(self, reduction: Accumulate) -> None:
        """Where the warps of a block leave their parts of a reduction."""
        self.page.line(f"__shared__ {state_type(reduction)} {reduction.name}_parts[{self.shape.threads // 32}];")

    def finish(self, reductions: Sequence[Accumulate]) -> None:
        """Reductions under their names."""
        for reduction in reductions:
            at = ".at" if reduction.kind in ("argmax", "argmin") else ""
            self.page.line(f"const {result_type(reduction)} {reduction.name} = {reduction.name}_{at};")

    def after(self) -> None:
        """The final stores of a row, once all of its threads have read what they overwrite."""
        if self.shape.threads > 32 and copies_of(self.kernel):
            self.page.line("__syncthreads();")
        if self.kernel.after:
            self.store(self.kernel.after)

    def store(self, statements: Sequence[Statement]) -> None:
        """The stores of one thread of a row."""
        conditions = ["lane == 0"] * (self.shape.lanes > 1) + ["alive"] * self.ragged
        self.page.open(f"if ({' && '.join(conditions)})" if conditions else "")
        self.scalars(statements)
        self.page.close()

    def inside(self, stage: Stage) -> Pass:
        """A pass over a stage's elements."""
        work = Pass(stage.inside, self.loop, self.shape.vector, self.names)
        work.states = {reduction.name: f"{reduction.name}_" for reduction in reductions_in(stage.inside)}
        work.stores_if = "alive" if self.ragged else ""
        return work


class WholeRows(RowsText):
    """The threads of a row see all of it: one launch."""

    def __init__(self, kernel: LoopKernel, shape: Rows, device: DeviceProperties, why: str) -> None:
        super().__init__(kernel, shape, why)
        self.device = device
        self.kept: dict[Access, str] = {}
        self.shared = self._scratch_bytes()
        self.in_memory = not shape.chunks and self.shared > device.shared_per_block
        if self.in_memory:
            self.names.workspace = {f"{row}_all": stored_type(dtype) for row, (dtype, _) in kernel.scratch.items()}
        if shape.chunks or self.in_memory:
            self.shared = 0

    def _scratch_bytes(self) -> int:
        return sum(self._row_bytes(dtype, length) for dtype, length in self.kernel.scratch.values())

    def _row_bytes(self, dtype: DType, length: int) -> int:
        """Shared memory for the block's rows, up to the next 16 bytes."""
        return max(1, -(-self.shape.rows * length * dtype.itemsize // 16)) * 16

    def work(self) -> LaunchList:
        page, shape, kernel = self.page, self.shape, self.kernel
        several = f" * {shape.rows} + threadIdx.x / {shape.lanes}" if shape.rows > 1 else ""
        self.begin(f"({self.names.index})blockIdx.x{several}")
        self._declare_scratch()
        self.passes()
        grid = -(-self.count // shape.rows)
        launch = self.names.launch(page, grid, shape.threads, self.shared, self.why, self.resident_blocks())
        space = {
            f"{row}_all": self.count * length * dtype.itemsize
            for row, (dtype, length) in kernel.scratch.items()
            if self.in_memory
        }
        return LaunchList((launch,), space)

    def passes(self) -> None:
        """All that is done with one row."""
        for stage in self.kernel.stages:
            self.scalars(stage.before)
            reductions = reductions_in(stage.inside)
            self.declare_states(reductions)
            if self.shape.chunks:
                self._resident(stage)
            else:
                self._read_again(stage)
            self.put_together(reductions)
            self.finish(reductions)
        self.after()

    def resident_blocks(self) -> int:
        """Blocks per SM that leave enough registers for their rows; the compiler alone would use more than it gains."""
        if not self.shape.chunks:
            return 0
        registers = -(-self.registers() // 8) * 8
        return min(self.device.blocks_resident(self.shape.threads, registers), 1024 // self.shape.threads)

    def registers(self) -> int:
        """Registers that a thread needs."""
        return self.held_registers() + registers_beside(self.kernel, self.shape.vector)

    def held_registers(self) -> int:
        """Those of them that hold its part of a row."""
        return int(kept_words(self.kernel) * self.shape.chunks * self.shape.vector)

    def _declare_scratch(self) -> None:
        page, shape = self.page, self.shape
        offset = 0
        if self.shared:
            page.line("extern __shared__ __align__(16) char shared[];")
        for row, (dtype, length) in self.kernel.scratch.items():
            kind = stored_type(dtype)
            if shape.chunks:
                vector = Pass([], self.loop, shape.vector, self.names).held_type(dtype)
                page.line(f"{vector} {row}[{shape.chunks}];")
            elif self.in_memory:
                page.line(f"{kind} *{row} = {self.names.of(f'{row}_all')} + ({self.names.index})row * {length};")
            else:
                mine = f" + threadIdx.x / {shape.lanes} * {length}" if shape.rows > 1 else ""
                page.line(f"{kind} *{row} = ({kind} *)(shared + {offset}){mine};")
                offset += self._row_bytes(dtype, length)

    def _resident(self, stage: Stage) -> None:
        """A pass over what the threads hold; what it loads, later passes find there."""
        page, shape = self.page, self.shape
        work = self.inside(stage)
        work.kept, work.slot = self.kept, "[k]" if shape.chunks > 1 else "[0]"
        work.in_registers = set(self.kernel.scratch)
        work.where_used = self._same_for_all_rows(stage)
        vectors = work.vectors()
        work.declare(page, shape.chunks)
        if vectors:
            self.open_chunk()
            work.load(page)
            self.close_chunk()
        self.open_chunk()
        self.computed(work, stage)
        self.close_chunk()
        for load in vectors:
            self.kept[access(load)] = work.held_in(load)

    def computed(self, work: Pass, stage: Stage) -> None:
        """Compute the elements of a step."""
        work.compute(self.page)

    def _same_for_all_rows(self, stage: Stage) -> set[Access]:
        """Loads that every row repeats (weights): they hit the cache and are loaded where they are used."""
        return {access(s) for s in stage.inside if isinstance(s, Load) and same_for_all_rows(s, self.kernel)}

    def open_chunk(self) -> None:
        """Begin a loop over the vectors that a thread holds."""
        page, shape = self.page, self.shape
        if shape.chunks > 1:
            page.unrolled("k", shape.chunks)
        else:
            page.open()
        page.line(f"const int at = lane{f' + k * {shape.lanes}' if shape.chunks > 1 else ''};")
        if shape.chunks * shape.lanes != self.vectors:
            page.open(f"if (at < {self.vectors})")
        unravel(page, "at", self.kernel.inner, self.names, shape.vector)

    def close_chunk(self) -> None:
        """End it."""
        if self.shape.chunks * self.shape.lanes != self.vectors:
            self.page.close()
        self.page.close()

    def _read_again(self, stage: Stage) -> None:
        page, work = self.page, self.inside(stage)
        page.line("#pragma unroll 4")
        page.open(f"for ({self.names.index} at = lane; at < {self.vectors}; at += {self.shape.lanes})")
        unravel(page, "at", self.kernel.inner, self.names, self.shape.vector)
        work.load(page)
        work.compute(page)
        page.close()


class _SplitRows(RowsText):
    """Blocks share a row: one launch per pass, and one after each that combines its reductions."""

    def __init__(self, kernel: LoopKernel, shape: Rows, why: str) -> None:
        super().__init__(kernel, shape, why)
        reductions = [reduction for stage in kernel.stages for reduction in reductions_in(stage.inside)]
        for reduction in reductions:
            kind = state_type(reduction)
            self.names.workspace |= {reduction.partials_name: kind, reduction.result_name: kind}
        self.space = {t.partials_name: self.count * shape.splits * state_bytes(t) for t in reductions}
        self.space |= {t.result_name: self.count * state_bytes(t) for t in reductions}
        self.copies = copies_of(kernel)
        declare(self.copies, self.names)
        self.space |= bytes_of(self.copies, self.count)
        self.stages = kernel.stages
        self.launches: list[Launch] = []

    def work(self) -> LaunchList:
        for number, stage in enumerate(self.kernel.stages):
            last = number == len(self.kernel.stages) - 1
            reductions = reductions_in(stage.inside)
            if last and not reductions:
                self.stages = reading(self.stages, self.copies)
            self._pass(number, reductions, last and not reductions)
            if reductions:
                self._final_reduction(number, reductions, last)
        used = {name for launch in self.launches for name in launch.buffers}
        return LaunchList(tuple(self.launches), {name: size for name, size in self.space.items() if name in used})

    def _result(self, reduction: Accumulate) -> str:
        """The temporary that has rows' reductions."""
        return self.names.of(reduction.result_name)

    def _known(self, number: int) -> None:
        """The numbers of a row that stages before this one have made."""
        for stage in self.stages[:number]:
            self.scalars(stage.before)
            for reduction in reductions_in(stage.inside):
                self.page.line(f"const {state_type(reduction)} {reduction.name}_ = {self._result(reduction)}[row];")
            self.finish(reductions_in(stage.inside))

    def _pass(self, number: int, reductions: Sequence[Accumulate], finishes: bool) -> None:
        page, shape, stage = CudaPage(), self.shape, self.stages[number]
        self.page = page
        self.begin(f"blockIdx.x / {shape.splits}")
        page.line(f"const int split = blockIdx.x % {shape.splits};")
        if number == 0 and self.copies:
            page.open("if (split == 0)")
            self.store(copying(self.copies))
            page.close()
        self._known(number)
        self.scalars(stage.before)
        self.declare_states(reductions)
        length = -(-self.vectors // shape.splits)
        index = self.names.index
        page.line(f"const {index} first = ({index})split * {length};")
        page.line(f"const {index} last = first + {length} < {self.vectors} ? first + {length} : {self.vectors};")
        page.line("#pragma unroll 4")
        page.open(f"for ({index} at = first + lane; at < last; at += {shape.lanes})")
        unravel(page, "at", self.kernel.inner, self.names, shape.vector)
        work = self.inside(stage)
        work.load(page)
        work.compute(page)
        page.close()
        self.put_together(reductions)
        for reduction in reductions:
            part = f"{self.names.of(reduction.partials_name)}[row * {shape.splits} + split]"
            page.line(f"if (lane == 0) {part} = {reduction.name}_;")
        if finishes:
            page.open("if (split == 0)")
            self.after()
            page.close()
        self.launches.append(self.names.launch(page, self.count * shape.splits, shape.lanes, why=self.why))

    def _final_reduction(self, number: int, reductions: Sequence[Accumulate], last: bool) -> None:
        page, shape = CudaPage(), self.shape
        self.page = page
        self.begin("blockIdx.x")
        self._known(number)
        self.scalars(self.kernel.stages[number].before)
        self.declare_states(reductions)
        page.open(f"for (int part = lane; part < {shape.splits}; part += {shape.lanes})")
        for reduction in reductions:
            part = f"{self.names.of(reduction.partials_name)}[row * {shape.splits} + part]"
            text = f"wg_{reduction.kind}()({reduction.name}_, {part})"
            page.line(f"{reduction.name}_ = {text};")
        page.close()
        self.put_together(reductions)
        if last:
            self.finish(reductions)
            self.after()
        else:
            for reduction in reductions:
                page.line(f"if (lane == 0) {self._result(reduction)}[row] = {reduction.name}_;")
        self.launches.append(self.names.launch(page, self.count, shape.lanes, why="final reduction"))
