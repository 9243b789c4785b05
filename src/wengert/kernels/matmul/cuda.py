"""Matrix products of nodes on a GPU by our own kernels: what `gemm` is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from wengert.core.dtypes import COMPLEX, bool_, float32
from wengert.core.graph import Node
from wengert.kernels.launch import Device, Named, Work
from wengert.kernels.matmul import gemm
from wengert.kernels.matmul.c import is_even, product
from wengert.kernels.matmul.product import Epilogue, Matrix, Product, Tile
from wengert.kernels.registry import Asked

_SMALL = 1 << 29  # floating-point operations: from here on a library's product is worth a kernel more


def multiplies(node: Node) -> bool:
    """Whether a node is a matrix product that our kernels can carry out."""
    return is_even(node) and node.dtype not in COMPLEX and node.dtype is not bool_


def is_small(node: Node) -> bool:
    """Whether a product is one whose time is mostly that of launching: our kernels do it, with what follows from it."""
    if not multiplies(node) or node.dtype is not float32 or not node.size:
        return False
    p = product(node)
    return p.batch == 1 and p.k > 0 and 2 * p.m * p.n * p.k <= _SMALL


def absorbs(node: Node, device: Device) -> bool:
    """Whether ours is the best there is, and takes in what is done with the result."""
    return is_small(node)


def sides(node: Node) -> tuple[int, int]:
    """The rows and columns of the sums that a matrix product makes."""
    p = product(node)
    return p.m, p.n


def operands(node: Node) -> Sequence[Node]:
    """What a product reads from memory: the matrices behind transposes and broadcasts."""
    if not multiplies(node):
        return node.sources
    p = product(node)
    return p.x, p.y


def work(node: Node, named: Named, device: Device, asked: Asked) -> Work | None:
    """The work of a product that our kernels can carry out."""
    return matmul(node, named, device, asked.epilogue, asked.tile) if multiplies(node) else None


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
    """The tiles by which our kernels can carry out a product, the one expected to be fastest first."""
    return _tiles(_whole(node, lambda _: "", device), device) if multiplies(node) and node.size else [None]
