"""A matrix product as the CUDA kernels see it: the layouts of its matrices, its epilogue, and the tile loads."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import COMPLEX, bfloat16, float16, float32, float64
from wengert.core.graph import Node
from wengert.kernels.writer import stored_type
from wengert.ops.movement import BROADCAST, PERMUTE

DType = np.dtype[Any]

FLOATS = {float32: "float", float64: "double", float16: "wg_f16", bfloat16: "wg_bf16"}
HALVES = (float16, bfloat16)
_INTEGERS = {1: "char", 2: "short", 4: "int", 8: "long long"}


def device_type(dtype: DType) -> str:
    """The C++ type of an element in the matrix kernels."""
    if dtype in FLOATS:
        return FLOATS[dtype]
    if dtype in COMPLEX:
        return stored_type(dtype)
    return f"{'signed' if dtype.kind == 'i' else 'unsigned'} {_INTEGERS[dtype.itemsize]}"


def sum_type(dtype: DType) -> str:
    """The accumulator type for products of this dtype."""
    return "float" if dtype in HALVES else device_type(dtype)


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
        """The same memory, rows and columns exchanged."""
        return replace(self, row=self.column, column=self.row)

    @property
    def levels(self) -> tuple[int, int]:
        """How far apart batches are at the outer and the inner level."""
        outer, inner = (0, 0, *self.batch)[-2:]
        return outer, inner


@dataclass(frozen=True)
class Epilogue:
    """C++ that takes each sum of a product instead of storing it: statements over the parameters.

    `takes` finds the sum in `acc` (a double in a float64 product) and where it belongs in `row`, `column` and `batch`;
    neighbouring threads have neighbouring columns. `by_column` comes before it and needs the column alone: a thread
    whose sums are all of one column does it once.
    """

    takes: str
    parameters: tuple[str, ...]  # how its buffers are declared: "const float *b0"
    names: tuple[str, ...]  # what the parameters are called
    buffers: tuple[str, ...]  # the buffers that are given for them
    by_column: str = ""
    comment: str = ""


class Operand(NamedTuple):
    """A side of a product as tiles are brought in from it: rows (columns, on the right) by depth."""

    matrix: Matrix
    along: bool  # whether it is contiguous along the depth
    step: int  # elements from one row to the next, or else from one depth to the next
    rows: int

    def aligned(self, chunk: int) -> bool:
        """Whether chunks of this many elements begin on multiples of their size."""
        return self.step % chunk == 0 and all(apart % chunk == 0 for apart in self.matrix.batch)


@dataclass(frozen=True)
class Product:
    """result[b] = left[b] @ right[b], of (rows, depth) and (depth, columns); an epilogue may take the sums."""

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
        """That of the operands."""
        return self.left.dtype

    @property
    def batches(self) -> int:
        """How many products there are."""
        return math.prod(self.batch)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.columns * self.depth * self.batches

    @property
    def operands(self) -> tuple[Operand, Operand]:
        """The left and the right-hand side."""
        a, b = self.left, self.right
        return (
            Operand(a, *_along(a.row, a.column, self.rows, self.depth), self.rows),
            Operand(b, *_along(b.column, b.row, self.columns, self.depth), self.columns),
        )

    @property
    def for_tensor_cores(self) -> bool:
        """Whether the tensor cores may do it."""
        return self.dtype in HALVES or (self.dtype == float32 and self.tf32)

    def normal(self) -> Product:
        """The same product with its result row by row, and batches that lie evenly apart taken together."""
        if self.result.column != 1 and self.epilogue is None and self.columns > 1:
            return replace(
                self,
                rows=self.columns,
                columns=self.rows,
                left=self.right.transposed,
                right=self.left.transposed,
                result=self.result.transposed,
            ).normal()
        axes: list[tuple[int, ...]] = []
        steps = [matrix.batch or (0,) * len(self.batch) for matrix in (self.left, self.right, self.result)]
        for size, *apart in zip(self.batch, *steps):
            if size == 1:
                continue
            if axes and all(outer == size * inner for outer, inner in zip(axes[-1][1:], apart)):
                axes[-1] = (axes[-1][0] * size, *apart)
            else:
                axes.append((size, *apart))
        if len(axes) > 2:
            raise ValueError(
                f"batches of a product lie apart at two levels at most, not {len(axes)}: {self.batch}, {steps}"
            )
        batch, left, right, result = zip(*axes) if axes else ((), (), (), ())
        return replace(
            self,
            batch=batch,
            left=replace(self.left, batch=left),
            right=replace(self.right, batch=right),
            result=replace(self.result, batch=result),
        )


def _along(row: int, column: int, rows: int, depth: int) -> tuple[bool, int]:
    """Whether a matrix of (rows, depth) is contiguous along its depth, and the step between its lines."""
    if column == 1 or (depth == 1 and row != 1):
        return True, row
    if row == 1 or rows == 1:
        return False, column
    raise ValueError(f"a matrix is contiguous along one of its axes; its rows are {row} and its columns {column} apart")


@dataclass(frozen=True)
class Tile:
    """A rung of the ladder and its sizes: what a block makes, what a warp makes of it, and how the depth is cut."""

    rung: str
    high: int
    wide: int
    depth: int
    tall: int = 0  # rows of a warp; of a warpgroup by wgmma
    broad: int = 0  # columns of a warp
    stages: int = 1  # buffers in flight
    warps: int = 0  # of a small product's block
    split: int = 1  # parts of the depth that are summed apart
    joined: bool = False  # whether the blocks of its parts are a cluster and add them up among themselves

    @property
    def threads(self) -> int:
        """Threads of a block."""
        if self.rung == "wgmma":
            return (1 + self.consumers) * 128  # one warpgroup brings, the others multiply
        if self.warps:
            return self.warps * 32
        return self.high // self.tall * (self.wide // self.broad) * 32 if self.tall else self.high * self.wide

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply, by wgmma."""
        return self.high // self.tall if self.rung == "wgmma" else 0

    def shared(self, dtype: DType) -> int:
        """Bytes of dynamic shared memory."""
        if self.rung == "wgmma":
            room = self.consumers * 4 * 16 * 40 * 4  # of each warp, to hand its sums over
            return 1024 + self.stages * ((self.high + self.wide) * 128 + 16) + room
        if self.rung == "mma":
            staged = self.threads // 32 * 16 * (self.broad + 8) * 4 + self.joined * self.high * self.wide * 4
            return max(self.stages * (self.high + self.wide) * self.depth * dtype.itemsize, staged)
        if self.rung == "small":
            panels = (self.depth + 4) * (self.high + self.wide)
            return max(panels, self.warps * self.high * self.wide) * 4
        return 0

    @property
    def constants(self) -> str:
        """The template arguments of its kernel."""
        sizes = {
            "naive": (),
            "tiled": (self.high,),
            "small": (self.high, self.wide, self.depth, self.warps),
            "fma": (self.high, self.wide, self.depth, self.tall, self.broad),
            "mma": (self.high, self.wide, self.depth, self.tall, self.broad, self.stages),
            "wgmma": (self.high, self.wide, self.stages, self.consumers),
        }[self.rung]
        return f"<{', '.join(map(str, sizes))}>" if sizes else ""

    def tiles(self, product: Product) -> tuple[int, int]:
        """How many of them are above and beside one another."""
        return -(-product.rows // self.high), -(-product.columns // self.wide)

    def share(self, depth: int) -> int:
        """The depth that one part has."""
        return -(-depth // (self.split * self.depth)) * self.depth if self.split > 1 else depth

    def __str__(self) -> str:
        stages = f", {self.stages} stages" if self.stages > 1 else ""
        split = f", the depth in {self.split} parts" if self.split > 1 else ""
        split += " of a cluster" if self.joined else ""
        return f"{self.rung} {self.high}x{self.wide}x{self.depth}, {self.threads} threads{stages}{split}"


THIN = Tile("fma", 128, 64, 16, 64, 32, 2)
"""Of a product of many rows by a small matrix, whose chunks are whole."""


# --- the product of a node --------------------------------------------------------------------------------------------


def is_even(node: Node) -> bool:
    """Whether the matrices of a product's batches lie evenly apart: as many as there are results, or one for all."""
    batch = math.prod(node.shape[:-2])
    return all(math.prod(source.shape[:-2]) in (1, batch) for source in node.sources)


class BlasProduct(NamedTuple):
    """A matrix product as BLAS takes it: operands as they lie in memory, sizes, transposes, steps between batches."""

    x: Node
    y: Node
    batch: int
    m: int
    n: int
    k: int
    transposed_x: bool
    transposed_y: bool
    step_x: int
    step_y: int


def product(node: Node) -> BlasProduct:
    """The operands of a matmul node, with transposes and broadcasts absorbed."""
    (a, b), (m, n) = node.sources, node.shape[-2:]
    k, batch = a.shape[-1], math.prod(node.shape[:-2])
    (x, transposed_x), (y, transposed_y) = untransposed(a), untransposed(b)
    x, y = unbatched(x), unbatched(y)
    step_x = 0 if x.size == m * k else m * k
    step_y = 0 if y.size == k * n else k * n
    if batch > 1 and step_x and not step_y and not transposed_x:  # one matrix for all batches: one taller product
        m, batch = m * batch, 1
    return BlasProduct(x, y, batch, m, n, k, transposed_x, transposed_y, step_x, step_y)


def untransposed(x: Node) -> tuple[Node, bool]:
    """The matrix behind a transpose of the last two axes, and whether there was one."""
    if x.op is PERMUTE:
        n = x.ndim
        if x.attrs["axes"] == (*range(n - 2), n - 1, n - 2):
            return x.sources[0], True
    return x, False


def unbatched(x: Node) -> Node:
    """The matrix behind a broadcast over batches."""
    if x.op is BROADCAST and x.sources[0].size == x.shape[-1] * x.shape[-2]:
        source = x.sources[0]
        if source.shape[-2:] == x.shape[-2:]:
            return source
    return x
