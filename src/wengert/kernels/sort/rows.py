"""Rows along an axis, and contiguous rows.

The row kernels take contiguous rows. If the axis is not the last one in memory, planes are transposed before and after:
each element is read and written twice more, in order, which costs less than one read out of order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wengert.core.graph import Node
from wengert.kernels.copy.cuda import MOVED
from wengert.kernels.launch import Launch, LaunchList

_THREADS = (32, 8, 1)


@dataclass(frozen=True)
class AxisRows:
    """The axes before an axis, the axis, and those behind it, as three numbers."""

    outer: int
    size: int
    inner: int

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.outer * self.inner


def rows_of(node: Node, axis: int) -> AxisRows:
    """The rows of a value along an axis."""
    shape = node.shape
    return AxisRows(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def transposed(source: str, target: str, planes: int, rows: int, columns: int, itemsize: int) -> Launch:
    """A launch that transposes planes of rows by columns."""
    kind = MOVED[itemsize]
    text = f"""#include "arrange.cuh"

extern "C" __global__ void wg_transpose(const {kind} *from, {kind} *to, int rows, int columns)
{{
    wg_swap(from, to, rows, columns, rows);
}}
"""
    blocks = -(-columns // 32) * -(-rows // 32) * planes
    numbers = (np.int32(rows), np.int32(columns))
    return Launch(text, "wg_transpose", (blocks, 1, 1), _THREADS, (source, target, *numbers), why="tiles of 32 x 32")


def contiguous(
    rows: AxisRows, kept: int, sizes: tuple[int, int], source: str, target: str, work: Callable[[str, str], LaunchList]
) -> LaunchList:
    """A work over contiguous rows, from `source` to `target`, with planes transposed around it where they have to be.

    `kept` are the elements that it leaves of each row, `sizes` the bytes of an element before and after.
    """
    if rows.inner == 1 or (rows.size == 1 and kept == 1):
        return work(source, target)
    before = transposed(source, "wg_rows", rows.outer, rows.size, rows.inner, sizes[0])
    done = work("wg_rows", "wg_results")
    after = transposed("wg_results", target, rows.outer, rows.inner, kept, sizes[1])
    space = {"wg_rows": rows.count * rows.size * sizes[0], "wg_results": rows.count * kept * sizes[1]}
    return LaunchList((before, *done.launches, after), {**done.workspace, **space})
