"""Calls of matrix products on the CPU: BLAS, or our own tiles where those are faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, HALF, INEXACT, real_of
from wengert.core.graph import Node
from wengert.kernels.c_ops import CCall, CFunction, Packing, Pointer
from wengert.kernels.matmul.product import BlasProduct, is_even, product, unbatched, untransposed
from wengert.kernels.threads import thread_count
from wengert.kernels.writer import suffix

WORTH_THREADS = 4_000_000  # floating-point operations (about 40 us): below, a product stays on one thread
TILED_FROM = 32  # rows and columns from which a product above that is faster in our tiles than by BLAS
BLOCK_ROWS = 16  # that a thread makes at a time, or up to twice as many: two tiles of full height, or three or four


def operands(node: Node) -> Sequence[Node]:
    """The matrices that a product reads from memory: those behind transposes and broadcasts, if there is C for it."""
    if not multiplies(node):
        return node.sources
    return [unbatched(untransposed(source)[0]) for source in node.sources]


def multiplies(node: Node) -> bool:
    """Whether there is C for a product."""
    same = all(source.dtype is node.dtype for source in node.sources)
    return same and node.dtype in INEXACT and node.dtype not in HALF and is_even(node)


def absorbs(node: Node) -> bool:
    """Whether a product takes an elementwise epilogue: only if it is not batched."""
    return multiplies(node) and product(node).batch == 1


def matmul(node: Node, pointer: Pointer, epilogue: str = "", packed: str = "") -> CCall | None:
    """A matrix product, and a call of `epilogue` (it ends in `first, last`) on rows that a thread has just made."""
    if not multiplies(node):
        return None
    p = product(node)
    if _is_tiled(p):
        return _tiled(p, pointer(node), pointer, epilogue, packed)
    text = _by_blas_with(node, p, pointer, epilogue) if epilogue else _by_blas(node, p, pointer)
    return CCall(text, function=CFunction("matmul", suffix(node.dtype)))


def _is_tiled(p: BlasProduct) -> bool:
    """A complex product is a real one of twice the columns and the depth, if its left matrix lies along its rows."""
    if p.batch != 1 or min(p.m, p.n) < TILED_FROM or (p.x.dtype in COMPLEX and p.transposed_x):
        return False
    return (8 if p.x.dtype in COMPLEX else 2) * p.m * p.n * p.k > WORTH_THREADS


def packs(node: Node) -> Packing | None:
    """The right matrix of a product in tiles, rearranged."""
    if not multiplies(node) or not _is_tiled(p := product(node)):
        return None
    return Packing(p.y, f"#pragma omp parallel\n    {_packing(p, '{source}', '{packed}')}", _packed_bytes(p))


def _packing(p: BlasProduct, source: str, packed: str) -> str:
    """The statement that rearranges the right matrix."""
    numbers = f"{source}, {packed}, {p.n}, {p.k}, {int(p.transposed_y)}"
    if p.y.dtype not in COMPLEX:
        return f"wg_product_pack_{suffix(p.y.dtype)}({numbers});"
    part = real_of(p.y.dtype)
    return f"wg_complex_product_pack_{suffix(part)}({numbers}, {_tile_bytes(p) // part.itemsize}L);"


def _packed_bytes(p: BlasProduct) -> int:
    rotations = 2 * p.n * p.k * p.y.dtype.itemsize if p.y.dtype in COMPLEX else 0
    return _tile_bytes(p) + rotations


def _tile_bytes(p: BlasProduct) -> int:
    """The bytes of the right matrix in panels: columns are filled up to whole vectors, the widest there are."""
    n, k, part = _real_sizes(p)
    vector = 64 // part.itemsize
    return int(-(-n // vector) * 64 * k)


def _real_sizes(p: BlasProduct) -> tuple[int, int, np.dtype[Any]]:
    """Columns and depth of the product of reals, and their dtype."""
    return (2 * p.n, 2 * p.k, real_of(p.y.dtype)) if p.y.dtype in COMPLEX else (p.n, p.k, p.y.dtype)


def _tiled(p: BlasProduct, to: str, pointer: Pointer, epilogue: str, packed: str) -> CCall:
    """A product in tiles of our own. Blocks of rows go to whichever thread is free."""
    n, k, part = _real_sizes(p)
    kind, blocks = suffix(part), p.m // BLOCK_ROWS
    scratch = 0 if packed else _packed_bytes(p)
    source, packed = "" if packed else pointer(p.y), packed or "(void *)(arena + scratch)"
    numbers = f"{p.m}, {n}, {k}, {int(p.transposed_x)}, first, last"
    lines = [
        "#pragma omp parallel",
        "{",
        *([f"    {_packing(p, source, packed)}"] if source else []),
        "    #pragma omp for schedule(dynamic)",
        f"    for (long block = 0; block < {blocks}; block++) {{",
        f"        long first = wg_part(block, {blocks}, {p.m}), last = wg_part(block + 1, {blocks}, {p.m});",
        f"        wg_product_rows_{kind}({pointer(p.x)}, {packed}, {to}, {numbers});",
        *([f"        {epilogue}"] if epilogue else []),
        "    }",
        "}",
    ]
    return CCall("\n    ".join(lines), scratch, CFunction("product_rows", kind))


def _by_blas(node: Node, p: BlasProduct, pointer: Pointer) -> str:
    numbers = f"{p.batch}, {p.m}, {p.n}, {p.k}, {int(p.transposed_x)}, {int(p.transposed_y)}, {p.step_x}, {p.step_y}"
    return f"wg_matmul_{suffix(node.dtype)}({pointer(p.x)}, {pointer(p.y)}, {pointer(node)}, {numbers});"


def _by_blas_with(node: Node, p: BlasProduct, pointer: Pointer, epilogue: str) -> str:
    threads = thread_count() if 2 * p.m * p.n * p.k > WORTH_THREADS else 1
    rows_each = -(-p.m // threads)
    part = -(-rows_each // 16) * 16
    numbers = f"{p.m}, {p.n}, {p.k}, {int(p.transposed_x)}, {int(p.transposed_y)}, first, last"
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
