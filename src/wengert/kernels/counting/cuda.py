"""GPU kernels for the indices of nonzero elements (a scan over ones and zeros), and for counting integers."""

from __future__ import annotations

import numpy as np

from wengert.core.dtypes import COMPLEX, HALF, complex64
from wengert.core.graph import Node
from wengert.kernels.launch import Argument, DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.scan.cuda import Running, scan
from wengert.kernels.sort.rows import AxisRows
from wengert.kernels.writer import stored_type

MOST = 1 << 31  # elements that are counted with 32 bits, by a block or before a place
_SHARED_BINS = 8192  # as histogram.cuh has it


def _elements(x: Node) -> tuple[str, str, str]:
    """The type of elements in memory, the text that declares it, and whether one of them, `value`, is not zero."""
    if x.dtype in COMPLEX:
        part = "float" if x.dtype is complex64 else "double"
        before = f"struct __align__({x.dtype.itemsize}) wg_pair {{\n    {part} re, im;\n}};\n"
        return "wg_pair", before, "value.re != 0 || value.im != 0"
    return stored_type(x.dtype), "", f"(value & {(1 << 15) - 1}) != 0" if x.dtype in HALF else "value != 0"


def count_nonzero(x: Node, named: Named, result: str, device: DeviceProperties) -> LaunchList | None:
    """The number of nonzero elements, in one read. Counts are integers, so blocks may add them in any order."""
    if x.size >= MOST:
        return None
    kind, before, test = _elements(x)
    text = f"""#include "block.cuh"

typedef long long wg_long;
{before}
extern "C" __global__ void wg_no_count(unsigned long long *y)
{{
    *y = 0;
}}

extern "C" __global__ void __launch_bounds__(256) wg_count(const {kind} *x, unsigned long long *y, wg_long n)
{{
    constexpr int N = 16 / sizeof({kind});
    const wg_long step = (wg_long)gridDim.x * blockDim.x, chunks = n / N;
    const wg_long first = blockIdx.x * (wg_long)blockDim.x + threadIdx.x;
    unsigned count = 0;
#pragma unroll 4
    for (wg_long i = first; i < chunks; i += step) {{
        const wg_vector<{kind}, N> got = wg_load<N>(x + i * N);
#pragma unroll
        for (int e = 0; e < N; e++) {{
            const {kind} value = got.at[e];
            count += {test};
        }}
    }}
    if (first < n - chunks * N) {{
        const {kind} value = x[chunks * N + first];
        count += {test};
    }}
    __shared__ unsigned parts[8];
#pragma unroll
    for (int by = 16; by; by /= 2) count += __shfl_down_sync(~0u, count, by);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = count;
    __syncthreads();
    if (threadIdx.x == 0) {{
        unsigned long long sum = 0;
        for (int warp = 0; warp < 8; warp++) sum += parts[warp];
        atomicAdd(y, sum);
    }}
}}
"""
    clear = Launch(text, "wg_no_count", (1, 1, 1), (1, 1, 1), (result,))
    given = (named(x), result, np.int64(x.size))
    grid = _grid(-(-x.size * x.dtype.itemsize // 64), 8 * device.sms)
    return LaunchList((clear, Launch(text, "wg_count", grid, (256, 1, 1), given, why="four loads a thread")))


def flat_nonzero(node: Node, named: Named, device: DeviceProperties, size: Argument | None = None) -> LaunchList | None:
    """The indices of nonzero elements in order: each is written after as many as precede it.

    `size` is the number of results, if it is known only at run time.
    """
    (x,) = node.sources
    if x.size >= MOST:
        return None
    if not node.size:
        return LaunchList(())
    kind, before, test = _elements(x)
    lines = f"""{before}
struct wg_run {{
    typedef unsigned state;
    typedef {kind} raw;
    static constexpr bool READS = true, VALUES = false, BACK = false;
    const raw *x;
    wg_long *y;
    wg_long n, size;
    static __device__ __forceinline__ state none() {{ return 0; }}
    static __device__ __forceinline__ state join(state a, state b) {{ return a + b; }}
    static __device__ __forceinline__ state enter(raw value, wg_long p) {{ return {test}; }}
    __device__ __forceinline__ void put(wg_long index, state before, state up_to) const
    {{
        if (up_to != before && before < size) y[before] = index;
        if (index == n - 1)
            for (wg_long k = up_to; k < size; k++) y[k] = 0;
    }}
}};
"""
    run = Running(lines, 4, f"const {kind} *x, wg_long *y, wg_long total, wg_long size", "x, y, total, size")
    wanted = np.int64(node.size) if size is None else size
    given: list[Argument] = [named(x), named(node), np.int64(x.size), wanted]
    return scan(run, AxisRows(1, x.size, 1), given, True, device)


def bincount(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """How often each integer occurs."""
    (x,) = node.sources
    if x.size >= MOST:
        return None
    if not node.size:
        return LaunchList(())
    kind = stored_type(x.dtype)
    is_shared = node.size <= _SHARED_BINS
    copies = max(1, min(32, _SHARED_BINS // node.size)) if is_shared else 1
    text = f"""#include "histogram.cuh"

extern "C" __global__ void wg_no_counts(unsigned long long *y, wg_long size)
{{
    const wg_long step = (wg_long)gridDim.x * blockDim.x;
    for (wg_long i = blockIdx.x * (wg_long)blockDim.x + threadIdx.x; i < size; i += step) y[i] = 0;
}}

extern "C" __global__ void __launch_bounds__(256)
wg_counts(const {kind} *x, unsigned long long *y, wg_long n, wg_long size, int copies)
{{
    wg_count_numbers<{kind}, {str(is_shared).lower()}>(x, y, n, size, copies);
}}
"""
    size, block = np.int64(node.size), (256, 1, 1)
    clear = Launch(text, "wg_no_counts", _grid(node.size, 16 * device.sms), block, (named(node), size))
    if not x.size:
        return LaunchList((clear,))
    given = (named(x), named(node), np.int64(x.size), size, np.int32(copies))
    why = f"{copies} copies of {node.size} counts to a block" if is_shared else "counts in the L2"
    count = Launch(text, "wg_counts", _grid(-(-x.size // 16), 6 * device.sms), block, given, why=why)
    return LaunchList((clear, count))


def _grid(threads: int, most: int) -> tuple[int, int, int]:
    return max(1, min(-(-threads // 256), most)), 1, 1
