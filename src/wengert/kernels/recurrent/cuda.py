"""The kernel of a recurrence: one for all steps of a scan, and one that resets its barrier's counters.

In: a scan. Out: its launches, or None if it is not a recurrence or does not fit the device.
"""

from __future__ import annotations

from wengert.core.graph import Node
from wengert.kernels.launch import Asked, DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.recurrent.body import Recurrence, recurrence_of
from wengert.kernels.recurrent.shape import COUNTER, THREADS, Core, Shape, shape_of
from wengert.kernels.recurrent.steps import COUNTERS, EXCHANGE, RecurrentText, element_type
from wengert.kernels.writer import CUDA, c_expression

VARIABLES = 96
"""Of a thread, from one step to the next: with more, registers would be spilled."""


def work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """The launches of a scan."""
    found = planned(node, device)
    return None if found is None else launches(*found, named, asked)


def planned(node: Node, device: DeviceProperties) -> tuple[Recurrence, Shape] | None:
    """A scan as a recurrence and its shape; None where the kernel cannot do it."""
    recurrence = recurrence_of(node)
    if isinstance(recurrence, str) or device.invariant or not node.attrs["steps"] or _may_fail(recurrence):
        return None
    shape = shape_of(recurrence, device)
    return None if shape is None or _variables(recurrence, shape) > VARIABLES else (recurrence, shape)


def _may_fail(recurrence: Recurrence) -> bool:
    """Whether a step may note an error, for which the kernel has no flag."""
    return any(CUDA.error in _expression(node) for node in recurrence.needed if node in recurrence.body.nodes)


def _expression(node: Node) -> str:
    """An op as text, to see what it calls."""
    if node.op.kind != "elementwise":
        return ""
    return c_expression(node.op, node.sources[-1].dtype, ["x"] * len(node.sources), node.attrs, CUDA) or ""


def _variables(recurrence: Recurrence, shape: Shape) -> int:
    """The registers that a thread needs from one step to the next; what is stepped over is loaded ahead."""
    c, n = recurrence.node.attrs["constants"], recurrence.node.attrs["carries"]
    count = 0
    for number, node in enumerate(recurrence.body.inputs):
        if node in recurrence.needed:
            elements = shape.elements[recurrence.spaces.get(node, 0)]
            count += recurrence.units(node) * elements * (2 if number >= c + n else 1)
    return count


def launches(recurrence: Recurrence, shape: Shape, named: Named, asked: Asked) -> LaunchList:
    """The two kernels of a recurrence, in one text."""
    body = RecurrentText(recurrence, shape, named, dict(asked.results))
    header = "recurrent_mma.cuh" if any(core.mma for core in shape.cores) else "recurrent.cuh"
    cores = [f"typedef {_core_type(core)} Core{k};" for k, core in enumerate(shape.cores)]
    text = f"""#include "{header}"

{chr(10).join(cores)}

extern "C" __global__ void wg_recurrent_begin(unsigned *counters)
{{
    counters[threadIdx.x * {COUNTER // 4}] = 0;
}}

extern "C" __global__ void __launch_bounds__({THREADS}, 1) wg_recurrent(
    {", ".join(body.parameters)})
{{
{chr(10).join(body.page.lines)}
}}
"""
    begin = Launch(text, "wg_recurrent_begin", (1, 1, 1), (shape.row_groups, 1, 1), (COUNTERS,))
    steps = Launch(
        text,
        "wg_recurrent",
        (shape.grid, 1, 1),
        (THREADS, 1, 1),
        tuple(body.arguments),
        shape.shared,
        _why(recurrence, shape),
        cooperative=True,
    )
    return LaunchList((begin, steps), {EXCHANGE: body.exchange_bytes, COUNTERS: COUNTER * shape.row_groups})


def _why(recurrence: Recurrence, shape: Shape) -> str:
    how = ", ".join(dict.fromkeys(f"by mma of {core.mma}" if core.mma else "by FMA" for core in shape.cores))
    kept = sum(core.weight_bytes for core in shape.cores)
    return (
        f"{recurrence.node.attrs['steps']} steps; {shape.row_groups} groups of {shape.rows} rows, "
        f"{shape.column_groups} of columns; {kept} bytes of weights stay on an SM; {how}"
    )


def _core_type(core: Core) -> str:
    if core.mma:
        kept = core.product.depth if core.kept else 0
        return f"wg_mma_core<{core.mma}, {core.rows}, {core.columns}, {THREADS}, {kept}>"
    m, n = core.tile
    return f"wg_fma_core<{element_type(core)}, {core.rows}, {core.columns}, {m}, {n}, {THREADS}>"
