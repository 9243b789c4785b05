"""Many short transpositions as one launch: the weights of a model's convolutions with their channels last, say.

Each kernel exchanges the last two axes of an array, (..., channels, taps) to (..., taps, channels), with few taps. The
rows of taps lie one behind the other: a block brings ROWS of them into shared memory by whole vectors, and each of its
warps then writes one tap of all of them, two neighbouring channels a thread. (With an odd number of taps, such as 9,
the elements that a warp takes from shared memory lie in different banks.)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from wengert.kernels.cuda.multi_tensor import ADDRESSES, ALONG, Segments, signature_of_plain
from wengert.kernels.cuda.source import CudaPage, Names, Pass, access, stored_type
from wengert.kernels.ir.index import Index, Loop
from wengert.kernels.ir.loops import Accumulate, Load, LoopKernel, Position, Stage, Statement, Store
from wengert.kernels.ir.transforms import merge_loops, statements_of
from wengert.kernels.launch import DeviceProperties, Work

ROWS = 256  # of taps, to a block
TAPS = 16  # fewer than so many: more are worth tiles
EVEN = 8  # channels: a multiple of these, so that vectors of both kinds begin where they may


class _Transpose(NamedTuple):
    """A transposition: its kernel over a loop of any length, its rows of taps, and how many of them are channels."""

    plain: LoopKernel
    rows: int
    channels: int
    taps: int


def transpose_signature(kernel: LoopKernel) -> Hashable | None:
    """What transpositions must have in common to be segments of one launch; None for what is not one."""
    transpose = _transpose_of(kernel)
    return None if transpose is None else (signature_of_plain(transpose.plain), transpose.taps)


def write_multi_transpose(kernels: Sequence[LoopKernel], device: DeviceProperties) -> Work:
    """One launch for transpositions of one signature (more where the table of their buffers would be too long)."""
    found = [transpose for transpose in map(_transpose_of, kernels) if transpose is not None]
    if len(found) != len(kernels) or len({(signature_of_plain(t.plain), t.taps) for t in found}) > 1:
        raise ValueError("kernels of different texts cannot be one launch")
    size = ADDRESSES // 2
    parts = [_MultiTranspose(found[i : i + size]) for i in range(0, len(found), size)]
    return Work(tuple(part.work().launches[0] for part in parts))


def _transpose_of(kernel: LoopKernel) -> _Transpose | None:
    """A kernel as a transposition of whole arrays, of one operand and one result; None for any other."""
    if kernel.inner:
        return None
    kernel = merge_loops(kernel)
    if not 2 <= len(kernel.outer) <= 3:
        return None
    *others, taps, channels = kernel.outer
    if channels.extent % EVEN or taps.extent >= TAPS:
        return None
    places = {Load: _dense([*others, channels, taps]), Store: _dense(kernel.outer)}
    moved: list[Statement] = []
    for statement in statements_of(kernel):
        if isinstance(statement, Accumulate | Position) or (not isinstance(statement, Store) and statement.guards):
            return None
        if isinstance(statement, Load | Store):
            if statement.index != places.pop(type(statement), None):
                return None
            statement = replace(statement, index=Index(((ALONG, 1),)))
        moved.append(statement)
    if places:
        return None
    plain = replace(kernel, outer=[ALONG], stages=[Stage([], moved)], after=[])
    rows = math.prod(loop.extent for loop in others) * channels.extent
    return _Transpose(plain, rows, channels.extent, taps.extent) if rows * taps.extent < ALONG.extent else None


def _dense(loops: Sequence[Loop]) -> Index:
    """Where an element of an array lies that has these loops as its axes."""
    steps = [math.prod(inner.extent for inner in loops[k + 1 :]) for k in range(len(loops))]
    return Index(tuple(sorted(zip(loops, steps))))


class _MultiTranspose(Segments):
    def __init__(self, transpose: Sequence[_Transpose]) -> None:
        super().__init__([one.plain for one in transpose])
        self.transpose, self.taps = transpose, transpose[0].taps
        (self.load,) = (s for s in statements_of(self.kernel) if isinstance(s, Load))

    def work(self) -> Work:
        page, names, taps = CudaPage(), Names(self.kernel), self.taps
        names.index = "int"
        before = [0]
        for one in self.transpose:
            before.append(before[-1] + -(-one.rows // ROWS))
        for name, numbers in (
            ("all_rows", [t.rows for t in self.transpose]),
            ("widths", [t.channels for t in self.transpose]),
        ):
            page.line(f"static const int {name}[] = {{{', '.join(map(str, numbers))}}};")
        self.find(page, before[:-1])
        self.bind(page, names)
        page.line(f"__align__(16) __shared__ {stored_type(self.load.dtype)} tile[{ROWS * taps}];")
        page.line("const int rows = all_rows[segment], channels = widths[segment];")
        page.line(f"const int first = ((int)blockIdx.x - before[segment]) * {ROWS};")
        self._bring_in(page, names)
        page.line("__syncthreads();")
        page.line("const int lane = threadIdx.x % 32, tap = threadIdx.x / 32;")
        page.unrolled("u", ROWS // 64)
        page.line("const int within = u * 64 + lane * 2, row = first + within;")
        page.open("if (row < rows)")
        page.line("const int channel = row % channels;")
        page.line(f"const int i_0 = (row - channel) * {taps} + tap * channels + channel;")
        work = Pass(list(statements_of(self.kernel)), ALONG, 2, names)
        work.tiles = {access(self.load): f"tile[(within + j) * {taps} + tap]"}
        work.compute(page)
        page.close()
        page.close()
        count = sum(one.rows for one in self.transpose)
        why = f"{len(self.transpose)} transpositions of one text, {count} rows of {taps}: {ROWS} a block"
        return Work((names.launch(page, before[-1], 32 * taps, why=why),))

    def _bring_in(self, page: CudaPage, names: Names) -> None:
        """Copy the block's rows into shared memory: the threads, 32 for each tap, have 8 elements each."""
        vector = min(EVEN, 16 // self.load.dtype.itemsize)
        page.unrolled("u", EVEN // vector)
        page.line(f"const int at = (u * {32 * self.taps} + (int)threadIdx.x) * {vector};")
        source = f"{names.of(self.load.buffer)}[first * {self.taps} + at]"
        page.open(f"if (at < (rows - first) * {self.taps})")
        page.line(f"wg_store(&tile[at], wg_load<{vector}>(&{source}));")
        page.close()
        page.close()
