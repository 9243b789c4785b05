"""Matrix products on a CUDA device by our own kernels: which kind of kernel, which tile, and with which epilogue.

    naive   a thread a sum                                    any dtype, integers too
    tiled   tiles in shared memory                            any dtype; float64's
    small   many small tiles, the depth shared among warps    float32 where latency counts
    fma     tiles in registers, vector loads                  float32; float16 and bfloat16 before sm_80
    mma     tensor cores by mma.sync                          float16, bfloat16, float32 as tf32; from sm_80 on
    wgmma   tensor cores by wgmma, tiles brought by TMA       the same on sm_90a

`matmul` gives them best first, by a model of the time each takes; its figures were measured on an H200.

An epilogue is an elementwise kernel of the loop IR over the product's elements: loads of the product become the sum in
the kernel's registers; the rest reads and writes memory as fused kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from wengert.core.dtypes import COMPLEX, bool_, float32, float64
from wengert.core.graph import Node
from wengert.kernels.ir.loops import Accumulate, DType, Let, Load, LoopKernel, Statement, Store, Value
from wengert.kernels.ir.transforms import merge_loops, uses
from wengert.kernels.launch import Asked, DeviceProperties, LaunchList, Named
from wengert.kernels.matmul.gemm_source import write
from wengert.kernels.matmul.product import FLOATS, HALVES, THIN, Epilogue, Matrix, Product, Tile, is_even, product
from wengert.kernels.space import Access, space
from wengert.kernels.writer import (
    CUDA,
    expression,
    loaded,
    narrowed,
    operand_text,
    parameters,
    position_text,
    scalar_type,
    widened,
)
from wengert.ops.comparison import CHECKED_INDEX

__all__ = ["Epilogue", "Matrix", "Product", "Tile", "candidates", "expected", "matmul", "write"]


def matmul(product: Product, device: DeviceProperties) -> list[LaunchList]:
    """Implementations of a product, in order of expected time; none if there is nothing to compute."""
    if not (product.rows and product.columns and product.batches):
        return []
    product = product.normal()
    tiles = sorted(candidates(product, device), key=lambda tile: expected(product, tile, device))
    return [write(product, tile, device) for tile in tiles]


# --- tiles ----------------------------------------------------------------------------------------------------------

_FMA = ((128, 256, 64, 64), (128, 128, 64, 32), (128, 64, 32, 32), (64, 64, 32, 32))
_MMA = ((256, 128, 64, 64), (128, 256, 64, 64), (128, 128, 64, 64), (64, 128, 32, 64), (64, 64, 32, 32))
_WGMMA = (
    (128, 256, 64, 4),
    (256, 128, 128, 4),
    (128, 128, 64, 6),
    (64, 256, 64, 4),
    (256, 64, 128, 4),
    (128, 64, 64, 6),
)
_SMALL = ((16, 16), (32, 16))


def candidates(product: Product, device: DeviceProperties) -> list[Tile]:
    """The tiles that support a product on a device, best first. Under `config.invariant` one, whatever the sizes."""
    if product.dtype in COMPLEX:
        return [Tile("tiled", 16, 16, 16)]
    if product.dtype not in FLOATS:
        return [Tile("naive", 16, 16, 1)]
    if product.dtype == float64:
        return [Tile("tiled", 16, 16, 16)]
    arch = int(device.arch.rstrip("a"))
    if device.invariant:
        by_tensor_cores = product.for_tensor_cores and arch >= 80
        high, wide, tall, broad = (_MMA if by_tensor_cores else _FMA)[-1]
        rung, depth, stages = ("mma", 128 // product.dtype.itemsize, 3) if by_tensor_cores else ("fma", 16, 2)
        return [Tile(rung, high, wide, depth, tall, broad, stages)]
    if product.for_tensor_cores and arch >= 80:
        unit = 128 // product.dtype.itemsize
        found = [Tile("mma", high, wide, unit, tall, broad, 3) for high, wide, tall, broad in _MMA]
        found += _wgmma_tiles(product, device)
    else:
        found = [Tile("fma", high, wide, 16, tall, broad, 2) for high, wide, tall, broad in _FMA]
    fits = [tile for tile in found if tile.shared(product.dtype) <= device.shared_per_block]
    cut = [replace(tile, split=split) for tile in fits for split in _splits(product, tile, device)]
    return cut + (_small_tiles(product) if product.dtype == float32 else [])


def _wgmma_tiles(product: Product, device: DeviceProperties) -> list[Tile]:
    size = product.dtype.itemsize
    if device.arch != "90a" or not all(operand.aligned(16 // size) for operand in product.operands):
        return []
    if product.dtype not in HALVES and not all(operand.along for operand in product.operands):
        return []  # wgmma takes tf32 along the depth only
    return [Tile("wgmma", high, wide, 128 // size, tall, 0, stages) for high, wide, tall, stages in _WGMMA]


def _small_tiles(product: Product) -> list[Tile]:
    if product.flops > 1e9 or product.batches > 65535 or product.rows > 1 << 19:  # what a grid's axes can hold
        return []
    rounds = max(1, -(-product.depth // 512))
    depth = max(32, -(-product.depth // (rounds * 32)) * 32)
    return [Tile("small", high, wide, depth, warps=8) for high, wide in _SMALL]


_MANY_ROWS, _FEW = 1 << 16, 64


def _is_thin(product: Product, device: DeviceProperties) -> bool:
    """Whether many rows are multiplied by a small matrix in strict float32, as in a 1 x 1 convolution of 64 channels.

    cuBLASLt's first choice takes 44 us on an H200 for 131,072 rows of 64 by 64 x 64: 47% of the memory and arithmetic
    bound. There are only four steps of depth, so what counts is that three blocks of `THIN` share an SM, and that whole
    chunks are loaded first: 5,100 instructions per warp for 4,096 multiply-adds.
    """
    p, (left, right) = product, product.operands
    small = 32 < p.columns <= _FEW and _FEW // 2 <= p.depth <= _FEW and p.rows >= _MANY_ROWS and p.batches == 1
    exact = p.dtype == float32 and not p.tf32 and p.epilogue is None and device.arch == "90a" and not device.invariant
    even = p.depth % 4 == p.columns % 4 == 0 and left.along and left.aligned(4) and right.aligned(4)
    return small and exact and even


def _splits(product: Product, tile: Tile, device: DeviceProperties) -> list[int]:
    """Into how many parts the depth may be cut: as many as the device holds blocks, each of a few tiles' depth."""
    blocks = math.prod(tile.tiles(product)) * product.batches
    rounds = 3 if tile.rung == "wgmma" else 1  # of blocks that stay, or all at once
    most = min(product.depth // (4 * tile.depth), rounds * device.sms * _resident(product, tile, device) // blocks)
    steps = sorted({2**i * odd // 2 for i in range(1, 9) for odd in (2, 3)})
    return [1, *(split for split in steps if 1 < split <= most)]


def _resident(product: Product, tile: Tile, device: DeviceProperties) -> int:
    """The number of blocks per SM; registers are those of the sums and about 90 more."""
    if tile.rung == "wgmma":
        return 1
    sums = tile.tall * tile.broad // 32 if tile.tall else 8
    return max(1, device.blocks_resident(tile.threads, min(sums + 90, 255), tile.shared(product.dtype)))


# --- the model ------------------------------------------------------------------------------------------------------

_RATES = {"naive": 16.0, "tiled": 60.0, "small": 120.0, "fma": 180.0, "mma": 1700.0, "wgmma": 3100.0}
"""FLOPs a clock that an SM full of the largest tiles does."""
_SMALLER = {"fma": 0.11, "mma": 0.28, "wgmma": 0.12}
"""How much of it is lost each time a tile is halved."""
_START = {"small": 3500.0, "fma": 3500.0, "mma": 3500.0, "wgmma": 4500.0}
"""Clocks before and after the arithmetic."""
_ADDING = 4000.0  # clocks of the launch that adds parts up, besides its bytes
_FETCHED = 14.0  # bytes a clock, from the L2 cache to an SM
_CLOCK = 1.7e9
_LARGEST = 128 * 256


def expected(product: Product, tile: Tile, device: DeviceProperties) -> float:
    """The time in clocks: what the busiest SM computes, at the rate that the blocks it holds together reach."""
    blocks = math.prod(tile.tiles(product)) * product.batches * tile.split
    by_tensor_cores = tile.rung in ("mma", "wgmma")
    rate = _RATES[tile.rung] * (0.5 if by_tensor_cores and product.dtype == float32 else 1.0)
    rate *= 1.0 - _SMALLER.get(tile.rung, 0.0) * math.log2(_LARGEST / (tile.high * tile.wide)) / 2
    if tile.rung == "small":
        rate *= (tile.high * tile.wide / 512) ** 0.7  # a larger tile reads shared memory less often for each sum
    rounds = -(-blocks // device.sms)
    together = min(rounds, _resident(product, tile, device))
    if tile.rung in ("fma", "mma"):
        rate *= min(1.0, together * tile.high * tile.wide / _LARGEST) ** 0.35
    depth = -(-tile.share(product.depth) // tile.depth) * tile.depth
    arithmetic = 2 * tile.high * tile.wide * depth * rounds / rate
    if tile.rung == "small":  # loads are not hidden behind a block's own arithmetic, but partly behind other blocks'
        arithmetic += (tile.high + tile.wide) * depth * 4 * rounds / _FETCHED
        arithmetic *= 0.7 + 0.3 / rounds
    parts = tile.split * product.rows * product.columns * product.batches * 8
    adding = _ADDING + parts / device.bandwidth * _CLOCK if tile.split > 1 else 0.0
    return arithmetic + _START.get(tile.rung, 2500.0) + adding


# --- epilogue -------------------------------------------------------------------------------------------------------


def epilogue(
    kernel: LoopKernel, product: str, dtype: DType, rows: int, columns: int, stored: bool = False
) -> Epilogue | None:
    """What takes the sums of a product of (batch, rows, columns) in the buffer `product`, of `dtype`.

    With `stored` the product is written as well. None where the kernel reduces, checks indices, or reads the product at
    another place than the element it makes.
    """
    kernel = merge_loops(kernel)
    statements = [s for stage in kernel.stages for s in (*stage.before, *stage.inside)] + kernel.after
    if kernel.inner or any(isinstance(s, Accumulate) for s in statements):
        return None
    if any(isinstance(s, Let) and s.op is CHECKED_INDEX for s in statements):
        return None
    if any(isinstance(s, Load) and s.buffer == product and not _is_own(s, kernel) for s in statements):
        return None
    buffers = {name: kind for name, kind in kernel.buffers.items() if name != product}
    if stored:
        buffers[product] = (dtype, True)
    names = {buffer: f"b{i}" for i, buffer in enumerate(buffers)}
    first = _of_column(kernel, statements, product, columns)
    rounded = "acc" if dtype == float32 or dtype.itemsize == 8 else widened(dtype, narrowed(dtype, "acc"))
    lines = [*_positions(kernel, rows, columns, bool(first)), f"const {scalar_type(dtype)} product = {rounded};"]
    lines += [line for s in statements if s not in first for line in _lines(s, names, product)]
    if stored:
        lines.append(f"{names[product]}[at] = {narrowed(dtype, 'product')};")
    declared = parameters(buffers, names, CUDA)
    by_column = [f"const long long {kernel.outer[-1].name} = column;"] if first else []
    by_column += [line for s in first for line in _lines(s, names, product)]
    return Epilogue(_text(lines), declared, tuple(names.values()), tuple(buffers), _text(by_column), kernel.comment)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _of_column(
    kernel: LoopKernel, statements: Sequence[Statement], product: str, columns: int
) -> dict[Statement, None]:
    """The statements that are the same in every row, in order: they read constant memory at the column."""
    if not kernel.outer or kernel.outer[-1].extent != columns:
        return {}
    found: dict[Statement, None] = {}
    known: set[str] = set()
    for s in statements:
        if not isinstance(s, Load | Let) or s.guards:
            continue
        if isinstance(s, Load):
            changes = s.buffer == product or kernel.buffers[s.buffer][1]
            is_one = not changes and s.index.loops() <= {kernel.outer[-1]}
        else:
            is_one = known.issuperset(uses(s))
        if is_one:
            found[s] = None
            known.add(s.name)
    return found


def _is_own(load: Load, kernel: LoopKernel) -> bool:
    """Whether a load is of the element that the loops stand at."""
    if load.guards or load.index.constant:
        return False
    extents = [loop.extent for loop in kernel.outer]
    steps = [math.prod(extents[k + 1 :]) for k in range(len(extents))]
    return all(load.index.factor(loop) == step for loop, step in zip(kernel.outer, steps))


def _positions(kernel: LoopKernel, rows: int, columns: int, has_column: bool) -> list[str]:
    """The loops' variables from the row, the column and the batch; that of the column may be there already."""
    lines = [f"const long long at = ((long long)batch * {rows} + row) * {columns} + column;"]
    flat, rest = "at", kernel.outer
    if rest and rest[-1].extent == columns:
        lines += [] if has_column else [f"const long long {rest[-1].name} = column;"]
        flat, rest = f"((long long)batch * {rows} + row)", rest[:-1]
    step = 1
    for loop in reversed(rest):
        quotient = f"{flat} / {step}" if step > 1 else flat
        step *= loop.extent
        lines.append(f"const long long {loop.name} = {quotient}{f' % {loop.extent}' if loop is not rest[0] else ''};")
    return lines


def _lines(statement: Statement, names: dict[str, str], product: str) -> Iterable[str]:
    if isinstance(statement, Store):
        value = narrowed(statement.dtype, operand_text(statement.value))
        yield f"{names[statement.buffer]}[{statement.index}] = {value};"
        return
    assert not isinstance(statement, Accumulate)
    yield f"const {scalar_type(statement.dtype)} {statement.name} = {_value(statement, names, product)};"


def _value(statement: Value, names: dict[str, str], product: str) -> str:
    if isinstance(statement, Let):
        return expression(statement, CUDA)
    if not isinstance(statement, Load):
        return position_text(statement)
    if statement.buffer == product:
        return "product"
    return loaded(statement, f"{names[statement.buffer]}[{statement.index}]")


# --- cuda -----------------------------------------------------------------------------------------------------------


_LIBRARY_PAYS = 1 << 29  # floating-point operations: from here on a library's product is worth a kernel more


def multiplies(node: Node) -> bool:
    """Whether a node is a matrix product that our kernels support."""
    return (is_even(node) or _has_two_levels(node)) and node.dtype is not bool_


def is_small(node: Node) -> bool:
    """Whether a product is one whose time is mostly that of launching: our kernels do it, with what follows from it."""
    if not multiplies(node) or node.dtype is not float32 or not node.size:
        return False
    p = product(node)
    return p.batch == 1 and p.k > 0 and 2 * p.m * p.n * p.k <= _LIBRARY_PAYS


def outdoes_libraries(node: Node, device: DeviceProperties) -> bool:
    """Whether our kernels are faster than a library's."""
    if absorbs(node, device):
        return True
    known = multiplies(node) and node.dtype is float32 and node.size
    return bool(known) and _is_thin(_whole(node, lambda _: "", device), device)


def absorbs(node: Node, device: DeviceProperties) -> bool:
    """Whether our kernels are the fastest available, and take an epilogue."""
    return is_small(node) and not device.invariant


def sides(node: Node) -> tuple[int, int]:
    """The rows and columns of the sums that a matrix product makes."""
    p = product(node)
    return p.m, p.n


def operands(node: Node) -> Sequence[Node]:
    """The matrices that a product reads from memory: those behind transposes and broadcasts."""
    if not multiplies(node):
        return node.sources
    p = product(node)
    return p.x, p.y


def work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """The launches of a product that our kernels support."""
    return product_work(node, named, device, asked.epilogue, asked.tile) if multiplies(node) else None


def product_work(
    node: Node, named: Named, device: DeviceProperties, epilogue: Epilogue | None = None, tile: Tile | None = None
) -> LaunchList:
    """The work of a matrix product, whose sums an epilogue may take; by the best tile if none is given."""
    if not node.size:
        return LaunchList(())
    whole = _whole(node, named, device, epilogue)
    return write(whole, tile or _tiles(whole, device)[0], device)


def _whole(node: Node, named: Named, device: DeviceProperties, epilogue: Epilogue | None = None) -> Product:
    p = product(node)
    batch = (p.batch,) if p.batch > 1 else ()
    steps: list[tuple[int, ...]] = [(step,) if batch else () for step in (p.step_x, p.step_y, p.m * p.n)]
    if not is_even(node):
        batch = node.shape[:-2]
        steps = [_steps(value, batch) for value in (*node.sources, node)]
    left = Matrix(named(p.x), p.x.dtype, *((1, p.m) if p.transposed_x else (p.k, 1)), steps[0])
    right = Matrix(named(p.y), p.y.dtype, *((1, p.k) if p.transposed_y else (p.n, 1)), steps[1])
    result = Matrix(named(node), node.dtype, p.n, 1, steps[2])
    return Product(p.m, p.n, p.k, left, right, result, batch, epilogue, device.tf32).normal()


def _has_two_levels(node: Node) -> bool:
    """Whether batches that broadcast differently lie apart at two levels, which is what kernels take."""
    batch = node.shape[:-2]
    accesses = [Access(_steps(value, batch)) for value in (*node.sources, node)]
    return len(space(batch, accesses).extents) <= 2


def _steps(value: Node, batch: Sequence[int]) -> tuple[int, ...]:
    """How many elements apart the matrices of a value lie along each axis of the batches; 0 where it broadcasts."""
    rows, columns = value.shape[-2:]
    lead = (1,) * (len(batch) + 2 - value.ndim) + value.shape[:-2]
    apart = [rows * columns * math.prod(lead[axis + 1 :]) for axis in range(len(lead))]
    return tuple(step if size > 1 else 0 for size, step in zip(lead, apart))


def _tiles(whole: Product, device: DeviceProperties) -> list[Tile]:
    found = sorted(candidates(whole, device), key=lambda tile: expected(whole, tile, device))
    return [THIN, *found] if _is_thin(whole, device) else found


def tiles(node: Node, device: DeviceProperties) -> Sequence[Tile | None]:
    """The tiles by which our kernels support a product, in order of expected time."""
    return _tiles(_whole(node, lambda _: "", device), device) if multiplies(node) and node.size else [None]
