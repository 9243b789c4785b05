"""Indices of nonzero elements of a concrete array: two kernels, and between them the count is read by the host.

A graph would record four ops for this and flush twice, most of the 175 us for 10^7 elements on an H200.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from wengert.backends.cuda.memory import DeviceArray, download, opened
from wengert.backends.cuda.single_op import SingleOpKernel
from wengert.core.dtypes import int64
from wengert.core.graph import Node
from wengert.kernels.counting.cuda import count_nonzero, flat_nonzero
from wengert.kernels.launch import Number
from wengert.ops.core import placeholder
from wengert.ops.counting import FLAT_NONZERO

BOUND = 256  # of sizes and dtypes for which kernels are kept


def places(array: DeviceArray) -> DeviceArray | None:
    """The indices in memory order; None if there are too many elements for 32-bit counts."""
    if not array.size:
        return DeviceArray((0,), int64, array.device)
    driver: Any = opened(array.device)
    found = _kernels(array.size, array.dtype, array.device, driver)
    return None if found is None else found.run(array)


class PlacesKernels:
    """The kernels for arrays of one size and dtype."""

    def __init__(self, node: Node, counter: SingleOpKernel, writer: SingleOpKernel) -> None:
        self.node, self.counter, self.writer = node, counter, writer

    def run(self, array: DeviceArray) -> DeviceArray:
        """Count, read the count, and write that many indices."""
        with self.writer.driver.lock:
            count = download(self.counter([array], self.node))
            self.writer.shape = (int(count),)
            return self.writer([array, count], self.node)


@functools.lru_cache(BOUND)
def _kernels(size: int, dtype: np.dtype[Any], device: str, driver: Any) -> PlacesKernels | None:
    node, properties = FLAT_NONZERO(placeholder((size,), dtype, device), size=size), driver.properties
    named = {node: "y", node.sources[0]: "x0"}.__getitem__
    counting = count_nonzero(node.sources[0], named, "y", properties)
    writing = flat_nonzero(node, named, properties, Number("x1", 8))
    if counting is None or writing is None:
        return None
    count = SingleOpKernel(placeholder((), int64, device), counting, device)
    return PlacesKernels(node, count, SingleOpKernel(node, writing, device))
