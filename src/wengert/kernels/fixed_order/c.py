"""Calls of the C kernels that add in a fixed order (tree.h, tree_product.h)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wengert.core.dtypes import COMPLEX, float32, float64
from wengert.core.graph import Node
from wengert.kernels.c_ops import CCall, CFunction, Pointer, braces, called
from wengert.kernels.convolution import c as convolution
from wengert.kernels.gather_scatter.c import scatter
from wengert.kernels.ir.index import strides
from wengert.kernels.matmul.c import BLOCK_ROWS, WORTH_THREADS, multiplies
from wengert.kernels.matmul.product import BlasProduct, product
from wengert.kernels.threads import thread_count
from wengert.kernels.writer import suffix
from wengert.ops.fixed_order import BLOCK

_CHUNK = 8192  # as in tree.h
_AXES = 8  # that a kernel takes
_LINE = 64  # bytes of a line of the cache, and of the widest vectors


# --- reductions -----------------------------------------------------------------------------------------------------


def reduction(node: Node, pointer: Pointer) -> CCall | None:
    """A sum, product, largest or smallest element over some axes."""
    x, axes = node.sources[0], node.attrs["axes"]
    if node.dtype not in (float32, float64):
        return None
    kept, taken = _axes_of(x.shape, axes)
    if len(kept) > _AXES or len(taken) > _AXES:
        return None
    count = math.prod(n for n, _ in taken)
    columns = run = 0
    if taken and taken[-1][1] == 1:
        run = taken.pop()[0]
    elif kept:
        columns = kept.pop()[0]
    fields: dict[str, object] = {
        **{"kept_rank": len(kept), "rank": len(taken)},
        **{"kept": braces([n for n, _ in kept] or [1]), "kept_step": braces([s for _, s in kept] or [0])},
        **{"size": braces([n for n, _ in taken] or [1]), "step": braces([s for _, s in taken] or [0])},
        **{"results": math.prod(n for n, _ in kept), "count": count, "run": run or 1, "columns": columns},
    }
    text = ", ".join(f".{name} = {value}" for name, value in fields.items())
    arguments = f"{pointer(x)}, {pointer(node)}, (void *)(arena + scratch), &(wg_tree){{{text}}}"
    scratch = -(-count // _CHUNK) * node.dtype.itemsize
    return called(node.op.name, suffix(node.dtype), arguments, scratch)


def _axes_of(shape: Sequence[int], axes: Sequence[int]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The axes that stay and those that are reduced, as sizes and steps. Neighbours of a kind are one axis."""
    kept: list[tuple[int, int]] = []
    taken: list[tuple[int, int]] = []
    before = None
    for axis, (size, step) in enumerate(zip(shape, strides(shape))):
        one = taken if axis in axes else kept
        if one is before:
            one[-1] = one[-1][0] * size, step
        else:
            one.append((size, step))
        before = one
    return kept, taken


# --- products -------------------------------------------------------------------------------------------------------


def matmul(node: Node, pointer: Pointer, epilogue: str = "") -> CCall | None:
    """A matrix product, or a batch of them; and a call of `epilogue` on rows that were just made."""
    if not multiplies(node) or node.dtype in COMPLEX:
        return None
    p, size = product(node), node.dtype.itemsize
    packed = -(-p.n * size // _LINE) * _LINE * p.k
    rows = min(p.m, 2 * BLOCK_ROWS)
    levels = -(-_levels(p.k) * rows * p.n * size // _LINE) * _LINE
    if p.batch == 1:
        return _one_product(node, p, pointer, epilogue, packed, levels)
    each = packed + levels
    numbers = f"{p.batch}, {p.m}, {p.n}, {p.k}, {int(p.transposed_x)}, {int(p.transposed_y)}, {p.step_x}, {p.step_y}"
    many = int(2 * p.batch * p.m * p.n * p.k > WORTH_THREADS)
    room = f"arena + scratch, {packed}, {each}, {many}"
    arguments = f"{pointer(p.x)}, {pointer(p.y)}, {pointer(node)}, {numbers}, {room}"
    return called("tree_products", suffix(node.dtype), arguments, each * thread_count())


def _levels(depth: int) -> int:
    """Subtrees that wait beside the one in the result, at most."""
    return max(0, -(-depth // BLOCK) - 1).bit_length()


def _one_product(node: Node, p: BlasProduct, pointer: Pointer, epilogue: str, packed: int, levels: int) -> CCall:
    kind, blocks = suffix(node.dtype), p.m // BLOCK_ROWS if p.m >= 2 * BLOCK_ROWS else 1
    right = "(void *)(arena + scratch)"
    own = f"(void *)(arena + scratch + {packed} + omp_get_thread_num() * {levels}L)"
    numbers = f"{p.m}, {p.n}, {p.k}, {int(p.transposed_x)}, first, last"
    arguments = f"{pointer(p.x)}, {right}, {pointer(node)}, {own}, {numbers}"
    lines = [
        f"#pragma omp parallel if ({2 * p.m * p.n * p.k} > {WORTH_THREADS})",
        "{",
        f"    wg_product_pack_{kind}({pointer(p.y)}, {right}, {p.n}, {p.k}, {int(p.transposed_y)});",
        "    #pragma omp for schedule(dynamic)",
        f"    for (long block = 0; block < {blocks}; block++) {{",
        f"        long first = wg_part(block, {blocks}, {p.m}), last = wg_part(block + 1, {blocks}, {p.m});",
        f"        wg_tree_product_rows_{kind}({arguments});",
        *([f"        {epilogue}"] if epilogue else []),
        "    }",
        "}",
    ]
    scratch = packed + levels * thread_count()
    return CCall("\n    ".join(lines), scratch, CFunction("tree_product_rows", kind))


# --- rows at indices ------------------------------------------------------------------------------------------------


def scatter_add(node: Node, pointer: Pointer) -> CCall | None:
    """Rows added at indices."""
    return scatter(node, pointer, fixed=True) if node.dtype in (float32, float64) else None


# --- convolutions ---------------------------------------------------------------------------------------------------


def convolve(node: Node, pointer: Pointer) -> CCall | None:
    """A convolution, or its input gradient; an image's computation does not depend on the batch size."""
    return convolution.convolve(node, pointer, fixed=True)


def convolve_weight(node: Node, pointer: Pointer) -> CCall | None:
    """The weight gradient: each image's separately, added by the tree."""
    if node.dtype not in (float32, float64):
        return None
    batch, size, kind = node.sources[0].shape[0], node.size, suffix(node.dtype)
    real = {"f32": "float", "f64": "double"}[kind]

    def of_image(value: Node | None) -> str:
        assert value is not None
        return "to" if value is node else f"((const {real} *){pointer(value)} + image * {value.size // max(batch, 1)}L)"

    one = convolution.convolve(node, of_image, fixed=True)
    if one is None or one.function is None:
        return convolution.convolve(node, pointer, fixed=True)
    start = -(-one.scratch // _LINE) * _LINE
    merge = f"wg_add_all_{kind}(top > 1 ? levels + (top - 2) * {size}L : result, levels + (top - 1) * {size}L, {size});"
    lines = [
        "{",
        f"    {real} *result = (void *){pointer(node)}, *levels = (void *)(arena + scratch + {start});",
        "    int top = 0;",
        f"    for (long image = 0; image < {batch}; image++) {{",
        f"        {real} *to = top ? levels + (top - 1) * {size}L : result;",
        f"        {one.text}",
        f"        for (long bits = image; bits & 1; bits >>= 1, top--) {merge}",
        "        top++;",
        "    }",
        f"    for (top--; top > 0; top--) {merge}",
        "}",
    ]
    scratch = start + max(0, batch - 1).bit_length() * size * node.dtype.itemsize
    return CCall("\n    ".join(lines), scratch, CFunction(f"tree_{one.function.name}", kind))
