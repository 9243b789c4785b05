"""Launch shapes under `config.invariant`: the order of a sum depends on its number of terms and on nothing else.

Neither the rest of the kernel, nor the number of rows, nor their layout, nor the device matters: the parts of a batch
have the same sums in one kernel or in several, on one rank or on many. The terms of a row are distributed over `lanes`
threads, `vector` adjacent terms to each in turn; a thread adds its terms sequentially, and the threads' sums are
combined by halves, within warps and then over warps (`block.cuh`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wengert.kernels.cuda.shapes import (
    BESIDE_ROWS,
    HELD,
    LINE,
    LONG,
    Columns,
    Rows,
    accesses,
    bytes_again,
    row_words,
    states_bytes,
    vector_width,
)
from wengert.kernels.ir.loops import LoopKernel
from wengert.kernels.ir.transforms import crosses
from wengert.kernels.launch import DeviceProperties

WIDEST = 4  # terms side by side that a thread has: 16 bytes of float32
EACH = 8  # of them that a thread should have, up to this many threads
MOST = 512  # threads of a row
SUMS = 128  # bytes of sums that a thread should have for its columns: they are in registers


class SumOrder(NamedTuple):
    """How the terms of a row are distributed over threads."""

    vector: int
    lanes: int


def order_of(kernel: LoopKernel) -> SumOrder:
    """The order for a kernel with unmerged loops: its inner loops are the axes that its ops reduce."""
    return order_over([loop.extent for loop in kernel.inner])


def order_over(axes: Sequence[int]) -> SumOrder:
    """The order of sums over axes of these lengths.

    >>> for length in (8, 32, 768, 50257):
    ...     print(order_over([length]))
    SumOrder(vector=4, lanes=1)
    SumOrder(vector=4, lanes=4)
    SumOrder(vector=4, lanes=32)
    SumOrder(vector=1, lanes=512)
    """
    length = math.prod(axes)
    vector = math.gcd(length, WIDEST) if len(axes) == 1 else 1
    vectors = length // vector
    lanes = min(16, 1 << max(vectors // 2, 1).bit_length() - 1)  # so that neighbours are read together
    while lanes < MOST and lanes * EACH < vectors:
        lanes *= 2
    return SumOrder(vector, lanes)


def fixed_shape(kernel: LoopKernel, order: SumOrder, device: DeviceProperties) -> tuple[Rows | Columns, str]:
    """The shape of a kernel of merged loops with reductions in this order, and why."""
    return _columns(kernel, order) if crosses(kernel) else _rows(kernel, order, device)


def _rows(kernel: LoopKernel, order: SumOrder, device: DeviceProperties) -> tuple[Rows, str]:
    (vector, lanes), length = order, math.prod(loop.extent for loop in kernel.inner)
    chunks = -(-length // (vector * lanes))
    chunks = chunks if chunks * vector * row_words(kernel) <= HELD else 0
    why = f"{math.prod(loop.extent for loop in kernel.outer)} rows of {length}: {lanes} threads a row, in a fixed order"
    kept = bytes_again(kernel, vector) * (length // vector)
    if not chunks and length >= LONG * vector and 0 < kept <= device.shared_per_block - BESIDE_ROWS:
        return Rows(vector, lanes, 1, 0, in_shared=True), f"{why}, {kept >> 10} KB of it in shared memory"
    return Rows(vector, lanes, max(1, 256 // lanes), chunks), why


def _columns(kernel: LoopKernel, order: SumOrder) -> tuple[Columns, str]:
    loop, inside = kernel.outer[-1], [s for stage in kernel.stages for s in stage.inside]
    vector = min(vector_width(inside, loop), 4)
    while vector > 1 and states_bytes(kernel, vector) > SUMS:
        vector //= 2
    size = max([s.dtype.itemsize for s in accesses(inside, loop)], default=4) * vector
    side_by_side = max(LINE // size, 32 // order.lanes)  # and no less than a warp
    across = max(1, min(loop.extent // vector, side_by_side, 1024 // order.lanes))
    steps = math.prod(inner.extent for inner in kernel.inner)
    columns = math.prod(outer.extent for outer in kernel.outer)
    why = f"{columns} columns of {steps}: {across} x {order.lanes} threads, in a fixed order"
    return Columns(vector, across, order.lanes, run=order.vector), why
