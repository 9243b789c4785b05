"""From a kernel to its launches: which shape of work it is."""

from __future__ import annotations

import math

from wengert.kernels.cuda.columns import columns
from wengert.kernels.cuda.elements import elements
from wengert.kernels.cuda.moments import one_pass_variance
from wengert.kernels.cuda.reciprocal import with_reciprocals
from wengert.kernels.cuda.rows import rows
from wengert.kernels.cuda.shapes import Columns, Elements, Rows, Shape, Tiles, elements_shape, reduction_shape
from wengert.kernels.cuda.shared_rows import shared_rows
from wengert.kernels.cuda.tiles import tiles
from wengert.kernels.launch import Device, Work
from wengert.kernels.loops import Accumulate, Kernel
from wengert.kernels.nest import merge_loops, statements_of


def write(kernel: Kernel, device: Device, shape: Shape | None = None) -> Work:
    """The launches of a kernel on a device; of a given shape, or of the one that is worked out."""
    kernel = merge_loops(kernel)
    if not math.prod(loop.extent for loop in kernel.outer):
        return Work(())
    why = "as asked"
    if shape is None:
        shape, why = launch_shape(kernel, device)
    if isinstance(shape, Elements):
        return elements(kernel, shape, why)
    if isinstance(shape, Columns) or (isinstance(shape, Rows) and not shape.chunks and not shape.in_shared):
        kernel = one_pass_variance(kernel)
    kernel = with_reciprocals(kernel)
    if isinstance(shape, Rows) and shape.in_shared:
        return shared_rows(kernel, shape, device, why)
    if isinstance(shape, Rows):
        return rows(kernel, shape, device, why)
    if isinstance(shape, Tiles):
        return tiles(kernel, shape, why)
    assert isinstance(shape, Columns)
    return columns(kernel, shape, why)


def launch_shape(kernel: Kernel, device: Device) -> tuple[Shape, str]:
    """The shape that is worked out for a kernel of merged loops, and why."""
    reduces = bool(kernel.inner) or any(isinstance(s, Accumulate) for s in statements_of(kernel))
    return reduction_shape(kernel, device) if reduces else elements_shape(kernel, device)
