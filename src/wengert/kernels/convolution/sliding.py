"""Weight gradients of convolutions in tf32 whose taps slide over registers: work split and launches.

From sm_80 on with mma ("slide", conv_slide.cuh); on sm_90a with wgmma, 64 channels of x at a time ("sweep",
conv_sweep.cuh).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np

from wengert.core.dtypes import float32
from wengert.kernels.convolution.form import ConvolutionForm, Form
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList
from wengert.kernels.matmul.gemm_source import add_up, wgmma
from wengert.kernels.matmul.product import Matrix, Product, Tile

Numbers = np.ndarray[Any, Any]

OUTS = 64  # channels of y that a block takes
_SUMS = 144  # that a thread can hold in its registers
_SPANS = (7, 8)  # neighbouring positions: rows of 7 * 2**n or 2**n are whole numbers of them
_WARPS = ((2, 4, 1), (2, 2, 2), (4, 2, 1))


@dataclass(frozen=True)
class Cut:
    """A block's share of a convolution, and its layout in shared memory: the kernels' constants."""

    rung: str
    outs: int
    ins: int
    span: int  # neighbouring positions of a stream, of which mma takes eight
    rows: int  # of y, of a turn
    stages: int  # turns in flight
    period: int
    warps_high: int
    warps_wide: int
    warps_deep: int
    slots: int  # rows of x that the ring has
    x_pitch: int  # floats from one place to the next,
    x_line: int  # and from one row
    y_pitch: int
    y_line: int

    @property
    def shared(self) -> int:
        """Bytes of shared memory; sweep keeps three turns of y."""
        of_y = 3 * 8 * self.span * self.outs if self.rung == "sweep" else self.stages * self.rows * self.y_line
        return 4 * (self.slots * self.x_line + of_y)

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.warps_high * self.warps_wide * self.warps_deep

    def text(self) -> str:
        """The constants."""
        numbers = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        lines = "".join(f"    static const int {name} = {value};\n" for name, value in numbers.items())
        return f"struct wg_cut {{\n{lines}}};\n"


def tiles(c: ConvolutionForm, device: DeviceProperties) -> list[Tile]:
    """The tiles that support a convolution, in order of expected time."""
    f = c.form
    fits = f.outs % OUTS == 0 and f.stride[1] <= f.kernel[1] and f.taps > 1 and int(device.arch.rstrip("a")) >= 80
    if not c.by_weight or not c.by_rows or not fits:
        return []
    return [_tile(f, cut, device) for cut in _cuts(f, device)]


def used(f: Form) -> float:
    """The useful share of the multiplications: rows are padded to whole spans, and zeros lie between images."""
    return f.count[1] / f.period * f.count[2] / min(_filled(f.count[2], span) for span in _SPANS)


def work(c: ConvolutionForm, tile: Tile, x: str, y: str, result: str, device: DeviceProperties) -> LaunchList:
    """The sums over parts of the images' rows, which are then added in order."""
    f = c.form
    cut = next(cut for cut in _cuts(f, device) if _tile(f, cut, device) == tile)
    parts, size = tile.split * cut.warps_deep, f.outs * f.taps * f.ins
    if parts == 1:
        return LaunchList((_launch(f, cut, 1, x, y, result),))
    flat = Matrix("partial_sums", float32, size, 1)
    whole = Product(1, size, 1, flat, flat, replace(flat, buffer=result))
    launches = (_launch(f, cut, tile.split, x, y, flat.buffer), add_up(whole, parts, flat))
    return LaunchList(launches, {flat.buffer: parts * size * 4})


def _launch(f: Form, cut: Cut, parts: int, x: str, y: str, to: str) -> Launch:
    """Sums into (parts * cut.warps_deep, outs, lines, taps, ins)."""
    turns, across = _turns(f, cut), f.outs // cut.outs * (f.ins // cut.ins)
    multiply = wgmma(64, float32, (False, False), held=True) if cut.rung == "sweep" else ""
    source = f"""{f.text()}{cut.text()}{multiply}#include "conv_{cut.rung}.cuh"
extern "C" __global__ void __launch_bounds__({cut.warps * 32}, 1) convolve_weight(
    const float *x, const float *y, float *to, int images, int turns, int share)
{{
    int tile = blockIdx.x % {across}, part = blockIdx.x / {across}, first = part * share;
    wg_convolve_weight_{cut.rung}(x, y, to, images, tile, part, first, first + share < turns ? first + share : turns);
}}
"""
    return Launch(
        source,
        "convolve_weight",
        (across * parts, 1, 1),
        (cut.warps * 32, 1, 1),
        (x, y, to, np.int32(f.batch), np.int32(turns), np.int32(-(-turns // parts))),
        cut.shared,
        f"{across} tiles of {cut.outs} x {cut.ins} channels, {f.batch * cut.period} rows in {parts} parts",
    )


# --- cuts -----------------------------------------------------------------------------------------------------------


def _tile(f: Form, cut: Cut, device: DeviceProperties) -> Tile:
    """A cut as a tile: the rows in as many parts as there are SMs for all tiles."""
    blocks = f.outs // cut.outs * (f.ins // cut.ins)
    parts = min(_turns(f, cut), max(1, device.sms // blocks))
    return Tile(cut.rung, cut.outs, cut.ins, 8 * cut.span, stages=cut.stages, warps=cut.warps, split=parts)


def _turns(f: Form, cut: Cut) -> int:
    return -(-f.batch * cut.period // cut.rows)


def _filled(count: int, span: int) -> int:
    return -(-count // span) * span


@cache
def _cuts(f: Form, device: DeviceProperties) -> Sequence[Cut]:
    """The ways to cut a convolution, the one expected to be fastest first: three turns in flight, then by wgmma."""
    span = min(_SPANS, key=lambda span: _filled(f.count[2], span))
    swept = _swept(f, span) if device.arch == "90a" else ()
    slid = (cut for ins in _channels(f) for cut in _slid(f, ins, span))
    fitting = [cut for cut in (*swept, *slid) if cut.shared <= device.shared_per_block]
    return sorted(fitting, key=lambda cut: -cut.stages)[:4]


def _channels(f: Form) -> list[int]:
    """How many channels of x a block may take: the most first."""
    whole = [f.ins] if f.ins <= 32 else []
    return whole + [n for n in (64, 32, 16) if f.ins % n == 0 and n not in whole]


def _swept(f: Form, span: int) -> Iterator[Cut]:
    """By wgmma: a warpgroup for each line; a turn is eight spans, and its registers hold 32 sums for each tap."""
    _, lines, taps = f.kernel
    width = _filled(f.count[2], span)
    if f.ins % 64 == 0 and 8 * span % width == 0 and 2 <= lines <= 3 and taps <= 3:
        yield from _staged("sweep", f, 64, span, 8 * span // width, (4, lines, 1))


def _slid(f: Form, ins: int, span: int) -> Iterator[Cut]:
    """By mma, if the fragments can be shared out among the warps."""
    _, lines, taps = f.kernel
    width = _filled(f.count[2], span)
    rows = 8 * span // math.gcd(8 * span, width)
    for high, wide, deep in _WARPS:
        divides = lines * ins % (8 * wide) == 0 and rows * width // (8 * span) % deep == 0
        if divides and OUTS * lines * taps * ins // (high * wide * 32) <= _SUMS:
            yield from _staged("slide", f, ins, span, rows, (high, wide, deep))
            return


def _staged(rung: str, f: Form, ins: int, span: int, rows: int, warps: tuple[int, int, int]) -> Iterator[Cut]:
    """With more or fewer turns in flight."""
    stride, (x_pitch, x_line), (y_pitch, y_line) = f.stride[1], _x_places(f, ins, span), _y_places(f, span)
    for stages in (3, 2):
        slots = stages * rows * stride - stride + f.kernel[1]
        sizes = (slots, x_pitch, x_line, y_pitch, y_line)
        yield Cut(rung, OUTS, ins, span, rows, stages, f.period, *warps, *sizes)


# --- banks of shared memory -----------------------------------------------------------------------------------------

_LANES = np.arange(32)


def _y_places(f: Form, span: int) -> tuple[int, int]:
    """How far apart positions and rows of y lie."""
    width = _filled(f.count[2], span)
    row, column = divmod(_LANES % 4 * 2 * span, width)
    return _apart(row, column, _LANES // 4, OUTS, width)


def _x_places(f: Form, ins: int, span: int) -> tuple[int, int]:
    """How far apart places and rows of x lie."""
    (_, lines, taps), (_, stride, step) = f.kernel, f.stride
    width = _filled(f.count[2], span)
    row, column = divmod(_LANES % 4 * 2 * span, width)
    pair = np.arange(lines * ins // 8)[:, None] * 8 + _LANES // 4
    return _apart(row * stride + pair // ins, column * step, pair % ins, ins, (width - 1) * step + taps)


def _apart(row: Numbers, column: Numbers, channel: Numbers, channels: int, places: int) -> tuple[int, int]:
    """The steps by which a warp's loads of (row, column, channel) wait least for one another, and then the shortest."""

    def cost(steps: tuple[int, int]) -> tuple[int, int]:
        pitch, line = steps
        banks = (row * line + column * pitch + channel) % 32
        return int((banks[..., None] == _LANES).sum(-2).max(-1).sum()), line

    pitches = range(channels, channels + 32, 4)
    return min(((pitch, places * pitch + more) for pitch in pitches for more in range(0, 32, 4)), key=cost)
