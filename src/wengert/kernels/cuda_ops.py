"""Ops that are work of their own on a GPU: what a kernel says of itself, and the launches that carry an op out.

An op that has no kernel in `registry` and is no expression in a loop is computed on the host by its reference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wengert.core.graph import Node
from wengert.kernels.launch import H200, DeviceProperties, Named, Work
from wengert.kernels.registry import cuda_of_others, of_folders
from wengert.ops.op import Op

if TYPE_CHECKING:
    from wengert.kernels.matmul.product import Epilogue, Tile


def _sources(node: Node) -> Sequence[Node]:
    return node.sources


def _never(node: Node, device: DeviceProperties) -> bool:
    return False


class Asked(NamedTuple):
    """What is asked of an op's work: the nodes that pick its results, by number; one of its tiles; what an attention's
    forward leaves for its backward; what is done with the sums of a product.
    """

    results: Mapping[int, Node] = {}
    tile: Tile | None = None
    kept: Sequence[Node] = ()
    epilogue: Epilogue | None = None


def _untiled(node: Node, device: DeviceProperties) -> Sequence[Tile | None]:
    return [None]


@dataclass(frozen=True)
class CudaKernel:
    """An op on a GPU: work(node, named, device, asked) -> its launches, or None where the host computes it."""

    work: Callable[[Node, Named, DeviceProperties, Asked], Work | None]
    has_work: Callable[[Node], bool] | None = None  # whether `work` gives launches; it is tried where this is None
    operands: Callable[[Node], Sequence[Node]] = _sources  # what it reads from memory
    tiles: Callable[[Node, DeviceProperties], Sequence[Tile | None]] = _untiled  # candidates, best expected first
    absorbs: Callable[[Node, DeviceProperties], bool] = _never  # whether it is the best and takes in an epilogue
    sides: Callable[[Node], tuple[int, int]] | None = None  # the rows and columns of the sums an epilogue takes
    outdoes_libraries: Callable[[Node, DeviceProperties], bool] = _never  # whether it is faster than theirs


def simple(rule: Callable[[Node, Named, DeviceProperties], Work | None]) -> CudaKernel:
    """The kernel of an op with one result and one way to carry it out."""
    return CudaKernel(lambda node, named, device, asked: rule(node, named, device))


@functools.cache
def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops of the folders that have CUDA C++."""
    return of_folders("cuda_kernels")


def cuda_kernel(op: Op) -> CudaKernel | None:
    """The CUDA C++ of an op."""
    return cuda_of_others.get(op) or cuda_kernels().get(op)


# --- what a program asks --------------------------------------------------------------------------------------------


def work(
    node: Node,
    named: Named,
    device: DeviceProperties,
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


def tiles(node: Node, device: DeviceProperties) -> Sequence[Tile | None]:
    """The tiles by which our kernels can carry out an op, the one expected to be fastest first; None: without one."""
    kernel = cuda_kernel(node.op)
    return [None] if kernel is None else kernel.tiles(node, device)


def absorbs(node: Node, device: DeviceProperties) -> bool:
    """Whether our kernels for an op are the best there are, and take in what is done with its result."""
    kernel = cuda_kernel(node.op)
    return kernel is not None and kernel.absorbs(node, device)


def outdoes_libraries(node: Node, device: DeviceProperties) -> bool:
    """Whether our kernels are faster than what libraries have for an op."""
    kernel = cuda_kernel(node.op)
    return kernel is not None and kernel.outdoes_libraries(node, device)


def sides(node: Node) -> tuple[int, int]:
    """The rows and columns of the sums that an op makes whose kernels take an epilogue."""
    kernel = cuda_kernel(node.op)
    assert kernel is not None and kernel.sides is not None
    return kernel.sides(node)


def sums(node: Node, named: Named, device: DeviceProperties, epilogue: Epilogue | None, tile: Tile | None) -> Work:
    """The work of an op whose sums an epilogue may take."""
    kernel = cuda_kernel(node.op)
    found = None if kernel is None else kernel.work(node, named, device, Asked(tile=tile, epilogue=epilogue))
    assert found is not None
    return found
