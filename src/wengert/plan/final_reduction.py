"""Steps over columns whose totals another step takes: what is left of them is a closing, which puts parts together.

The other step writes the parts, values of their own; the closing reads them where the step over the columns was. It has
time until somebody needs what it makes, so that those of equal layers may become one launch (`together`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wengert.core.graph import Node
from wengert.kernels.cuda import final_reduction_shape, write
from wengert.kernels.ir.loops import Kernel
from wengert.kernels.ir.transforms import with_buffers
from wengert.kernels.launch import Device, Work
from wengert.plan.buffers import naming
from wengert.plan.candidates import Step


def parts_of(closing: Kernel, sizes: Mapping[str, int], columns: Step) -> dict[str, Node]:
    """Values for the parts that a closing reads, by name; `sizes` are the bytes of those that the other step leaves."""
    node, found = columns.writes[0], {}
    for name, (dtype, _) in closing.buffers.items():
        if name in sizes:
            shape = (sizes[name] // dtype.itemsize,)
            found[name] = Node(node.op, node.sources, node.attrs, shape, dtype, node.device, False, node.location)
    return found


def final_reduction_step(
    closing: Kernel, parts: Mapping[str, Node], columns: Step, taken: Mapping[Node, Node], device: Device
) -> Step:
    """The step that is left of one over columns; `taken` says which input an output is written over."""
    buffers: dict[str, Node] = {}
    named = naming(buffers, taken)
    own = {name: named(node) for name, node in parts.items()}
    kernel = with_buffers(closing, {name: own.get(name, name) for name in closing.buffers})
    buffers |= {name: node for name, node in columns.buffers.items() if name in kernel.buffers}
    there = naming({}, taken)
    reads = [node for node in columns.reads if there(node) in kernel.buffers]
    (launch,) = write(kernel, device, final_reduction_shape(kernel)).launches
    work = Work((replace(launch, why="final reduction"),))
    return Step(work, None, buffers, [*parts.values(), *reads], columns.writes, kernel=kernel)
