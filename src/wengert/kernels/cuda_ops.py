"""Ops that are work of their own on a GPU: which they are, what they read, and the launches that carry them out.

An op that is neither here nor an expression in a loop is computed on the host by its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wengert.core.dtypes import COMPLEX, bool_, float32
from wengert.core.graph import Node
from wengert.kernels.attention import cuda as attention_cuda
from wengert.kernels.attention import form as attention_form
from wengert.kernels.c_ops import is_even, product
from wengert.kernels.convolution import cuda as convolution_cuda
from wengert.kernels.convolution.form import convolution, is_convolution
from wengert.kernels.copy.cuda import concat, copy, put_slice
from wengert.kernels.gather_scatter import cuda as addressing
from wengert.kernels.gather_scatter.c import is_zero
from wengert.kernels.launch import H200, Device, Launch, Named, Work
from wengert.kernels.matmul import gemm
from wengert.kernels.matmul.product import Epilogue, Matrix, Product, Tile
from wengert.kernels.pool import cuda as pooling_cuda
from wengert.kernels.pool.cuda import Windows, windows_of
from wengert.kernels.scan.cuda import cumsum

__all__ = ["OVERWRITING", "copy", "has_work", "is_small", "matmul", "operands", "outdoes_libraries", "tiles", "work"]

_WRITING = frozenset(("scatter", "scatter_add", "put_along", "add_along"))
OVERWRITING = frozenset(("scatter", "scatter_add", "put_along", "put_slice"))
"""The ops whose result may take the memory of their first operand: they write only what they change."""
_POOLS = frozenset(("max_pool", "max_pool_last", "max_pool_back_last", "sum_pool", "sum_pool_last"))
_SMALL = 1 << 29  # floating-point operations: from here on a library's product is worth a kernel more


# --- matrix products ------------------------------------------------------------------------------------------------


def multiplies(node: Node) -> bool:
    """Whether a node is a matrix product that our kernels can carry out."""
    return node.op.name == "matmul" and is_even(node) and node.dtype not in COMPLEX and node.dtype is not bool_


def is_small(node: Node) -> bool:
    """Whether a product is one whose time is mostly that of launching: our kernels do it, with what follows from it."""
    if not multiplies(node) or node.dtype is not float32 or not node.size:
        return False
    p = product(node)
    return p.batch == 1 and p.k > 0 and 2 * p.m * p.n * p.k <= _SMALL


def absorbs(node: Node, device: Device) -> bool:
    """Whether our kernels for an op are the best there are, and take in what is done with its result."""
    if not is_convolution(node):
        return is_small(node)
    found = convolution(node, device.tf32)
    return found is not None and has_work(node) and convolution_cuda.is_small(found, device)


def sides(node: Node) -> tuple[int, int]:
    """The rows and columns of the sums that a matrix product or a convolution with its channels last makes."""
    if is_convolution(node):
        return node.size // node.shape[-1], node.shape[-1]
    p = product(node)
    return p.m, p.n


def sums(node: Node, named: Named, device: Device, epilogue: Epilogue | None, tile: Tile | None) -> Work:
    """The work of a matrix product or of a convolution that has one, whose sums an epilogue may take."""
    found = convolution(node, device.tf32) if is_convolution(node) else None
    if found is None:
        return matmul(node, named, device, epilogue, tile)
    first, second = map(named, node.sources)
    tile = tile or convolution_cuda.tiles(found, device)[0]
    return convolution_cuda.work(found, first, second, named(node), device, tile, epilogue)


def matmul(
    node: Node, named: Named, device: Device, epilogue: Epilogue | None = None, tile: Tile | None = None
) -> Work:
    """The work of a matrix product, whose sums an epilogue may take; by the best tile if none is given."""
    if not node.size:
        return Work(())
    whole = _whole(node, named, device, epilogue)
    return gemm.write(whole, tile or _tiles(whole, device)[0], device)


def _whole(node: Node, named: Named, device: Device, epilogue: Epilogue | None = None) -> Product:
    p = product(node)
    batch = (p.batch,) if p.batch > 1 else ()
    left = Matrix(named(p.x), p.x.dtype, *((1, p.m) if p.turned_x else (p.k, 1)), (p.step_x,) if batch else ())
    right = Matrix(named(p.y), p.y.dtype, *((1, p.k) if p.turned_y else (p.n, 1)), (p.step_y,) if batch else ())
    result = Matrix(named(node), node.dtype, p.n, 1, (p.m * p.n,) if batch else ())
    return Product(p.m, p.n, p.k, left, right, result, batch, epilogue, device.tf32).normal()


def _tiles(whole: Product, device: Device) -> list[Tile]:
    return sorted(gemm.candidates(whole, device), key=lambda tile: gemm.expected(whole, tile, device))


def tiles(node: Node, device: Device) -> Sequence[Tile | None]:
    """The tiles by which our kernels can carry out an op, the one expected to be fastest first; None: without one."""
    if multiplies(node) and node.size:
        return _tiles(_whole(node, lambda _: "", device), device)
    found = convolution(node, device.tf32) if is_convolution(node) else None
    return convolution_cuda.tiles(found, device) if found is not None else [None]


# --- the others -----------------------------------------------------------------------------------------------------


def outdoes_libraries(node: Node, device: Device) -> bool:
    """Whether our kernels are faster than what libraries have for an op."""
    if node.op.name in ("attention", "attention_backward"):
        return attention_cuda.outdoes_libraries(node, device)
    found = convolution(node, device.tf32) if is_convolution(node) else None
    return found is not None and convolution_cuda.outdoes_libraries(found, device)


def _windows(node: Node) -> Windows | None:
    """The windows of a pool."""
    x, count = node.sources[0].shape, node.shape
    if node.op.name == "max_pool_back_last":
        x, count = node.shape, x
    return windows_of(node, x, count[0] if isinstance(node.dtype, tuple) else count)


def _sum_pool(node: Node, named: Named, device: Device) -> Work | None:
    windows = _windows(node)
    if windows is None:
        return None
    return pooling_cuda.sum_pool(windows, node.dtype, named(node.sources[0]), named(node))


def _max_pool(node: Node, named: Named, results: Mapping[int, Node]) -> Work | None:
    windows = _windows(node)
    if windows is None:
        return None
    x = node.sources[0]
    values, places = (named(results[i]) if i in results else None for i in range(2))
    return pooling_cuda.max_pool(windows, x.dtype, node.dtype[1], named(x), values, places)


def _max_pool_back(node: Node, named: Named, device: Device) -> Work | None:
    windows = _windows(node)
    if windows is None:
        return None
    g, places = node.sources
    return pooling_cuda.max_pool_back(windows, node.dtype, places.dtype, named(g), named(places), named(node))


def _add_along(node: Node, named: Named, device: Device) -> Work | None:
    return pooling_cuda.add_along(node, named) or addressing.along(node, named, device)


def _user_kernel(node: Node, named: Named, device: Device) -> Work:
    """A kernel of the user's own."""
    a, sources = node.attrs, iter(node.sources)
    arguments = [named(next(sources)) if s is None else np.frombuffer(s[1], s[0])[0] for s in a["arguments"]]
    launch = Launch(a["source"], a["entry"], a["grid"], a["block"], (*arguments, named(node)), a["shared"])
    return Work((launch,))


_WORKS: dict[str, Callable[[Node, Named, Device], Work | None]] = {
    **dict.fromkeys(("sum_pool", "sum_pool_last"), _sum_pool),
    "max_pool_back_last": _max_pool_back,
    "gather": addressing.gather,
    **dict.fromkeys(("scatter", "scatter_add"), addressing.scatter),
    **dict.fromkeys(("take_along", "put_along"), addressing.along),
    "add_along": _add_along,
    "cumsum": cumsum,
    "concat": concat,
    "put_slice": put_slice,
    "cuda_kernel": _user_kernel,
}


def work(
    node: Node,
    named: Named,
    device: Device,
    results: Mapping[int, Node],
    tile: Tile | None = None,
    kept: Sequence[Node] = (),
) -> Work | None:
    """The work of an op that is no loop, or None where the host computes it.

    `results` are the nodes that pick the results of one that has several, by number; `tile` is one of `tiles`; `kept`
    is what an attention's forward leaves for its backward.
    """
    if node.op.name in ("max_pool", "max_pool_last"):
        return _max_pool(node, named, results)
    if node.op.name == "attention":
        return attention_cuda.forward(node, named, device, kept)
    if node.op.name == "attention_backward":
        return attention_cuda.backward(node, named, device, results, kept)
    if multiplies(node):
        return matmul(node, named, device, tile=tile)
    if is_convolution(node):
        return sums(node, named, device, None, tile) if has_work(node) else None
    rule = _WORKS.get(node.op.name)
    return None if rule is None else rule(node, named, device)


def has_work(node: Node) -> bool:
    """Whether an op can be carried out on a GPU."""
    if is_convolution(node):
        return convolution(node) is not None and all(n.size for n in (node, *node.sources))
    if node.op.name in _POOLS:
        return _windows(node) is not None
    if node.op.name in ("attention", "attention_backward"):
        return attention_cuda.has_work(node, H200)
    return multiplies(node) or work(node, lambda _: "", H200, {}) is not None


def operands(node: Node) -> Sequence[Node]:
    """What an op that is no loop reads from memory."""
    if multiplies(node):
        p = product(node)
        return p.x, p.y
    if node.op.name in ("attention", "attention_backward"):
        return attention_form.operands(node)
    into_zeros = node.op.name in _WRITING and is_zero(node.sources[0]) and has_work(node)
    return node.sources[1:] if into_zeros else node.sources
