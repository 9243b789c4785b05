"""Many elements written to indexed positions by as many threads, with deterministic results.

Replacing: the last index that names a position wins; each position finds it as the maximum. Adding: integers use
atomics, whose order does not matter; floats are sorted by position, stably, and a scan adds each run of equal positions
by a tree of fixed shape. If every position is named at most once, as after sorting, no order is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wengert.core.graph import Node
from wengert.kernels.copy.cuda import MOVED
from wengert.kernels.launch import Argument, DeviceProperties, LaunchList, Named, in_turn
from wengert.kernels.scan.cuda import Running, scan
from wengert.kernels.sizes import Sizes
from wengert.kernels.sort.cuda import sorted_pairs
from wengert.kernels.sort.rows import AxisRows
from wengert.kernels.space import LARGEST
from wengert.kernels.writer import narrowed, scalar_type, stored_type, widened
from wengert.ops.movement import FLIP, SLICE
from wengert.ops.sorting import ARGSORT, TOPK

FEWEST = 64  # elements of a line that are worth more than one thread


class ScatteredValues:
    """Values written to positions of a result: the text that computes the position `to` of the value `at`."""

    def __init__(
        self,
        node: Node,
        count: int,
        text: str,
        parameters: str,
        arguments: Sequence[Argument],
        sizes: Sizes,
        before: str = "",
    ) -> None:
        self.node, self.count, self.text = (
            node,
            count,
            text,
        )  # the body of a loop over `at`, and the lines before the loop
        self.parameters, self.arguments, self.sizes = parameters, arguments, sizes
        self.before = before  # functions that the body calls

    @property
    def fits(self) -> bool:
        """Whether places and values are counted with 32 bits."""
        return max(self.count, self.node.size) < LARGEST

    def _kernel(self, name: str, before: str, put: str) -> str:
        return f"""extern "C" __global__ void {name}({before}, {self.parameters}{self.sizes.parameters})
{{
    WG_EACH(at, total) {{
{self.text}        {put}
    }}
}}
"""

    def replaced(self, values: str, named: Named, device: DeviceProperties) -> LaunchList:
        """The last value of each place put there; the result holds what was there before."""
        y, kind = named(self.node), MOVED[self.node.dtype.itemsize]
        text = f"""{self.before}
extern "C" __global__ void wg_no_last(int *last{self.sizes.parameters})
{{
    WG_EACH(i, places) last[i] = -1;
}}

"""
        text += self._kernel("wg_last_of_each", "int *last", "atomicMax(last + to, (int)at);")
        put = "if (last[to] == (int)at) y[to] = values[at];"
        text += "\n" + self._kernel("wg_put_last", f"const {kind} *values, {kind} *y, const int *last", put)
        launches = (
            self.sizes.launch(text, "wg_no_last", self.node.size, device, ["last"]),
            self.sizes.launch(text, "wg_last_of_each", self.count, device, ["last", *self.arguments]),
            self.sizes.launch(text, "wg_put_last", self.count, device, [values, y, "last", *self.arguments]),
        )
        return LaunchList(launches, {"last": 4 * self.node.size})

    def added(self, values: str, named: Named, device: DeviceProperties, once: bool = False) -> LaunchList:
        """Values added to the result; `once`: no place is named twice."""
        dtype, y = self.node.dtype, named(self.node)
        kind, is_atomic = stored_type(dtype), dtype.kind in "iu" and dtype.itemsize >= 4
        if once or is_atomic:
            both = f"{widened(dtype, 'y[to]')} + {widened(dtype, 'values[at]')}"
            put = f"y[to] = {narrowed(dtype, both)};"
            if is_atomic and not once:
                word = "unsigned" if dtype.itemsize == 4 else "unsigned long long"
                put = f"atomicAdd(({word} *)y + to, ({word})values[at]);"
            text = self.before + self._kernel("wg_add_each", f"const {kind} *values, {kind} *y", put)
            add = self.sizes.launch(text, "wg_add_each", self.count, device, [values, y, *self.arguments])
            return LaunchList((add,))
        text = self.before + self._kernel("wg_name_each", "unsigned *named", "named[at] = (unsigned)to;")
        name = self.sizes.launch(text, "wg_name_each", self.count, device, ["wg_named", *self.arguments])
        passes = max(1, -(-(self.node.size - 1).bit_length() // 8))
        ordered = sorted_pairs("wg_named", "wg_in_order", "wg_from", self.count, passes, device)
        space = dict.fromkeys(("wg_named", "wg_in_order", "wg_from"), 4 * self.count)
        return in_turn([LaunchList((name,), space), ordered, self._summed(values, y, device)])

    def _summed(self, values: str, y: str, device: DeviceProperties) -> LaunchList:
        """Runs of equal places added up, and each sum to its place."""
        dtype = self.node.dtype
        kind, scalar = stored_type(dtype), scalar_type(dtype)
        if dtype.kind in "iu":
            scalar = "int"
        size = 16 if scalar == "double" else 8
        add = narrowed(dtype, f"({scalar})({widened(dtype, 'y[to]')} + up_to.sum)")
        lines = f"""struct __align__({size}) wg_part {{
    {scalar} sum;
    int begins;
}};

struct wg_run {{
    typedef wg_part state;
    static constexpr bool READS = false, VALUES = false, BACK = false;
    const {kind} *values;
    {kind} *y;
    const unsigned *places, *from;
    wg_long n;
    static __device__ __forceinline__ state none() {{ return wg_part{{({scalar})0, 0}}; }}
    static __device__ __forceinline__ state join(state a, state b)
    {{
        return wg_part{{b.begins ? b.sum : ({scalar})(a.sum + b.sum), a.begins | b.begins}};
    }}
    __device__ __forceinline__ state at(wg_long index) const
    {{
        const int begins = index == 0 || places[index - 1] != places[index];
        return wg_part{{({scalar}){widened(dtype, "values[from[index]]")}, begins}};
    }}
    __device__ __forceinline__ void put(wg_long index, state before, state up_to) const
    {{
        const unsigned to = places[index];
        if (index == n - 1 || places[index + 1] != to) y[to] = {add};
    }}
}};
"""
        parameters = f"const {kind} *values, {kind} *y, const unsigned *places, const unsigned *from, wg_long total"
        run = Running(lines, size, parameters, "values, y, places, from, total")
        given: list[Argument] = [values, y, "wg_in_order", "wg_from", np.int64(self.count)]
        return scan(run, AxisRows(1, self.count, 1), given, False, device)


def along(node: Node, index: Node, rows: AxisRows, number: str, named: Named) -> ScatteredValues:
    """Values for an index each along an axis."""
    count = index.shape[node.attrs["axis"]]
    total = rows.count * count
    sizes = Sizes(True, total=total, count=count, size=rows.size, inner=rows.inner, places=node.size)
    text = """        const wg_count j = at % inner, o = at / inner / count;
        const wg_count to = (o * size + wg_in_range(k[at], size, wg_error)) * inner + j;
"""
    return ScatteredValues(node, total, text, f"const {number} *k, int *wg_error", [named(index), "wg_error"], sizes)


def names_each_once(index: Node, axis: int) -> bool:
    """Whether no position along an axis is named twice: the index is a permutation from sorting, or part of one."""
    while index.op is SLICE or index.op is FLIP:
        (index,) = index.sources
    return index.op in (ARGSORT, TOPK) and index.attrs["axis"] == axis


def is_worth_it(lines: int, count: int, device: DeviceProperties) -> bool:
    """Whether a thread to a line would leave most of a GPU idle for long."""
    return count >= FEWEST and lines * 4 < device.threads
