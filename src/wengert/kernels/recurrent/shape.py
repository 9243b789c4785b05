"""How a recurrence is divided among blocks: rows and columns of each, the threads' parts of its products, and memory.

In: a recurrence and a device. Out: a Shape, or None if the weights do not fit the SMs. The blocks of all row and column
groups are resident at the same time. More rows per block mean fewer bytes of weights read from shared memory per sum;
more columns mean a smaller slab for each block. The shape with the shortest expected step is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from wengert.core.dtypes import HALF, float32, float64
from wengert.kernels.launch import DeviceProperties
from wengert.kernels.recurrent.body import Recurrence, StepProduct

THREADS = 256
RINGS = ((4, 16 << 10), (3, 16 << 10), (4, 8 << 10), (2, 8 << 10), (2, 4 << 10))
"""How many chunks of a slab are in shared memory, and their bytes at most: the first that fit are taken."""
ELEMENTS = 8  # of each unit that a thread has at most
SUMS = 64  # that a thread makes at a time, by FMA
FMA_A_CYCLE = 128  # of an SM
CORES_A_CYCLE = {True: 1024, False: 2048}  # products of an SM by mma: in tf32, in 16 bits
SHARED_A_CYCLE = 128  # bytes that an SM reads from shared memory
SLAB_A_CYCLE = 40  # bytes that an SM reads from L2
REGISTERS = 160  # of a thread, that may hold weights and sums of products by tensor cores
COUNTER = 128  # bytes from one counter to the next


@dataclass(frozen=True)
class Core:
    """How a block computes a product."""

    product: StepProduct
    rows: int
    columns: int  # of all units, filled up to what the threads take
    mma: str  # the type that tensor cores take; "" for FMA
    tile: tuple[int, int]  # the sums of a thread, by FMA
    chunk: int  # of the depth
    ring: int  # chunks in shared memory
    kept: bool  # whether the weights stay in registers
    element: int  # bytes of an element of slab and weights
    sum: int  # bytes of a sum

    @property
    def parts(self) -> int:
        """How many partial sums there are of each."""
        if self.mma:
            return THREADS // 32
        lanes = self.rows // self.tile[0] * (self.columns // self.tile[1])
        return THREADS // max(lanes, 32)

    @property
    def weight_bytes(self) -> int:
        """The weights that a block keeps."""
        return _rounded(self.product.depth * self.columns * self.element)

    @property
    def ring_bytes(self) -> int:
        """The chunks of the slab that are in shared memory."""
        return _rounded(self.ring * self.chunk * self.rows * self.element)

    @property
    def partial_bytes(self) -> int:
        """The partial sums of all parts."""
        return _rounded(self.parts * self.rows * self.line * self.sum)

    @property
    def line(self) -> int:
        """From one row of partial sums to the next, as in recurrent.cuh."""
        return self.columns if self.columns % 32 else self.columns + 16

    @property
    def cycles(self) -> float:
        """About how many cycles a step takes for it."""
        count = self.rows * self.columns * self.product.depth
        slab = self.product.depth * self.rows * self.element
        if self.mma:
            read = slab if self.kept else slab + self.weight_bytes
            inner = max(count / CORES_A_CYCLE[self.element == 4], read / SHARED_A_CYCLE)
        else:
            m, n = self.tile
            loaded = count / (m * n) * (m + n) * self.element / SHARED_A_CYCLE
            inner = max(count / FMA_A_CYCLE * (1 if self.element == 4 else 2), loaded)
        return inner + slab / SLAB_A_CYCLE + 2 * self.partial_bytes / SHARED_A_CYCLE


@dataclass(frozen=True)
class Shape:
    """The blocks of a recurrence."""

    rows: int  # of a block
    row_groups: int
    column_groups: int
    columns: tuple[int, ...]  # of each space: columns of one unit that a block has
    cores: tuple[Core, ...]  # by product

    @property
    def grid(self) -> int:
        """The number of blocks."""
        return self.row_groups * self.column_groups

    @property
    def elements(self) -> tuple[int, ...]:
        """Of each space: how many elements of a unit a thread has."""
        return tuple(-(-self.rows * columns // THREADS) for columns in self.columns)

    @property
    def weights_at(self) -> tuple[int, ...]:
        """Where in shared memory the weights of each product are."""
        return tuple(sum(core.weight_bytes for core in self.cores[:k]) for k in range(len(self.cores)))

    @property
    def ring_at(self) -> int:
        """Where in shared memory the chunks are."""
        return sum(core.weight_bytes for core in self.cores)

    @property
    def partial_at(self) -> tuple[int, ...]:
        """Where in shared memory the sums of each product are: where its chunks were, or, if a phase has several
        products, behind the chunks and beside each other.
        """
        phases = [core.product.phase for core in self.cores]
        start = self.ring_at + (max(core.ring_bytes for core in self.cores) if len({*phases}) < len(phases) else 0)
        places: list[int] = []
        for k, core in enumerate(self.cores):
            beside = [one for one in self.cores[:k] if one.product.phase == core.product.phase]
            places.append(start + sum(one.partial_bytes for one in beside))
        return tuple(places)

    @property
    def shared(self) -> int:
        """The bytes of shared memory."""
        sums = max(at + core.partial_bytes for at, core in zip(self.partial_at, self.cores))
        return max(sums, self.ring_at + max(core.ring_bytes for core in self.cores))

    @property
    def cycles(self) -> float:
        """About how many cycles a step takes."""
        return sum(core.cycles for core in self.cores)


def shape_of(recurrence: Recurrence, device: DeviceProperties) -> Shape | None:
    """The best shape there is."""
    found = list(shapes(recurrence, device))
    return min(found, key=lambda shape: (shape.cycles, shape.grid)) if found else None


def shapes(recurrence: Recurrence, device: DeviceProperties) -> Iterator[Shape]:
    """The shapes that fit a device."""
    for rows in (4, 8, 16, 32, 64):
        row_groups = -(-recurrence.rows // rows)
        if rows > 4 and rows >= 2 * recurrence.rows:
            continue
        most = device.sms // row_groups
        for width in (1, 2, 4, 8, 16, 32, 64):
            groups = -(-max(recurrence.widths) // width)
            if groups > most:
                continue
            tried = (_shape(recurrence, device, rows, row_groups, groups, *ring) for ring in RINGS)
            fitting = (shape for shape in tried if shape is not None and shape.shared <= device.shared_per_block)
            shape = next(fitting, None)
            if shape is not None and max(shape.elements) <= ELEMENTS:
                yield shape


def _shape(
    recurrence: Recurrence, device: DeviceProperties, rows: int, row_groups: int, groups: int, ring: int, most: int
) -> Shape | None:
    columns = tuple(_power_of_two(-(-width // groups)) for width in recurrence.widths)
    cores: list[Core] = []
    for product in recurrence.products:
        left = REGISTERS - sum(core.weight_bytes // (4 * THREADS) for core in cores if core.kept)
        core = _core(recurrence, product, device, rows, columns[recurrence.spaces[product.node]], ring, most, left)
        if core is None:
            return None
        cores.append(core)
    return Shape(rows, row_groups, groups, columns, tuple(cores))


def _core(
    recurrence: Recurrence,
    product: StepProduct,
    device: DeviceProperties,
    rows: int,
    columns: int,
    ring: int,
    most: int,
    registers: int,
) -> Core | None:
    """How a block makes this many rows and columns of each unit of a product."""
    count = columns * recurrence.units(product.node)
    mma = _tensor_cores(product, device, rows, count)
    tile = (0, 0) if mma else _tile(rows, count)
    if tile is None or rows * count > 4096:
        return None
    element = product.node.dtype.itemsize if mma else 8 if product.node.dtype is float64 else 4
    piece = 16 if mma and element == 2 else 8
    warps = piece * (THREADS // 32)
    needed = product.depth * count * element // (4 * THREADS) + rows * count // 32
    kept = bool(mma) and product.depth % warps == 0 and needed <= registers
    chunk = _chunk(product.depth, most // (rows * element), warps if kept else piece)
    kept = kept and product.depth % chunk == 0
    ring = min(ring, -(-product.depth // chunk))
    return Core(product, rows, count, mma, tile, chunk, ring, kept, element, 4 if mma else element)


def _tensor_cores(product: StepProduct, device: DeviceProperties, rows: int, count: int) -> str:
    """The type of the elements that tensor cores take, where they can do it."""
    dtype, arch = product.node.dtype, int(device.arch.rstrip("a"))
    if arch < 80 or rows % 16 or count % 8 or not (dtype in HALF or (dtype is float32 and device.tf32)):
        return ""
    if product.depth % (8 if dtype is float32 else 16):
        return ""
    return {"float32": "float", "bfloat16": "wg_bf16", "float16": "wg_f16"}[dtype.name]


def _tile(rows: int, count: int) -> tuple[int, int] | None:
    """The sums of a thread: as near to 8 x 8 as it gets; threads that share a k are a power of two."""
    found = []
    for m in (4, 8):
        for across in (1, 2, 4, 8, 16, 32):
            if rows % m or count % across:
                continue
            n, lanes = count // across, rows // m * across
            halves = 32 // lanes if lanes < 32 else 1
            if m * n <= SUMS and lanes <= THREADS and m * n % halves == 0:
                found.append(((m + n) / (m * n), lanes, (m, n)))
    return min(found)[2] if found else None


def _chunk(depth: int, most: int, piece: int) -> int:
    """How much of the depth is brought in at a time; a multiple of `piece`."""
    count = -(-depth // max(most // 16 * 16, 16))
    return -(-depth // count // piece) * piece


def _power_of_two(number: int) -> int:
    return 1 << max(math.ceil(math.log2(number)), 0)


def _rounded(size: int) -> int:
    return -(-size // 128) * 128
