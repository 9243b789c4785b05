"""Many small kernels of equal text as one launch: for example the updates of all parameters of a model.

Each kernel is a segment. A block processes one piece of one segment: it finds the segment by binary search over the
number of blocks before each, and its buffers in a table of addresses that is passed to the launch by value.

Short transposes, (..., channels, taps) to (..., taps, channels) with few taps, have a separate text; the weights of
channels-last convolutions need them. A block reads ROWS of taps into shared memory by whole vectors, and each of its
warps then writes one tap of all of them, two adjacent channels per thread. (With an odd number of taps, such as 9, a
warp's reads from shared memory hit different banks.)

A final reduction is what remains of a column kernel when another kernel has written partial sums of the columns: again
a column kernel, whose rows are the partial sums. It takes a few microseconds, mostly launch time, so those of a model's
equal layers share one launch when the last of them is ready.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from wengert.kernels.cuda.columns import ColumnsText
from wengert.kernels.cuda.shapes import Columns, accesses, vector_width
from wengert.kernels.cuda.source import CudaPage, Names, Pass, state_dtype
from wengert.kernels.ir.index import ZERO, Index, Loop, flat, substitute, variable
from wengert.kernels.ir.loops import Accumulate, Let, Load, LoopKernel, Position, Stage, Statement, Store, access
from wengert.kernels.ir.transforms import Fresh, definitions, merge_loops, needed, reductions_in, statements_of
from wengert.kernels.launch import DeviceProperties, LaunchList
from wengert.kernels.writer import CUDA, stored_type

ALONG = Loop("i", 1 << 30)  # the loop over a segment, whatever its length
ADDRESSES = 3_000  # in a table: a launch takes up to 32 KB by value
THREADS, STEPS = 256, 2  # a piece is small, so that small segments do not leave threads idle


def multi_tensor_signature(kernel: LoopKernel) -> Hashable | None:
    """What kernels must have in common to share a launch; None for one that cannot."""
    plain = _plain(kernel)
    return None if plain is None else signature_of_plain(plain)


def signature_of_plain(plain: LoopKernel) -> Hashable:
    """The statements of a kernel, whatever its buffers are called."""
    numbers = {buffer: i for i, buffer in enumerate(plain.buffers)}
    renamed = tuple(_renamed(statement, numbers) for statement in statements_of(plain))
    return renamed, tuple(plain.buffers.values())


def write_multi_tensor(kernels: Sequence[LoopKernel], device: DeviceProperties) -> LaunchList:
    """One launch for kernels of one signature (more if their table of buffers would be too long)."""
    segments = [kernel for kernel in map(_plain, kernels) if kernel is not None]
    if len(segments) != len(kernels) or len(set(map(signature_of_plain, segments))) > 1:
        raise ValueError("kernels of different texts cannot be one launch")
    size = max(1, ADDRESSES // max(1, len(segments[0].buffers)))
    sizes = [math.prod(loop.extent for loop in kernel.outer) for kernel in kernels]
    parts = [_MultiTensor(segments[i : i + size], sizes[i : i + size]) for i in range(0, len(segments), size)]
    return LaunchList(tuple(part.work().launches[0] for part in parts))


def _plain(kernel: LoopKernel) -> LoopKernel | None:
    """A kernel without reductions whose loops are one (or none), its loop called as all are; None for others."""
    if kernel.inner or any(isinstance(s, Accumulate) for s in statements_of(kernel)):
        return None
    kernel = merge_loops(kernel)
    if len(kernel.outer) > 1:
        return None
    along = Index(((ALONG, 1),))

    def moved(index: Index) -> Index | None:
        if not kernel.outer:
            return along if index == ZERO else None
        return substitute(index, kernel.outer[0], along)

    def change(statement: Statement) -> Statement | None:
        if isinstance(statement, Load | Let) and statement.guards:
            return None
        if isinstance(statement, Let):
            return statement
        assert not isinstance(statement, Accumulate)
        index = moved(statement.index)
        return None if index is None else replace(statement, index=index)

    changed = [change(statement) for statement in statements_of(kernel)]
    kept = [statement for statement in changed if statement is not None]
    if len(kept) != len(changed):
        return None
    return replace(kernel, outer=[ALONG], stages=[Stage([], kept)], after=[])


def _renamed(statement: Statement, numbers: dict[str, int]) -> Hashable:
    if isinstance(statement, Load | Store):
        return numbers[statement.buffer], replace(statement, buffer="")
    return statement


class Segments:
    """Kernels of one signature as the segments of a launch: which of them a block works on, and its buffers."""

    def __init__(self, segments: Sequence[LoopKernel]) -> None:
        self.segments, self.kernel = segments, segments[0]
        buffers = [list(segment.buffers) for segment in segments]
        self.common = [k for k, names in enumerate(zip(*buffers)) if len(set(names)) == 1]
        self.own = [k for k in range(len(buffers[0])) if k not in self.common]
        self.table = tuple(names[k] for names in buffers for k in self.own)

    def find(self, page: CudaPage, before: Sequence[int]) -> None:
        """Declare `segment`, that of a block; `before` has the number of blocks before each."""
        count = len(self.segments)
        page.line(f"static const int before[] = {{{', '.join(map(str, before))}}};")
        page.line("int segment = 0;")
        page.open(f"for (int step = {1 << max(count - 1, 0).bit_length()}; step > 0; step /= 2)")
        page.line(f"if (segment + step < {count} && before[segment + step] <= (int)blockIdx.x) segment += step;")
        page.close()

    def bind(self, page: CudaPage, names: Names) -> None:
        """Declare the buffers of the segment that a block works on."""
        names.table = self.table
        for number, k in enumerate(self.own):
            buffer, (dtype, written) = list(self.kernel.buffers.items())[k]
            kind = f"{'' if written else 'const '}{stored_type(dtype)} *"
            names.declared.add(buffer)
            at = f"table.at[segment * {len(self.own)} + {number}]"
            page.line(f"{kind}{CUDA.restrict} {names.buffers[buffer]} = ({kind}){at};")


class _MultiTensor(Segments):
    def __init__(self, segments: Sequence[LoopKernel], sizes: Sequence[int]) -> None:
        super().__init__(segments)
        self.sizes = sizes

    def work(self) -> LaunchList:
        kernel, page = self.kernel, CudaPage()
        statements = list(statements_of(kernel))
        vector = min(vector_width(statements, ALONG), 16 // max(s.dtype.itemsize for s in accesses(statements, ALONG)))
        piece = THREADS * STEPS * vector
        before = [0]
        for size in self.sizes:
            before.append(before[-1] + -(-size // piece))
        names = Names(kernel)
        names.index = "int" if max(self.sizes) < (1 << 31) - piece else "long long"
        count = len(self.segments)
        page.line(f"static const {names.index} sizes[] = {{{', '.join(map(str, self.sizes))}}};")
        self.find(page, before[:-1])
        self.bind(page, names)
        page.line(f"const {names.index} size = sizes[segment];")
        page.line(f"const {names.index} first = ({names.index})(blockIdx.x - before[segment]) * {piece};")
        page.unrolled("u", STEPS)
        page.line(f"const {names.index} start = first + (u * {THREADS} + (int)threadIdx.x) * {vector};")
        if vector > 1:
            page.open(f"if (start + {vector} <= size)")
            page.line(f"const {names.index} i_0 = start;")
            self._elements(page, names, statements, vector)
            page.depth -= 1
            page.open("} else")
        page.open(f"for ({names.index} i = start; i < size && i < start + {vector}; i++)")
        self._elements(page, names, statements, 1)
        page.close()
        page.close()
        if vector > 1:
            page.close()
        why = f"{count} kernels of one text, {sum(self.sizes)} elements: {piece} a block"
        return LaunchList((names.launch(page, before[-1], THREADS, why=why),))

    def _elements(self, page: CudaPage, names: Names, statements: Sequence[Statement], vector: int) -> None:
        work = Pass(statements, ALONG, vector, names)
        work.load(page)
        work.compute(page)


# --- multi transpose ------------------------------------------------------------------------------------------------


ROWS = 256  # of taps, to a block
TAPS = 16  # fewer than this; more are worth tiles
EVEN = 8  # channels: a multiple of these, so that vectors of both kinds begin where they may


class _Transpose(NamedTuple):
    """A transposition: its kernel over a loop of any length, its rows of taps, and how many of them are channels."""

    plain: LoopKernel
    rows: int
    channels: int
    taps: int


def transpose_signature(kernel: LoopKernel) -> Hashable | None:
    """What transposes must have in common to share a launch; None for other kernels."""
    transpose = _transpose_of(kernel)
    return None if transpose is None else (signature_of_plain(transpose.plain), transpose.taps)


def write_multi_transpose(kernels: Sequence[LoopKernel], device: DeviceProperties) -> LaunchList:
    """One launch for transpositions of one signature (more where the table of their buffers would be too long)."""
    found = [transpose for transpose in map(_transpose_of, kernels) if transpose is not None]
    if len(found) != len(kernels) or len({(signature_of_plain(t.plain), t.taps) for t in found}) > 1:
        raise ValueError("kernels of different texts cannot be one launch")
    size = ADDRESSES // 2
    parts = [_MultiTranspose(found[i : i + size]) for i in range(0, len(found), size)]
    return LaunchList(tuple(part.work().launches[0] for part in parts))


def _transpose_of(kernel: LoopKernel) -> _Transpose | None:
    """A kernel as a transposition of whole arrays, of one operand and one result; None for any other."""
    if kernel.inner:
        return None
    kernel = merge_loops(kernel)
    if not 2 <= len(kernel.outer) <= 3:
        return None
    *others, taps, channels = kernel.outer
    if channels.extent % EVEN or taps.extent >= TAPS:
        return None
    places = {Load: _dense([*others, channels, taps]), Store: _dense(kernel.outer)}
    moved: list[Statement] = []
    for statement in statements_of(kernel):
        if isinstance(statement, Accumulate | Position) or (not isinstance(statement, Store) and statement.guards):
            return None
        if isinstance(statement, Load | Store):
            if statement.index != places.pop(type(statement), None):
                return None
            statement = replace(statement, index=Index(((ALONG, 1),)))
        moved.append(statement)
    if places:
        return None
    plain = replace(kernel, outer=[ALONG], stages=[Stage([], moved)], after=[])
    rows = math.prod(loop.extent for loop in others) * channels.extent
    return _Transpose(plain, rows, channels.extent, taps.extent) if rows * taps.extent < ALONG.extent else None


def _dense(loops: Sequence[Loop]) -> Index:
    """Where an element of an array lies that has these loops as its axes."""
    steps = [math.prod(inner.extent for inner in loops[k + 1 :]) for k in range(len(loops))]
    return Index(tuple(sorted(zip(loops, steps))))


class _MultiTranspose(Segments):
    def __init__(self, transpose: Sequence[_Transpose]) -> None:
        super().__init__([one.plain for one in transpose])
        self.transpose, self.taps = transpose, transpose[0].taps
        (self.load,) = (s for s in statements_of(self.kernel) if isinstance(s, Load))

    def work(self) -> LaunchList:
        page, names, taps = CudaPage(), Names(self.kernel), self.taps
        names.index = "int"
        before = [0]
        for one in self.transpose:
            before.append(before[-1] + -(-one.rows // ROWS))
        for name, numbers in (
            ("all_rows", [t.rows for t in self.transpose]),
            ("widths", [t.channels for t in self.transpose]),
        ):
            page.line(f"static const int {name}[] = {{{', '.join(map(str, numbers))}}};")
        self.find(page, before[:-1])
        self.bind(page, names)
        page.line(f"__align__(16) __shared__ {stored_type(self.load.dtype)} tile[{ROWS * taps}];")
        page.line("const int rows = all_rows[segment], channels = widths[segment];")
        page.line(f"const int first = ((int)blockIdx.x - before[segment]) * {ROWS};")
        self._bring_in(page, names)
        page.line("__syncthreads();")
        page.line("const int lane = threadIdx.x % 32, tap = threadIdx.x / 32;")
        page.unrolled("u", ROWS // 64)
        page.line("const int within = u * 64 + lane * 2, row = first + within;")
        page.open("if (row < rows)")
        page.line("const int channel = row % channels;")
        page.line(f"const int i_0 = (row - channel) * {taps} + tap * channels + channel;")
        work = Pass(list(statements_of(self.kernel)), ALONG, 2, names)
        work.tiles = {access(self.load): f"tile[(within + j) * {taps} + tap]"}
        work.compute(page)
        page.close()
        page.close()
        count = sum(one.rows for one in self.transpose)
        why = f"{len(self.transpose)} transpositions of one text, {count} rows of {taps}: {ROWS} a block"
        return LaunchList((names.launch(page, before[-1], 32 * taps, why=why),))

    def _bring_in(self, page: CudaPage, names: Names) -> None:
        """Copy the block's rows into shared memory: the threads, 32 for each tap, have 8 elements each."""
        vector = min(EVEN, 16 // self.load.dtype.itemsize)
        page.unrolled("u", EVEN // vector)
        page.line(f"const int at = (u * {32 * self.taps} + (int)threadIdx.x) * {vector};")
        source = f"{names.of(self.load.buffer)}[first * {self.taps} + at]"
        page.open(f"if (at < (rows - first) * {self.taps})")
        page.line(f"wg_store(&tile[at], wg_load<{vector}>(&{source}));")
        page.close()
        page.close()


# --- final reduction ------------------------------------------------------------------------------------------------


_PART = "part"  # the loop of a final reduction over the partial sums


def final_reduction(columns: LoopKernel, parts: int) -> LoopKernel:
    """The kernel that adds partial column sums, with everything that follows."""
    columns = merge_loops(columns)
    reductions = reductions_in(columns.stages[0].inside)
    along = Loop(_PART, parts)
    loops = [along, *columns.outer]
    index = flat([variable(loop) for loop in loops], [loop.extent for loop in loops])
    fresh = Fresh(definitions(statements_of(columns)).values())
    loads = [Load(fresh.name(), reduction.partials_name, state_dtype(reduction), index) for reduction in reductions]
    added = [replace(reduction, value=load.name) for reduction, load in zip(reductions, loads)]
    kernel = needed(replace(columns, inner=[along], stages=[Stage(columns.stages[0].before, [*loads, *added])]))
    used = {s.buffer for s in statements_of(kernel) if isinstance(s, Load | Store)}
    buffers = {name: kind for name, kind in columns.buffers.items() if name in used}
    return replace(kernel, buffers={**buffers, **{load.buffer: (load.dtype, False) for load in loads}})


def final_reduction_shape(kernel: LoopKernel, count: int = 1) -> Columns:
    """Few columns per block and many threads for each, because there are many parts.

    With several final reductions, more columns: there are enough blocks, and longer reads are faster.
    """
    across = 1 << min(count, 4).bit_length()
    return Columns(vector_width([*kernel.stages[0].inside, *kernel.after], kernel.outer[-1]), across, 256 // across)


def final_reduction_signature(kernel: LoopKernel) -> Hashable | None:
    """What final reductions must have in common to share a launch; None for other kernels."""
    loops = (*kernel.outer, *kernel.inner)
    is_final = len(kernel.outer) == 1 and [loop.name for loop in kernel.inner] == [_PART]
    return (loops, signature_of_plain(kernel)) if is_final else None


def write_final_reductions(kernels: Sequence[LoopKernel], device: DeviceProperties) -> LaunchList:
    """One launch for final reductions of one signature (more where the table of their buffers would be too long)."""
    size = max(1, ADDRESSES // len(kernels[0].buffers))
    parts = [_FinalReductions(kernels[i : i + size]) for i in range(0, len(kernels), size)]
    return LaunchList(tuple(part.work().launches[0] for part in parts))


class _FinalReductions(ColumnsText):
    """Final reductions of equal text, each a segment of as many blocks."""

    def __init__(self, kernels: Sequence[LoopKernel]) -> None:
        self.segments = Segments(kernels)
        shape = final_reduction_shape(kernels[0], len(kernels))
        super().__init__(kernels[0], shape, f"{len(kernels)} kernels of one text")

    def block(self, page: CudaPage) -> str:
        """The number of a block in its segment."""
        blocks = self.lines * self.others
        page.line(f"const int segment = blockIdx.x / {blocks};")
        self.segments.bind(page, self.names)
        return f"(blockIdx.x % {blocks})"

    def launch(self, grid: int, why: str) -> None:
        """Launch the blocks of all segments."""
        super().launch(grid * len(self.segments.segments), why)
