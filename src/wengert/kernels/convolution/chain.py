"""Convolutions in tf32 with the weight held in registers, forward and input gradient, on sm_90a (conv_chain.cuh)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wengert.core.dtypes import float32
from wengert.kernels.convolution.form import ConvolutionForm, Form
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList
from wengert.kernels.matmul.gemm_source import wgmma
from wengert.kernels.matmul.product import Tile

OUTS = 64  # channels of the result that a block makes


class _Cut(NamedTuple):
    """The lines that a warpgroup holds, how many warpgroups a block has, and how many blocks an SM."""

    lines: int
    links: int
    resident: int


def tiles(c: ConvolutionForm, device: DeviceProperties) -> list[Tile]:
    """The tile that supports a convolution, if there is one."""
    if c.by_weight or not c.by_rows or set(c.form.stride) != {1}:
        return []
    f = _form(c)
    cut = _cut(f, device)
    if cut is None or _shared(f, cut) > device.shared_per_block:
        return []
    return [Tile("chain", OUTS, f.count[2], f.ins, warps=4 * cut.links)]


def _form(c: ConvolutionForm) -> Form:
    return c.form if c.is_forward else c.form.mirrored


def _cut(f: Form, device: DeviceProperties) -> _Cut | None:
    """The registers that a thread may have hold its share of the weight, of the sums, and others."""
    (_, lines, taps), (_, _, width) = f.kernel, f.count
    steps, sums = taps * f.ins // 8, width // 2
    plain = f.outs % OUTS == 0 and f.ins % 4 == 0 and min(f.low) >= 0 and width % 8 == 0 and width <= 256
    if device.arch != "90a" or not plain or (taps * f.ins) % 8 or (f.ins % 8 and taps % 2):
        return None
    if lines * steps * 4 + sums + 60 <= device.registers_per_sm // (2 * 128):
        return _Cut(lines, 1, 2)
    fits = 2 <= lines <= 4 and steps * 4 + sums + 44 <= device.registers_per_sm // (lines * 128)
    return _Cut(1, lines, 1) if fits else None


def _shared(f: Form, cut: _Cut) -> int:
    """Bytes of shared memory: rows of x, and the sums that are passed on, twice.

    An operand of a chunk of two taps overlaps itself. Memory checkers take it for as long as one that does not: there
    is room behind the last.
    """
    places = f.count[2] + f.kernel[2] - 1
    overlap = 32 * f.count[2] if f.ins % 8 else 0
    return (cut.lines + 1) * f.ins * (places | 1) * 4 + (cut.links - 1) * 2 * f.count[2] * OUTS * 4 + overlap


def work(c: ConvolutionForm, tile: Tile, values: str, weight: str, result: str, device: DeviceProperties) -> LaunchList:
    """The launch: blocks share the rows of all images."""
    f = _form(c)
    cut = _cut(f, device)
    assert cut is not None
    rows, across, threads = f.batch * f.period, f.outs // OUTS, cut.links * 128
    parts = min(rows, max(1, cut.resident * device.sms // across))
    flipped = "false" if c.is_forward else "true"
    source = f"""{f.text()}{wgmma(f.count[2], float32, (False, False), held=True)}#include "conv_chain.cuh"
extern "C" __global__ void __launch_bounds__({threads}, {cut.resident}) {c.name}(
    const float *values, const float *weight, float *to, int images, int rows, int share)
{{
    int out = blockIdx.x % {across} * {OUTS}, first = blockIdx.x / {across} * share;
    wg_convolve_chain<{cut.lines}, {f.period}, {flipped}>(
        values, weight, to, images, out, first, first + share < rows ? first + share : rows);
}}
"""
    launch = Launch(
        source,
        c.name,
        (across * parts, 1, 1),
        (threads, 1, 1),
        (values, weight, result, np.int32(f.batch), np.int32(rows), np.int32(-(-rows // parts))),
        _shared(f, cut),
        f"{rows} rows of {OUTS} channels in {parts} parts by {tile}",
    )
    return LaunchList((launch,))
