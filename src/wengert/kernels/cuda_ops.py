"""Ops that are work of their own on a GPU: what they read, and the launches that carry them out.

An op that has no kernel in `registry` and is no expression in a loop is computed on the host by its reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wengert.core.graph import Node
from wengert.kernels.copy.cuda import copy
from wengert.kernels.launch import H200, Device, Named, Work
from wengert.kernels.matmul.product import Epilogue, Tile
from wengert.kernels.registry import Asked, cuda_kernel

__all__ = ["absorbs", "copy", "has_work", "operands", "outdoes_libraries", "sides", "sums", "tiles", "work"]


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
    kernel = cuda_kernel(node.op)
    return None if kernel is None else kernel.work(node, named, device, Asked(results, tile, kept))


def has_work(node: Node) -> bool:
    """Whether an op can be carried out on a GPU."""
    kernel = cuda_kernel(node.op)
    if kernel is None or kernel.has_work is None:
        return work(node, lambda _: "", H200, {}) is not None
    return kernel.has_work(node)


def operands(node: Node) -> Sequence[Node]:
    """What an op that is no loop reads from memory."""
    kernel = cuda_kernel(node.op)
    return node.sources if kernel is None else kernel.operands(node)


def tiles(node: Node, device: Device) -> Sequence[Tile | None]:
    """The tiles by which our kernels can carry out an op, the one expected to be fastest first; None: without one."""
    kernel = cuda_kernel(node.op)
    return [None] if kernel is None else kernel.tiles(node, device)


def absorbs(node: Node, device: Device) -> bool:
    """Whether our kernels for an op are the best there are, and take in what is done with its result."""
    kernel = cuda_kernel(node.op)
    return kernel is not None and kernel.absorbs(node, device)


def outdoes_libraries(node: Node, device: Device) -> bool:
    """Whether our kernels are faster than what libraries have for an op."""
    kernel = cuda_kernel(node.op)
    return kernel is not None and kernel.outdoes_libraries(node, device)


def sides(node: Node) -> tuple[int, int]:
    """The rows and columns of the sums that an op makes whose kernels take an epilogue."""
    kernel = cuda_kernel(node.op)
    assert kernel is not None and kernel.sides is not None
    return kernel.sides(node)


def sums(node: Node, named: Named, device: Device, epilogue: Epilogue | None, tile: Tile | None) -> Work:
    """The work of an op whose sums an epilogue may take."""
    kernel = cuda_kernel(node.op)
    found = None if kernel is None else kernel.work(node, named, device, Asked(tile=tile, epilogue=epilogue))
    assert found is not None
    return found
