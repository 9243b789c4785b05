"""Calls of the C kernels for running sums."""

from __future__ import annotations

from wengert.core.graph import Node
from wengert.kernels.c_ops import CCall, Pointer, called
from wengert.kernels.gather_scatter.c import ADDED, splits
from wengert.kernels.writer import suffix


def cumsum(node: Node, pointer: Pointer) -> CCall | None:
    """The running sum along an axis."""
    if node.dtype not in ADDED:
        return None
    outer, size, inner = splits(node, 1)
    numbers = f"{outer}, {size}, {inner}, {int(node.attrs['backwards'])}"
    return called("cumsum", suffix(node.dtype), f"{pointer(node.sources[0])}, {pointer(node)}, {numbers}")
