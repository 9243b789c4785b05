"""GPU kernels for indexed elements.

Texts contain the sizes for index arithmetic as constants (for compiled programs) or as arguments (for single ops of any
shape). Rows are added to one position in the order of their indices, whatever the launch: each position collects a list
of its rows as they arrive; counting the smaller ones for each entry orders the list; and one thread adds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from wengert.core.dtypes import COMPLEX, int32, int64
from wengert.core.graph import Node
from wengert.kernels.copy.cuda import MOVED, filled, moved
from wengert.kernels.gather_scatter import in_parallel
from wengert.kernels.gather_scatter.c import broadcast_steps, is_zero, splits
from wengert.kernels.launch import H200, Argument, DeviceProperties, LaunchList, Named, in_turn
from wengert.kernels.pool import cuda as pool
from wengert.kernels.sizes import Sizes
from wengert.kernels.sort.rows import AxisRows
from wengert.kernels.space import LARGEST, Access, space
from wengert.kernels.writer import narrowed, scalar_type, stored_type, widened
from wengert.ops.addressing import ADD_ALONG, SCATTER_ADD, TAKE_ALONG

ERROR = "wg_error"
RANKED = 1 << 16  # rows whose order is worked out together: the comparisons are up to the square of it


def fits(indices: Sequence[Node]) -> bool:
    """Whether elements by indices of theirs can be dealt with here."""
    return all(index.dtype in (int32, int64) for index in indices)


# --- rows -----------------------------------------------------------------------------------------------------------


class _Places(NamedTuple):
    """How a text finds the place that the i-th set of indices names."""

    parameters: str  # the arrays of indices
    sizes: dict[str, int]
    lines: str  # of the function

    def function(self, sizes: Sizes) -> str:
        """The function `wg_place` of i, the parameters and what sizes add to them."""
        return (
            f"static __device__ inline wg_count wg_place(wg_count i, {self.parameters}{sizes.parameters})\n"
            f"{{\n    wg_count place = 0;\n{self.lines}    return place;\n}}\n"
        )


def _places(node: Node, indices: Sequence[Node], places: Sequence[int]) -> _Places:
    """The places that arrays of indices name, over axes as few as they can be."""
    accesses = [Access(tuple(broadcast_steps(index, tuple(places)))) for index in indices]
    where = space(places, accesses)
    sizes = {f"extent{axis}": n for axis, n in enumerate(where.extents) if axis}
    lines = ""
    for axis in reversed(range(1, len(where.extents))):
        lines += f"    const wg_count i{axis} = i % extent{axis};\n    i /= extent{axis};\n"
    lines = lines + "    const wg_count i0 = i;\n"
    for k, (access, size) in enumerate(zip(where.accesses, node.sources[0].shape[node.attrs["axis"] :])):
        sizes |= {f"size{k}": size, **{f"step{k}_{axis}": step for axis, step in enumerate(access.steps)}}
        at = " + ".join(f"i{axis} * step{k}_{axis}" for axis in range(len(access.steps)))
        lines += f"    place = place * size{k} + wg_in_range(k{k}[{at}], size{k}, wg_error);\n"
    arrays = [f"const {stored_type(index.dtype)} *k{k}" for k, index in enumerate(indices)]
    return _Places(", ".join([*arrays, "int *wg_error"]), sizes, lines)


def _passed(indices: Sequence[Node], sizes: Sizes) -> str:
    return ", ".join([*(f"k{k}" for k in range(len(indices))), "wg_error"]) + sizes.passed


def gather(node: Node, named: Named, device: DeviceProperties, general: bool = False) -> LaunchList | None:
    """Rows named by an index array for each of some axes; `general`: by a text for all sizes."""
    x, *indices = node.sources
    if not fits(indices):
        return None
    axis = node.attrs["axis"]
    outer, size, inner = splits(node, len(indices))
    places = node.shape[axis : node.ndim - (x.ndim - axis - len(indices))]
    kind, width = moved(max(inner * node.dtype.itemsize, 1))
    found, count = _places(node, indices, places), math.prod(places)
    total = outer * count * width
    if not node.size or not x.size:
        return LaunchList(())
    sizes = Sizes(general, total=total, width=width, count=count, size=size, **found.sizes)
    text = f"""{found.function(sizes)}
extern "C" __global__ void wg_gather(const {kind} *x, {kind} *y, {found.parameters}{sizes.parameters})
{{
    WG_EACH(at, total) {{
        wg_count row = at / width, j = at % width, i = row % count, o = row / count;
        y[at] = x[(o * size + wg_place(i, {_passed(indices, sizes)})) * width + j];
    }}
}}
"""
    arguments = [named(x), named(node), *(named(index) for index in indices), ERROR]
    return LaunchList((sizes.launch(text, "wg_gather", total, device, arguments),))


def scatter(node: Node, named: Named, device: DeviceProperties, general: bool = False) -> LaunchList | None:
    """Rows replaced by the last index that names a position, or added; `general`: by texts for all sizes."""
    x, values, *indices = node.sources
    if not fits(indices):
        return None
    if node.op is SCATTER_ADD:
        return _scatter_add(node, named, device, general)
    axis = node.attrs["axis"]
    outer, size, inner = splits(node, len(indices))
    places = values.shape[axis : values.ndim - (x.ndim - axis - len(indices))]
    count = math.prod(places)
    kind, width = moved(max(inner * node.dtype.itemsize, 1))
    if not node.size:
        return LaunchList(())
    start = filled(x, node, named, device, general)
    if not values.size:
        return LaunchList(start)
    found = _places(node, indices, places)
    total = outer * count * width
    sizes = Sizes(general, total=total, width=width, count=count, size=size, **found.sizes)
    passed = _passed(indices, sizes)
    unique = count == 1  # no other index can name the same place
    given, last, check = (", const int *last", ["last"], "if (last[place] == i) ") if not unique else ("", [], "")
    text = f"""{found.function(sizes)}
extern "C" __global__ void wg_clear(int *last{sizes.parameters})
{{
    WG_EACH(i, size) last[i] = -1;
}}

extern "C" __global__ void wg_find_last(int *last, {found.parameters}{sizes.parameters})
{{
    WG_EACH(i, count) atomicMax(last + wg_place(i, {passed}), (int)i);
}}

extern "C" __global__ void wg_put_rows(const {kind} *values, {kind} *y{given}, {found.parameters}{sizes.parameters})
{{
    WG_EACH(at, total) {{
        wg_count row = at / width, j = at % width, i = row % count, o = row / count;
        wg_count place = wg_place(i, {passed});
        {check}y[(o * size + place) * width + j] = values[at];
    }}
}}
"""
    numbers = [*(named(index) for index in indices), ERROR]
    put = sizes.launch(text, "wg_put_rows", total, device, [named(values), named(node), *last, *numbers])
    if unique:
        return LaunchList((*start, put))
    clear = sizes.launch(text, "wg_clear", size, device, last)
    find = sizes.launch(text, "wg_find_last", count, device, [*last, *numbers])
    return LaunchList((*start, clear, find, put), {"last": 4 * size})


def _scatter_add(node: Node, named: Named, device: DeviceProperties, general: bool) -> LaunchList:
    """Rows added at the named positions, in the order of the indices."""
    x, values, *indices = node.sources
    axis = node.attrs["axis"]
    outer, size, inner = splits(node, len(indices))
    places = values.shape[axis : values.ndim - (x.ndim - axis - len(indices))]
    count = math.prod(places)
    if not node.size:
        return LaunchList(())
    if not values.size:
        return LaunchList(filled(x, node, named, device, general))
    single = inner == 1 and outer * count < LARGEST and node.dtype not in COMPLEX
    if single and (count > RANKED or node.dtype.kind in "iu"):
        return _add_elements(node, named, device, general)
    from_zeros = is_zero(x)
    found = _places(node, indices, places)
    width = math.gcd(inner, max(1, 16 // node.dtype.itemsize))
    total = outer * size * inner // width
    sizes = Sizes(general, total=total, count=count, size=size, chunks=inner // width, **found.sizes)
    kind, scalar = stored_type(node.dtype), scalar_type(node.dtype)
    text = f"""{found.function(sizes)}
extern "C" __global__ void wg_zero(int *counts{sizes.parameters})
{{
    WG_EACH(i, size + 1) counts[i] = 0;
}}

// The place that each index names, and how many named it before: in any order, as threads come.
extern "C" __global__ void wg_name_places(int *places, int *turns, int *counts, wg_long first, wg_long n,
                                          {found.parameters}{sizes.parameters})
{{
    WG_EACH(i, n) {{
        int place = (int)wg_place(first + i, {_passed(indices, sizes)});
        places[i] = place;
        turns[i] = atomicAdd(counts + place, 1);
    }}
}}

// Where the list of each place begins. Lists may lie in any order; behind the counts is how far they go, which a block
// moves on once for all of its lists: a place at a time, thousands of threads wait for one address.
extern "C" __global__ void wg_begin(int *counts, int *begins{sizes.parameters})
{{
    __shared__ int length, start;
    for (wg_count base = blockIdx.x * (wg_count)blockDim.x; base < size; base += (wg_count)gridDim.x * blockDim.x) {{
        const wg_count i = base + threadIdx.x;
        const int n = i < size ? counts[i] : 0;
        if (threadIdx.x == 0) length = 0;
        __syncthreads();
        const int at = atomicAdd(&length, n);
        __syncthreads();
        if (threadIdx.x == 0) start = atomicAdd(counts + size, length);
        __syncthreads();
        if (n) begins[i] = start + at;
    }}
}}

extern "C" __global__ void wg_list(const int *places, const int *turns, const int *begins, int *unordered,
                                   int n{sizes.parameters})
{{
    WG_EACH(i, n) unordered[begins[places[i]] + turns[i]] = (int)i;
}}

// The lists in order: an index stands behind the smaller ones of its list, which a warp counts. Equal indices alone are
// the worst case, n * n comparisons, and still little beside adding up the rows of their place one after the other.
extern "C" __global__ void wg_rank(const int *places, const int *counts, const int *begins, const int *unordered,
                                   int *lists, int n{sizes.parameters})
{{
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int i = blockIdx.x * warps + threadIdx.x / 32; i < n; i += gridDim.x * warps) {{
        const int place = places[i], begin = begins[place], length = counts[place];
        int rank = 0;
#pragma unroll 8
        for (int k = lane; k < length; k += 32) rank += unordered[begin + k] < i;
#pragma unroll
        for (int by = 16; by; by /= 2) rank += __shfl_xor_sync(0xffffffff, rank, by);
        if (lane == 0) lists[begin + rank] = i;
    }}
}}

struct alignas({width * node.dtype.itemsize}) wg_chunk {{ {kind} of[{width}]; }};

// `fresh`: into zeros that nobody has written yet.
extern "C" __global__ void wg_add_rows(wg_chunk *y, const wg_chunk *values, const int *counts, const int *begins,
                                       const int *lists, wg_long first, int fresh{sizes.parameters})
{{
    WG_EACH(at, total) {{
        wg_count row = at / chunks, j = at % chunks, place = row % size, o = row / size;
        int n = counts[place];
        if (n == 0 && !fresh) continue;
        wg_chunk sums = {{}};
        if (!fresh) sums = y[at];
        {scalar} sum[{width}];
#pragma unroll
        for (int w = 0; w < {width}; w++) sum[w] = {widened(node.dtype, "sums.of[w]")};
        const int *list = lists + (n ? begins[place] : 0);
        for (int k = 0; k < n; k++) {{
            wg_chunk value = values[(o * count + first + list[k]) * chunks + j];
#pragma unroll
            for (int w = 0; w < {width}; w++) sum[w] += {widened(node.dtype, "value.of[w]")};
        }}
#pragma unroll
        for (int w = 0; w < {width}; w++) sums.of[w] = {narrowed(node.dtype, "sum[w]")};
        y[at] = sums;
    }}
}}
"""
    numbers = [*(named(index) for index in indices), ERROR]
    launches = [] if from_zeros else [*filled(x, node, named, device, general)]
    for first in range(0, count, RANKED):
        n = min(RANKED, count - first)
        fresh = np.int32(from_zeros and first == 0)
        some: list[Argument] = [np.int64(first), np.int64(n)]
        ranked: list[Argument] = ["places", "counts", "begins", "unordered", "lists", np.int32(n)]
        rows: list[Argument] = [named(node), named(values), "counts", "begins", "lists", np.int64(first), fresh]
        launches += [
            sizes.launch(text, "wg_zero", size + 1, device, ["counts"]),
            sizes.launch(text, "wg_name_places", n, device, ["places", "turns", "counts", *some, *numbers]),
            sizes.launch(text, "wg_begin", size, device, ["counts", "begins"]),
            sizes.launch(text, "wg_list", n, device, ["places", "turns", "begins", "unordered", np.int32(n)]),
            sizes.launch(text, "wg_rank", n * device.warp, device, ranked),
            sizes.launch(text, "wg_add_rows", total, device, rows),
        ]
    each = 4 * min(RANKED, count)
    workspace = dict.fromkeys(("places", "turns", "unordered", "lists"), each)
    return LaunchList(tuple(launches), {**workspace, "counts": 4 * (size + 1), "begins": 4 * size})


def _add_elements(node: Node, named: Named, device: DeviceProperties, general: bool) -> LaunchList:
    """Single elements added to the places that indices name, a thread to each."""
    x, values, *indices = node.sources
    axis = node.attrs["axis"]
    outer, size, _ = splits(node, len(indices))
    places = values.shape[axis : values.ndim - (x.ndim - axis - len(indices))]
    found, count = _places(node, indices, places), math.prod(places)
    sizes = Sizes(general, total=outer * count, count=count, size=size, **found.sizes)
    text = f"        const wg_count to = at / count * size + wg_place(at % count, {_passed(indices, sizes)});\n"
    numbers = [*(named(index) for index in indices), ERROR]
    written = in_parallel.ScatteredValues(
        node, outer * count, text, found.parameters, numbers, sizes, found.function(sizes)
    )
    start = LaunchList(filled(x, node, named, device, general))
    return in_turn([start, written.added(named(values), named, device)])


# --- elements along an axis -----------------------------------------------------------------------------------------


def along(node: Node, named: Named, device: DeviceProperties, general: bool = False) -> LaunchList | None:
    """Elements along an axis, one index for each; `general`: by texts for all sizes."""
    op, axis = node.op, node.attrs["axis"]
    x, index = node.sources[0], node.sources[-1]
    same = (*x.shape[:axis], index.shape[axis], *x.shape[axis + 1 :]) == index.shape
    if not same or not fits([index]):
        return None
    outer, size, inner = splits(node, 1)
    count = index.shape[axis]
    total = node.size if op is TAKE_ALONG else outer * inner
    sizes = Sizes(general, total=total, count=count, size=size, inner=inner)
    number = stored_type(index.dtype)
    if not node.size:
        return LaunchList(())
    if op is TAKE_ALONG:
        if not x.size:
            return None
        kind = MOVED[node.dtype.itemsize]
        text = f"""extern "C" __global__ void wg_take_along(const {kind} *x, const {number} *k, {kind} *y,
                                         int *wg_error{sizes.parameters})
{{
    WG_EACH(at, total) {{
        wg_count j = at % inner, o = at / inner / count;
        y[at] = x[(o * size + wg_in_range(k[at], size, wg_error)) * inner + j];
    }}
}}
"""
        arguments = [named(x), named(index), named(node), ERROR]
        return LaunchList((sizes.launch(text, "wg_take_along", total, device, arguments),))
    start = filled(x, node, named, device, general)
    if not index.size:
        return LaunchList(start)
    written = in_parallel.along(node, index, AxisRows(outer, size, inner), number, named)
    once = op is ADD_ALONG and in_parallel.names_each_once(index, axis)
    ordered = op is not ADD_ALONG or node.dtype not in COMPLEX  # whether runs of equal places can be added up
    if written.fits and (once or (ordered and in_parallel.is_worth_it(outer * inner, count, device))):
        values = named(node.sources[1])
        done = (
            written.added(values, named, device, once) if op is ADD_ALONG else written.replaced(values, named, device)
        )
        return in_turn([LaunchList(start), done])
    kind = stored_type(node.dtype)
    put = "y[to] = values[at];"
    if op is ADD_ALONG:
        added = f"{widened(node.dtype, 'y[to]')} + {widened(node.dtype, 'values[at]')}"
        put = f"y[to] = {narrowed(node.dtype, added)};"
    text = f"""extern "C" __global__ void wg_{op.name}(const {kind} *values, const {number} *k, {kind} *y,
                                     int *wg_error{sizes.parameters})
{{
    WG_EACH(column, total) {{
        wg_count j = column % inner, o = column / inner;
        for (wg_count i = 0; i < count; i++) {{
            wg_count at = (o * count + i) * inner + j;
            wg_count to = (o * size + wg_in_range(k[at], size, wg_error)) * inner + j;
            {put}
        }}
    }}
}}
"""
    arguments = [named(node.sources[1]), named(index), named(node), ERROR]
    return LaunchList((*start, sizes.launch(text, f"wg_{op.name}", total, device, arguments)))


def add_along(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """Elements added to along an axis; where that is the derivative of a pool, a kernel of the pools gathers them."""
    return pool.add_along(node, named) or along(node, named, device)


Rule = Callable[[Node, Named, DeviceProperties], LaunchList | None]


def reads_of(rule: Rule) -> Callable[[Node], Sequence[Node]]:
    """What an op that writes into its first operand reads: not that one, where it is zeros and this rule does it."""

    def reads(node: Node) -> Sequence[Node]:
        into_zeros = is_zero(node.sources[0]) and rule(node, lambda _: "", H200) is not None
        return node.sources[1:] if into_zeros else node.sources

    return reads
