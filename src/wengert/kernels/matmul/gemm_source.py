"""The launches of a matrix product for one tile: CUDA C++ over the kernels in gemm_*.cuh. Sizes are arguments."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from textwrap import indent
from typing import NamedTuple

import numpy as np

from wengert.core.dtypes import COMPLEX, bfloat16, float32, float64
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList, TensorMap
from wengert.kernels.matmul.product import (
    THIN,
    DType,
    Epilogue,
    Matrix,
    Operand,
    Product,
    Tile,
    device_type,
    sum_type,
)

_HEADERS = {"naive": "gemm_naive", "tiled": "gemm_naive"}
_SIZES = (
    "int m, int n, int k, int share, int inner, long long a_step, long long a_outer, long long a_inner,\n"
    "    long long b_step, long long b_outer, long long b_inner, long long c_step, long long c_outer, long long c_inner"
)
_BATCH = "wg_batch batch = {inner, a_outer, a_inner, b_outer, b_inner, c_outer, c_inner};"


def write(product: Product, tile: Tile, device: DeviceProperties) -> LaunchList:
    """The work of a product in normal form. Parts of the depth are summed into a temporary, then added up in order."""
    if tile.split == 1:
        return LaunchList((_multiply(product, tile, device),))
    size = product.rows * product.columns
    dtype = float64 if product.dtype == float64 else float32
    steps = tuple(size * math.prod(product.batch[axis + 1 :]) for axis in range(len(product.batch)))
    parts = Matrix("partial_sums", dtype, product.columns, 1, steps)
    first = _multiply(replace(product, result=parts, epilogue=None), tile, device)
    space = tile.split * product.batches * size * dtype.itemsize
    return LaunchList((first, add_up(product, tile.split, parts)), {"partial_sums": space})


# --- results --------------------------------------------------------------------------------------------------------


class Result(NamedTuple):
    """How sums are handed out."""

    before: str  # text before the kernel
    parameters: list[str]
    buffers: list[str]
    made: str  # the statement that makes `out`, which takes them


def _result(product: Product, width: int) -> Result:
    if product.epilogue is not None:
        return taken(product.epilogue, product.dtype)
    kind = device_type(product.result.dtype)
    made = f"wg_plain<{kind}, {width}> out = {{c + batch.c(z), c_step, m, n}};"
    return Result("", [f"{kind} *c"], [product.result.buffer], made)


def taken(e: Epilogue, dtype: DType) -> Result:
    """Sums of products of `dtype` that an epilogue takes: of `m` rows and `n` columns, batch `z`."""
    fields = "".join(f"    {parameter};\n" for parameter in e.parameters)
    text = f"""#include "math.cuh"
// {e.comment}
struct wg_result {{
    static const int width = 1;
    int rows, columns, batch;
{fields}    __device__ __forceinline__ void operator()(int row, int place, const {sum_type(dtype)} *sums) const
    {{
        const int column = place < columns ? place : columns - 1;  // no branch before what all rows share
{indent(e.by_column, " " * 8)}        if (row >= rows || place >= columns) return;
        const {sum_type(dtype)} acc = sums[0];
{indent(e.takes, " " * 8)}    }}
}};
"""
    made = f"wg_result out = {{{', '.join(['m', 'n', 'z', *e.names])}}};"
    return Result(text, list(e.parameters), list(e.buffers), made)


def _width(product: Product, tile: Tile) -> int:
    """How many neighbours are stored together."""
    result = product.result
    widest = {"mma": 16 // result.dtype.itemsize, "wgmma": 16 // result.dtype.itemsize, "fma": 4}.get(tile.rung, 1)
    fits = result.row % widest == 0 and all(apart % widest == 0 for apart in result.batch)
    return widest if fits else 1


def _scalars(product: Product, share: int) -> list[np.generic]:
    """The sizes, in the order of _SIZES."""
    inner = product.batch[-1] if product.batch else 1
    numbers: list[np.generic] = [np.int32(n) for n in (product.rows, product.columns, product.depth, share, inner)]
    left, right = product.operands
    for step, matrix in ((left.step, left.matrix), (right.step, right.matrix), (product.result.row, product.result)):
        numbers += [np.int64(step), *map(np.int64, matrix.levels)]
    return numbers


def declared(name: str, kind: str, fields: str, is_whole: bool) -> str:
    """An operand of these fields, which may say that no chunk goes beyond an edge."""
    return f"wg_whole<{kind}> {name} = {{{{{fields}}}}};" if is_whole else f"{kind} {name} = {{{fields}}};"


# --- a block a tile -------------------------------------------------------------------------------------------------


def _multiply(product: Product, tile: Tile, device: DeviceProperties) -> Launch:
    if tile.rung == "wgmma":
        return _multiply_wgmma(product, tile, device)
    kind = device_type(product.dtype)
    chunk = {"fma": 4, "small": 4, "mma": 16 // product.dtype.itemsize}.get(tile.rung, 1)  # elements of a load
    types = [f"wg_matrix<{kind}, {_flag(o.along)}, {_flag(not o.aligned(chunk))}>" for o in product.operands]
    left = declared("left", types[0], "a + batch.a(z), a_step, m, k", tile == THIN)
    right = declared("right", types[1], "b + batch.b(z), b_step, n, k", tile == THIN)
    result = _result(product, _width(product, tile))
    high, wide = tile.tiles(product)
    share = tile.share(product.depth)
    apart = "\n    out.data += (long long)blockIdx.y * (gridDim.x / (high * wide)) * m * n;" if tile.split > 1 else ""
    if tile.rung == "small":  # which has no time for divisions
        place = "int z = blockIdx.z, row = blockIdx.y, column = blockIdx.x, first = 0, last = k;"
        grid = (wide, high, product.batches)
    else:
        place = f"""int high = (m + {tile.high - 1}) / {tile.high}, wide = (n + {tile.wide - 1}) / {tile.wide};
    int z = blockIdx.x / (high * wide), row, column;
    wg_tile_at(blockIdx.x % (high * wide), high, wide, 8, row, column);
    int first = blockIdx.y * share, last = first + share < k ? first + share : k;"""
        grid = (high * wide * product.batches, tile.split, 1)
    complex = '#include "complex.cuh"\n' if product.dtype in COMPLEX else ""
    source = f"""{complex}#include "{_HEADERS.get(tile.rung, f"gemm_{tile.rung}")}.cuh"
{result.before}
extern "C" __global__ void __launch_bounds__({tile.threads}) matmul(
    const {kind} *a, const {kind} *b, {", ".join(result.parameters)},
    {_SIZES})
{{
    {place}
    {_BATCH}
    {left}
    {right}
    {result.made}{apart}
    wg_gemm_{tile.rung}{tile.constants}(left, right, out, row * {tile.high}, column * {tile.wide}, first, last);
}}
"""
    batches = f" x {product.batches} batches" if product.batches > 1 else ""
    return Launch(
        source,
        "matmul",
        grid,
        (tile.wide, tile.high, 1) if tile.rung in _HEADERS else (tile.threads, 1, 1),
        (product.left.buffer, product.right.buffer, *result.buffers, *_scalars(product, share)),
        tile.shared(product.dtype),
        f"{high} x {wide} tiles{batches} by {tile}",
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"


# --- blocks that stay, by wgmma -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def wgmma(wide: int, dtype: DType, transposed: tuple[bool, bool], held: bool = False, name: str = "wg_multiply") -> str:
    """The function that issues one wgmma of 64 x `wide` sums; it names every register it adds to.

    Operands are described tiles in shared memory, which may be transposed; `held`: the left one is in registers.
    """
    count = wide // 2
    kind, k = ("tf32", 8) if dtype == float32 else ("bf16" if dtype == bfloat16 else "f16", 16)
    registers = ", ".join(f"%{i}" for i in range(count))
    turns = "" if dtype == float32 else "".join(f", {int(turn)}" for turn in transposed[held:])
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    if held:
        declared = "const unsigned (&a)[4]"
        left, given = ", ".join(f"%{count + i}" for i in range(4)), ", ".join(f'"r"(a[{i}])' for i in range(4))
        left, right = f"{{{left}}}", count + 4
    else:
        declared, left, given, right = "unsigned long long a", f"%{count}", '"l"(a)', count + 1
    return f"""__device__ __forceinline__ void {name}(
    float (&d)[{count}], {declared}, unsigned long long b, int more)
{{
    asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{right + 1}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{wide}k{k}.f32.{kind}.{kind} {{{registers}}}, "
                 "{left}, %{right}, p, 1, 1{turns};\\n}}"
                 : {sums}
                 : {given}, "l"(b), "r"(more));
}}
"""


def _map(product: Product, operand: Operand, high: int) -> TensorMap:
    """How the copy engine reads tiles of `high` rows and 128 bytes of depth."""
    matrix, along, step, rows = operand
    size = matrix.dtype.itemsize
    chunk, apart = 128 // size, max(step * size, 16)
    sizes = (product.depth, rows) if along else (rows, product.depth)
    counts = (1, 1, *product.batch)[-2:]
    batch = [(n, s * size) if s else (1, apart) for n, s in zip(counts, matrix.levels)][::-1]  # the inner level first
    return TensorMap(
        matrix.buffer,
        matrix.dtype,
        (*sizes, *(n for n, _ in batch)),
        (apart, *(s for _, s in batch)),
        (chunk, high if along else chunk, 1, 1),
        matrix.dtype == float32,
    )


def _multiply_wgmma(product: Product, tile: Tile, device: DeviceProperties) -> Launch:
    left, right = product.operands
    result = _result(product, _width(product, tile))
    high, wide = tile.tiles(product)
    count = high * wide * product.batches * tile.split
    share = tile.share(product.depth)
    apart = "\n        out.data += (long long)part * batches * m * n;" if tile.split > 1 else ""
    kind = f"{device_type(product.dtype)}, {tile.high}, {tile.wide}, {_flag(left.along)}, {_flag(right.along)}"
    source = f"""{wgmma(tile.wide, product.dtype, (not left.along, not right.along))}
#include "gemm_wgmma.cuh"
{result.before}
extern "C" __global__ void __launch_bounds__({tile.threads}, 1) matmul(
    const __grid_constant__ wg_tensor_map a, const __grid_constant__ wg_tensor_map b, {", ".join(result.parameters)},
    int batches, int count, {_SIZES})
{{
    int high = (m + {tile.high - 1}) / {tile.high}, wide = (n + {tile.wide - 1}) / {tile.wide};
    {_BATCH}
    wg_work work = {{high, wide, high * wide, batches, inner, k, share}};
    auto hand = [&](int z, int part) {{
        {result.made}{apart}
        return out;
    }};
    wg_by_engine<{kind}> engine = {{&a, &b, batch}};
    wg_gemm_wgmma{tile.constants}(engine, work, count, hand);
}}
"""
    maps = (_map(product, left, tile.high), _map(product, right, tile.wide))
    numbers = (np.int32(product.batches), np.int32(count), *_scalars(product, share))
    return Launch(
        source,
        "matmul",
        (min(count, device.sms), 1, 1),
        (tile.threads, 1, 1),
        (*maps, *result.buffers, *numbers),
        tile.shared(product.dtype),
        f"{count} tiles for {min(count, device.sms)} blocks by {tile}",
    )


# --- parts of the depth ---------------------------------------------------------------------------------------------


def add_up(product: Product, split: int, parts: Matrix) -> Launch:
    """The parts of each sum added up in order, and handed out."""
    result = _result(product, 1)
    kind = device_type(parts.dtype)
    source = f"""#include "tile.cuh"
{result.before}
extern "C" __global__ void __launch_bounds__(256) add_up(
    const {kind} *parts, {", ".join(result.parameters)}, int count, int batches,
    {_SIZES})
{{
    long long size = (long long)m * n, all = size * batches, e = blockIdx.x * 256LL + threadIdx.x;
    if (e >= all) return;
    int z = e / size, row = e % size / n, column = e % size % n;
    {_BATCH}
    {result.made}
    {kind} sum = 0;
#pragma unroll {16 if split >= 32 else 4}
    for (int i = 0; i < count; i++) sum += parts[i * all + e];
    out(row, column, &sum);
}}
"""
    elements = product.rows * product.columns * product.batches
    numbers = (np.int32(split), np.int32(product.batches), *_scalars(product, product.depth))
    return Launch(
        source,
        "add_up",
        (-(-elements // 256), 1, 1),
        (256, 1, 1),
        (parts.buffer, *result.buffers, *numbers),
        why=f"{split} partial sums of each of {elements} elements, in order",
    )
