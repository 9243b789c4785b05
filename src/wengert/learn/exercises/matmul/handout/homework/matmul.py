"""A tiled matrix product, as one thread of a GPU runs it.

The grid has a block for each T by T tile of c, the block a thread for each element of the tile. `kernel` is called once
for each thread. It is a generator: `yield` is the barrier that CUDA calls `__syncthreads()`, at which a thread waits
for all others of its block. Every thread of a block must come to the same barriers, those beyond the edge of c too.

a, b and c are n by n matrices in slow global memory. Every `a[i, k]`, `b[k, j]` is a load and every `c[i, j] = x` a
store, and they are counted. `tile_a` and `tile_b` are T by T and shared by the block; what they hold at first is
unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

T = 4  # the tile's width


def kernel(
    thread: tuple[int, int], block: tuple[int, int], n: int, a: Any, b: Any, c: Any, tile_a: Any, tile_b: Any
) -> Iterator[None]:
    """One thread of c = a @ b. `thread` and `block` are (x, y); x goes along columns.

    Each thread loads one element of each tile, and stores one of c: 2 n loads for T² sums of each tile.
    """
    raise NotImplementedError("TODO: kernel")
