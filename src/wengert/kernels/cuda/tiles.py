"""Tiles: data that is read along one axis and written along another goes through shared memory, to coalesce both.

A block processes a square of the axis it reads along (`down`) and the axis it writes along (`side`). Its warps first
read lines along one, then compute and write lines along the other. The tile's rows are one word longer than necessary,
which puts the elements of a column into different banks.
"""

from __future__ import annotations

import math

from wengert.kernels.cuda.shapes import Tiles, transposed
from wengert.kernels.cuda.source import CudaPage, Names, Pass, base_name, unravel
from wengert.kernels.ir.index import Loop
from wengert.kernels.ir.loops import Load, LoopKernel, access
from wengert.kernels.ir.transforms import statements_of
from wengert.kernels.launch import LaunchList
from wengert.kernels.writer import stored_type


def tiles(kernel: LoopKernel, shape: Tiles, why: str) -> LaunchList:
    """One launch with one block per tile."""
    return _Tiles(kernel, shape, why).work()


class _Tiles:
    def __init__(self, kernel: LoopKernel, shape: Tiles, why: str) -> None:
        self.kernel, self.shape, self.why = kernel, shape, why
        self.names, self.page = Names(kernel), CudaPage()
        self.side = kernel.outer[-1]
        self.down, loads = transposed(kernel)
        self.transposed = {access(load): load for load in loads}
        self.others = [loop for loop in kernel.outer if loop not in (self.side, self.down)]
        self.length = 32 * shape.vector

    def work(self) -> LaunchList:
        page, shape = self.page, self.shape
        counts = [-(-loop.extent // self.length) for loop in (self.side, self.down)]
        for number, load in enumerate(self.transposed.values()):
            row = self.length + max(1, 4 // load.dtype.itemsize)
            page.line(f"__shared__ {stored_type(load.dtype)} tile{number}[{self.length}][{row}];")
        page.line("const int lane = threadIdx.x % 32, line = threadIdx.x / 32;")
        page.line(f"const int {self._first(self.side)} = blockIdx.x % {counts[0]} * {self.length};")
        page.line(f"const int {self._first(self.down)} = blockIdx.x / {counts[0]} % {counts[1]} * {self.length};")
        if self.others:
            page.line(f"const {self.names.index} other = blockIdx.x / {counts[0] * counts[1]};")
            unravel(page, "other", self.others, self.names)
        self._lines(self.side, self.down)
        for number, load in enumerate(self.transposed.values()):
            self._fill(number, load)
        self._end()
        page.line("__syncthreads();")
        self._lines(self.down, self.side)
        work = Pass(list(statements_of(self.kernel)), self.side, shape.vector, self.names)
        work.tiles = {key: self._element(number) for number, key in enumerate(self.transposed)}
        work.load(page)
        work.compute(page)
        self._end()
        grid = math.prod(counts) * math.prod(loop.extent for loop in self.others)
        return LaunchList((self.names.launch(page, grid, 32 * shape.lines, why=self.why),))

    def _first(self, loop: Loop) -> str:
        return f"{loop.name}_first"

    def _element(self, number: int) -> str:
        """An element of a tile, where the loops are."""
        side, down = self.side, self.down
        return f"tile{number}[{side.name} - {self._first(side)}][{down.name} - {self._first(down)}]"

    def _lines(self, slow: Loop, fast: Loop) -> None:
        """Begin a loop over the lines of a tile; lanes go along the fast axis."""
        page, vector = self.page, self.shape.vector
        page.line("#pragma unroll")
        page.open(f"for (int k = 0; k < {self.length}; k += {self.shape.lines})")
        page.line(f"const {self.names.index} {slow.name} = {self._first(slow)} + k + line;")
        scaled = "lane" if vector == 1 else f"lane * {vector}"
        page.line(f"const {self.names.index} {base_name(fast, vector)} = {self._first(fast)} + {scaled};")
        bounds = [(slow.name, slow), (base_name(fast, vector), fast)]
        ragged = [f"{name} < {loop.extent}" for name, loop in bounds if loop.extent % self.length]
        page.open(f"if ({' && '.join(ragged)})" if ragged else "")

    def _end(self) -> None:
        self.page.close()
        self.page.close()

    def _fill(self, number: int, load: Load) -> None:
        """Put a line of what is read along the other axis into its tile."""
        page, vector = self.page, self.shape.vector
        work = Pass([load], self.down, vector, self.names)
        target = f"tile{number}[k + line]"
        if vector == 1:
            page.line(f"{target}[lane] = {work.vector_text(load)};")
        else:
            page.line(f"wg_store(&{target}[lane * {vector}], {work.vector_text(load)});")
