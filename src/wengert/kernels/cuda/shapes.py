"""Launch shapes: threads, elements per thread and rows per block, derived from the work and the device.

The reasoning is that of a memory-bound kernel. To keep memory busy, an SM needs enough bytes in flight (bandwidth times
latency); 16-byte accesses need the fewest instructions; data that is read twice should stay in registers; and there
must be enough blocks for all SMs, in whole waves or so many that the last wave does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from wengert.kernels.cuda.source import state_bytes
from wengert.kernels.ir.index import Loop
from wengert.kernels.ir.loops import Let, Load, LoopKernel, Stage, Statement, Store, access, is_vector
from wengert.kernels.ir.transforms import crosses, reductions_in, statements_of, symbols
from wengert.kernels.launch import DeviceProperties
from wengert.kernels.writer import functions_of

LATENCY = 8e-7  # seconds from asking memory to having: what must be on its way is this times the bandwidth
HELD = 40  # registers a thread gives to its part of a row: more would leave too few threads on an SM
REGISTERS_BESIDE = 24  # registers a thread needs for addresses, indices and what it computes with


@dataclass(frozen=True)
class Elements:
    """A thread computes `steps` vectors of `vector` elements; a block's threads are adjacent in each step."""

    vector: int
    steps: int
    threads: int


@dataclass(frozen=True)
class Tiles:
    """A block moves a square of 32 times `vector` elements per side through shared memory, `lines` warps at a time."""

    vector: int
    lines: int


@dataclass(frozen=True)
class Rows:
    """`lanes` threads share a row, `rows` rows a block. `chunks` vectors of it stay in a thread's registers (0: the row
    is read again by every pass, or stays in shared memory). More than one split: blocks share a row, and put their
    parts together afterwards."""

    vector: int
    lanes: int
    rows: int
    chunks: int
    splits: int = 1
    in_shared: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.rows


@dataclass(frozen=True)
class Columns:
    """`across` threads have `vector` neighbouring rows each, `down` such lines of threads share the steps of a row, as
    do the blocks of `splits`. So many of them are `resident` on an SM that their threads have its registers (0: that is
    left to the compiler). In a fixed order a thread has `run` steps one after another."""

    vector: int
    across: int
    down: int
    splits: int = 1
    resident: int = 0
    run: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.across * self.down


Shape = Elements | Tiles | Rows | Columns


# --- vectors --------------------------------------------------------------------------------------------------------


def accesses(statements: Iterable[Statement], loop: Loop | None) -> list[Load | Store]:
    """The loads and stores that access adjacent elements."""
    found = [s for s in statements if isinstance(s, Load | Store)]
    return [s for s in found if loop is not None and s.index.step(loop) == 1]


def vector_width(statements: Sequence[Statement], loop: Loop | None) -> int:
    """How many elements an access should be of: 16 bytes' worth, as far as the loop and the addresses are multiples."""
    side_by_side = accesses(statements, loop)
    if loop is None or not loop.is_constant or not side_by_side:
        return 1
    sizes = [s.dtype.itemsize for s in side_by_side]
    width = min(16 // min(sizes), max(16 // max(sizes), 8))
    while width > 1 and (loop.extent % width or not any(is_vector(s, loop, width) for s in side_by_side)):
        width //= 2
    return width


# --- elements -------------------------------------------------------------------------------------------------------


WORTH_TILES = 16  # an axis shorter than this is read through the cache


def transposed(kernel: LoopKernel) -> tuple[Loop, list[Load]]:
    """The loop along which some loads are side by side that are not so along the last one, and these loads."""
    side = kernel.outer[-1]
    found: dict[Loop, list[Load]] = {}
    for statement in statements_of(kernel):
        if isinstance(statement, Load) and statement.index.step(side) not in (0, 1):
            for loop in kernel.outer[:-1]:
                if statement.index.step(loop) == 1 and min(loop.most, side.most) >= WORTH_TILES:
                    found.setdefault(loop, []).append(statement)
    return max(found.items(), key=lambda item: len(item[1]), default=(side, []))


def _tiles_shape(kernel: LoopKernel) -> tuple[Tiles, str]:
    down, loads = transposed(kernel)
    vector = max(1, 4 // max(load.dtype.itemsize for load in loads))
    while kernel.outer[-1].extent % vector or not all(is_vector(load, down, vector) for load in loads):
        vector //= 2
    why = f"read along {down.name}, written along {kernel.outer[-1].name}: tiles of {32 * vector} x {32 * vector}"
    return Tiles(vector, 8), why


def elements_shape(kernel: LoopKernel, device: DeviceProperties) -> tuple[Elements | Tiles, str]:
    """The shape of a kernel without reductions, and the reason."""
    if kernel.outer and not symbols(kernel) and transposed(kernel)[1]:
        return _tiles_shape(kernel)
    statements = list(statements_of(kernel))
    loop = kernel.outer[-1] if kernel.outer else None
    vector = vector_width(statements, loop)
    vectors = math.prod(loop.most for loop in kernel.outer) // vector
    doubles = loop is not None and 1 < vector < 8 and loop.extent % (2 * vector) == 0
    functions = [s for s in statements if isinstance(s, Let) and functions_of(s)]  # that an element takes
    if doubles and len(functions) > 1 and vectors >= 4 * device.threads:
        vector, vectors = 2 * vector, vectors // 2
    threads = max(device.warp, min(128, 1 << (vectors - 1).bit_length()))
    moving = max(1, sum(s.dtype.itemsize for s in accesses(statements, loop) if isinstance(s, Load))) * vector
    needed = device.bandwidth * LATENCY / device.sms  # bytes on their way to one SM
    if len(functions) > 1 or any(s.op.long for s in functions):
        needed *= 2  # more elements to compute at once
    steps = 1
    while steps < 4 and steps * moving * device.threads_per_sm < needed and vectors >= steps * device.threads:
        steps *= 2
    why = f"{vector} elements an access, {steps} a thread"
    return Elements(vector, steps, threads), why


# --- rows and columns -----------------------------------------------------------------------------------------------


def reduction_shape(kernel: LoopKernel, device: DeviceProperties) -> tuple[Rows | Columns, str]:
    """The shape of a kernel with reductions, and the reason."""
    return _columns_shape(kernel, device) if crosses(kernel) else _rows_shape(kernel, device)


def same_for_all_rows(load: Load, kernel: LoopKernel) -> bool:
    """Whether a load reads the same elements in every row."""
    return bool(kernel.outer) and not load.index.loops() & set(kernel.outer) and load.buffer not in kernel.scratch


def kept_words(kernel: LoopKernel) -> float:
    """Registers that an element of a row takes when the row stays in registers: the most between two passes."""
    first: dict[object, int] = {}
    last: dict[object, int] = {}
    words: dict[object, float] = {}
    for number, stage in enumerate(kernel.stages):
        for s in stage.inside:
            if _stays(s, kernel):
                key = s.buffer if s.buffer in kernel.scratch else access(s) if isinstance(s, Load) else None
                first.setdefault(key, number)
                last[key], words[key] = number, _words(s)
    return max(
        (sum(words[key] for key in words if first[key] <= k < last[key]) for k in range(len(kernel.stages))),
        default=0.0,
    )


def _stays(statement: Statement, kernel: LoopKernel) -> TypeGuard[Load | Store]:
    """Whether it loads or stores what is held for a later pass."""
    if isinstance(statement, Load):
        return not same_for_all_rows(statement, kernel)
    return isinstance(statement, Store) and statement.buffer in kernel.scratch


def _words(statement: Load | Store) -> float:
    """Registers of an element: a float of two bytes is widened once and then held as it is computed with."""
    return max(1.0, 0.25 * statement.dtype.itemsize)


def row_words(kernel: LoopKernel) -> float:
    """Registers that an element of a row takes: between two passes, or while the pass with most loads has its own."""
    passes = [{access(s): s for s in stage.inside if isinstance(s, Load)} for stage in kernel.stages]
    loaded = max([sum(map(_words, loads.values())) for loads in passes], default=0.0)
    return max(kept_words(kernel), min(loaded, 1.0))


def registers_beside(kernel: LoopKernel, vector: int, least: int = 0) -> int:
    """Registers that a thread needs besides what it holds of a row: addresses, numbers of the row, and in the pass that
    has most of them what is loaded where it is used and what is stored, of `least` bytes an element or more."""
    passing = [
        {(s.buffer, s.index): max(s.dtype.itemsize, least) for s in _accessed(stage) if not _stays(s, kernel)}
        for stage in kernel.stages
    ]
    most = max((sum(sizes.values()) for sizes in passing), default=0)
    return 12 + 2 * len(kernel.buffers) + vector * most // 4


def _accessed(stage: Stage) -> list[Load | Store]:
    return [s for s in stage.inside if isinstance(s, Load | Store)]


def _rows_shape(kernel: LoopKernel, device: DeviceProperties) -> tuple[Rows, str]:
    rows = math.prod(loop.extent for loop in kernel.outer)
    length = math.prod(loop.extent for loop in kernel.inner)
    inside = [s for stage in kernel.stages for s in stage.inside]
    vector = vector_width(inside, kernel.inner[-1] if kernel.inner else None)
    splits = _row_splits(kernel, rows, length // vector, device)
    if splits > 1:
        return Rows(vector, SHARED_LANES, 1, 0, splits), f"{rows} rows of {length}: {splits} blocks share a row"
    words = row_words(kernel)
    lanes, chunks = _held_rows(rows, length // vector, words * vector, device)
    if length >= LONG * vector and (chunks * words * vector > HELD or not chunks):
        kept = bytes_again(kernel, vector) * (length // vector)
        if kept and kept <= device.shared_per_block - BESIDE_ROWS:
            together = device.shared_per_sm // (kept + BESIDE_ROWS)
            lanes = device.threads_per_block // 2 if together > 1 else device.threads_per_block
            held = f"{kept >> 10} KB of it in shared memory"
            return Rows(vector, lanes, 1, 0, in_shared=True), f"{rows} rows of {length}: {lanes} threads a row, {held}"
    if vector > 1 and lanes * chunks * vector >= 1.2 * length:  # many threads would idle at the end
        narrower = _held_rows(rows, 2 * length // vector, words * vector / 2, device)
        if narrower[1] and narrower[0] * narrower[1] * vector / 2 < lanes * chunks * vector:
            vector, (lanes, chunks) = vector // 2, narrower
    several = max(1, min(256 // lanes, -(-rows // device.sms))) if lanes < 256 else 1
    while lanes * several % device.warp:
        several += 1
    held = f"{chunks * vector} elements of it in each thread's registers" if chunks else "read anew by every pass"
    return Rows(vector, lanes, several, chunks), f"{rows} rows of {length}: {lanes} threads a row, {held}"


def loaded_again(kernel: LoopKernel) -> list[Load]:
    """The loads that several passes repeat, each once."""
    passes = [{access(s): s for s in stage.inside if isinstance(s, Load)} for stage in kernel.stages]
    found = {key: load for one in passes for key, load in one.items() if not same_for_all_rows(load, kernel)}
    return [load for key, load in found.items() if sum(key in one for one in passes) > 1]


def bytes_again(kernel: LoopKernel, vector: int) -> int:
    """The bytes of shared memory per vector for repeated loads; 0 if rows cannot be kept there."""
    return 0 if kernel.scratch else sum(vector_bytes(load, vector) for load in loaded_again(kernel))


def vector_bytes(load: Load, vector: int) -> int:
    """The bytes of a vector load."""
    return load.dtype.itemsize * vector


LONG = 2048  # vectors of a row from which it may stay in shared memory
BESIDE_ROWS = 2048  # bytes of shared memory for a block's reductions, and what the device takes for itself


def _held_rows(rows: int, vectors: int, words: float, device: DeviceProperties) -> tuple[int, int]:
    """Threads per row, and vectors that each keeps in registers; 0 if the row is too long.

    With up to eight vectors per thread a warp can hold a row, which needs no barrier. A longer row is held by more
    threads with four each if two such blocks fit on an SM (one loads while the other stores): the remaining registers
    prefetch the loads after the barrier. A row that no number of threads could hold in a few registers each is held by
    fewer threads with many: one block per SM, but every element is read once.
    """
    most = max(1, int(HELD / max(words, 1)))
    lanes = _lanes(rows, vectors, min(most, 8), device)
    more = _lanes(rows, vectors, min(most, 4), device)
    several = device.blocks_resident(more, 64) > 1 and rows > device.sms * device.blocks_resident(lanes, 64)
    if lanes > device.warp and several and -vectors % more <= -vectors % lanes:
        lanes = more
    for threads in (lanes, device.threads_per_block // 2):
        chunks = -(-vectors // threads)
        room = HELD if threads == lanes else device.registers_per_sm // threads - REGISTERS_BESIDE
        if 0 < chunks * words <= max(room, words):
            return threads, chunks
    return lanes, 0


def _lanes(rows: int, vectors: int, wanted: int, device: DeviceProperties) -> int:
    """Threads per row: few, with several loads in flight each, but enough for coalesced reads.

    More if there are few rows.
    """
    lanes = min(16, 1 << max(vectors // 2, 1).bit_length() - 1)
    if 2 < lanes < 16 and -(-vectors // (lanes // 2)) * (lanes // 2) < -(-vectors // lanes) * lanes:
        lanes //= 2  # for a short row, half as many threads idle less
    while lanes < device.threads_per_block and lanes * wanted < vectors:
        lanes *= 2
    while lanes < min(device.threads_per_block, 512) and lanes < vectors and rows * lanes < FULL * device.threads / 2:
        lanes *= 2
    return lanes


SHARED_LANES = 512  # threads of a block that shares a row with others


def _row_splits(kernel: LoopKernel, rows: int, vectors: int, device: DeviceProperties) -> int:
    """Blocks per row, if there are fewer rows than resident blocks."""
    if kernel.scratch or rows * 2 > device.sms or vectors < 8 * SHARED_LANES:
        return 1
    return max(1, min(4 * device.sms // rows, vectors // (4 * SHARED_LANES)))


def _columns_shape(kernel: LoopKernel, device: DeviceProperties) -> tuple[Columns, str]:
    loop = kernel.outer[-1]
    steps = math.prod(inner.extent for inner in kernel.inner)
    inside = [s for stage in kernel.stages for s in stage.inside]
    vector = vector_width(inside, loop)
    if len(kernel.stages) > 1 or any(reduction.kind in ("argmax", "argmin") for reduction in reductions_in(inside)):
        vector = min(vector, 4)
    vectors = loop.extent // vector
    others = math.prod(outer.extent for outer in kernel.outer[:-1])
    size = max([s.dtype.itemsize for s in accesses(inside, loop)], default=4) * vector
    across, resident = min(vectors, 32), 0
    splits = _column_splits(-(-vectors // across) * others, steps, across * size * steps, device)
    if splits > 1 and len(kernel.stages) > 1:
        across = max(1, min(across, LINE // size))
        down, splits, resident = _in_one_wave(kernel, vector, across, -(-vectors // across) * others, steps, device)
    elif splits > 1 and SECTORS * steps / FROM_CACHE < WORTH_SPLITTING:
        splits = 1
        while across * size > SECTORS and -(-vectors // across) * others < device.sms:
            across //= 2
        most = min(device.threads_per_block, STATES // states_bytes(kernel, vector))
        down = 1 << max(1, min(most // across, steps // 8)).bit_length() - 1
    elif splits > 1:
        down = max(1, min((512 if size <= 4 else 256) // across, steps))
        resident = _with_sums_in_registers(kernel, vector, across * down, device)
    else:
        if vector > 2 and vectors * others * size < device.sms * LINE:
            vector, vectors, size = 2, loop.extent // 2, size * 2 // vector
        while across * size > LINE and -(-vectors // across) * others < device.sms:
            across //= 2
        down = max(1, min(256 // across, steps // 8, 32))
    columns = math.prod(outer.extent for outer in kernel.outer)
    why = f"{columns} columns of {steps}: {across} x {down} threads, {splits} blocks share a column"
    return Columns(vector, across, down, splits, resident), why


LINE = 128  # bytes side by side that memory is best read in
STATES = 32 << 10  # bytes of shared memory for the sums of a block's threads: many sums also need many registers
FULL = 0.9  # of the device's room, from which blocks fill it


def states_bytes(kernel: LoopKernel, vector: int) -> int:
    """Bytes that a thread's reductions take."""
    return sum(state_bytes(reduction) for stage in kernel.stages for reduction in reductions_in(stage.inside)) * vector


def _with_sums_in_registers(kernel: LoopKernel, vector: int, threads: int, device: DeviceProperties) -> int:
    """Blocks for an SM to hold that leave registers for a thread's reductions, and for what is on its way to them.

    Left to itself the compiler makes do with 48 of them, and what it puts aside costs more than the threads it gains:
    the slope of gelu with the sums of its columns, 16384 x 3072 in bfloat16, takes 99 us on an H200 so and 82 with 64.
    """
    registers = REGISTERS_BESIDE + states_bytes(kernel, vector) // 2  # reductions, and what is added to them
    return max(1, min(device.blocks_resident(threads, registers), device.registers_per_sm // 64 // threads))


def _in_one_wave(
    kernel: LoopKernel, vector: int, across: int, blocks: int, steps: int, device: DeviceProperties
) -> tuple[int, int, int]:
    """Threads below one another, blocks per column and per SM, for several passes: few large blocks, in one wave.

    Every block of a pass combines the parts of the previous pass, so there should be few.
    """
    largest = device.threads_per_block
    while largest > 256 and largest * states_bytes(kernel, vector) > STATES:
        largest //= 2
    for share in (1, 2, 4):
        down, room = max(1, largest // share // across), share * device.sms
        splits = max(1, room // blocks)
        if splits * blocks >= FULL * room:
            break
    return min(down, steps), max(1, min(splits, steps // (4 * down))), share


def _column_splits(blocks: int, steps: int, moved: int, device: DeviceProperties) -> int:
    """Blocks per column, if there are too few columns for the device and the work exceeds two launches."""
    if blocks >= 2 * device.sms or moved / FROM_CACHE < WORTH_SPLITTING:
        return 1
    return max(1, min(4 * device.sms // blocks, steps // 64))


SECTORS = 64  # bytes of neighbouring columns that a block reads at least
FROM_CACHE = 1e11  # bytes a second that one SM reads
WORTH_SPLITTING = 2.5e-6  # seconds that a block must take for two launches to be less
