"""Columns: the reduced axes are not last in memory, and neighbouring threads process separate rows.

A thread has a few adjacent rows (columns, as seen from memory) and strides down them by `down`; the partial results of
threads below one another are combined in shared memory, by halves. Where there are too few columns to fill the device,
blocks share them: each pass is a launch that writes partial sums to memory. If these are few, every block of the next
pass adds them itself, all in the same order; otherwise a separate launch adds them. Consecutive passes run in opposite
directions, because what was read last is still in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from wengert.kernels.cuda.rows import bytes_of, copies_of, copying, declare, reading
from wengert.kernels.cuda.shapes import STATES, Columns
from wengert.kernels.cuda.source import (
    CudaPage,
    Names,
    Pass,
    base_name,
    result_type,
    start,
    state_bytes,
    state_type,
    unravel,
)
from wengert.kernels.ir.index import Loop
from wengert.kernels.ir.loops import Accumulate, Load, LoopKernel, Stage, Statement
from wengert.kernels.ir.transforms import definitions, reductions_in
from wengert.kernels.launch import Launch, LaunchList
from wengert.kernels.writer import scalar_type

PARTS_TO_READ = 96 << 10  # bytes of partial reductions that a block reads in about the time of a launch


def columns(kernel: LoopKernel, shape: Columns, why: str) -> LaunchList:
    """The launches of a kernel whose rows are not contiguous."""
    return ColumnsText(kernel, shape, why).work()


class ColumnsText:
    """The text of a kernel over columns, launch by launch."""

    def __init__(self, kernel: LoopKernel, shape: Columns, why: str) -> None:
        self.kernel, self.shape, self.why = kernel, shape, why
        self.loop = kernel.outer[-1] if kernel.outer else Loop("none", 1)
        self.count = math.prod(loop.extent for loop in kernel.outer)
        self.vectors = self.loop.extent // shape.vector
        self.lines = -(-self.vectors // shape.across)  # adjacent blocks
        self.others = self.count // self.loop.extent
        self.steps = math.prod(loop.extent for loop in kernel.inner)
        self.names = Names(kernel)
        self.per_lane: dict[str, str] = {}
        self.page = CudaPage()
        self.ragged = self.vectors % shape.across != 0
        reductions = [reduction for stage in kernel.stages for reduction in reductions_in(stage.inside)]
        for reduction in reductions:
            kind = state_type(reduction)
            self.names.workspace |= {reduction.partials_name: kind, reduction.result_name: kind}
        self.space = {t.partials_name: self.count * shape.splits * state_bytes(t) for t in reductions}
        self.space |= {t.result_name: self.count * state_bytes(t) for t in reductions}
        self.copies = copies_of(kernel) if shape.splits > 1 else {}
        declare(self.copies, self.names)
        self.space |= bytes_of(self.copies, self.count)
        self.stages = kernel.stages
        self.launches: list[Launch] = []

    def work(self) -> LaunchList:
        if self.shape.splits == 1:
            self._whole()
        else:
            self._split()
        used = {name for launch in self.launches for name in launch.buffers}
        return LaunchList(tuple(self.launches), {name: size for name, size in self.space.items() if name in used})

    # --- one launch -----------------------------------------------------------------------------------------------

    def _whole(self) -> None:
        self._begin()
        for number, stage in enumerate(self.kernel.stages):
            reductions = reductions_in(stage.inside)
            self._scalars(stage.before)
            self._declare_states(reductions)
            self._steps(number, stage, "0", str(self.steps))
            self._put_together(reductions)
            self._finish(reductions)
        self._after()
        self.launch(self.lines * self.others, self.why)

    def launch(self, grid: int, why: str) -> None:
        """Add the launch of the page's text."""
        threads, resident = self.shape.threads, self.shape.resident
        self.launches.append(self.names.launch(self.page, grid, threads, why=why, resident=resident))

    # --- a launch for every pass ------------------------------------------------------------------------------------

    def _split(self) -> None:
        for number, stage in enumerate(self.kernel.stages):
            last = number == len(self.kernel.stages) - 1
            reductions = reductions_in(stage.inside)
            if last and not reductions:
                self.stages = reading(self.stages, self.copies)
            self._pass(number, reductions, last and not reductions)
            if reductions and (last or not self._adds_up(reductions)):
                self._put_parts_together(number, reductions, last)

    def _adds_up(self, reductions: Sequence[Accumulate]) -> bool:
        """Whether reading a block's partial sums costs less than launching a kernel to add them."""
        columns = self.shape.across * self.shape.vector
        return self.shape.splits * columns * sum(map(state_bytes, reductions)) <= PARTS_TO_READ

    def _put_parts_together(self, number: int, reductions: Sequence[Accumulate], last: bool) -> None:
        """The launch after a pass: few columns per block and many threads for each, because there are many parts."""
        shape = Columns(self.shape.vector, min(self.shape.across, 2), 128, self.shape.splits)
        writer = ColumnsText(self.kernel, shape, "final reduction")
        writer._final_reduction(number, reductions, last)
        self.launches += writer.launches

    def _known(self, number: int) -> None:
        """The numbers of the columns that stages before this one have made."""
        for stage in self.stages[:number]:
            self._scalars(stage.before)
            reductions = reductions_in(stage.inside)
            if self._adds_up(reductions):
                self._add_up_parts(reductions)
            else:
                self._declare_states(reductions, "column")
            self._finish(reductions)

    def _pass(self, number: int, reductions: Sequence[Accumulate], finishes: bool) -> None:
        shape, index, stage = self.shape, self.names.index, self.stages[number]
        self._begin(split=True)
        if number == 0 and self.copies:
            self.page.open("if (split == 0)")
            self._store_rows(copying(self.copies))
            self.page.close()
        self._known(number)
        self._scalars(stage.before)
        self._declare_states(reductions)
        length = -(-self.steps // shape.splits)
        self.page.line(f"const {index} first = ({index})split * {length};")
        self.page.line(f"const {index} last = first + {length} < {self.steps} ? first + {length} : {self.steps};")
        self._steps(number, stage, "first", "last")
        self._put_together(reductions)
        if reductions:
            self._store_states({t.name: t.partials_name for t in reductions}, f"split * {self.count} + column")
        if finishes:
            self.page.open("if (split == 0)")
            self._after()
            self.page.close()
        self.launch(self.lines * self.others * shape.splits, self.why)

    def _final_reduction(self, number: int, reductions: Sequence[Accumulate], last: bool) -> None:
        self._begin()
        self._known(number)
        self._scalars(self.kernel.stages[number].before)
        self._add_up_parts(reductions)
        if last:
            self._finish(reductions)
            self._after()
        else:
            self._store_states({t.name: t.result_name for t in reductions}, "column")
        self.launch(self.lines * self.others, self.why)

    def _add_up_parts(self, reductions: Sequence[Accumulate]) -> None:
        """Combine the partial reductions of all blocks, in order."""
        page, shape = self.page, self.shape
        self._declare_states(reductions)
        page.open(f"for (int part = down; part < {shape.splits}; part += {shape.down})")
        for reduction in reductions:
            part = f"wg_load<{shape.vector}>(&{self.names.of(reduction.partials_name)}[part * {self.count} + column])"
            page.line(f"const wg_vector<{state_type(reduction)}, {shape.vector}> {reduction.name}_p = {part};")
        page.unrolled("j", shape.vector)
        for reduction in reductions:
            name = reduction.name
            page.line(f"{name}_s[j] = wg_{reduction.kind}()({name}_s[j], {name}_p.at[j]);")
        page.close()
        page.close()
        self._put_together(reductions)

    def _store_states(self, temporaries: Mapping[str, str], at: str) -> None:
        """Leave what reductions have come to, each in its temporary."""
        page = self.page
        page.open(f"if (down == 0{' && alive' if self.ragged else ''})")
        page.unrolled("j", self.shape.vector)
        for reduction, temporary in temporaries.items():
            page.line(f"{self.names.of(temporary)}[{at} + j] = {reduction}_s[j];")
        page.close()
        page.close()

    # --- parts of the text ------------------------------------------------------------------------------------------

    def _begin(self, split: bool = False) -> CudaPage:
        """Compute a thread's columns; one past the end computes the last columns and stores nothing."""
        shape, index = self.shape, self.names.index
        self.page = page = CudaPage()
        self.per_lane = {}
        page.line(f"const int down = threadIdx.x / {shape.across};")
        block = self.block(page)
        if split:
            page.line(f"const int split = {block} % {shape.splits};")
            block = f"({block} / {shape.splits})"
        side = f"threadIdx.x % {shape.across}"
        if self.lines > 1:
            side = f"{block} % {self.lines} * {shape.across} + {side}"
        if self.ragged:
            page.line(f"const int wanted = {side};")
            page.line(f"const bool alive = wanted < {self.vectors};")
            side = f"(alive ? wanted : {self.vectors - 1})"
        name = base_name(self.loop, shape.vector)
        page.line(f"const {index} {name} = ({index})({side}) * {shape.vector};")
        if self.others > 1:
            page.line(f"const {index} other = {block} / {self.lines};")
            unravel(page, "other", self.kernel.outer[:-1], self.names)
        other = f"other * {self.loop.extent} + " if self.others > 1 else ""
        page.line(f"const {index} column = {other}{name};")
        return page

    def block(self, page: CudaPage) -> str:
        """The number of a block."""
        return "blockIdx.x"

    def _scalars(self, statements: Sequence[Statement], stores: bool = False) -> None:
        """Numbers that a column has one of; kept for each of a thread's columns."""
        made = list(definitions(statements).values())
        if not statements:
            return
        if not stores:
            for s in made:
                self.page.line(f"{scalar_type(s.dtype)} {s.name}_[{self.shape.vector}];")
        work = self._pass_over([*statements])
        self.page.open()
        work.load(self.page)
        work.compute(self.page, None if stores else lambda at: [f"{s.name}_[{at}] = {s.name};" for s in made])
        self.page.close()
        if not stores:
            self.per_lane |= {s.name: scalar_type(s.dtype) for s in made}

    def _pass_over(self, statements: list[Statement]) -> Pass:
        work = Pass(statements, self.loop, self.shape.vector, self.names)
        work.per_lane = self.per_lane
        work.stores_if = "alive" if self.ragged else ""
        return work

    def _declare_states(self, reductions: Sequence[Accumulate], at: str = "") -> None:
        """A thread's accumulators, initialised or continued from the reductions of an earlier launch."""
        page, vector = self.page, self.shape.vector
        for reduction in reductions:
            page.line(f"{state_type(reduction)} {reduction.name}_s[{vector}];")
        if reductions:
            page.unrolled("j", vector)
            for reduction in reductions:
                value = f"{self.names.of(reduction.result_name)}[{at} + j]" if at else start(reduction)
                page.line(f"{reduction.name}_s[j] = {value};")
            page.close()

    def _steps(self, number: int, stage: Stage, first: str, last: str) -> None:
        """A pass over a thread's steps, alternately forwards and backwards."""
        page, index, down = self.page, self.names.index, self.shape.down
        work = self._pass_over(stage.inside)
        j = "j" if self.shape.vector > 1 else "0"
        work.states = {reduction.name: f"{reduction.name}_s[{j}]" for reduction in reductions_in(stage.inside)}
        loads = sum(isinstance(s, Load) for s in stage.inside)
        page.line(f"#pragma unroll {8 if loads == 1 else 4}")  # so that several are on their way
        step, run = "step" if number % 2 or self.shape.run else "at", self.shape.run or 1
        mine = f"down * {run}" if run > 1 else "down"
        page.open(f"for ({index} {step} = {first} + {mine}; {step} < {last}; {step} += {down * run})")
        if self.shape.run:
            page.unrolled("u", run)
            page.line(f"const {index} at = step + u;")
        elif number % 2:  # not a descending loop: the compiler would not batch the loads of several steps
            page.line(f"const {index} at = {last} - 1 - (step - {first});")
        unravel(page, "at", self.kernel.inner, self.names)
        work.load(page)
        work.compute(page)
        page.close()
        if self.shape.run:
            page.close()

    def _put_together(self, reductions: Sequence[Accumulate]) -> None:
        """Combine reductions over the threads below one another, as many at a time as fit in shared memory."""
        page, shape = self.page, self.shape
        if shape.down == 1 or not reductions:
            return
        room = STATES // sum(bool(reductions_in(stage.inside)) for stage in self.stages)
        places: dict[str, list[str]] = {}  # by C type: arrays that the next ones use again
        for number, some in enumerate(_together(reductions, room // (shape.vector * shape.threads))):
            kind = state_type(some[0])
            if number:
                page.line("__syncthreads();")
            known = places.setdefault(kind, [])
            for reduction in some[len(known) :]:
                known.append(f"{reduction.name}_parts")
                page.line(f"__shared__ {kind} {known[-1]}[{shape.vector}][{shape.threads}];")
            self._put_some_together(dict(zip(some, known)))

    def _put_some_together(self, places: Mapping[Accumulate, str]) -> None:
        page, shape = self.page, self.shape
        page.unrolled("j", shape.vector)
        for reduction, parts in places.items():
            page.line(f"{parts}[j][threadIdx.x] = {reduction.name}_s[j];")
        page.close()
        page.line("__syncthreads();")
        for condition, half in _in_order(shape.down) if shape.run else _by_halves(shape.down):
            page.open(f"if ({condition})")
            page.unrolled("j", shape.vector)
            for reduction, parts in places.items():
                mine, part = (f"{parts}[j][threadIdx.x{more}]" for more in ("", f" + {half * shape.across}"))
                page.line(f"{mine} = {reduction.name}_s[j] = wg_{reduction.kind}()({reduction.name}_s[j], {part});")
            page.close()
            page.close()
            page.line("__syncthreads();")
        page.unrolled("j", shape.vector)
        for reduction, parts in places.items():
            page.line(f"{reduction.name}_s[j] = {parts}[j][threadIdx.x % {shape.across}];")
        page.close()

    def _finish(self, reductions: Sequence[Accumulate]) -> None:
        page, vector = self.page, self.shape.vector
        if not reductions:
            return
        for reduction in reductions:
            page.line(f"{result_type(reduction)} {reduction.name}_[{vector}];")
            self.per_lane[reduction.name] = result_type(reduction)
        page.unrolled("j", vector)
        for reduction in reductions:
            at = ".at" if reduction.kind in ("argmax", "argmin") else ""
            page.line(f"{reduction.name}_[j] = {reduction.name}_s[j]{at};")
        page.close()

    def _after(self) -> None:
        """The final stores of a column, once all of its threads have read what they overwrite."""
        if self.shape.threads > 32 and copies_of(self.kernel):
            self.page.line("__syncthreads();")
        if self.kernel.after:
            self._store_rows(self.kernel.after)

    def _store_rows(self, statements: Sequence[Statement]) -> None:
        """The stores of one thread of a column."""
        self.page.open(f"if (down == 0{' && alive' if self.ragged else ''})")
        self._scalars(statements, stores=True)
        self.page.close()


def _together(reductions: Sequence[Accumulate], room: int) -> Iterator[list[Accumulate]]:
    """Reductions of one C type, as many at a time as `room` bytes an element allow, in order."""
    kinds: dict[str, list[Accumulate]] = {}
    for reduction in reductions:
        kinds.setdefault(state_type(reduction), []).append(reduction)
    for some in kinds.values():
        count = max(1, room // state_bytes(some[0]))
        yield from (some[i : i + count] for i in range(0, len(some), count))


def _by_halves(count: int) -> Iterator[tuple[str, int]]:
    """Tree combination: at each step a thread adds the value of one a fixed distance below."""
    while count > 1:
        half = -(-count // 2)
        yield f"down < {count - half}", half
        count = half


def _in_order(count: int) -> Iterator[tuple[str, int]]:
    """The same in the order used for threads that share a row: within warps, then over warps."""
    mask = 0
    for size, least in ((min(count, 32), 1), (count, 32)):
        half = size // 2
        while half >= least:
            mask |= half
            yield f"(down & {mask}) == 0", half
            half //= 2
