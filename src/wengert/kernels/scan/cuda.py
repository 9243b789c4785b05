"""Work on a GPU for running sums."""

from __future__ import annotations

from wengert.core.dtypes import COMPLEX
from wengert.core.graph import Node
from wengert.kernels.gather_scatter.c import splits
from wengert.kernels.launch import DeviceProperties, LaunchList, Named
from wengert.kernels.sizes import Sizes
from wengert.kernels.writer import narrowed, scalar_type, stored_type, widened


def cumsum(node: Node, named: Named, device: DeviceProperties, general: bool = False) -> LaunchList | None:
    """The running sum along an axis: a thread for each line of it; `general`: by a text for all sizes."""
    if node.dtype in COMPLEX:
        return None
    outer, size, inner = splits(node, 1)
    kind, scalar = stored_type(node.dtype), scalar_type(node.dtype)
    if not node.size:
        return LaunchList(())
    total = outer * inner
    sizes = Sizes(general, total=total, size=size, inner=inner)
    text = f"""extern "C" __global__ void wg_cumsum(const {kind} *x, {kind} *y{sizes.parameters})
{{
    WG_EACH(line, total) {{
        wg_count j = line % inner, o = line / inner;
        {scalar} sum = 0;
        for (wg_count i = 0; i < size; i++) {{
            wg_count at = (o * size + {"size - 1 - i" if node.attrs["backwards"] else "i"}) * inner + j;
            sum += {widened(node.dtype, "x[at]")};
            y[at] = {narrowed(node.dtype, "sum")};
        }}
    }}
}}
"""
    arguments = [named(node.sources[0]), named(node)]
    return LaunchList((sizes.launch(text, "wg_cumsum", total, device, arguments),))
