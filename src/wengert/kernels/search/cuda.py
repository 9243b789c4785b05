"""GPU kernel for insertion points in sorted rows: one thread per value does a binary search.

Elements are compared by their keys (order.cuh), in which NaN is the largest, as it is in a sorted row.
"""

from __future__ import annotations

import numpy as np

from wengert.core.graph import Node
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.sort.order import has_order, key_type, order


def searchsorted(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """Where values would go in sorted rows."""
    rows, values = node.sources
    if not has_order(rows.dtype):
        return None
    if not node.size:
        return LaunchList(())
    key = key_type(rows.dtype)
    goes_right = "middle <= value" if node.attrs["side"] == "right" else "middle < value"
    text = f"""#include "order.cuh"

typedef {order(rows.dtype)} wg_keys;

extern "C" __global__ void wg_searchsorted(const {key} *rows, const {key} *values, long long *y, long long total,
                                           long long each, long long size)
{{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < total; i += step) {{
        const {key} value = wg_keys::rank(wg_keys::of(values[i]));
        const {key} *row = rows + i / each * size;
        long long low = 0, high = size;
        while (low < high) {{
            const long long at = low + (high - low) / 2;
            const {key} middle = wg_keys::rank(wg_keys::of(row[at]));
            if ({goes_right}) low = at + 1;
            else high = at;
        }}
        y[i] = low;
    }}
}}
"""
    each = values.size if rows.ndim == 1 else values.shape[-1]
    numbers = (np.int64(values.size), np.int64(each), np.int64(rows.shape[-1]))
    grid = (max(1, min(-(-values.size // 256), 16 * device.sms)), 1, 1)
    given = (named(rows), named(values), named(node), *numbers)
    return LaunchList((Launch(text, "wg_searchsorted", grid, (256, 1, 1), given, why="a thread for each value"),))
