"""Final reductions: what is left of a step over columns whose partial sums another step makes.

The other step writes the partial sums, values of their own; the final reduction reads them where the step over the
columns was. It has time until somebody needs what it makes, so that those of equal layers may become one launch
(`horizontal_fusion`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wengert.core.graph import Node
from wengert.kernels.cuda import closing_shape, write
from wengert.kernels.ir.loops import Kernel
from wengert.kernels.ir.transforms import with_buffers
from wengert.kernels.launch import Device, Work
from wengert.plan.lowering import naming
from wengert.plan.steps import Step, launched


def partials_of(final: Kernel, sizes: Mapping[str, int], columns: Step) -> dict[str, Node]:
    """Values for the partial sums that a final reduction reads, by name; `sizes` are their bytes."""
    node, found = columns.writes[0], {}
    for name, (dtype, _) in final.buffers.items():
        if name in sizes:
            shape = (sizes[name] // dtype.itemsize,)
            found[name] = Node(node.op, node.sources, node.attrs, shape, dtype, node.device, False, node.location)
    return found


def final_step(
    final: Kernel, parts: Mapping[str, Node], columns: Step, donated: Mapping[Node, Node], device: Device
) -> Step:
    """The step that is left of one over columns; `donated` says which input an output is written over."""
    buffers: dict[str, Node] = {}
    named = naming(buffers, donated)
    own = {name: named(node) for name, node in parts.items()}
    kernel = with_buffers(final, {name: own.get(name, name) for name in final.buffers})
    buffers |= {name: node for name, node in columns.buffers.items() if name in kernel.buffers}
    there = naming({}, donated)
    reads = [node for node in columns.reads if there(node) in kernel.buffers]
    (launch,) = write(kernel, device, closing_shape(kernel)).launches
    work = Work((replace(launch, why="totals of the parts"),))
    return launched(work, buffers, [*parts.values(), *reads], columns.writes, kernel=kernel)
