"""Calls of matrix products on the CPU: by BLAS, or in tiles of our own where those are faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wengert.core.dtypes import float32, float64
from wengert.core.graph import Node
from wengert.kernels.c_call import CCall, CFunction, Pointer
from wengert.kernels.expressions import suffix
from wengert.kernels.threads import thread_count
from wengert.ops.movement import BROADCAST, PERMUTE

WORTH_THREADS = 4_000_000  # floating-point operations (about 40 us): below, a product stays on one thread
TILED_FROM = 32  # rows and columns from which a product above that is faster in our tiles than by BLAS
BLOCK_ROWS = 16  # that a thread makes at a time, or up to twice as many: two tiles of full height, or three or four


def _untransposed(x: Node) -> tuple[Node, bool]:
    """The matrix behind a transpose of the last two axes, and whether there was one."""
    if x.op is PERMUTE:
        n = x.ndim
        if x.attrs["axes"] == (*range(n - 2), n - 1, n - 2):
            return x.sources[0], True
    return x, False


def operands(node: Node) -> Sequence[Node]:
    """What a product reads from memory: the matrices behind transposes and broadcasts, where there is C for it."""
    if not _multiplies(node):
        return node.sources
    return [_unbatched(_untransposed(source)[0]) for source in node.sources]


def _unbatched(x: Node) -> Node:
    """The matrix behind a broadcast over batches."""
    if x.op is BROADCAST and x.sources[0].size == x.shape[-1] * x.shape[-2]:
        source = x.sources[0]
        if source.shape[-2:] == x.shape[-2:]:
            return source
    return x


def _multiplies(node: Node) -> bool:
    same = all(source.dtype is node.dtype for source in node.sources)
    return same and node.dtype in (float32, float64) and is_even(node)


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
    turned_x: bool
    turned_y: bool
    step_x: int
    step_y: int


def product(node: Node) -> BlasProduct:
    """What a matmul node multiplies, with transposes and broadcasts absorbed."""
    (a, b), (m, n) = node.sources, node.shape[-2:]
    k, batch = a.shape[-1], math.prod(node.shape[:-2])
    (x, turned_x), (y, turned_y) = _untransposed(a), _untransposed(b)
    x, y = _unbatched(x), _unbatched(y)
    step_x = 0 if x.size == m * k else m * k
    step_y = 0 if y.size == k * n else k * n
    if batch > 1 and step_x and not step_y and not turned_x:  # one matrix for all batches: one taller product
        m, batch = m * batch, 1
    return BlasProduct(x, y, batch, m, n, k, turned_x, turned_y, step_x, step_y)


def absorbs(node: Node) -> bool:
    """Whether a product takes in an elementwise epilogue: it is a single one."""
    return _multiplies(node) and product(node).batch == 1


def matmul(node: Node, pointer: Pointer, epilogue: str = "") -> CCall | None:
    """A matrix product, and a call of `epilogue` (it ends in `first, last`) on rows that a thread has just made."""
    if not _multiplies(node):
        return None
    p = product(node)
    if p.batch == 1 and min(p.m, p.n) >= TILED_FROM and 2 * p.m * p.n * p.k > WORTH_THREADS:
        return _tiled(node, p, pointer, epilogue)
    text = _by_blas_with(node, p, pointer, epilogue) if epilogue else _by_blas(node, p, pointer)
    return CCall(text, function=CFunction("matmul", suffix(node.dtype)))


def _tiled(node: Node, p: BlasProduct, pointer: Pointer, epilogue: str) -> CCall:
    """A product in tiles of our own. Blocks of rows go to whichever thread is free."""
    kind, packed, blocks = suffix(node.dtype), "(void *)(arena + scratch)", p.m // BLOCK_ROWS
    numbers = f"{p.m}, {p.n}, {p.k}, {int(p.turned_x)}, first, last"
    lines = [
        "#pragma omp parallel",
        "{",
        f"    wg_product_pack_{kind}({pointer(p.y)}, {packed}, {p.n}, {p.k}, {int(p.turned_y)});",
        "    #pragma omp for schedule(dynamic)",
        f"    for (long block = 0; block < {blocks}; block++) {{",
        f"        long first = wg_part(block, {blocks}, {p.m}), last = wg_part(block + 1, {blocks}, {p.m});",
        f"        wg_product_rows_{kind}({pointer(p.x)}, {packed}, {pointer(node)}, {numbers});",
        *([f"        {epilogue}"] if epilogue else []),
        "    }",
        "}",
    ]
    vector = 64 // node.dtype.itemsize  # columns are filled up to whole vectors, the widest there are
    return CCall("\n    ".join(lines), -(-p.n // vector) * 64 * p.k, CFunction("product_rows", kind))


def _by_blas(node: Node, p: BlasProduct, pointer: Pointer) -> str:
    numbers = f"{p.batch}, {p.m}, {p.n}, {p.k}, {int(p.turned_x)}, {int(p.turned_y)}, {p.step_x}, {p.step_y}"
    return f"wg_matmul_{suffix(node.dtype)}({pointer(p.x)}, {pointer(p.y)}, {pointer(node)}, {numbers});"


def _by_blas_with(node: Node, p: BlasProduct, pointer: Pointer, epilogue: str) -> str:
    threads = thread_count() if 2 * p.m * p.n * p.k > WORTH_THREADS else 1
    rows_each = -(-p.m // threads)
    part = -(-rows_each // 16) * 16
    numbers = f"{p.m}, {p.n}, {p.k}, {int(p.turned_x)}, {int(p.turned_y)}, first, last"
    rows = f"wg_matmul_rows_{suffix(node.dtype)}({pointer(p.x)}, {pointer(p.y)}, {pointer(node)}, {numbers});"
    whole = ""
    if p.n > p.m or not p.k:  # cut along the columns instead: the epilogue comes after all of it
        whole, rows = _by_blas(node, p, pointer), ""
    lines = [
        whole,
        f"#pragma omp parallel for if ({threads} > 1)",
        f"for (long part = 0; part < {threads}; part++) {{",
        f"    long first = part * {part}L, last = first + {part} < {p.m} ? first + {part} : {p.m};",
        f"    if (first < last) {{ {rows} {epilogue} }}",
        "}",
    ]
    return "\n    ".join(line for line in lines if line)
