"""Convolutions in groups of few channels, above all depthwise ones, with channels last (conv_depthwise.cuh)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from wengert.kernels.convolution.form import ConvolutionForm
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList
from wengert.kernels.matmul.product import Tile, device_type, sum_type

RUNG = "depthwise"
THREADS = 256  # of a block, at most
LINE = 128  # bytes of adjacent channels per block, if there are enough
REACH = 12  # how far the taps of a group reach at most
SUMS = 72  # of taps that a thread holds, in the gradient with respect to the weight
HELD = 48 << 10  # bytes of shared memory for the weight
FEW = 16  # channels of a group, at most
RESIDENT = 2  # blocks of an SM: what that leaves of its registers a thread may have
ROUNDS = 3  # blocks for each SM, in the gradient with respect to the weight


@dataclass(frozen=True)
class ChannelCut:
    """The work of a thread and of a block: the kernels' constants."""

    channels: int  # neighbours of a thread,
    lanes: int  # and threads side by side along the channels
    high: int  # a thread's tile of the result (of y, for the weight's gradient)
    wide: int
    down: int  # a block's tiles; of the weight's gradient its walkers
    across: int
    taps1: int  # of a group
    taps2: int
    shared: int = 0  # bytes that a block copies into shared memory; 0: threads read memory themselves

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.across * self.down

    def text(self) -> str:
        """The constants."""
        lines = "".join(f"    static const int {f.name} = {getattr(self, f.name)};\n" for f in fields(self))
        return f"struct wg_cut {{\n{lines}}};\n"


def is_depthwise(c: ConvolutionForm) -> bool:
    """Whether every channel of x has its own kernels, and the kernels here support it."""
    return c.form.ins == 1 and is_narrow(c)


def is_narrow(c: ConvolutionForm) -> bool:
    """Whether groups have too few channels for matrix products, and the kernels here support them."""
    f, chunk = c.form, 16 // c.dtype.itemsize
    is_few = f.ins == 1 or (max(f.ins, f.outs) <= FEW and bool(f.ins % chunk or f.outs % chunk))
    return c.last and f.groups > 1 and is_few and cut(c) is not None


def tile_of(c: ConvolutionForm, rung: str, found: ChannelCut, device: DeviceProperties) -> Tile:
    """A cut as a tile."""
    return Tile(rung, found.high, found.wide, found.channels, split=_parts(c, found, device))


def work(c: ConvolutionForm, found: ChannelCut, tile: Tile, first: str, second: str, result: str) -> LaunchList:
    """One launch; the weight gradient needs another that adds its parts."""
    if c.by_weight:
        return _by_weight(c, found, first, second, result, tile.split)
    return LaunchList((_over_channels(c, found, first, second, result),))


# --- cuts -----------------------------------------------------------------------------------------------------------


def cut(c: ConvolutionForm, sizes: tuple[int, int, int] | None = None) -> ChannelCut | None:
    """The work split for these tiles and channels per thread; None if the kernel reaches too far."""
    f, back = c.form, c.by_input
    made = f.groups * (f.ins if back else f.outs)
    taps1, taps2 = (_group(f.kernel[axis], f.gap[axis], f.stride[axis] if back else 1) for axis in (1, 2))
    high, wide, channels = sizes or _sizes(c, made)
    if back:
        high, wide = rounded_up(high, f.stride[1]), rounded_up(wide, f.stride[2])
        if high * wide > 32:
            return None
    if c.by_weight:
        while taps1 * taps2 * channels > SUMS and taps1 > 1:
            taps1 = -(-taps1 // 2)
        while taps1 * taps2 * channels > SUMS and taps2 > 1:
            taps2 = -(-taps2 // 2)
    if any((taps - 1) * f.gap[axis] > 2 * REACH + 8 for axis, taps in ((1, taps1), (2, taps2))):
        return None
    lanes, apart = 1, 1 if c.by_weight and f.ins > 1 else channels  # of the result, from one lane to the next
    while lanes * channels * c.dtype.itemsize < LINE and lanes * apart < made and lanes < 32:
        lanes *= 2
    if c.by_weight:
        return ChannelCut(channels, lanes, high, wide, 1, THREADS // lanes, taps1, taps2)
    filled = f.kernel[0] * rounded_up(f.kernel[1], taps1) * rounded_up(f.kernel[2], taps2) * (f.outs if back else f.ins)
    while lanes > 1 and filled * lanes * channels * max(4, c.dtype.itemsize) > HELD:
        lanes //= 2
    if filled * lanes * channels * max(4, c.dtype.itemsize) > HELD:
        return None
    down, across = _neighbours(-(-extent_made(c, 1) // high), -(-extent_made(c, 2) // wide), THREADS // lanes)
    return ChannelCut(channels, lanes, high, wide, down, across, taps1, taps2)


def rounded_up(n: int, to: int) -> int:
    """The next multiple."""
    return -(-n // to) * to


def extent_made(c: ConvolutionForm, axis: int) -> int:
    """The size of the result along an axis; of y, for the weight gradient."""
    return c.form.size[axis] if c.by_input else c.form.count[axis]


def _group(kernel: int, gap: int, stride: int) -> int:
    """The number of taps processed together along an axis: all, or as many as fit, in whole multiples of the stride."""
    if (kernel - 1) * gap <= REACH:
        return kernel
    period = stride // math.gcd(gap, stride)
    return min(kernel, max(period, (1 + REACH // gap) // period * period))


def _sizes(c: ConvolutionForm, made: int) -> tuple[int, int, int]:
    """A thread's tile and channels, with a register count that lets two blocks share an SM."""
    f, most = c.form, {2: 4 if c.by_weight else 8, 4: 4, 8: 2}[c.dtype.itemsize]
    whole = made if f.ins == 1 and f.outs == 1 else f.ins if c.by_input or c.by_weight else f.outs
    if c.by_weight and f.ins == 1:
        whole = made
    channels = next(n for n in (8, 4, 2, 1) if n <= most and whole % n == 0)
    rows, columns = extent_made(c, 1), extent_made(c, 2)
    high, wide = (2, 2) if c.by_weight or channels == 8 else (2, 4)
    if rows == 1:
        high, wide = 1, 4 if c.by_weight or channels == 8 else 8
    if c.by_input and set(f.stride[1:]) != {1}:
        high, wide, channels = high, 4, min(channels, 4)
    return min(high, rows), min(wide, columns), channels


def _neighbours(high: int, wide: int, most: int) -> tuple[int, int]:
    """The tiles of a block along both axes: about square, with few of them outside."""
    options = [(d, a) for d in range(1, most + 1) for a in range(1, most // d + 1) if d <= high and a <= wide]

    def cost(option: tuple[int, int]) -> float:
        down, across = option
        blocks = -(-high // down) * -(-wide // across)
        halo = (1 + 0.25 / down) * (1 + 0.25 / across)  # lines and columns that blocks share
        idle = blocks * max(down * across, most / 4) / (high * wide)
        return halo * (0.5 + 0.5 * idle)

    return min(options, key=cost)


def _parts(c: ConvolutionForm, found: ChannelCut, device: DeviceProperties) -> int:
    """The number of parts of the positions, for the weight gradient."""
    if not c.by_weight:
        return 1
    f = c.form
    blocks = _chunks(c, found) * _groups(c, found)
    if found.shared:
        high, wide = found.high * found.down, found.wide * found.across
        turns = f.batch * f.count[0] * -(-f.count[1] // high) * -(-f.count[2] // wide)
        return max(1, min(turns, RESIDENT * device.sms // blocks))
    tiles = f.batch * f.count[0] * -(-f.count[1] // found.high) * -(-f.count[2] // found.wide)
    return max(1, min(-(-tiles // found.across), ROUNDS * device.sms // blocks))


def _chunks(c: ConvolutionForm, found: ChannelCut) -> int:
    """The blocks side by side that all channels of y take, in the gradient with respect to the weight."""
    return -(-c.form.groups * c.form.outs // (found.lanes * (found.channels if c.form.ins == 1 else 1)))


def _groups(c: ConvolutionForm, found: ChannelCut) -> int:
    """The groups of taps, by those of the channels of x."""
    f = c.form
    channels = f.ins // found.channels if f.ins > 1 else 1
    return f.kernel[0] * -(-f.kernel[1] // found.taps1) * -(-f.kernel[2] // found.taps2) * channels


# --- launches -------------------------------------------------------------------------------------------------------


def _over_channels(c: ConvolutionForm, found: ChannelCut, first: str, weight: str, result: str) -> Launch:
    """Forward, or the input gradient."""
    f = c.form
    made = f.groups * (f.ins if c.by_input else f.outs)
    chunks = -(-made // (found.lanes * found.channels))
    out0 = f.size[0] if c.by_input else f.count[0]
    high = -(-extent_made(c, 1) // (found.high * found.down))
    wide = -(-extent_made(c, 2) // (found.wide * found.across))
    kind, back, shared = device_type(c.dtype), "true" if c.by_input else "false", "_shared" if found.shared else ""
    source = f"""{f.text()}{found.text()}#include "conv_depthwise{shared}.cuh"
extern "C" __global__ void __launch_bounds__({found.threads}, {3 if shared else RESIDENT}) {c.name}(
    const {kind} *first, const {kind} *weight, {device_type(c.result)} *to, int images)
{{
    wg_convolve_depthwise{shared}<{back}>(first, weight, to, images);
}}
"""
    return Launch(
        source,
        c.name,
        (chunks * wide * high * out0 * f.batch, 1, 1),
        (found.threads, 1, 1),
        (first, weight, result, np.int32(f.batch)),
        found.shared,
        why=f"depthwise: {found.high} x {found.wide} places of {found.channels} channels a thread, "
        f"{found.lanes} x {found.across} x {found.down} threads a block",
    )


def _by_weight(c: ConvolutionForm, found: ChannelCut, x: str, y: str, result: str, parts: int) -> LaunchList:
    f, kind, sums = c.form, device_type(c.dtype), sum_type(c.dtype)
    made, rest, shared = f.groups * f.outs, f.taps * f.ins, "_shared" if found.shared else ""
    source = f"""{f.text()}{found.text()}#include "conv_depthwise{shared}.cuh"
extern "C" __global__ void __launch_bounds__({found.threads}, {RESIDENT}) {c.name}(
    const {kind} *x, const {kind} *y, {sums} *to, int images, int parts)
{{
    wg_convolve_weight_depthwise{shared}(x, y, to, images, parts);
}}
extern "C" __global__ void __launch_bounds__(256) add_up_taps(
    const {sums} *parts, {device_type(c.result)} *to, int rest, int channels, int count)
{{
    wg_add_up_taps(parts, to, rest, channels, count);
}}
"""
    first = Launch(
        source,
        c.name,
        (_chunks(c, found) * parts, _groups(c, found), 1),
        (found.threads, 1, 1),
        (x, y, "partial_sums", np.int32(f.batch), np.int32(parts)),
        found.shared,
        why=f"depthwise: {found.down * found.across} walkers a block over tiles of {found.high} x {found.wide} "
        f"positions of {found.channels} channels, {parts} parts",
    )
    numbers = (np.int32(rest), np.int32(made), np.int32(parts))
    second = Launch(
        source,
        "add_up_taps",
        (-(-rest * made // 32), 1, 1),
        (32, 8, 1),
        ("partial_sums", result, *numbers),
        why=f"{parts} partial sums of each tap, in order",
    )
    size = 8 if sums == "double" else 4
    return LaunchList((first, second), {"partial_sums": parts * rest * made * size})
