"""Calls of the C kernels for values that are joined, or partly replaced."""

from __future__ import annotations

from wengert.core.graph import Node
from wengert.kernels.c_ops import CCall, Pointer
from wengert.kernels.writer import stored_type


def concat(node: Node, pointer: Pointer) -> CCall:
    """Values joined along an axis: rows copied one after another."""
    axis = node.attrs["axis"]
    outer = 1
    for n in node.shape[:axis]:
        outer *= n
    inner = node.size // max(outer, 1)
    lines, start = [], 0
    for source in node.sources:
        width = source.size // max(outer, 1)
        if width:
            kind = stored_type(node.dtype)
            lines.append(
                f"for (long i = 0; i < {outer}; i++) memcpy(({kind} *){pointer(node)} + i * {inner}L + {start}, "
                f"({kind} *){pointer(source)} + i * {width}L, {width}L * sizeof({kind}));"
            )
        start += width
    return CCall("\n    ".join(lines))


def put_slice(node: Node, pointer: Pointer) -> CCall:
    """A value with a slice of it replaced: copied unless it takes the place of the old one, then written over."""
    x, values = node.sources
    kind, starts, steps = stored_type(node.dtype), node.attrs["starts"], node.attrs["steps"]
    loops, to, source = [], [], []
    step_to = step_from = 1
    for axis in reversed(range(node.ndim)):
        to.append(f"({starts[axis]} + i{axis} * {steps[axis]}) * {step_to}L")
        source.append(f"i{axis} * {step_from}L")
        loops.append(f"for (long i{axis} = 0; i{axis} < {values.shape[axis]}; i{axis}++)")
        step_to, step_from = step_to * node.shape[axis], step_from * values.shape[axis]
    written, read = " + ".join(to) or "0", " + ".join(source) or "0"
    store = f"(({kind} *){pointer(node)})[{written}] = (({kind} *){pointer(values)})[{read}];"
    size = node.size * node.dtype.itemsize
    copy = f"if ({pointer(node)} != {pointer(x)}) memcpy({pointer(node)}, {pointer(x)}, {size}L);"
    return CCall(f"{copy}\n    {' '.join(reversed(loops))} {store}")
