"""Convolutions in tf32 with the weight held in registers, forward and by the input.

Over few channels, as of a folded image, from sm_80 on ("held", conv_held.cuh); over 64 or less on sm_90a, with a
warpgroup for each line of the kernel ("chain", conv_chain.cuh).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wengert.dtypes import float32
from wengert.kernels.convolution_form import Convolution, Form
from wengert.kernels.gemm_text import wgmma
from wengert.kernels.launch import Device, Launch, Work
from wengert.kernels.product import Tile

OUTS = 64  # channels of the result that a block makes


class _Cut(NamedTuple):
    """Rows of the result that a turn takes, the rows of shared memory and its bytes, and the threads of a block."""

    rows: int
    stages: int
    slots: int
    line: int  # floats of a row in shared memory
    shared: int
    threads: int


def tiles(c: Convolution, device: Device) -> list[Tile]:
    """The one that can carry out a convolution, if there is one."""
    if c.name == "convolve_weight" or not c.by_rows or set(c.form.stride) != {1}:
        return []
    f = _form(c)
    if f.outs % OUTS or f.ins % 4 or min(f.low) < 0:
        return []
    for rung, cut in (("held", _held(f, device) if c.name == "convolve" else None), ("chain", _chain(f, device))):
        if cut is not None and cut.shared <= device.shared_per_block:
            return [Tile(rung, OUTS, f.count[2], f.ins, stages=cut.stages, warps=cut.threads // 32)]
    return []


def _form(c: Convolution) -> Form:
    return c.form if c.name == "convolve" else c.form.mirrored


def _held(f: Form, device: Device) -> _Cut | None:
    """A warp holds its share of the weight in 192 registers at most; four warps take 16 positions at a time each."""
    (_, lines, taps), (_, _, width) = f.kernel, f.count
    chunks = f.ins // 4
    fits = lines * taps * f.ins <= 192 and taps * f.ins % 8 == 0 and chunks % 2 == 1 and width % 16 == 0
    if not fits or int(device.arch.rstrip("a")) < 80:
        return None
    rows, stages = 4 // math.gcd(4, width // 16), 2
    slots, line = stages * rows + lines - 1, (width + taps - 1) * f.ins
    return _Cut(rows, stages, slots, line, slots * line * 4, 256)


def _chain(f: Form, device: Device) -> _Cut | None:
    """The registers that a thread may have hold its share of the weight, of the sums, and 44 others."""
    (_, lines, taps), (_, _, width) = f.kernel, f.count
    threads = lines * 128
    fits = f.ins % 8 == 0 and width % 8 == 0 and width <= 256 and 2 <= lines <= 4
    if not fits or taps * f.ins // 2 + width // 2 + 44 > device.registers_per_sm // threads or device.arch != "90a":
        return None
    slots, line = 2, f.ins * (width + taps - 1 | 1)
    return _Cut(1, 1, slots, line, slots * line * 4 + (lines - 1) * 2 * width * OUTS * 4, threads)


def work(c: Convolution, tile: Tile, values: str, weight: str, result: str, device: Device) -> Work:
    """The launch: blocks share the rows of all images, one on each SM."""
    f = _form(c)
    cut = _held(f, device) if tile.rung == "held" else _chain(f, device)
    assert cut is not None
    turns, across = -(-f.batch * f.period // cut.rows), f.outs // OUTS
    parts = min(turns, max(1, device.sms // across))
    if tile.rung == "held":
        constants = {"rows": cut.rows, "stages": cut.stages, "period": f.period, "slots": cut.slots, "x_line": cut.line}
        numbers = ", ".join(f"{name} = {value}" for name, value in constants.items())
        before, call = f"struct wg_cut {{\n    static const int {numbers};\n}};\n", "wg_convolve_held"
    else:
        flipped = "false" if c.name == "convolve" else "true"
        before, call = (
            wgmma(f.count[2], float32, (False, False), held=True),
            f"wg_convolve_chain<{f.period}, {flipped}>",
        )
    source = f"""{f.text()}{before}#include "conv_{tile.rung}.cuh"
extern "C" __global__ void __launch_bounds__({cut.threads}, 1) {c.name}(
    const float *values, const float *weight, float *to, int images, int turns, int share)
{{
    int out = blockIdx.x % {across} * {OUTS}, first = blockIdx.x / {across} * share;
    {call}(values, weight, to, images, out, first, first + share < turns ? first + share : turns);
}}
"""
    launch = Launch(
        source,
        c.name,
        (across * parts, 1, 1),
        (cut.threads, 1, 1),
        (values, weight, result, np.int32(f.batch), np.int32(turns), np.int32(-(-turns // parts))),
        cut.shared,
        f"{f.batch * f.period} rows of {OUTS} channels in {parts} parts by {tile}",
    )
    return Work((launch,))
