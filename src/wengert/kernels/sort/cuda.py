"""GPU kernels for sorting rows of any length, using those of radix.cuh.

Sizes are arguments: a text serves all shapes, in compiled programs and for single ops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wengert.core.graph import Node
from wengert.kernels.launch import Argument, DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.sort.order import has_order, key_type, order
from wengert.kernels.sort.rows import contiguous, rows_of
from wengert.ops.sorting import ARGSORT

SHORT = 64  # keys of a row that are compared with one another
LONGEST = 1 << 32  # places are numbers of 32 bits

DType = np.dtype[Any]


class SortBlock(NamedTuple):
    """Threads, and keys of each."""

    threads: int
    items: int
    resident: int = 1  # blocks of an SM that registers are to be shared by

    @property
    def bounds(self) -> str:
        """The launch bounds for the compiler."""
        return f"__launch_bounds__({self.threads}, {self.resident})"

    @property
    def keys(self) -> int:
        """How many keys a block has."""
        return self.threads * self.items


# The smallest that a row fits is taken. Keys of 8 bytes fill shared memory with 4096.
_ROW_BLOCKS = (
    SortBlock(32, 4),
    SortBlock(64, 4),
    SortBlock(128, 4),
    SortBlock(128, 8),
    SortBlock(256, 8),
    SortBlock(256, 16),
    SortBlock(512, 16),
)


def longest_in_block(itemsize: int) -> int:
    """The longest row that a block sorts."""
    return 4096 if itemsize > 4 else 8192


def sort(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """The elements of a value in order along an axis, or their places."""
    (x,) = node.sources
    rows = rows_of(x, node.attrs["axis"])
    if not has_order(x.dtype) or rows.size >= LONGEST:
        return None
    if not node.size:
        return LaunchList(())
    what = Sorted(x.dtype, node.attrs["descending"], node.op is ARGSORT)
    sizes = x.dtype.itemsize, node.dtype.itemsize

    def work(source: str, target: str) -> LaunchList:
        return sorted_rows(what, source, target, rows.count, rows.size, rows.size, device)

    return contiguous(rows, rows.size, sizes, named(x), named(node), work)


class Sorted(NamedTuple):
    """What is sorted: elements in a given order, returning their indices or the elements themselves."""

    dtype: DType
    descending: bool
    places: bool

    @property
    def order(self) -> str:
        """The order in C++."""
        return order(self.dtype, self.descending)


def sorted_rows(
    what: Sorted, source: str, target: str, rows: int, size: int, most: int, device: DeviceProperties
) -> LaunchList:
    """Contiguous rows sorted; of rows that fit a block the first `most` alone may be wanted."""
    if size <= SHORT:
        return LaunchList((_short(what, source, target, rows, size, most),))
    if size <= longest_in_block(what.dtype.itemsize):
        return LaunchList((_in_blocks(what, source, target, rows, size, most),))
    assert most == size
    passes = what.dtype.itemsize
    return radix_sort(RadixSort(what.order, key_type(what.dtype), passes, what), source, target, rows, size, device)


def _short(what: Sorted, source: str, target: str, rows: int, size: int, most: int) -> Launch:
    text = f"""#include "radix.cuh"

extern "C" __global__ void wg_short_rows(const {key_type(what.dtype)} *x, void *y, wg_long rows, int n, int most)
{{
    wg_sort_short<{what.order}, {_cpp(what.places)}>(x, y, rows, n, most);
}}
"""
    blocks = -(-rows // (256 // size))
    numbers = (np.int64(rows), np.int32(size), np.int32(most))
    why = f"{256 // size} rows of {size} a block"
    return Launch(text, "wg_short_rows", (blocks, 1, 1), (256, 1, 1), (source, target, *numbers), why=why)


def _in_blocks(what: Sorted, source: str, target: str, rows: int, size: int, most: int) -> Launch:
    block = next(block for block in _ROW_BLOCKS if block.keys >= size)
    text = f"""#include "radix.cuh"

extern "C" __global__ void {block.bounds}
wg_rows_in_blocks(const {key_type(what.dtype)} *x, void *y, int n, int most)
{{
    wg_sort_row<{what.order}, {block.threads}, {block.items}, {_cpp(what.places)}>(x, y, n, most);
}}
"""
    numbers = (np.int32(size), np.int32(most))
    why = f"a row of {size} to a block of {block.threads} threads"
    grid, threads = (rows, 1, 1), (block.threads, 1, 1)
    return Launch(text, "wg_rows_in_blocks", grid, threads, (source, target, *numbers), why=why)


def _cpp(value: bool) -> str:
    return "true" if value else "false"


# --- long rows ------------------------------------------------------------------------------------------------------


class RadixSort(NamedTuple):
    """A sort of long rows: the order of keys in C++, their type, and how many of their bytes differ.

    `what` is None where both sorted keys and their places, of 32 bits, are wanted.
    """

    order: str
    key: str
    passes: int
    what: Sorted | None

    @property
    def block(self) -> SortBlock:
        """The tile of a block: what its registers hold."""
        return SortBlock(256, 12, 3) if self.key == "uint64_t" else SortBlock(256, 16, 4)

    @property
    def places(self) -> bool:
        """Whether places go along."""
        return self.what is None or self.what.places

    @property
    def keys(self) -> bool:
        """Whether sorted keys are written."""
        return self.what is None or not self.what.places

    def text(self, word: str) -> str:
        """The kernels of a sort; `word` counts keys."""
        block, passes = self.block, self.passes
        writes = ", ".join(map(_cpp, (self.keys, self.places, self.what is not None)))
        return f"""#include "radix.cuh"

typedef {self.order} wg_keys;
typedef {self.key} wg_key;
typedef wg_radix_space<{word}> wg_space;

extern "C" __global__ void wg_sort_clear({word} *words, int rows, int tiles)
{{
    wg_radix_clear(wg_space{{words, rows, tiles, {passes}}});
}}

extern "C" __global__ void __launch_bounds__(256)
wg_sort_count(const wg_key *x, {word} *words, int rows, int tiles, wg_long n, int blocks)
{{
    wg_radix_count<wg_keys, {passes}>(x, wg_space{{words, rows, tiles, {passes}}}, n, blocks);
}}

extern "C" __global__ void wg_sort_starts({word} *words, int rows, int tiles, wg_long n)
{{
    wg_radix_starts(wg_space{{words, rows, tiles, {passes}}}, n);
}}

extern "C" __global__ void {block.bounds}
wg_sort_pass(const wg_key *x, wg_key *y, wg_key *keys0, wg_key *keys1, void *to, unsigned *places, {word} *words,
             int rows, int tiles, wg_long n, int pass)
{{
    const wg_radix_data<wg_key> data{{x, y, {{keys0, keys1}}, to, places}};
    wg_radix_pass<wg_keys, {block.threads}, {block.items}, {writes}>(
        data, wg_space{{words, rows, tiles, {passes}}}, n, pass);
}}
"""


def radix_sort(
    sort: RadixSort, source: str, target: str, rows: int, size: int, device: DeviceProperties, sorted_keys: str = ""
) -> LaunchList:
    """The launches of a sort of long rows; where places are wanted they go to `target`, and keys to `sorted_keys`."""
    tiles = -(-size // sort.block.keys)
    word, bytes_of_word = ("unsigned", 4) if size < 1 << 30 else ("unsigned long long", 8)
    text = sort.text(word)
    shape: list[Argument] = ["wg_radix", np.int32(rows), np.int32(tiles)]
    words = 64 + rows * sort.passes * 256 * (1 + tiles)
    per_row = max(1, min(-(-size // 8192), -(-4 * device.sms // rows)))
    n, block = np.int64(size), (256, 1, 1)
    clear = Launch(text, "wg_sort_clear", (_blocks(words, device), 1, 1), block, tuple(shape))
    counted = (source, *shape, n, np.int32(per_row))
    count = Launch(text, "wg_sort_count", (rows * per_row, 1, 1), block, counted, why="all digits in one read")
    starts = Launch(text, "wg_sort_starts", (rows * sort.passes, 1, 1), block, (*shape, n))
    workspace, buffers = _buffers(sort, source, target, sorted_keys, rows * size)
    launches = [clear, count, starts]
    for number in range(sort.passes):
        given = (*buffers, *shape, n, np.int32(number))
        why = f"a tile of {sort.block.keys} keys to a block"
        grid, threads = (rows * tiles, 1, 1), (sort.block.threads, 1, 1)
        launches.append(Launch(text, "wg_sort_pass", grid, threads, given, why=why))
    return LaunchList(tuple(launches), {"wg_radix": words * bytes_of_word, **workspace})


def _buffers(
    sort: RadixSort, source: str, target: str, sorted_keys: str, count: int
) -> tuple[dict[str, int], list[Argument]]:
    """The temporaries between passes, and what passes read and write; the source stands for what they do not use.

    Sorted keys go from the results to a temporary and back, places likewise, so that the last pass writes the results.
    """
    key_bytes = count * np.dtype(sort.key[:-2]).itemsize
    workspace = {"wg_keys0": key_bytes} if sort.passes > 1 else {}
    if sort.places:
        workspace |= {"wg_keys1": key_bytes} if sort.passes > 2 else {}
        workspace |= {"wg_places": 4 * count} if sort.passes > 1 else {}
    y = sorted_keys or (source if sort.places else target)
    to = target if sort.places else source
    temporaries = [name if name in workspace else source for name in ("wg_keys0", "wg_keys1")]
    return workspace, [source, y, *temporaries, to, "wg_places" if "wg_places" in workspace else source]


def _blocks(count: int, device: DeviceProperties) -> int:
    return max(1, min(-(-count // 256), 16 * device.sms))


def sorted_pairs(
    keys: str, sorted_keys: str, places: str, size: int, passes: int, device: DeviceProperties
) -> LaunchList:
    """Numbers of 32 bits, below 256 to the power of `passes`, in order, and where each was; for other kernels."""
    sort = RadixSort("wg_order<uint32_t, WG_UNSIGNED, 0, false>", "uint32_t", passes, None)
    return radix_sort(sort, keys, places, 1, size, device, sorted_keys)
