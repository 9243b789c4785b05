"""Work on a GPU for elements named by integers, for replaced slices, joined values and running sums.

Shapes are in the texts where an index is worked out from them, arguments where they only count. Rows are added to one
place in the order of their indices, whatever the launch: an index's rank among the equal ones before it is counted,
places get a list of their rows each, and one thread adds a list up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from wengert.dtypes import COMPLEX, int32, int64
from wengert.graph import Node
from wengert.kernels.addressing import broadcast_steps, is_zero, splits
from wengert.kernels.expressions import load, scalar_type, store, stored_type
from wengert.kernels.launch import Device, Launch, Work

Named = Callable[[Node], str]
ERROR = "wg_error"
THREADS = 256
RANKED = 1 << 16  # rows whose order is worked out together: the comparisons are the square of it
_MOVED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4"}


def _grid(count: int, device: Device) -> tuple[int, int, int]:
    """Blocks for so many independent elements: one thread each, up to what the device holds a few times over."""
    return (max(1, min(-(-count // THREADS), 16 * device.sms)), 1, 1)


def _launch(text: str, entry: str, count: int, device: Device, arguments: Sequence[str | np.generic]) -> Launch:
    source = f'#include "math.cuh"\n#include "address.cuh"\n\n{text}'
    return Launch(source, entry, _grid(count, device), (THREADS, 1, 1), tuple(arguments), why=f"{count} elements")


def _moved(width: int) -> tuple[str, int]:
    """The widest type that rows of so many bytes consist of, and how many there are of it."""
    size = next(n for n in (16, 8, 4, 2, 1) if width % n == 0)
    return _MOVED[size], width // size


def fits(node: Node, indices: Sequence[Node]) -> bool:
    """Whether elements of this dtype and indices of theirs can be dealt with here."""
    return all(index.dtype in (int32, int64) for index in indices) and node.dtype not in COMPLEX


# --- rows -----------------------------------------------------------------------------------------------------------


def _places(node: Node, indices: Sequence[Node], places: Sequence[int]) -> tuple[str, str, str]:
    """The function that gives the i-th place, its parameters as declared, and as passed on."""
    sizes = node.sources[0].shape[node.attrs["axis"] :]
    parameters = [f"const {stored_type(index.dtype)} *k{i}" for i, index in enumerate(indices)]
    declared = ", ".join([*parameters, "int *wg_error"])
    passed = ", ".join([*(f"k{i}" for i in range(len(indices))), "wg_error"])
    lines = ["wg_long place = 0;"]
    for number, (index, size) in enumerate(zip(indices, sizes)):
        terms, below = [], 1
        for extent, step in reversed(list(zip(places, broadcast_steps(index, tuple(places))))):
            if step:
                terms.append(f"i / {below}LL % {extent}LL * {step}LL")
            below *= extent
        at = " + ".join(terms) or "0"
        lines.append(f"place = place * {size}LL + wg_in_range(k{number}[{at}], {size}LL, wg_error);")
    body = "\n    ".join(lines)
    text = f"static __device__ inline wg_long wg_place(wg_long i, {declared})\n{{\n    {body}\n    return place;\n}}\n"
    return text, declared, passed


def gather(node: Node, named: Named, device: Device) -> Work | None:
    """Rows that an array for each of some axes names."""
    x, *indices = node.sources
    if not fits(node, indices):
        return None
    axis = node.attrs["axis"]
    outer, size, inner = splits(node, len(indices))
    places = node.shape[axis : node.ndim - (x.ndim - axis - len(indices))]
    kind, width = _moved(max(inner * node.dtype.itemsize, 1))
    place, declared, passed = _places(node, indices, places)
    total = outer * math.prod(places) * width
    if not node.size or not x.size:
        return Work(())
    text = f"""{place}
extern "C" __global__ void wg_gather(const {kind} *x, {kind} *y, {declared})
{{
    WG_EACH(at, {total}LL) {{
        wg_long j = at % {width}LL, i = at / {width}LL % {math.prod(places)}LL, o = at / {width * math.prod(places)}LL;
        y[at] = x[(o * {size}LL + wg_place(i, {passed})) * {width}LL + j];
    }}
}}
"""
    arguments = [named(x), named(node), *(named(index) for index in indices), ERROR]
    return Work((_launch(text, "wg_gather", total, device, arguments),))


def scatter(node: Node, named: Named, device: Device) -> Work | None:
    """Rows replaced, by the last index that names a place, or added to."""
    x, values, *indices = node.sources
    if not fits(node, indices):
        return None
    if node.op.name == "scatter_add":
        return _scatter_add(node, named, device)
    axis = node.attrs["axis"]
    outer, size, inner = splits(node, len(indices))
    places = values.shape[axis : values.ndim - (x.ndim - axis - len(indices))]
    count = math.prod(places)
    kind, width = _moved(max(inner * node.dtype.itemsize, 1))
    if not node.size:
        return Work(())
    start = _start(x, node, named, device)
    if not values.size:
        return Work(start)
    place, declared, passed = _places(node, indices, places)
    unique = count == 1  # no other index can name the same place
    given, last, check = (", const int *last", ["last"], "if (last[place] == i) ") if not unique else ("", [], "")
    text = f"""{place}
extern "C" __global__ void wg_clear(int *last)
{{
    WG_EACH(i, {size}LL) last[i] = -1;
}}

extern "C" __global__ void wg_find_last(int *last, {declared})
{{
    WG_EACH(i, {count}LL) atomicMax(last + wg_place(i, {passed}), (int)i);
}}

extern "C" __global__ void wg_put_rows(const {kind} *values, {kind} *y{given}, {declared})
{{
    WG_EACH(at, {outer * count * width}LL) {{
        wg_long j = at % {width}LL, i = at / {width}LL % {count}LL, o = at / {width * count}LL;
        wg_long place = wg_place(i, {passed});
        {check}y[(o * {size}LL + place) * {width}LL + j] = values[at];
    }}
}}
"""
    numbers = [*(named(index) for index in indices), ERROR]
    put = _launch(text, "wg_put_rows", outer * count * width, device, [named(values), named(node), *last, *numbers])
    if unique:
        return Work((*start, put))
    clear = _launch(text, "wg_clear", size, device, last)
    find = _launch(text, "wg_find_last", count, device, [*last, *numbers])
    return Work((*start, clear, find, put), {"last": 4 * size})


def _start(x: Node, node: Node, named: Named, device: Device) -> tuple[Launch, ...]:
    """What fills a result with what is written into, `x` or zeros; nothing where it takes the place of `x`."""
    kind, count = _moved(node.size * node.dtype.itemsize)
    if is_zero(x):
        zero = "make_uint4(0, 0, 0, 0)" if kind == "uint4" else "0"
        text = f'extern "C" __global__ void wg_fill({kind} *y)\n{{\n    WG_EACH(i, {count}LL) y[i] = {zero};\n}}\n'
        return (_launch(text, "wg_fill", count, device, [named(node)]),)
    return () if named(x) == named(node) else copy(named(x), named(node), node, device).launches


def copy(source: str, target: str, node: Node, device: Device) -> Work:
    """All elements of a value, from one buffer to another."""
    kind, count = _moved(max(node.size * node.dtype.itemsize, 1))
    text = (
        f'extern "C" __global__ void wg_copy(const {kind} *x, {kind} *y)\n'
        f"{{\n    WG_EACH(i, {count}LL) y[i] = x[i];\n}}\n"
    )
    return Work((_launch(text, "wg_copy", count, device, [source, target]),) if node.size else ())


def _scatter_add(node: Node, named: Named, device: Device) -> Work:
    """Rows added to the places that indices name, in the order of the indices."""
    x, values, *indices = node.sources
    axis = node.attrs["axis"]
    outer, size, inner = splits(node, len(indices))
    places = values.shape[axis : values.ndim - (x.ndim - axis - len(indices))]
    count = math.prod(places)
    if not node.size:
        return Work(())
    start = _start(x, node, named, device)
    if not values.size:
        return Work(start)
    place, declared, passed = _places(node, indices, places)
    kind, scalar = stored_type(node.dtype), scalar_type(node.dtype)
    text = f"""{place}
extern "C" __global__ void wg_name_places(int *places, int *counts, wg_long first, wg_long n, {declared})
{{
    WG_EACH(i, n) {{
        int place = (int)wg_place(first + i, {passed});
        places[i] = place;
        atomicAdd(counts + place, 1);
    }}
}}

extern "C" __global__ void wg_zero(int *counts)
{{
    WG_EACH(i, {size}LL) counts[i] = 0;
}}

// Where the list of each place begins: one block adds the counts up.
extern "C" __global__ void wg_begin(const int *counts, int *begins)
{{
    __shared__ int sums[{THREADS}];
    const int each = ({size} + {THREADS} - 1) / {THREADS};
    int total = 0, from = threadIdx.x * each, to = min(from + each, {size});
    for (int i = from; i < to; i++) total += counts[i];
    sums[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0, sum = 0; i < {THREADS}; i++) {{
            int own = sums[i];
            sums[i] = sum;
            sum += own;
        }}
    __syncthreads();
    int sum = sums[threadIdx.x];
    for (int i = from; i < to; i++) {{
        begins[i] = sum;
        sum += counts[i];
    }}
}}

// The lists themselves: an index stands behind the equal ones before it.
extern "C" __global__ void wg_rank(const int *places, const int *begins, int *lists, int n)
{{
    __shared__ int tile[{THREADS}];
    for (int base = blockIdx.x * {THREADS}; base < n; base += gridDim.x * {THREADS}) {{
        int i = base + threadIdx.x, own = i < n ? places[i] : -1, rank = 0;
        for (int other = 0; other <= base; other += {THREADS}) {{
            __syncthreads();
            tile[threadIdx.x] = other + threadIdx.x < n ? places[other + threadIdx.x] : -1;
            __syncthreads();
            int stop = min({THREADS}, i - other);
            for (int k = 0; k < stop; k++) rank += tile[k] == own;
        }}
        if (i < n) lists[begins[own] + rank] = i;
    }}
}}

extern "C" __global__ void wg_add_rows({kind} *y, const {kind} *values, const int *counts, const int *begins,
                                       const int *lists, wg_long first)
{{
    WG_EACH(at, {outer * size * inner}LL) {{
        wg_long j = at % {inner}LL, place = at / {inner}LL % {size}LL, o = at / {inner * size}LL;
        int n = counts[place];
        if (n == 0) continue;
        const int *list = lists + begins[place];
        {scalar} sum = {load(node.dtype, "y[at]")};
        for (int k = 0; k < n; k++) {{
            {kind} value = values[(o * {count}LL + first + list[k]) * {inner}LL + j];
            sum += {load(node.dtype, "value")};
        }}
        y[at] = {store(node.dtype, "sum")};
    }}
}}
"""
    numbers = [*(named(index) for index in indices), ERROR]
    launches = [*start]
    for first in range(0, count, RANKED):
        n = min(RANKED, count - first)
        begin = _launch(text, "wg_begin", 1, device, ["counts", "begins"])
        launches += [
            _launch(text, "wg_zero", size, device, ["counts"]),
            _launch(text, "wg_name_places", n, device, ["places", "counts", np.int64(first), np.int64(n), *numbers]),
            begin,
            _launch(text, "wg_rank", n, device, ["places", "begins", "lists", np.int32(n)]),
            _launch(
                text,
                "wg_add_rows",
                outer * size * inner,
                device,
                [named(node), named(values), "counts", "begins", "lists", np.int64(first)],
            ),
        ]
    n = min(RANKED, count)
    return Work(tuple(launches), {"places": 4 * n, "lists": 4 * n, "counts": 4 * size, "begins": 4 * size})


# --- elements along an axis -----------------------------------------------------------------------------------------


def along(node: Node, named: Named, device: Device) -> Work | None:
    """Elements that an index for each names, along an axis."""
    name, axis = node.op.name, node.attrs["axis"]
    x, index = node.sources[0], node.sources[-1]
    same = (*x.shape[:axis], index.shape[axis], *x.shape[axis + 1 :]) == index.shape
    if not same or not fits(node, [index]):
        return None
    outer, size, inner = splits(node, 1)
    count = index.shape[axis]
    number = stored_type(index.dtype)
    if not node.size:
        return Work(())
    if name == "take_along":
        if not x.size:
            return None
        kind = _MOVED[node.dtype.itemsize]
        text = f"""extern "C" __global__ void wg_take_along(const {kind} *x, const {number} *k, {kind} *y,
                                         int *wg_error)
{{
    WG_EACH(at, {node.size}LL) {{
        wg_long j = at % {inner}LL, o = at / {count * inner}LL;
        y[at] = x[(o * {size}LL + wg_in_range(k[at], {size}LL, wg_error)) * {inner}LL + j];
    }}
}}
"""
        arguments = [named(x), named(index), named(node), ERROR]
        return Work((_launch(text, "wg_take_along", node.size, device, arguments),))
    start = _start(x, node, named, device)
    if not index.size:
        return Work(start)
    kind = stored_type(node.dtype)
    put = "y[to] = values[at];"
    if name == "add_along":
        total = f"{load(node.dtype, 'y[to]')} + {load(node.dtype, 'values[at]')}"
        put = f"y[to] = {store(node.dtype, total)};"
    text = f"""extern "C" __global__ void wg_{name}(const {kind} *values, const {number} *k, {kind} *y, int *wg_error)
{{
    WG_EACH(column, {outer * inner}LL) {{
        wg_long j = column % {inner}LL, o = column / {inner}LL;
        for (wg_long i = 0; i < {count}LL; i++) {{
            wg_long at = (o * {count}LL + i) * {inner}LL + j;
            wg_long to = (o * {size}LL + wg_in_range(k[at], {size}LL, wg_error)) * {inner}LL + j;
            {put}
        }}
    }}
}}
"""
    arguments = [named(node.sources[1]), named(index), named(node), ERROR]
    return Work((*start, _launch(text, f"wg_{name}", outer * inner, device, arguments)))


# --- the rest -------------------------------------------------------------------------------------------------------


def cumsum(node: Node, named: Named, device: Device) -> Work | None:
    """The running sum along an axis: a thread for each line of it."""
    if node.dtype in COMPLEX:
        return None
    outer, size, inner = splits(node, 1)
    kind, scalar = stored_type(node.dtype), scalar_type(node.dtype)
    if not node.size:
        return Work(())
    at = f"(o * {size}LL + {f'{size - 1} - i' if node.attrs['backwards'] else 'i'}) * {inner}LL + j"
    text = f"""extern "C" __global__ void wg_cumsum(const {kind} *x, {kind} *y)
{{
    WG_EACH(line, {outer * inner}LL) {{
        wg_long j = line % {inner}LL, o = line / {inner}LL;
        {scalar} sum = 0;
        for (wg_long i = 0; i < {size}LL; i++) {{
            wg_long at = {at};
            sum += {load(node.dtype, "x[at]")};
            y[at] = {store(node.dtype, "sum")};
        }}
    }}
}}
"""
    arguments = [named(node.sources[0]), named(node)]
    return Work((_launch(text, "wg_cumsum", outer * inner, device, arguments),))


def concat(node: Node, named: Named, device: Device) -> Work | None:
    """Values joined along an axis: a launch for each."""
    axis = node.attrs["axis"]
    outer = math.prod(node.shape[:axis])
    launches, start = [], 0
    inner = node.size // max(outer, 1)
    for source in node.sources:
        width = source.size // max(outer, 1)
        size = node.dtype.itemsize
        common = math.gcd(width * size, inner * size, start * size, 16)
        kind = _MOVED[common]
        if source.size:
            units = [n * size // common for n in (width, inner, start)]
            text = f"""extern "C" __global__ void wg_join(const {kind} *x, {kind} *y)
{{
    WG_EACH(at, {outer * units[0]}LL) y[at / {units[0]}LL * {units[1]}LL + {units[2]}LL + at % {units[0]}LL] = x[at];
}}
"""
            launches.append(_launch(text, "wg_join", outer * units[0], device, [named(source), named(node)]))
        start += width
    return Work(tuple(launches))


def put_slice(node: Node, named: Named, device: Device) -> Work | None:
    """A value with a slice of it replaced: copied unless it takes the place of the old one, then written over."""
    x, values = node.sources
    if node.dtype in COMPLEX:
        return None
    if not node.size:
        return Work(())
    start = _start(x, node, named, device)
    if not values.size:
        return Work(start)
    starts, steps = node.attrs["starts"], node.attrs["steps"]
    terms, below, step_to = [], 1, 1
    for axis in reversed(range(node.ndim)):
        extent = values.shape[axis]
        terms.append(f"({starts[axis]}LL + at / {below}LL % {extent}LL * {steps[axis]}LL) * {step_to}LL")
        below, step_to = below * extent, step_to * node.shape[axis]
    kind = _MOVED[node.dtype.itemsize]
    text = f"""extern "C" __global__ void wg_put_slice(const {kind} *values, {kind} *y)
{{
    WG_EACH(at, {values.size}LL) y[{" + ".join(terms) or "0"}] = values[at];
}}
"""
    return Work((*start, _launch(text, "wg_put_slice", values.size, device, [named(values), named(node)])))
