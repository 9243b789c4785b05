"""Depthwise convolutions whose blocks copy their inputs into shared memory (conv_depthwise_shared.cuh)."""

from __future__ import annotations

import math
from dataclasses import replace

from wengert.kernels.convolution.depthwise import LINE, REACH, THREADS, ChannelCut, extent_made, rounded_up
from wengert.kernels.convolution.form import ConvolutionForm
from wengert.kernels.launch import DeviceProperties
from wengert.kernels.matmul.product import Tile

RUNG = "depthwise_shared"
RESIDENT = {False: 3, True: 2}  # blocks of an SM, and of those for the weight's gradient
STAGES = 2  # turns in flight, in the gradient with respect to the weight
HALO = 0.4  # of what a byte from memory costs: one that another block has read, from the L2 cache
_SUMS = 72  # of taps that a thread holds, in the gradient with respect to the weight


def shared_cut(c: ConvolutionForm, device: DeviceProperties, tile: Tile | None = None) -> ChannelCut | None:
    """The work split for a tile's per-thread sizes; None if it does not fit."""
    f, size = c.form, c.dtype.itemsize
    reaches = [(f.kernel[axis] - 1) * f.gap[axis] for axis in (1, 2)]
    if not c.last or f.groups == 1 or f.ins != 1 or f.outs != 1 or int(device.arch.rstrip("a")) < 80:
        return None
    if f.groups * size % 16 or max(reaches) > REACH or size == 8:
        return None
    high, wide, channels = (tile.high, tile.wide, tile.depth) if tile else _thread(c)
    if c.by_input:
        high, wide = rounded_up(high, f.stride[1]), rounded_up(wide, f.stride[2])
    if high * wide > 32 or (c.by_weight and f.kernel[1] * f.kernel[2] * channels > _SUMS):
        return None
    lanes = LINE // (channels * size)
    while lanes > 16 // (channels * size) and lanes * channels // 2 >= f.groups:
        lanes //= 2
    tiles = -(-extent_made(c, 1) // high), -(-extent_made(c, 2) // wide)
    while lanes * math.prod(tiles) < THREADS and lanes < 32 and lanes * channels < f.groups:
        lanes *= 2
    cuts = [
        ChannelCut(channels, lanes, high, wide, down, across, f.kernel[1], f.kernel[2])
        for down in range(1, min(tiles[0], THREADS // lanes) + 1)
        for across in range(1, min(tiles[1], THREADS // (lanes * down)) + 1)
    ]
    most = device.shared_per_sm // RESIDENT[c.by_weight] - (8 << 10)
    fitting = [cut for cut in cuts if _shared(c, cut) + _held(c, cut) <= min(most, device.shared_per_block)]
    if not fitting:
        return None
    best = min(fitting, key=lambda cut: _cost(c, cut))
    return replace(best, shared=_shared(c, best))


def _thread(c: ConvolutionForm) -> tuple[int, int, int]:
    """The tile of a thread and its channels: registers for three blocks of an SM, for two of the weight's gradient."""
    f, rows = c.form, extent_made(c, 1)
    channels = 4 if c.dtype.itemsize == 2 or f.taps <= 9 else 2
    while c.by_weight and f.kernel[1] * f.kernel[2] * channels > _SUMS and channels > 2:
        channels //= 2
    high, wide = (2, 4) if rows > 1 else (1, 8)
    return min(high, rows), min(wide, extent_made(c, 2)), channels


def _window(c: ConvolutionForm, cut: ChannelCut) -> tuple[int, int]:
    """The rows and columns of its input that a block reads."""
    sizes = {1: cut.high * cut.down, 2: cut.wide * cut.across}
    return _met(c, 1, sizes[1]), _met(c, 2, sizes[2])


def _met(c: ConvolutionForm, axis: int, size: int) -> int:
    f = c.form
    kernel, stride, gap, low = f.kernel[axis], f.stride[axis], f.gap[axis], f.low[axis]
    if not c.by_input:
        return (size - 1) * stride + (kernel - 1) * gap + 1
    reached = [i + low - t * gap for i in range(size) for t in range(kernel)]
    places = [place // stride for place in reached if place % stride == 0]
    return max(places) - min(places) + 1


def _shared(c: ConvolutionForm, cut: ChannelCut) -> int:
    """Bytes that a block copies into shared memory."""
    of_y = cut.high * cut.down * cut.wide * cut.across if c.by_weight else 0
    places = math.prod(_window(c, cut)) + of_y
    return places * cut.lanes * cut.channels * c.dtype.itemsize * (STAGES if c.by_weight else 1)


def _held(c: ConvolutionForm, cut: ChannelCut) -> int:
    """Bytes of shared memory for the weight, or for the sums of its gradient that walkers have."""
    return 4 * cut.lanes * cut.channels * (cut.down * cut.across if c.by_weight else c.form.taps)


def _cost(c: ConvolutionForm, cut: ChannelCut) -> float:
    """The cost of a cut per element of the result: bytes read, and idle threads."""
    f = c.form
    given = f.count if c.by_input else f.size
    blocks = [-(-extent_made(c, 1) // (cut.high * cut.down)), -(-extent_made(c, 2) // (cut.wide * cut.across))]
    halo = math.prod(blocks) * math.prod(_window(c, cut)) / (given[1] * given[2])
    idle = math.prod(blocks) * cut.high * cut.down * cut.wide * cut.across / (extent_made(c, 1) * extent_made(c, 2))
    return 1 + HALO * max(0.0, halo - 1) + 0.4 * idle + 0.25 * THREADS / cut.threads
