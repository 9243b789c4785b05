"""Convolution nodes on a GPU; used by `cuda`."""

from __future__ import annotations

from collections.abc import Sequence

from wengert.core.graph import Node
from wengert.kernels.convolution import cuda
from wengert.kernels.convolution.form import convolution
from wengert.kernels.launch import Asked, DeviceProperties, LaunchList, Named
from wengert.kernels.matmul.product import Tile


def work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """The work of a convolution, whose sums an epilogue may take; by the best tile if none is given."""
    found = convolution(node, device.tf32)
    if found is None or not has_work(node):
        return None
    first, second = map(named, node.sources)
    tile = asked.tile or cuda.tiles(found, device)[0]
    return cuda.work(found, first, second, named(node), device, tile, asked.epilogue)


def has_work(node: Node) -> bool:
    """Whether our kernels support a convolution."""
    return convolution(node) is not None and all(n.size for n in (node, *node.sources))


def tiles(node: Node, device: DeviceProperties) -> Sequence[Tile | None]:
    """The tiles that support a convolution, in order of expected time; None stands for the direct implementation."""
    found = convolution(node, device.tf32)
    return cuda.tiles(found, device) if found is not None else [None]


def absorbs(node: Node, device: DeviceProperties) -> bool:
    """Whether our kernels are the fastest available, and take an epilogue."""
    found = convolution(node, device.tf32)
    return found is not None and has_work(node) and cuda.is_small(found, device)


def sides(node: Node) -> tuple[int, int]:
    """The rows and columns of the matrix of sums that a channels-last convolution makes."""
    return node.size // node.shape[-1], node.shape[-1]


def outdoes_libraries(node: Node, device: DeviceProperties) -> bool:
    """Whether our kernels are faster than the libraries'."""
    found = convolution(node, device.tf32)
    return found is not None and cuda.outdoes_libraries(found, device)
