"""Convolutions on a CUDA device by our own kernels: which kernels, and whether they beat a library.

The three primitives of `ops.convolve` are implicit matrix products (`convolution_gemm`), or use kernels that keep rows
of images on chip where possible (`convolution_slide`, `convolution_chain`); groups with few channels are summed
directly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wengert.core.dtypes import float32
from wengert.kernels.convolution import chain, depthwise, depthwise_shared, sliding
from wengert.kernels.convolution.form import ConvolutionForm, Form, convolution
from wengert.kernels.convolution.implicit_gemm import GemmPlan
from wengert.kernels.convolution.rearrange import swap
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList
from wengert.kernels.matmul.product import HALVES, Epilogue, Tile, device_type
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT

__all__ = ["ConvolutionForm", "Form", "candidates", "convolution", "is_small", "outdoes_libraries", "tiles", "work"]


def candidates(c: ConvolutionForm, first: str, second: str, result: str, device: DeviceProperties) -> list[LaunchList]:
    """The implementations of a convolution on the named buffers, in order of expected time."""
    return [work(c, first, second, result, device, tile) for tile in tiles(c, device)]


def tiles(c: ConvolutionForm, device: DeviceProperties) -> Sequence[Tile | None]:
    """The tiles that support a convolution, in order of expected time; None stands for the direct implementation."""
    f = c.form
    if not (f.positions and f.places and f.ins and f.outs and f.taps):
        return []
    if depthwise.is_narrow(c):
        return [depthwise.tile_of(c, rung, cut, device) for rung, cut in _narrow_cuts(c, device)]
    if c.direct:
        return [None]
    if is_small(c, device):
        return GemmPlan(c, device).tiles()
    return [*_by_rows(c, device), *GemmPlan(c, device).tiles()]


def _narrow_cuts(
    c: ConvolutionForm, device: DeviceProperties, tile: Tile | None = None
) -> list[tuple[str, depthwise.ChannelCut]]:
    """How the kernels for few channels in a group are cut, by rung, the one expected to be fastest first."""
    sizes = (tile.high, tile.wide, tile.depth) if tile else None
    shared, plain = depthwise_shared.shared_cut(c, device, tile), depthwise.cut(c, sizes)
    found = ((depthwise_shared.RUNG, shared), (depthwise.RUNG, plain))
    return [(rung, cut) for rung, cut in found if cut is not None]


def _by_rows(c: ConvolutionForm, device: DeviceProperties) -> list[Tile]:
    """The tiles of kernels that keep rows of images in shared memory."""
    return [*sliding.tiles(c, device), *chain.tiles(c, device)]


def work(
    c: ConvolutionForm,
    first: str,
    second: str,
    result: str,
    device: DeviceProperties,
    tile: Tile | None,
    epilogue: Epilogue | None = None,
) -> LaunchList:
    """A convolution on the named buffers by a tile, with an epilogue if it `is_small`."""
    if tile is None:
        if c.last:
            return _directly_last(c, first, second, result)
        return LaunchList((_directly(c, first, second, result),))
    if tile.rung in ("slide", "sweep"):
        return sliding.work(c, tile, first, second, result, device)
    if tile.rung in (depthwise.RUNG, depthwise_shared.RUNG):
        ((_, cut),) = [found for found in _narrow_cuts(c, device, tile) if found[0] == tile.rung]
        return depthwise.work(c, cut, tile, first, second, result)
    if tile.rung == "chain":
        return chain.work(c, tile, first, second, result, device)
    return GemmPlan(c, device).work(tile, first, second, result, epilogue)


def is_small(c: ConvolutionForm, device: DeviceProperties) -> bool:
    """Whether launch overhead dominates a convolution: our kernel then runs it with its epilogue."""
    return GemmPlan(c, device).is_small


def outdoes_libraries(c: ConvolutionForm, device: DeviceProperties) -> bool:
    """Whether our kernels are faster than the libraries'.

    Measured on an H200 against cuDNN 9.19. Few channels, as in a folded image: a ResNet's stem took 0.37 ms instead of
    0.66, its weight gradient 0.36 instead of 0.97. A single wave of large tiles: 512 x 4 x 4 positions of 512 channels
    took 55 us instead of 80. In tf32 wherever rows stay in shared memory: weight gradients took from 0.26 (a stem) to
    0.8 of the time (512 channels of 7 x 7), a stem 0.4, 64 channels 0.75. In strict float32 over one axis, or with
    dilation: the input gradient for 16 x 8192 positions of 64 channels, with two taps and 128 channels, took 0.127 ms
    instead of 0.263; cuDNN had no forward and no weight gradient.
    """
    if depthwise.is_depthwise(c):
        return True
    if device.arch != "90a" or not c.last or c.form.groups > 1:
        return False
    if _by_rows(c, device) and _is_worth_rows(c.form, device):
        return True
    if _is_sparse_line(c):
        return True
    takes = c.by_weight or (c.is_forward and c.dtype in HALVES)
    return (c.form.ins <= _CHANNELS and takes) or is_small(c, device) or _is_one_wave(c, device)


_LINE = 32  # channels on both sides, from which a line is worth tiles of ours


def _is_sparse_line(c: ConvolutionForm) -> bool:
    """Whether a convolution is over one axis, or dilated, in float32 without tf32."""
    f = c.form
    is_line = f.size[:2] == f.kernel[:2] == f.count[:2] == (1, 1) or set(f.gap) != {1}
    return c.dtype == float32 and not c.tf32 and is_line and min(f.ins, f.outs) >= _LINE


_USED = 0.8  # of the positions that are multiplied: those that exist
_POSITIONS = 512  # for each SM to begin with


def _is_worth_rows(f: Form, device: DeviceProperties) -> bool:
    """Whether there are enough positions for all SMs, and not too many padding zeros between rows and images."""
    channels = f.outs // 64 * max(1, f.ins // 64)
    return sliding.used(f) >= _USED and f.positions * channels >= _POSITIONS * device.sms


_CHANNELS = 16  # that are few
_WAVE = 0.9  # of the SMs that a wave must fill


def _is_one_wave(c: ConvolutionForm, device: DeviceProperties) -> bool:
    """Whether the largest tiles number as many as the SMs, or slightly fewer."""
    if not c.is_forward or c.dtype not in HALVES or set(c.form.stride) != {1}:
        return False
    plan = GemmPlan(c, device)
    tile, product = plan.tiles()[0], plan.product()
    blocks = math.prod(tile.tiles(product)) * product.batches
    return tile.high * tile.wide >= 128 * 256 and _WAVE * device.sms <= blocks <= device.sms


def _directly(c: ConvolutionForm, first: str, second: str, result: str) -> Launch:
    """One thread per element, or one block per weight element, with channels first."""
    f = c.form
    kind = device_type(c.dtype)
    blocks = {
        CONVOLVE: -(-f.positions * f.outs * f.groups // 256),
        CONVOLVE_INPUT: -(-f.places * f.ins * f.groups // 256),
        CONVOLVE_WEIGHT: f.outs * f.groups * f.ins * f.taps,
    }[c.op]
    source = f"""{f.text()}
#include "conv_direct.cuh"
extern "C" __global__ void __launch_bounds__(256) {c.name}(
    const {kind} *first, const {kind} *second, {device_type(c.result)} *to, int images)
{{
    wg_{c.name}_direct(first, second, to, images);
}}
"""
    arguments = (first, second, result, np.int32(f.batch))
    return Launch(source, c.name, (blocks, 1, 1), (256, 1, 1), arguments, why=f"directly, by {blocks} blocks")


def _directly_last(c: ConvolutionForm, first: str, second: str, result: str) -> LaunchList:
    """The same with channels last, by transposing around it, for kernels that reach too far for `depthwise`."""
    f = c.form
    x = "x_first", (f.batch, math.prod(f.size), f.groups * f.ins)
    y = "y_first", (f.batch, math.prod(f.count), f.groups * f.outs)
    weight = "weight_first", (f.groups * f.outs, f.taps, f.ins)
    given = {CONVOLVE: (x, weight), CONVOLVE_INPUT: (y, weight), CONVOLVE_WEIGHT: (x, y)}[c.op]
    made, (batch, places, channels) = {CONVOLVE: y, CONVOLVE_INPUT: x, CONVOLVE_WEIGHT: weight}[c.op]
    swaps = [swap("channels_first", b, n, *s, s[1], c.dtype) for b, (n, s) in zip((first, second), given)]
    back = swap("channels_last", made, result, batch, channels, places, channels, c.result)
    sizes = {name: math.prod(shape) * c.dtype.itemsize for name, shape in given}
    sizes[made] = batch * places * channels * c.result.itemsize
    (name, _), (other, _) = given
    return LaunchList((*swaps, _directly(replace(c, last=False), name, other, made), back), sizes)
