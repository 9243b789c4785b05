"""GPU kernels for the first k elements of rows, by radix select (select.cuh), or by sorting rows that fit a block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wengert.core.graph import Node
from wengert.kernels.copy.cuda import MOVED
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.sizes import Sizes
from wengert.kernels.sort.cuda import LONGEST, Sorted, longest_in_block, sorted_rows
from wengert.kernels.sort.order import has_order, key_type
from wengert.kernels.sort.rows import contiguous, rows_of

CUT = 11  # bits of a pass; as select.cuh has it
MOST = 1 << 14  # of a row that are selected: they are compared with one another
_THREADS = (256, 1, 1)
_SELECTION = 32  # bytes of state per row


def topk(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """The places of the first k along an axis."""
    (x,) = node.sources
    rows, k = rows_of(x, node.attrs["axis"]), node.attrs["k"]
    if not has_order(x.dtype) or rows.size >= LONGEST:
        return None
    if not node.size:
        return LaunchList(())
    what = Sorted(x.dtype, node.attrs["descending"], True)

    def work(source: str, target: str) -> LaunchList:
        if rows.size <= longest_in_block(x.dtype.itemsize):
            return sorted_rows(what, source, target, rows.count, rows.size, k, device)
        if k > min(MOST, rows.size // 4):
            return _first_of_all(what, source, target, rows.count, rows.size, k, device)
        return Select(what, rows.count, rows.size, k).launches(source, target, device)

    return contiguous(rows, k, (x.dtype.itemsize, 8), named(x), named(node), work)


def _first_of_all(
    what: Sorted, source: str, target: str, rows: int, size: int, k: int, device: DeviceProperties
) -> LaunchList:
    """Rows sorted whole, and the first of each copied."""
    done = sorted_rows(what, source, "wg_all_places", rows, size, size, device)
    sizes = Sizes(True, total=rows * k, most=k, size=size)
    text = f"""extern "C" __global__ void wg_first({MOVED[8]} *all, {MOVED[8]} *y{sizes.parameters})
{{
    WG_EACH(at, total) y[at] = all[(wg_long)(at / most) * size + at % most];
}}
"""
    first = sizes.launch(text, "wg_first", rows * k, device, ["wg_all_places", target])
    return LaunchList((*done.launches, first), {**done.workspace, "wg_all_places": 8 * rows * size})


class Select(NamedTuple):
    """A selection of the first k of long rows."""

    what: Sorted
    rows: int
    size: int
    k: int

    @property
    def place_bits(self) -> int:
        """Bits of a place."""
        return max(1, (self.size - 1).bit_length())

    @property
    def passes(self) -> int:
        """Passes over keys, then over places."""
        return -(-8 * self.what.dtype.itemsize // CUT) + -(-self.place_bits // CUT)

    @property
    def text(self) -> str:
        """The kernels."""
        key, order = key_type(self.what.dtype), self.what.order
        wide = "true" if self.rows == 1 or self.size * self.what.dtype.itemsize % 16 == 0 else "false"
        select = f"wg_select<{order}>{{k, place_bits, passes}}"
        return f"""#include "select.cuh"

extern "C" __global__ void wg_select_begin(unsigned *words, wg_long count)
{{
    wg_select_clear(words, count);
}}

extern "C" __global__ void __launch_bounds__(256)
wg_select_count(const {key} *x, wg_selection *selections, unsigned *counts, int k, int place_bits, int passes,
                wg_long n, int rows, int blocks, int pass)
{{
    wg_select_pass<{order}, {wide}>(x, selections, counts, {select}, n, rows, blocks, pass);
}}

extern "C" __global__ void __launch_bounds__(256)
wg_select_found(const {key} *x, wg_selection *selections, {key} *keys, unsigned *places, int k, int place_bits,
                int passes, wg_long n, int blocks)
{{
    wg_select_collect<{order}, {wide}>(x, selections, keys, places, {select}, n, blocks);
}}

extern "C" __global__ void __launch_bounds__(256)
wg_select_sorted(const {key} *keys, const unsigned *places, wg_long *y, int k, int blocks)
{{
    wg_select_order(keys, places, y, k, blocks);
}}
"""

    def launches(self, source: str, target: str, device: DeviceProperties) -> LaunchList:
        """The launches of a selection."""
        text, k, n = self.text, np.int32(self.k), np.int64(self.size)
        blocks = max(1, min(-(-self.size // 8192), -(-4 * device.sms // self.rows)))
        counts = self.rows * self.passes * ((1 << CUT) + 1)
        common = (k, np.int32(self.place_bits), np.int32(self.passes), n)
        space = {"wg_selections": _SELECTION * self.rows, "wg_counts": 4 * counts}
        space |= {"wg_keys": self.rows * self.k * self.what.dtype.itemsize, "wg_places": 4 * self.rows * self.k}
        found = []
        for name in ("wg_selections", "wg_counts"):
            words = space[name] // 4
            grid = (max(1, min(-(-words // 256), 16 * device.sms)), 1, 1)
            found.append(Launch(text, "wg_select_begin", grid, _THREADS, (name, np.int64(words))))
        grid = (self.rows * blocks, 1, 1)
        for number in range(self.passes):
            given = (source, "wg_selections", "wg_counts", *common, np.int32(self.rows), np.int32(blocks))
            why = f"{blocks} blocks to a row"
            found.append(Launch(text, "wg_select_count", grid, _THREADS, (*given, np.int32(number)), why=why))
        kept = (source, "wg_selections", "wg_keys", "wg_places", *common, np.int32(blocks))
        found.append(Launch(text, "wg_select_found", grid, _THREADS, kept))
        last = -(-self.k // 256)
        ordered = ("wg_keys", "wg_places", target, k, np.int32(last))
        found.append(Launch(text, "wg_select_sorted", (self.rows * last, 1, 1), _THREADS, ordered))
        return LaunchList(tuple(found), space)
