"""Matrix products on a CUDA device by our own kernels: which rung of the ladder, which tile, and the launches.

    naive   a thread a sum                                    any dtype, integers too
    tiled   tiles in shared memory                            any dtype; float64's
    small   many small tiles, the depth shared among warps    latency instead of throughput
    fma     tiles in registers, vector loads                  float32
    mma     tensor cores by mma.sync                          float16, bfloat16, float32 as tf32; from sm_80 on
    wgmma   tensor cores by wgmma, tiles brought by TMA       the same on sm_90a

`matmul` gives them best first, by a model of the time each takes. Sizes are arguments, so a text serves many shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wengert.dtypes import bfloat16, float16, float32, float64
from wengert.kernels.launch import Device, Launch, TensorMap, Work

DType = np.dtype[Any]

_TYPES = {float32: "float", float64: "double", float16: "wg_f16", bfloat16: "wg_bf16"}
_HALF = (float16, bfloat16)
_INTEGERS = {1: "char", 2: "short", 4: "int", 8: "long long"}


def device_type(dtype: DType) -> str:
    """The C++ type of an element in the matrix kernels."""
    if dtype in _TYPES:
        return _TYPES[dtype]
    sign = {"i": "signed ", "u": "unsigned ", "b": "unsigned "}[dtype.kind]
    return sign + _INTEGERS[dtype.itemsize]


# --- what is multiplied ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix:
    """Where a matrix lies, or a batch of them: how many elements apart its rows, columns and batches are."""

    buffer: str
    dtype: DType
    row: int
    column: int
    batch: tuple[int, ...] = ()  # 0 along an axis where all share one

    @property
    def transposed(self) -> Matrix:
        return replace(self, row=self.column, column=self.row)


@dataclass(frozen=True)
class Epilogue:
    """C++ that takes each sum of a product instead of storing it.

    `text` defines `__device__ void wg_epilogue(float acc, int row, int column, int batch, *parameters)`; `acc` is a double
    in a float64 product. It is called once for each element, neighbouring threads with neighbouring columns.
    """

    text: str
    parameters: tuple[str, ...]  # how its buffers are declared: "const float *b0"
    buffers: tuple[str, ...]  # their names, in that order

    @property
    def names(self) -> list[str]:
        """What the parameters are called."""
        return [parameter.replace("*", " ").split()[-1] for parameter in self.parameters]


@dataclass(frozen=True)
class Product:
    """result[b] = left[b] @ right[b], of (rows, depth) and (depth, columns); sums go to the epilogue if there is one."""

    rows: int
    columns: int
    depth: int
    left: Matrix
    right: Matrix
    result: Matrix
    batch: tuple[int, ...] = ()
    epilogue: Epilogue | None = None
    tf32: bool = False  # whether float32 may be rounded to tf32 for the tensor cores

    @property
    def dtype(self) -> DType:
        return self.left.dtype

    @property
    def batches(self) -> int:
        return math.prod(self.batch)

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.columns * self.depth * self.batches


@dataclass(frozen=True)
class Tile:
    """A rung and its sizes: what a block makes, what a warp makes of it, buffers in flight, parts of the depth."""

    rung: str
    high: int
    wide: int
    depth: int
    tall: int = 0
    broad: int = 0
    stages: int = 1
    split: int = 1
    warps: int = field(default=0)

    @property
    def threads(self) -> int:
        if self.warps:
            return self.warps * 32
        if self.rung == "wgmma":
            return (1 + self.high // self.tall) * 128  # one warpgroup brings, the others have `tall` rows each
        return self.high * self.wide if not self.tall else self.high // self.tall * (self.wide // self.broad) * 32

    def __str__(self) -> str:
        split = f" in {self.split} parts of the depth" if self.split > 1 else ""
        return f"{self.rung} {self.high}x{self.wide}x{self.depth}, {self.threads} threads, {self.stages} stages{split}"


# --- the launches ---------------------------------------------------------------------------------------------------


def matmul(product: Product, device: Device) -> list[Work]:
    """Ways to carry out a product, the one expected to be fastest first; none if there is nothing to compute."""
    product = _normal(product)
    if not (product.rows and product.columns and product.batches):
        return []
    tiles = sorted(candidates(product, device), key=lambda tile: expected(product, tile, device))
    return [write(product, tile, device) for tile in tiles]


def _normal(product: Product) -> Product:
    """The product with its result row by row, and batches that lie evenly apart taken together."""
    p = product
    if p.result.column != 1 and p.epilogue is None and p.columns > 1:
        p = replace(
            p, rows=p.columns, columns=p.rows, left=p.right.transposed, right=p.left.transposed,
            result=p.result.transposed,
        )  # fmt: skip
    axes: list[tuple[int, ...]] = []
    steps = [matrix.batch or (0,) * len(p.batch) for matrix in (p.left, p.right, p.result)]
    for size, *apart in zip(p.batch, *steps):
        if size == 1:
            continue
        if axes and all(outer == size * inner for outer, inner in zip(axes[-1][1:], apart)):
            axes[-1] = (axes[-1][0] * size, *apart)
        else:
            axes.append((size, *apart))
    if len(axes) > 2:
        raise ValueError(f"a product's batches lie apart at two levels at most, not at {len(axes)}: {p.batch}, {steps}")
    batch, left, right, result = zip(*axes) if axes else ((), (), (), ())
    return replace(
        p, batch=batch, left=replace(p.left, batch=left), right=replace(p.right, batch=right),
        result=replace(p.result, batch=result),
    )  # fmt: skip


def _along(row: int, column: int, rows: int, depth: int) -> tuple[bool, int]:
    """Whether a matrix of (rows, depth) is contiguous along its depth, and how far apart its rows, or else depths, are."""
    if column == 1 or depth == 1 and rows == 1:
        return True, row
    if row == 1 or rows == 1:
        return False, column
    if depth == 1:
        return True, row
    raise ValueError(f"a matrix is contiguous along one of its axes; steps are {row} and {column}")


def _operand(product: Product, which: str) -> tuple[Matrix, bool, int, int]:
    """An operand, whether it is contiguous along the depth, the step between its lines, and its rows."""
    if which == "left":
        m = product.left
        return m, *_along(m.row, m.column, product.rows, product.depth), product.rows
    m = product.right
    return m, *_along(m.column, m.row, product.columns, product.depth), product.columns


def _aligned(matrix: Matrix, step: int, chunk: int) -> bool:
    return step % chunk == 0 and all(apart % chunk == 0 for apart in matrix.batch)


def _constant(tile: Tile) -> str:
    """The kernel's template arguments."""
    sizes = {
        "naive": (),
        "tiled": (tile.high,),
        "small": (tile.high, tile.wide, tile.depth, tile.warps),
        "fma": (tile.high, tile.wide, tile.depth, tile.tall, tile.broad),
        "mma": (tile.high, tile.wide, tile.depth, tile.tall, tile.broad, tile.stages),
    }[tile.rung]
    return f"<{', '.join(map(str, sizes))}>" if sizes else ""


_HEADERS = {"naive": "gemm_naive", "tiled": "gemm_naive"}
_SIZES = (
    "int m, int n, int k, int share, int inner, long long a_step, long long a_outer, long long a_inner, "
    "long long b_step, long long b_outer, long long b_inner, long long c_step, long long c_outer, long long c_inner"
)
_SUMS = {float64: "double"}


def sum_type(dtype: DType) -> str:
    """What sums of products of this dtype are made in."""
    return "float" if dtype in _HALF else device_type(dtype)


def _result(product: Product, width: int) -> tuple[str, list[str], list[str], str]:
    """How sums are handed out: text before the kernel, parameters, buffers, and the object's definition inside."""
    if product.epilogue is None:
        kind = device_type(product.result.dtype)
        plain = f"wg_plain<{kind}, {width}> out = {{c + batch.c(z), c_step, m, n}};"
        return "", [f"{kind} *c"], [product.result.buffer], plain
    e = product.epilogue
    fields = "".join(f"    {parameter};\n" for parameter in e.parameters)
    call = ", ".join(["sums[0]", "row", "column", "batch", *e.names])
    text = (
        f"{e.text}\nstruct wg_result {{\n    static const int width = 1;\n    int rows, columns, batch;\n{fields}"
        f"    __device__ __forceinline__ void operator()(int row, int column, const {sum_type(product.dtype)} *sums) const\n"
        f"    {{\n        if (row < rows && column < columns) wg_epilogue({call});\n    }}\n}};\n"
    )
    return text, list(e.parameters), list(e.buffers), f"wg_result out = {{{', '.join(['m', 'n', 'z', *e.names])}}};"


def _chunk(product: Product, tile: Tile) -> int:
    """How many elements a load takes together."""
    return {"mma": 16 // product.dtype.itemsize, "fma": 4, "small": 4}.get(tile.rung, 1)


def _width(product: Product, tile: Tile) -> int:
    """How many neighbours are stored together."""
    widest = {"mma": 16 // product.result.dtype.itemsize, "wgmma": 2, "fma": 4}.get(tile.rung, 1)
    fits = product.result.row % widest == 0 and all(apart % widest == 0 for apart in product.result.batch)
    return widest if fits else 1


def write(product: Product, tile: Tile, device: Device) -> Work:
    """The launches of a product by one tile."""
    if tile.split == 1:
        return Work((_multiply(product, tile, device),))
    size = product.rows * product.columns
    dtype = float64 if product.dtype == float64 else float32
    steps = tuple(size * math.prod(product.batch[axis + 1 :]) for axis in range(len(product.batch)))
    parts = Matrix("partial_sums", dtype, product.columns, 1, steps)
    first = _multiply(replace(product, result=parts, epilogue=None), tile, device)
    bytes_ = tile.split * product.batches * size * dtype.itemsize
    return Work((first, _add_up(product, tile.split, parts)), {"partial_sums": bytes_})


def _scalars(product: Product, share: int) -> list[np.generic]:
    """The sizes, in the order of _SIZES."""
    inner = product.batch[-1] if product.batch else 1
    numbers: list[np.generic] = [np.int32(n) for n in (product.rows, product.columns, product.depth, share, inner)]
    (_, _, a, _), (_, _, b, _) = _operand(product, "left"), _operand(product, "right")
    for step, matrix in ((a, product.left), (b, product.right), (product.result.row, product.result)):
        batch = (0, 0, *matrix.batch)[-2:]
        numbers += [np.int64(step), np.int64(batch[0]), np.int64(batch[1])]
    return numbers


def _multiply(product: Product, tile: Tile, device: Device) -> Launch:
    if tile.rung == "wgmma":
        return _multiply_wgmma(product, tile, device)
    (a, a_along, a_step, _), (b, b_along, b_step, _) = _operand(product, "left"), _operand(product, "right")
    chunk = _chunk(product, tile)
    kind = device_type(product.dtype)
    free = [str(not _aligned(m, step, chunk)).lower() for m, step in ((a, a_step), (b, b_step))]
    before, parameters, buffers, out = _result(product, _width(product, tile))
    high, wide = -(-product.rows // tile.high), -(-product.columns // tile.wide)
    share = -(-product.depth // (tile.split * tile.depth)) * tile.depth if tile.split > 1 else product.depth
    apart = f"\n    out.data += (long long)blockIdx.y * {product.batches}LL * m * n;" if tile.split > 1 else ""
    apart = apart.replace(f"{product.batches}LL", "(gridDim.x / (high * wide))")
    source = f"""#include "{_HEADERS.get(tile.rung, f"gemm_{tile.rung}")}.cuh"
{before}
extern "C" __global__ void __launch_bounds__({tile.threads}) matmul(
    const {kind} *a, const {kind} *b, {", ".join(parameters)}, {_SIZES})
{{
    int high = (m + {tile.high - 1}) / {tile.high}, wide = (n + {tile.wide - 1}) / {tile.wide};
    int z = blockIdx.x / (high * wide), row, column;
    wg_place(blockIdx.x % (high * wide), high, wide, 8, row, column);
    wg_batch batch = {{inner, a_outer, a_inner, b_outer, b_inner, c_outer, c_inner}};
    wg_matrix<{kind}, {str(a_along).lower()}, {free[0]}> left = {{a + batch.a(z), a_step, m, k}};
    wg_matrix<{kind}, {str(b_along).lower()}, {free[1]}> right = {{b + batch.b(z), b_step, n, k}};
    {out}{apart}
    int first = blockIdx.y * share, last = first + share < k ? first + share : k;
    wg_gemm_{tile.rung}{_constant(tile)}(left, right, out, row * {tile.high}, column * {tile.wide}, first, last);
}}
"""
    block = (tile.wide, tile.high, 1) if tile.rung in ("naive", "tiled") else (tile.threads, 1, 1)
    return Launch(
        source, "matmul", (high * wide * product.batches, tile.split, 1), block,
        (product.left.buffer, product.right.buffer, *buffers, *_scalars(product, share)), shared_bytes(product, tile),
        f"{high} x {wide} tiles" + (f" x {product.batches} batches" if product.batches > 1 else "") + f" by {tile}",
    )  # fmt: skip


def _wgmma(wide: int, dtype: DType, turned: tuple[bool, bool]) -> str:
    """The function that issues one wgmma of 64 x `wide` sums; it names every register it adds to."""
    count = wide // 2
    kind, k = ("tf32", 8) if dtype == float32 else ("bf16" if dtype == bfloat16 else "f16", 16)
    registers = ", ".join(f"%{i}" for i in range(count))
    turns = "" if dtype == float32 else "".join(f", {int(turn)}" for turn in turned)
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return f"""__device__ __forceinline__ void wg_multiply(float (&d)[{count}], unsigned long long a, unsigned long long b, int more)
{{
    asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 2}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{wide}k{k}.f32.{kind}.{kind} {{{registers}}}, "
                 "%{count}, %{count + 1}, p, 1, 1{turns};\\n}}"
                 : {sums}
                 : "l"(a), "l"(b), "r"(more));
}}
"""


def _map(product: Product, matrix: Matrix, along: bool, step: int, rows: int, high: int) -> TensorMap:
    """How the copy engine reads tiles of `high` rows and 128 bytes of depth."""
    size = matrix.dtype.itemsize
    chunk, apart = 128 // size, max(step * size, 16)
    sizes = (product.depth, rows) if along else (rows, product.depth)
    counts, steps = (1, 1, *product.batch)[-2:], (0, 0, *matrix.batch)[-2:]
    batch = [(n, s * size) if s else (1, apart) for n, s in zip(counts, steps)][::-1]  # inner first
    return TensorMap(
        matrix.buffer, matrix.dtype, (*sizes, *(n for n, _ in batch)), (apart, *(s for _, s in batch)),
        (chunk, high if along else chunk, 1, 1), matrix.dtype == float32,
    )  # fmt: skip


def _multiply_wgmma(product: Product, tile: Tile, device: Device) -> Launch:
    (a, a_along, a_step, _), (b, b_along, b_step, _) = _operand(product, "left"), _operand(product, "right")
    before, parameters, buffers, out = _result(product, _width(product, tile))
    high, wide = -(-product.rows // tile.high), -(-product.columns // tile.wide)
    share = -(-product.depth // (tile.split * tile.depth)) * tile.depth if tile.split > 1 else product.depth
    count = high * wide * product.batches * tile.split
    apart = "\n        out.data += (long long)part * batches * m * n;" if tile.split > 1 else ""
    consumers = tile.high // tile.tall
    source = f"""{_wgmma(tile.wide, product.dtype, (not a_along, not b_along))}
#include "gemm_wgmma.cuh"
{before}
extern "C" __global__ void __launch_bounds__({tile.threads}, 1) matmul(
    const __grid_constant__ wg_tensor_map a, const __grid_constant__ wg_tensor_map b, {", ".join(parameters)},
    int batches, int count, {_SIZES})
{{
    int high = (m + {tile.high - 1}) / {tile.high}, wide = (n + {tile.wide - 1}) / {tile.wide};
    wg_batch batch = {{inner, a_outer, a_inner, b_outer, b_inner, c_outer, c_inner}};
    wg_work work = {{high, wide, high * wide, batches, inner, k, share}};
    auto hand = [&](int z, int part) {{
        {out}{apart}
        return out;
    }};
    wg_gemm_wgmma<{device_type(product.dtype)}, {tile.high}, {tile.wide}, {tile.stages}, {consumers}, {tile.broad}, {str(a_along).lower()}, {str(b_along).lower()}>(
        &a, &b, batch, work, count, hand);
}}
"""
    maps = (
        _map(product, a, a_along, a_step, product.rows, tile.high),
        _map(product, b, b_along, b_step, product.columns, tile.wide),
    )
    numbers = (np.int32(product.batches), np.int32(count), *_scalars(product, share))
    return Launch(
        source, "matmul", (min(count, device.sms), 1, 1), (tile.threads, 1, 1), (*maps, *buffers, *numbers),
        shared_bytes(product, tile), f"{count} pieces for {device.sms} blocks by {tile}",
    )  # fmt: skip


def _add_up(product: Product, split: int, parts: Matrix) -> Launch:
    """The parts of each sum added up in order, and handed out."""
    before, parameters, buffers, out = _result(product, 1)
    kind = device_type(parts.dtype)
    per_thread = 1
    source = f"""#include "tile.cuh"
{before}
extern "C" __global__ void __launch_bounds__(256) add_up(
    const {kind} *parts, {", ".join(parameters)}, int count, {_SIZES})
{{
    long long size = (long long)m * n, all = size * {"batches"}, e = blockIdx.x * 256LL + threadIdx.x;
    if (e >= all) return;
    int z = e / size, row = e % size / n, column = e % size % n;
    wg_batch batch = {{inner, a_outer, a_inner, b_outer, b_inner, c_outer, c_inner}};
    {out}
    {kind} sum = 0;
    for (int i = 0; i < count; i++) sum += parts[i * all + e];
    out(row, column, &sum);
}}
""".replace("int count,", "int count, int batches,")
    elements = product.rows * product.columns * product.batches // per_thread
    return Launch(
        source, "add_up", (-(-elements // 256), 1, 1), (256, 1, 1),
        (parts.buffer, *buffers, np.int32(split), np.int32(product.batches), *_scalars(product, product.depth)),
        why=f"{split} partial sums of each of {elements} elements, in order",
    )  # fmt: skip


# --- which ----------------------------------------------------------------------------------------------------------


def shared_bytes(product: Product, tile: Tile) -> int:
    """Dynamic shared memory of a block."""
    size = product.dtype.itemsize
    if tile.rung == "mma":
        staged = tile.threads // 32 * 16 * (tile.broad + 8) * 4
        return max(tile.stages * (tile.high + tile.wide) * tile.depth * size, staged)
    if tile.rung == "wgmma":
        return 1024 + tile.stages * ((tile.high + tile.wide) * 128 + 16)
    if tile.rung == "small":
        panels = tile.depth * (tile.high + tile.wide) + 4 * (tile.high + tile.wide)
        return max(panels, tile.warps * tile.high * tile.wide) * size
    return 0


def candidates(product: Product, device: Device) -> list[Tile]:
    """The tiles that can carry out a product on a device."""
    if product.dtype not in _TYPES:
        return [Tile("naive", 16, 16, 1)]
    if product.dtype == float64:
        return [Tile("tiled", 16, 16, 16)]
    arch = int(device.arch.rstrip("a"))
    found = []
    if arch >= 80 and (product.dtype in _HALF or product.tf32):
        unit = 64 // product.dtype.itemsize
        for high, wide, tall, broad in ((128, 256, 64, 64), (128, 128, 64, 32), (64, 128, 32, 64), (64, 64, 32, 32)):
            for depth, stages in ((unit, 4), (2 * unit, 3)):
                found.append(Tile("mma", high, wide, depth, tall, broad, stages))
    else:
        for high, wide, tall, broad in ((128, 128, 64, 32), (64, 64, 32, 32), (128, 64, 32, 32)):
            found.append(Tile("fma", high, wide, 16, tall, broad, 2))
    found += _wgmma_tiles(product, device)
    fits = [tile for tile in found if shared_bytes(product, tile) <= device.shared_per_block]
    splits = [replace(tile, split=split) for tile in fits for split in _splits(product, tile, device)]
    return splits + (_small(product) if product.dtype == float32 and not product.tf32 else [])


def _wgmma_tiles(product: Product, device: Device) -> list[Tile]:
    if device.arch != "90a" or not (product.dtype in _HALF or product.tf32):
        return []
    size = product.dtype.itemsize
    operands = [_operand(product, "left"), _operand(product, "right")]
    if not all(_aligned(m, step, 16 // size) for m, _, step, _ in operands):
        return []
    if product.dtype == float32 and not all(along for _, along, _, _ in operands):
        return []  # wgmma takes tf32 along the depth only
    shapes = ((128, 256, 64, 4), (128, 128, 64, 6), (256, 128, 128, 4), (64, 256, 64, 4), (64, 128, 64, 6), (128, 64, 64, 6))
    return [Tile("wgmma", high, wide, 128 // size, tall, 8, stages) for high, wide, tall, stages in shapes]


def _splits(product: Product, tile: Tile, device: Device) -> Sequence[int]:
    """Into how many parts the depth may be cut: only where there are too few tiles for the device."""
    blocks = -(-product.rows // tile.high) * -(-product.columns // tile.wide) * product.batches
    most = min(product.depth // (4 * tile.depth), device.sms * resident(product, tile, device) // blocks)
    powers = [2**i * odd // 2 for i in range(1, 9) for odd in (2, 3)]
    return [1, *(split for split in powers if 1 < split <= most)]


def resident(product: Product, tile: Tile, device: Device) -> int:
    """How many blocks of a tile an SM holds; registers are those of the sums and about 90 more."""
    if tile.rung == "wgmma":
        return 1
    sums = tile.tall * tile.broad // 32 if tile.tall else 8
    return max(1, device.blocks_resident(tile.threads, min(sums + 90, 255), shared_bytes(product, tile)))


def _small(product: Product) -> list[Tile]:
    if product.flops > 1e9:
        return []
    depth = min(320, -(-product.depth // 32) * 32)
    rounds = -(-product.depth // depth) if depth else 1
    depth = max(32, -(-product.depth // rounds // 32) * 32) if rounds else 32
    return [Tile("small", high, wide, depth, warps=8) for high, wide in ((16, 16), (32, 16), (32, 32))]


_RATES = {"naive": 16.0, "tiled": 40.0, "small": 90.0, "fma": 190.0, "mma": 2400.0, "wgmma": 5000.0}  # FLOPs a clock of one SM, when it is full
_START = {"small": 1500.0}  # clocks from a block's start to its first product, and after its last


def expected(product: Product, tile: Tile, device: Device) -> float:
    """A model of the time in clocks: waves of blocks, each the time of a tile's arithmetic and a start."""
    blocks = -(-product.rows // tile.high) * -(-product.columns // tile.wide) * product.batches * tile.split
    rate = _RATES[tile.rung]
    if tile.rung in ("mma", "wgmma"):
        rate *= 1.0 if product.dtype.itemsize == 2 else 0.5
    depth = -(-product.depth // tile.split)
    efficiency = min(1.0, 0.35 + 0.65 * (tile.high * tile.wide / (128 * 128)) ** 0.5)
    resident = max(1, round(128 * 128 / (tile.high * tile.wide)))
    work = 2 * tile.high * tile.wide * depth / (rate * efficiency)
    waves = -(-blocks // (device.sms * resident)) * resident if blocks > device.sms else 1
    parts = tile.split * product.rows * product.columns * product.batches * 8
    adding = 3000 + parts / device.bandwidth * 1.7e9 if tile.split > 1 else 0
    return waves * work + _START.get(tile.rung, 2000.0) + adding
