"""Convolutions as implicit matrix products on the tiles of `gemm`, over channels-last images.

Values with channels first, and channels that do not fill chunks of 16 bytes, are rearranged into temporaries before,
and back afterwards. Few channels with a stride of 2 along the last axis are folded: two adjacent columns become one
with twice the channels, so that a 7x7 kernel over 3 channels becomes 7x4 over 8, and chunks are full. Convolutions of a
single image use small tiles with the epilogue in the same kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from wengert.core.dtypes import float32
from wengert.kernels.convolution.form import ConvolutionForm
from wengert.kernels.convolution.rearrange import Arrangement, swap
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList
from wengert.kernels.matmul.cuda import candidates, expected
from wengert.kernels.matmul.gemm_source import Result, add_up, declared, taken, wgmma
from wengert.kernels.matmul.product import HALVES, DType, Epilogue, Matrix, Product, Tile, device_type
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT

_LITTLE = 3.2e6  # floating-point operations for each SM
_SMALL_TILES = ((32, 64, 16, 32), (32, 32, 16, 16))


def _small_tiles(product: Product, device: DeviceProperties) -> list[Tile]:
    """Small tiles whose depth is split into as many parts as fit, best first."""
    found = [Tile("mma", high, wide, 64, tall, broad, 6) for high, wide, tall, broad in _SMALL_TILES]
    return [_shared_by_clusters(tile, product, device) for tile in found]


def _shared_by_clusters(tile: Tile, product: Product, device: DeviceProperties) -> Tile:
    blocks, deepest = math.prod(tile.tiles(product)), product.depth // tile.depth
    split = max([1, *(n for n in (2, 4, 8) if blocks * n <= 2 * device.sms and n <= deepest)])
    return replace(tile, split=split, joined=split > 1)


_LARGER_PARTS = {(128, 128): (64, 64), (128, 64): (64, 32)}


def _in_larger_parts(tile: Tile) -> Tile:
    """The tile by fewer warps, of more sums each: they read less from shared memory for each, and two or three blocks
    share an SM. The depth of a convolution is short, so a block's beginning and end must run beside another's middle.
    """
    tall, broad = _LARGER_PARTS.get((tile.high, tile.wide), (tile.tall, tile.broad))
    return replace(tile, tall=tall, broad=broad) if tile.rung == "fma" else tile


_CHUNK = 4  # numbers of float32 that are read at once


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


class GemmPlan:
    """How a convolution is rearranged and multiplied."""

    def __init__(self, c: ConvolutionForm, device: DeviceProperties) -> None:
        self.c, self.device, self.given = c, device, c.form
        tensor_cores = c.dtype in HALVES or (c.dtype == float32 and c.tf32)
        self.rungs: tuple[str, ...] = ("mma",) if tensor_cores and int(device.arch.rstrip("a")) >= 80 else ("fma",)
        if c.dtype in HALVES and device.arch == "90a":
            self.rungs = ("wgmma", "mma")
        self.kind = device_type(c.dtype)
        f, chunk = c.form, 16 // c.dtype.itemsize
        folds = not c.by_input and f.groups == 1 and f.ins <= chunk // 2 and f.gap[2] == 1
        self.fold = 2 if folds and f.stride[2] % 2 == 0 and f.size[2] % 2 == 0 else 1
        self.pitch = chunk // 2 if self.fold == 2 else _up(f.ins, chunk)  # channels of a place of x, as it is laid out
        ahead = _up(f.low[2], 2)
        self.shift = ahead - f.low[2] if self.fold == 2 else 0
        self.form = replace(f, ins=self.pitch * self.fold, outs=_up(f.outs, chunk))
        if self.fold == 2:
            self.form = replace(
                self.form,
                size=(*f.size[:2], f.size[2] // 2),
                kernel=(*f.kernel[:2], -(-(f.kernel[2] + self.shift) // 2)),
                stride=(*f.stride[:2], f.stride[2] // 2),
                low=(*f.low[:2], ahead // 2),
            )

    # --- tiles ------------------------------------------------------------------------------------------------------

    def product(self) -> Product:
        """The matrix product of the same sizes, by which tiles are chosen."""
        f, dtype = self.form, self.c.dtype
        rows, columns, depth, batch = {
            CONVOLVE: (f.positions, self.given.outs, f.taps * f.ins, f.groups),
            CONVOLVE_INPUT: (
                max(1, f.places // f.classes),
                self.given.ins,
                max(1, f.taps * f.outs // f.classes),
                f.groups * f.classes,
            ),
            CONVOLVE_WEIGHT: (self.given.outs, f.taps * f.ins, f.positions, f.groups),
        }[self.c.op]
        left, right, result = (Matrix("", dtype, step, 1) for step in (depth, columns, columns))
        return Product(rows, columns, depth, left, right, result, (batch,), None, self.c.tf32)

    @property
    def is_small(self) -> bool:
        """Whether it is as small as those of one image, where large tiles would leave most SMs idle.

        Then small tiles are used, each block of a cluster takes a part of the depth, and an epilogue consumes the sums.
        On an H200 the convolutions of a ResNet-18 then take 5 to 8 us, including everything up to the next; cuDNN plus
        a kernel takes 8 to 16.
        """
        c, device = self.c, self.device
        if device.arch != "90a" or not c.is_forward or c.dtype not in HALVES or not c.last or c.form.groups > 1:
            return False
        if device.invariant:
            return False
        product = self.product()
        blocks = math.prod(Tile("mma", *_SMALL_TILES[0][:2], 64).tiles(product))
        return product.flops <= _LITTLE * device.sms and blocks <= 3 * device.sms

    def tiles(self) -> list[Tile]:
        """Those that can be used, the one expected to be fastest first."""
        product = self.product()
        found = [tile for tile in candidates(product, self.device) if tile.rung in self.rungs]
        if not self.c.by_weight:
            found = [_in_larger_parts(tile) for tile in found if tile.split == 1]
        found.sort(key=lambda tile: expected(product, tile, self.device))
        return [*_small_tiles(product, self.device), *found] if self.is_small else found

    # --- launches ---------------------------------------------------------------------------------------------------

    def work(self, tile: Tile, first: str, second: str, result: str, epilogue: Epilogue | None = None) -> LaunchList:
        """Rearrange what needs it, multiply, rearrange back."""
        steps = _GemmSteps(self)
        g, c = self.given, self.c
        if c.by_weight:
            x, y = steps.x(first), steps.y(second)
            as_it_is = self.arrangement.changes_nothing and c.result == float32
            to = result if as_it_is else steps.temporary("weight_last", self.weights, float32)
            parts = steps.temporary("partial_sums", tile.split * self.weights, float32) if tile.split > 1 else to
            steps.launches += self.over_positions(tile, x, y, parts, to)
            if not as_it_is:
                steps.launches.append(self.arrangement.back(to, result, float32, c.result))
            return LaunchList(tuple(steps.launches), steps.workspace)
        forward = c.is_forward
        values, weight = steps.x(first) if forward else steps.y(first), steps.weight(second)
        channels, places = (g.outs, math.prod(g.count)) if forward else (g.ins, math.prod(g.size))
        to = steps.result(result, "y_last" if forward else "x_last", channels * g.groups, places)
        steps.launches.append(self.over_channels(tile, values, weight, to, epilogue))
        steps.finish(to, result, channels * g.groups, places)
        return LaunchList(tuple(steps.launches), steps.workspace)

    @property
    def weights(self) -> int:
        """Elements of the weight as it is arranged."""
        return self.form.outs * self.form.groups * self.form.taps * self.form.ins

    @property
    def arrangement(self) -> Arrangement:
        """How the weight is arranged."""
        g, f = self.given, self.form
        return Arrangement(
            f.outs * f.groups,
            g.outs * g.groups,
            g.ins,
            lines=g.kernel[0] * g.kernel[1],
            columns=g.kernel[2],
            wide=f.kernel[2],
            fold=self.fold,
            pitch=self.pitch,
            shift=self.shift,
            last=int(self.c.last),
        )

    def over_channels(self, tile: Tile, first: str, weight: str, to: str, epilogue: Epilogue | None) -> Launch:
        """Forward or by the input, into (places, channels)."""
        f, forward = self.form, self.c.is_forward
        own = self.given.outs if forward else self.given.ins  # columns that exist
        result = device_type(self.c.result)
        widest = 4 if tile.rung == "fma" or tile.joined else 16 // self.c.result.itemsize
        plain = f"wg_plain<{result}, {widest if own % widest == 0 else 1}>"
        made = f"{plain} out = {{to + group * {own}, {own} * s::groups, rows, {own}}};"
        out = taken(epilogue, self.c.dtype) if epilogue else Result("", [f"{result} *to"], [to], made)
        classes = 1 if forward else f.classes
        rows = f.positions if forward else f.batch * math.prod(-(-n // s) for n, s in zip(f.size, f.stride))
        high, wide = -(-rows // tile.high), -(-own // tile.wide)
        if forward:
            fields = f"weight + group * s::outs * s::depth, s::depth, {own}, s::depth"
            body = f"""    wg_unfolded_rows<{self.kind}> left = {{{{first + group * s::ins, rows, s::depth}}}};
    {declared("right", f"wg_matrix<{self.kind}, true, false>", fields, tile.rung == "fma")}
    int depth = s::depth, m = rows, n = {own}, z = 0;
    {out.made}"""
        else:
            fields = f"weight + (long long)group * s::outs * s::depth, c, {own}, depth"
            body = f"""    wg_class c = wg_class::of(blockIdx.z % {classes});
    rows = images * c.places();
    int depth = c.taps() * s::outs;
    wg_seen<{self.kind}> left = {{first + group * s::outs, c, rows, depth}};
    {declared("right", f"wg_seen_weight<{self.kind}>", fields, tile.rung == "fma" and own % _CHUNK == 0)}
    wg_spread<{plain}> out = {{{{to + group * {own}, {own} * s::groups, images * s::places, {own}}}, c, rows}};"""
        operands = ("wg_unfolded_rows", "wg_matrix") if forward else ("wg_seen", "wg_seen_weight")
        types = [f"{operands[0]}<{self.kind}>", f"{operands[1]}<{self.kind}{', true, false' if forward else ''}>"]
        share = tile.share(f.taps * f.ins) if forward else "depth"
        cluster = f"__cluster_dims__({tile.split}, 1, 1) " if tile.joined else ""
        source = f"""{self._head(tile, (False, not forward))}
{out.before}
extern "C" __global__ void {cluster}__launch_bounds__({tile.threads}) {self.c.name}(
    const {self.kind} *first, const {self.kind} *weight, {", ".join(out.parameters)}, int images, int rows)
{{
    typedef wg_sizes s;
    int group = blockIdx.z / {classes};
{body}
    int high = (rows + {tile.high - 1}) / {tile.high}, share = {share}, parts = {tile.split};
{self._tail(tile, types, wide, lambda to: "")}
}}
"""
        count = high * wide * tile.split
        return Launch(
            source,
            self.c.name,
            (min(count, self.device.sms) if tile.rung == "wgmma" else count, 1, f.groups * classes),
            (tile.threads, 1, 1),
            (first, weight, *out.buffers, np.int32(f.batch), np.int32(rows)),
            tile.shared(self.c.dtype),
            f"{rows} places x {own} channels over {f.taps} taps by {tile}",
        )

    def _head(self, tile: Tile, transposed: tuple[bool, bool]) -> str:
        """The sizes and headers; `transposed` says which operands are contiguous across the depth."""
        multiply = wgmma(tile.wide, self.c.dtype, transposed) if tile.rung == "wgmma" else ""
        return f'{self.form.text()}{multiply}#include "conv.cuh"\n#include "gemm_{tile.rung}.cuh"'

    def _tail(self, tile: Tile, types: Sequence[str], wide: int, apart: Callable[[str], str]) -> str:
        """The product of `left` and `right`, high x wide tiles in `parts` of the depth; `apart` moves the result."""
        if tile.rung == "wgmma":
            return f"""    wg_work work = {{high, {wide}, high * {wide}, 1, 1, depth, share}};
    wg_by_threads<{", ".join(types)}, {tile.high}, {tile.wide}> threads = {{left, right}};
    auto hand = [&](int z, int part) {{
        auto to = out;
        {apart("to")}
        return to;
    }};
    wg_gemm_wgmma{tile.constants}(threads, work, high * {wide} * parts, hand);"""
        if tile.joined:
            constants = f"{tile.constants[:-1]}, {tile.split}>"
            return f"""    int row, column, part = blockIdx.x % parts;
    wg_tile_at(blockIdx.x / parts, high, {wide}, 8, row, column);
    int start = part * share, last = start + share < depth ? start + share : depth;
    wg_gemm_joined{constants}(left, right, out, row * {tile.high}, column * {tile.wide}, start, last, part);"""
        return f"""    if (!high) return;
    int row, column, part = blockIdx.x / (high * {wide});
    if (part >= parts) return;
    wg_tile_at(blockIdx.x % (high * {wide}), high, {wide}, 8, row, column);
    {apart("out")}
    int start = part * share, last = start + share < depth ? start + share : depth;
    wg_gemm_{tile.rung}{tile.constants}(left, right, out, row * {tile.high}, column * {tile.wide}, start, last);"""

    def over_positions(self, tile: Tile, x: str, y: str, parts: str, to: str) -> list[Launch]:
        """The weight gradient, as float32 (outs, taps, channels): sums over parts of the positions, added in order."""
        f, outs = self.form, self.given.outs
        high, wide = -(-outs // tile.high), -(-f.taps * f.ins // tile.wide)
        share, is_whole = tile.share(f.positions), tile.rung == "fma" and outs % _CHUNK == 0
        size = outs * f.groups * f.taps * f.ins
        types = [f"wg_matrix<{self.kind}, false, false>", f"wg_unfolded_columns<{self.kind}>"]

        def apart(to: str) -> str:
            return f"{to}.data += (long long)part * s::groups * {outs} * s::depth;"

        source = f"""{self._head(tile, (True, True))}
extern "C" __global__ void __launch_bounds__({tile.threads}) {self.c.name}(
    const {self.kind} *x, const {self.kind} *y, float *to, int depth, int share, int parts)
{{
    typedef wg_sizes s;
    int group = blockIdx.z, high = {high};
    {declared("left", types[0], f"y + group * s::outs, s::outs * s::groups, {outs}, depth", is_whole)}
    {types[1]} right = {{{{x + group * s::ins, s::depth, depth}}}};
    wg_plain<float, 4> out = {{to + (long long)group * {outs} * s::depth, s::depth, {outs}, s::depth}};
{self._tail(tile, types, wide, apart)}
}}
"""
        count = high * wide * tile.split
        launch = Launch(
            source,
            self.c.name,
            (min(count, self.device.sms) if tile.rung == "wgmma" else count, 1, f.groups),
            (tile.threads, 1, 1),
            (x, y, parts, np.int32(f.positions), np.int32(share), np.int32(tile.split)),
            tile.shared(self.c.dtype),
            f"{outs} x {f.taps * f.ins} sums over {f.positions} positions by {tile}",
        )
        if tile.split == 1:
            return [launch]
        flat = Matrix("", float32, size, 1)
        whole = Product(1, size, 1, flat, flat, replace(flat, buffer=to))
        return [launch, add_up(whole, tile.split, replace(flat, buffer=parts))]


class _GemmSteps:
    """The launches of a work as they are added, and its temporaries."""

    def __init__(self, plan: GemmPlan) -> None:
        self.plan, self.launches, self.workspace = plan, list[Launch](), dict[str, int]()

    def temporary(self, name: str, elements: int, dtype: DType) -> str:
        """A temporary of this many elements."""
        self.workspace[name] = elements * dtype.itemsize
        return name

    def x(self, buffer: str) -> str:
        """x, channels last and filled up."""
        g, plan = self.plan.given, self.plan
        pitch = plan.pitch if g.groups == 1 else g.ins * g.groups
        return self._last(buffer, "x_last", g.ins * g.groups, pitch, math.prod(g.size))

    def y(self, buffer: str) -> str:
        """y, channels last and filled up."""
        g, f = self.plan.given, self.plan.form
        return self._last(buffer, "y_last", g.outs * g.groups, f.outs * f.groups, math.prod(g.count))

    def _last(self, buffer: str, name: str, channels: int, pitch: int, places: int) -> str:
        last = self.plan.c.last
        if last and pitch == channels:
            return buffer
        batch, dtype = self.plan.given.batch, self.plan.c.dtype
        to = self.temporary(name, batch * places * pitch, dtype)
        if last:
            wider = Arrangement(batch * places, batch * places, channels, 1, 1, wide=1, fold=1, pitch=pitch, shift=0)
            self.launches.append(wider.into(buffer, to, dtype))
        else:
            self.launches.append(swap("channels_last", buffer, to, batch, channels, places, pitch, dtype))
        return to

    def weight(self, buffer: str) -> str:
        """The weight, arranged."""
        if self.plan.arrangement.changes_nothing:
            return buffer
        to = self.temporary("weight_last", self.plan.weights, self.plan.c.dtype)
        self.launches.append(self.plan.arrangement.into(buffer, to, self.plan.c.dtype))
        return to

    def result(self, buffer: str, name: str, channels: int, places: int) -> str:
        """Where a result goes that is made channels last: into `buffer`, if it is wanted so."""
        if self.plan.c.last:
            return buffer
        return self.temporary(name, self.plan.given.batch * places * channels, self.plan.c.result)

    def finish(self, made: str, buffer: str, channels: int, places: int) -> None:
        """A result that is wanted channels first, swapped."""
        if made != buffer:
            batch, dtype = self.plan.given.batch, self.plan.c.result
            self.launches.append(swap("channels_first", made, buffer, batch, places, channels, places, dtype))
