"""Column partials: a row kernel that also sums its columns, as in a norm's backward pass.

In: a kernel over rows, and kernels over the columns of what it reads or makes: the gradients of the norm's weight and
bias. Out: one launch that reads the data once. Every block processes some of the rows in sequence and accumulates their
elements in shared memory, where each thread has its own slots. It writes partial sums, which final reductions add in a
fixed order. While a block computes one row, it prefetches the next row and its row scalars. (Prefetching those scalars
too, with barriers among the threads of a row only, brings the backward pass of GPT-2's norms, 16384 rows of 768, from
61 us to 55 on an H200.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wengert.kernels.cuda.multi_tensor import final_reduction
from wengert.kernels.cuda.rewrites import with_reciprocals
from wengert.kernels.cuda.rows import WholeRows
from wengert.kernels.cuda.shapes import Rows, registers_beside, same_for_all_rows
from wengert.kernels.cuda.source import Pass, accumulated, start, state_bytes, state_type
from wengert.kernels.ir.intrinsics import COPY
from wengert.kernels.ir.loops import (
    Access,
    Accumulate,
    Load,
    LoopKernel,
    Stage,
    Statement,
    Store,
    Value,
    access,
    is_vector,
    let,
)
from wengert.kernels.ir.transforms import (
    Fresh,
    definitions,
    indices_of,
    merge_loops,
    number_of,
    reductions_in,
    renamed,
    statements_of,
    uses,
)
from wengert.kernels.launch import DeviceProperties, LaunchList
from wengert.kernels.writer import stored_type

MOST = 4  # reductions that one kernel takes


# --- from kernels to one ----------------------------------------------------------------------------------------------


def takes_in(rows: LoopKernel, columns: LoopKernel) -> bool:
    """Whether a row kernel has everything that a column kernel sums."""
    if columns.outer != rows.inner or columns.inner != rows.outer or not (rows.inner and rows.outer):
        return False
    if rows.scratch or columns.scratch or len(columns.stages) != 1:
        return False
    statements = _added_up(columns)
    if any(isinstance(s, Store) or (isinstance(s, Accumulate) and s.position is not None) for s in statements):
        return False
    return all(_source(load, rows) is not None for load in statements if isinstance(load, Load))


def _added_up(columns: LoopKernel) -> list[Statement]:
    """The statements that compute the elements that a column kernel sums."""
    return [*columns.stages[0].before, *columns.stages[0].inside]


def _source(load: Load, rows: LoopKernel) -> Load | Store | None:
    """The statement that defines a row kernel's element: a store or a load; only a load if rows share it."""
    if not load.index.loops() & set(rows.outer):
        return None if load.buffer in _stored(rows) else load
    place = (load.buffer, load.index)
    for statement in statements_of(rows):
        if isinstance(statement, Store) and (statement.buffer, statement.index) == place:
            return statement if statement.value in _known(rows) and not load.guards else None
    if load.buffer in _stored(rows):
        return None
    loads = [s for stage in rows.stages for s in (*stage.before, *stage.inside) if isinstance(s, Load)]
    return next((s for s in loads if (*place, load.guards) == (s.buffer, s.index, s.guards)), None)


def _stored(kernel: LoopKernel) -> set[str]:
    return {s.buffer for s in statements_of(kernel) if isinstance(s, Store)}


def _known(rows: LoopKernel, of_the_row: bool = False) -> set[str]:
    """The values that the last pass over a row has: the numbers of the row, earlier reductions, and its elements."""
    made = [s for stage in rows.stages for s in stage.before]
    made += [] if of_the_row else rows.stages[-1].inside
    reductions = [reduction.name for stage in rows.stages[:-1] for reduction in reductions_in(stage.inside)]
    return definitions(made).keys() | set(reductions)


def with_names_of_its_own(columns: LoopKernel, others: Sequence[LoopKernel]) -> LoopKernel:
    """A column kernel, with names that other kernels do not use."""
    base = Fresh(s for kernel in others for s in statements_of(kernel)).next

    def change(statement: Statement) -> Statement:
        return renamed(statement, lambda name: f"{name[0]}{number_of(name) + base}")

    stages = [Stage(list(map(change, stage.before)), list(map(change, stage.inside))) for stage in columns.stages]
    return replace(columns, stages=stages, after=list(map(change, columns.after)))


def taken_in(rows: LoopKernel, columns: LoopKernel) -> LoopKernel:
    """A row kernel whose last pass also computes what a column kernel (with unique names) sums."""
    known, numbers = _known(rows), _known(rows, of_the_row=True)
    before: list[Statement] = []
    inside: list[Statement] = []
    for statement in definitions(_added_up(columns)).values():
        found = _source(statement, rows) if isinstance(statement, Load) else None
        source = found.value if isinstance(found, Store) else None if found is statement or not found else found.name
        if found is not None and source in known:
            statement = let(statement.name, found.dtype, COPY, source)
        if _is_of_the_row(statement, rows, numbers):
            numbers.add(statement.name)
            before.append(statement)
        else:
            inside.append(statement)
    *earlier, last = rows.stages
    values = [s for s in last.inside if not isinstance(s, Store)]
    stores = [s for s in last.inside if isinstance(s, Store)]  # after all loads: a store may overwrite an input
    stages = [*earlier, Stage([*last.before, *before], [*values, *inside, *stores])]
    loaded = {s.buffer for s in inside if isinstance(s, Load)}
    more = {name: kind for name, kind in columns.buffers.items() if name in loaded - rows.buffers.keys()}
    return replace(rows, stages=stages, buffers={**rows.buffers, **more})


def _is_of_the_row(statement: Value, rows: LoopKernel, numbers: set[str]) -> bool:
    """Whether a value is constant along a row."""
    if any(index.loops() & set(rows.inner) for index in indices_of(statement)):
        return False
    return numbers.issuperset(uses(statement))


# --- the launches -----------------------------------------------------------------------------------------------------


def column_partials(
    rows: LoopKernel, columns: Sequence[LoopKernel], shape: Rows, device: DeviceProperties, why: str
) -> tuple[LaunchList, list[LoopKernel]] | None:
    """The launch of a row kernel with partial column sums, and their final reductions.

    None if rows do not fit in registers.
    """
    if not shape.chunks or shape.splits > 1:
        return None
    own: list[LoopKernel] = []
    for kernel in columns:
        own.append(with_names_of_its_own(kernel, [rows, *own]))
        rows = taken_in(rows, own[-1])
    reductions = [reduction for kernel in own for reduction in reductions_in(kernel.stages[0].inside)]
    writer = _ColumnPartials(with_reciprocals(merge_loops(rows)), reductions, shape, device, why)
    if len(reductions) > MOST or writer.ragged or not writer.resident:
        return None
    return writer.work(), [final_reduction(kernel, writer.grid) for kernel in own]


class _ColumnPartials(WholeRows):
    def __init__(
        self, kernel: LoopKernel, reductions: Sequence[Accumulate], shape: Rows, device: DeviceProperties, why: str
    ) -> None:
        super().__init__(kernel, shape, device, why)
        self.columns = reductions
        self.fetched = self._loads()
        self.ahead = self._numbers()
        held = sum(load.dtype.itemsize for load in self.fetched) + sum(map(state_bytes, reductions))
        self.places = self._held * held  # bytes of shared memory
        fitting = min(device.shared_per_sm // (self.places + 2048), max(self.resident_blocks(), 1))
        self.resident = fitting if self.places <= device.shared_per_block - 1024 else 0
        self.turns = self.count // shape.rows  # of one block that had to do it all
        self.grid = min(self.turns, device.sms * self.resident)
        self.names.workspace = {reduction.partials_name: state_type(reduction) for reduction in reductions}

    def registers(self) -> int:
        """Registers per thread: what it accumulates is widened to float32."""
        return self.held_registers() + registers_beside(self.kernel, self.shape.vector, least=4)

    @property
    def _held(self) -> int:
        """Elements of its rows that a block holds at a time."""
        return self.shape.threads * self.shape.chunks * self.shape.vector

    @property
    def _at(self) -> str:
        """Where in a thread's places the step is."""
        return f"k * {self.shape.threads}" if self.shape.chunks > 1 else "0"

    def _loads(self) -> list[Load]:
        """The vector loads of rows, each once; they are prefetched during the previous row."""
        loads = [s for stage in self.kernel.stages for s in stage.inside if isinstance(s, Load)]
        own = {access(s): s for s in loads if not same_for_all_rows(s, self.kernel) and not s.guards}
        return [s for s in own.values() if is_vector(s, self.loop, self.shape.vector)]

    def _numbers(self) -> dict[Access, Load]:
        """The row scalars, each once; they are loaded during the previous row."""
        loads = [s for stage in self.kernel.stages for s in stage.before if isinstance(s, Load) and not s.guards]
        return {access(s): s for s in loads if s.index.loops() & set(self.kernel.outer)}

    def _kind(self, reduction: Accumulate) -> str:
        return f"wg_vector<{state_type(reduction)}, {self.shape.vector}>"

    def work(self) -> LaunchList:
        page, shape = self.page, self.shape
        self._declare()
        index = self.names.index
        several = f" * {shape.rows} + threadIdx.x / {shape.lanes}" if shape.rows > 1 else ""
        self._fetch(f"({index})blockIdx.x{several}")
        page.open(f"for ({index} turn = blockIdx.x; turn < {self.turns}; turn += {self.grid})")
        self.begin(f"turn{several}")
        self._take()
        page.line(f"const {index} next = turn + {self.grid};")
        page.line(f"if (next < {self.turns})")
        self._fetch(f"next{several}")
        self.passes()
        page.close()
        self._leave_parts()
        length = self.vectors * shape.vector
        space = {reduction.partials_name: self.grid * length * state_bytes(reduction) for reduction in self.columns}
        why = f"{self.why}, {self.grid} blocks that add up columns"
        return LaunchList((self.names.launch(page, self.grid, shape.threads, self.places, why, self.resident),), space)

    def _declare(self) -> None:
        """Places in shared memory for what a thread adds up."""
        page, offset = self.page, 0
        page.line("extern __shared__ __align__(16) char shared[];")
        for reduction in self.columns:
            kind = self._kind(reduction)
            page.line(f"{kind} *const {reduction.name}_c = ({kind} *)(shared + {offset}) + threadIdx.x;")
            offset += self._held * state_bytes(reduction)
        work = Pass(list(self.fetched), self.loop, self.shape.vector, self.names)
        for load in self.fetched:
            kind = work.held_type(load.dtype)
            page.line(f"{kind} *const {work.held_in(load)}_next = ({kind} *)(shared + {offset}) + threadIdx.x;")
            offset += self._held * load.dtype.itemsize
        for number, load in enumerate(self.ahead.values()):
            page.line(f"{stored_type(load.dtype)} ahead{number};")
        if self.shape.lanes > 32:
            page.line("int half = 0;  // of the places for parts of totals: the other's may still be read")
        page.unrolled("k", self.shape.chunks)
        for reduction in self.columns:
            page.unrolled("j", self.shape.vector)
            page.line(f"{reduction.name}_c[k * {self.shape.threads}].at[j] = {start(reduction)};")
            page.close()
        page.close()

    def _fetch(self, row: str) -> None:
        """Begin to copy the elements of a row into shared memory, each thread what it will work on."""
        self.page.open()
        self.begin(row)
        for number, load in enumerate(self.ahead.values()):
            self.page.line(f"ahead{number} = {self.names.of(load.buffer)}[{load.index}];")
        self.open_chunk()
        work = Pass(list(self.fetched), self.loop, self.shape.vector, self.names)
        for load in self.fetched:
            self.page.line(f"wg_fetch(&{work.held_in(load)}_next[{self._at}], {work.address(load)});")
        self.close_chunk()
        self.page.close()

    def _take(self) -> None:
        """Move prefetched data to registers, which frees its slots for the next row."""
        work = Pass(list(self.fetched), self.loop, self.shape.vector, self.names)
        for number, (key, load) in enumerate(self.ahead.items()):
            self.page.line(f"const {stored_type(load.dtype)} number{number} = ahead{number};")
            self.numbers[key] = f"number{number}"
        if self.shape.lanes > 32:
            self.page.line("half ^= 1;")
        self.page.line("wg_fetched();")
        work.declare(self.page, self.shape.chunks)
        self.open_chunk()
        for load in self.fetched:
            held, step = work.held_in(load), "k" if self.shape.chunks > 1 else "0"
            self.page.line(f"{held}[{step}] = {held}_next[{self._at}];")
            self.kept[access(load)] = held
        self.close_chunk()

    def declare_parts(self, reduction: Accumulate) -> None:
        """Two rows of places: a warp may be at the next row while others still read this one's."""
        kind, name, warps = state_type(reduction), f"{reduction.name}_parts", self.shape.threads // 32
        self.page.line(f"__shared__ {kind} {name}_both[2][{warps}];")
        self.page.line(f"{kind} *const {name} = {name}_both[half];")

    def computed(self, work: Pass, stage: Stage) -> None:
        """The elements of a step; those of the last pass are added up."""
        if stage is not self.kernel.stages[-1]:
            super().computed(work, stage)
            return
        page, at = self.page, f"[{self._at}]"
        for reduction in self.columns:
            page.line(f"{self._kind(reduction)} {reduction.name}_v = {reduction.name}_c{at};")

        def added(element: str) -> list[str]:
            held = [(reduction, f"{reduction.name}_v.at[{element}]") for reduction in self.columns]
            return [f"{state} = wg_{reduction.kind}()({state}, {accumulated(reduction)});" for reduction, state in held]

        work.compute(page, added)
        for reduction in self.columns:
            page.line(f"{reduction.name}_c{at} = {reduction.name}_v;")

    def _leave_parts(self) -> None:
        """The reductions of a block's rows: those of its lines of threads, one after another."""
        page, shape = self.page, self.shape
        if shape.rows > 1:
            page.line("__syncthreads();")
            page.line(f"if (threadIdx.x >= {shape.lanes}) return;")
        page.unrolled("k", shape.chunks)
        page.line(f"const int at = threadIdx.x + k * {shape.lanes};")
        if shape.chunks * shape.lanes != self.vectors:
            page.line(f"if (at >= {self.vectors}) break;")
        for reduction in self.columns:
            name = reduction.name
            page.line(f"{self._kind(reduction)} {name}_v = {name}_c[k * {shape.threads}];")
            if shape.rows > 1:
                page.open(f"for (int line = 1; line < {shape.rows}; line++)")
                page.unrolled("j", shape.vector)
                other = f"{name}_c[k * {shape.threads} + line * {shape.lanes}].at[j]"
                page.line(f"{name}_v.at[j] = wg_{reduction.kind}()({name}_v.at[j], {other});")
                page.close()
                page.close()
            vectors = f"(({self._kind(reduction)} *){self.names.of(reduction.partials_name)})"
            page.line(f"{vectors}[({self.names.index})blockIdx.x * {self.vectors} + at] = {name}_v;")
        page.close()
