"""Ops that are a kernel of their own in C: which they are, what they read, and the call that carries them out.

An op that is neither here nor an expression in a loop is computed by its NumPy reference between two pieces of C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wengert.core.dtypes import float32, float64
from wengert.core.graph import Node
from wengert.kernels.attention import c as attention
from wengert.kernels.c_call import Call, Pointer, includes
from wengert.kernels.convolution.c import convolve
from wengert.kernels.expressions import stored_type, suffix
from wengert.kernels.gather_scatter import c as addressing
from wengert.kernels.pool import c as pooling
from wengert.kernels.threads import thread_count

__all__ = ["absorbs", "call", "includes", "matmul", "operands"]

WORTH_THREADS = 4_000_000  # floating-point operations (about 40 us): below, a product stays on one thread
TILED_FROM = 32  # rows and columns from which a product above that is faster in our tiles than by BLAS
BLOCK_ROWS = 16  # that a thread makes at a time, or up to twice as many: two tiles of full height, or three or four


def _untransposed(x: Node) -> tuple[Node, bool]:
    """The matrix behind a transpose of the last two axes, and whether there was one."""
    if x.op.name == "permute_dims":
        n = x.ndim
        if x.attrs["axes"] == (*range(n - 2), n - 1, n - 2):
            return x.sources[0], True
    return x, False


def operands(node: Node) -> Sequence[Node]:
    """What an opaque op reads from memory."""
    if node.op.name == "matmul" and _multiplies(node):
        return [_unbatched(_untransposed(source)[0]) for source in node.sources]
    return addressing.reads(node)


def _unbatched(x: Node) -> Node:
    """The matrix behind a broadcast over batches."""
    if x.op.name == "broadcast_to" and x.sources[0].size == x.shape[-1] * x.shape[-2]:
        source = x.sources[0]
        if source.shape[-2:] == x.shape[-2:]:
            return source
    return x


def _multiplies(node: Node) -> bool:
    return node.dtype in (float32, float64) and is_even(node)


def is_even(node: Node) -> bool:
    """Whether the matrices of a product's batches lie evenly apart: as many as there are results, or one for all."""
    batch = math.prod(node.shape[:-2])
    return all(math.prod(source.shape[:-2]) in (1, batch) for source in node.sources)


class Product(NamedTuple):
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


def product(node: Node) -> Product:
    """What a matmul node multiplies, with transposes and broadcasts absorbed."""
    (a, b), (m, n) = node.sources, node.shape[-2:]
    k, batch = a.shape[-1], math.prod(node.shape[:-2])
    (x, turned_x), (y, turned_y) = _untransposed(a), _untransposed(b)
    x, y = _unbatched(x), _unbatched(y)
    step_x = 0 if x.size == m * k else m * k
    step_y = 0 if y.size == k * n else k * n
    if batch > 1 and step_x and not step_y and not turned_x:  # one matrix for all batches: one taller product
        m, batch = m * batch, 1
    return Product(x, y, batch, m, n, k, turned_x, turned_y, step_x, step_y)


def absorbs(node: Node) -> bool:
    """Whether an op takes in an elementwise epilogue: a single matrix product."""
    return node.op.name == "matmul" and _multiplies(node) and product(node).batch == 1


def matmul(node: Node, pointer: Pointer, epilogue: str = "") -> Call:
    """A matrix product, and a call of `epilogue` (it ends in `first, last`) on rows that a thread has just made."""
    p = product(node)
    if p.batch == 1 and min(p.m, p.n) >= TILED_FROM and 2 * p.m * p.n * p.k > WORTH_THREADS:
        return _tiled(node, p, pointer, epilogue)
    if not epilogue:
        return Call(_by_blas(node, p, pointer))
    return Call(_by_blas_with(node, p, pointer, epilogue))


def _tiled(node: Node, p: Product, pointer: Pointer, epilogue: str) -> Call:
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
    return Call("\n    ".join(lines), -(-p.n // vector) * 64 * p.k)


def _by_blas(node: Node, p: Product, pointer: Pointer) -> str:
    numbers = f"{p.batch}, {p.m}, {p.n}, {p.k}, {int(p.turned_x)}, {int(p.turned_y)}, {p.step_x}, {p.step_y}"
    return f"wg_matmul_{suffix(node.dtype)}({pointer(p.x)}, {pointer(p.y)}, {pointer(node)}, {numbers});"


def _by_blas_with(node: Node, p: Product, pointer: Pointer, epilogue: str) -> str:
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


def concat(node: Node, pointer: Pointer) -> str:
    """Values joined along an axis: rows copied one after the other."""
    axis = node.attrs["axis"]
    outer = 1
    for n in node.shape[:axis]:
        outer *= n
    inner = node.size // max(outer, 1)
    lines, start = [], 0
    for source in node.sources:
        width = source.size // max(outer, 1)
        if width:
            kind = stored_type(node.dtype)
            lines.append(
                f"for (long i = 0; i < {outer}; i++) memcpy(({kind} *){pointer(node)} + i * {inner}L + {start}, "
                f"({kind} *){pointer(source)} + i * {width}L, {width}L * sizeof({kind}));"
            )
        start += width
    return "\n    ".join(lines)


def _matmul(node: Node, pointer: Pointer) -> Call | None:
    return matmul(node, pointer) if _multiplies(node) else None


def _concat(node: Node, pointer: Pointer) -> Call | None:
    return Call(concat(node, pointer)) if node.dtype.kind != "c" else None


_CALLS: dict[str, Callable[..., Call | None]] = {
    "matmul": _matmul,
    "concat": _concat,
    **dict.fromkeys(("convolve", "convolve_input", "convolve_weight"), convolve),
    "max_pool": pooling.max_pool,
    "sum_pool": pooling.sum_pool,
    "gather": addressing.gather,
    **dict.fromkeys(("scatter", "scatter_add"), addressing.scatter),
    **dict.fromkeys(("take_along", "put_along", "add_along"), addressing.along),
    "put_slice": addressing.put_slice,
    "cumsum": addressing.cumsum,
    "attention": attention.attention,
    "attention_backward": attention.attention_backward,
}


def call(node: Node, pointer: Pointer, results: Sequence[Node | None] = ()) -> Call | None:
    """The C statement that carries out an opaque op, or None where there is no C for it.

    `results` are the picks of a node that has several results, None where nobody reads one.
    """
    rule = _CALLS.get(node.op.name)
    if rule is None:
        return None
    return rule(node, pointer, results) if isinstance(node.dtype, tuple) else rule(node, pointer)
