"""Matrix products on a CUDA device by our own kernels: which rung of the ladder, and which tile.

    naive   a thread a sum                                    any dtype, integers too
    tiled   tiles in shared memory                            any dtype; float64's
    small   many small tiles, the depth shared among warps    float32 where latency counts
    fma     tiles in registers, vector loads                  float32; float16 and bfloat16 before sm_80
    mma     tensor cores by mma.sync                          float16, bfloat16, float32 as tf32; from sm_80 on
    wgmma   tensor cores by wgmma, tiles brought by TMA       the same on sm_90a

`matmul` gives them best first, by a model of the time each takes; its figures were measured on an H200.
"""

from __future__ import annotations

import math
from dataclasses import replace

from wengert.core.dtypes import float32, float64
from wengert.kernels.launch import DeviceProperties, Work
from wengert.kernels.matmul.gemm_source import write
from wengert.kernels.matmul.product import FLOATS, HALVES, Epilogue, Matrix, Product, Tile

__all__ = ["Epilogue", "Matrix", "Product", "Tile", "candidates", "expected", "matmul", "write"]


def matmul(product: Product, device: DeviceProperties) -> list[Work]:
    """Ways to carry out a product, the one expected to be fastest first; none if there is nothing to compute."""
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
    """The tiles that can carry out a product on a device."""
    if product.dtype not in FLOATS:
        return [Tile("naive", 16, 16, 1)]
    if product.dtype == float64:
        return [Tile("tiled", 16, 16, 16)]
    arch = int(device.arch.rstrip("a"))
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


def _splits(product: Product, tile: Tile, device: DeviceProperties) -> list[int]:
    """Into how many parts the depth may be cut: as many as the device holds blocks, each of a few tiles' depth."""
    blocks = math.prod(tile.tiles(product)) * product.batches
    rounds = 3 if tile.rung == "wgmma" else 1  # of blocks that stay, or all at once
    most = min(product.depth // (4 * tile.depth), rounds * device.sms * _resident(product, tile, device) // blocks)
    steps = sorted({2**i * odd // 2 for i in range(1, 9) for odd in (2, 3)})
    return [1, *(split for split in steps if 1 < split <= most)]


def _resident(product: Product, tile: Tile, device: DeviceProperties) -> int:
    """How many blocks an SM holds; registers are those of the sums and about 90 more."""
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
