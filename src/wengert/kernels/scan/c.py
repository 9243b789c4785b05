"""Calls of the C kernels for running sums and products."""

from __future__ import annotations

from wengert.core.graph import Node
from wengert.kernels.c_ops import CCall, Pointer, called
from wengert.kernels.gather_scatter.c import ADDED, splits
from wengert.kernels.writer import suffix


def running(node: Node, pointer: Pointer) -> CCall | None:
    """The running sum or product along an axis."""
    if node.dtype not in ADDED:
        return None
    outer, size, inner = splits(node, 1)
    numbers = f"{outer}, {size}, {inner}, {int(node.attrs.get('backwards', False))}"
    return called(node.op.name, suffix(node.dtype), f"{pointer(node.sources[0])}, {pointer(node)}, {numbers}")
