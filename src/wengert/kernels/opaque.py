"""Ops that are a kernel of their own in C: which they are, what they read, and the call that carries them out.

An op that is neither here nor an expression in a loop is computed by its NumPy reference between two pieces of C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wengert.dtypes import float32, float64
from wengert.graph import Node
from wengert.kernels import addressing, attention, pooling
from wengert.kernels.call import Call, Pointer, includes
from wengert.kernels.convolution import convolve
from wengert.kernels.expressions import stored_type, suffix

__all__ = ["call", "includes", "operands"]


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
    return node.dtype in (float32, float64) and all(_batch_step(s, node) is not None for s in node.sources)


def _batch_step(source: Node, node: Node) -> int | None:
    """How far apart the matrices of an operand's batches lie; None if not evenly."""
    batch = node.shape[:-2]
    own = source.shape[:-2]
    count = 1
    for n in own:
        count *= n
    if count == 1:
        return 0
    total = 1
    for n in batch:
        total *= n
    return source.shape[-1] * source.shape[-2] if count == total else None


def matmul(node: Node, pointer: Pointer) -> str:
    """A matrix product by BLAS, transposes absorbed."""
    (a, b), (m, n) = node.sources, node.shape[-2:]
    k = a.shape[-1]
    batch = 1
    for size in node.shape[:-2]:
        batch *= size
    (x, turned_x), (y, turned_y) = _untransposed(a), _untransposed(b)
    x, y = _unbatched(x), _unbatched(y)
    step_x = 0 if x.size == m * k else m * k
    step_y = 0 if y.size == k * n else k * n
    if batch > 1 and step_y == 0 and not turned_x:  # one matrix for all batches: one taller product
        m, batch = m * batch, 1
    numbers = f"{batch}, {m}, {n}, {k}, {int(turned_x)}, {int(turned_y)}, {step_x}, {step_y}"
    return f"wg_matmul_{suffix(node.dtype)}({pointer(x)}, {pointer(y)}, {pointer(node)}, {numbers});"


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
    return Call(matmul(node, pointer)) if _multiplies(node) else None


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
