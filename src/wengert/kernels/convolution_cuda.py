"""Convolutions on a CUDA device by our own kernels: implicit matrix products over channels-last images.

The three primitives of `ops.convolve` on the tiles of `gemm`. Values that come channels first, and channels that do not fill
chunks of 16 bytes, are rearranged into temporaries before, and back after. Few channels under a stride of 2 along the last
axis are folded: two neighbouring columns count as one with twice the channels, so that a 7x7 kernel over 3 channels is
one of 7x4 over 8, and chunks stay whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wengert.dtypes import float32, float64
from wengert.graph import Node
from wengert.kernels import gemm
from wengert.kernels.gemm import Tile, device_type
from wengert.kernels.launch import Device, Launch, Work

DType = np.dtype[Any]
Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Form:
    """A convolution's sizes along three axes (1 where there are fewer), and the channels of one group."""

    batch: int
    groups: int
    ins: int
    outs: int
    size: Sizes
    kernel: Sizes
    count: Sizes
    stride: Sizes
    low: Sizes
    gap: Sizes

    @property
    def places(self) -> int:
        return self.batch * math.prod(self.size)

    @property
    def positions(self) -> int:
        return self.batch * math.prod(self.count)

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    @property
    def flops(self) -> int:
        return 2 * self.positions * self.taps * self.ins * self.outs * self.groups

    def text(self) -> str:
        """The sizes as constants for conv.cuh."""
        names = ("size", "kernel", "count", "stride", "low", "gap")
        numbers = {f"{name}{axis}": getattr(self, name)[axis] for name in names for axis in range(3)}
        numbers |= {"ins": self.ins, "outs": self.outs, "groups": self.groups}
        lines = "".join(f"    static const int {name} = {value};\n" for name, value in numbers.items())
        return f"struct wg_shape {{\n{lines}}};\n"


@dataclass(frozen=True)
class Convolution:
    """One of the primitives: which, its form, dtypes, and which of x, weight and y lie channels last."""

    name: str  # convolve, convolve_input or convolve_weight
    form: Form
    dtype: DType
    result: DType
    last: tuple[bool, bool, bool] = (False, False, False)  # x, weight, y
    tf32: bool = False


def convolution(
    node: Node, last: tuple[bool, bool, bool] = (False, False, False), tf32: bool = False
) -> Convolution | None:
    """What a node asks for; None where there are more than three axes or the dtype is not floating."""
    first, second = node.sources
    name, a = node.op.name, node.attrs
    x = node.shape if name == "convolve_input" else first.shape
    weight = node.shape if name == "convolve_weight" else second.shape
    y = {"convolve": node, "convolve_input": first, "convolve_weight": second}[name].shape
    axes = len(x) - 2
    if axes > 3 or first.dtype not in gemm._TYPES:
        return None

    def three(values: Any, fill: int) -> Sizes:
        return (*(fill,) * (3 - axes), *values)  # type: ignore[return-value]

    form = Form(
        x[0], a["groups"], weight[1], weight[0] // a["groups"], three(x[2:], 1), three(weight[2:], 1), three(y[2:], 1),
        three(a["stride"], 1), three((low for low, _ in a["padding"]), 0), three(a["dilation"], 1),
    )  # fmt: skip
    return Convolution(name, form, first.dtype, node.dtype, last, tf32)


def works(c: Convolution, first: str, second: str, result: str, device: Device) -> list[Work]:
    """Ways to carry out a convolution on the named buffers, the one expected to be fastest first."""
    f = c.form
    if not (f.positions and f.places and f.ins and f.outs and f.taps):
        return []
    plan = _Plan(c, device)
    if plan.direct:
        return [plan.directly(first, second, result)]
    return [plan.work(tile, first, second, result) for tile in plan.tiles()]


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


class _Plan:
    """How one convolution is rearranged, and its launches."""

    def __init__(self, c: Convolution, device: Device) -> None:
        self.c, self.device, self.given = c, device, c.form
        arch = int(device.arch.rstrip("a"))
        self.tensor_cores = arch >= 80 and (c.dtype in gemm._HALF or (c.dtype == float32 and c.tf32))
        self.chunk = 16 // c.dtype.itemsize if self.tensor_cores else 4
        f = c.form
        self.direct = c.dtype == float64 or (f.groups > 1 and bool(f.ins % self.chunk or f.outs % self.chunk))
        half = self.chunk // 2
        self.fold = 1
        if c.name != "convolve_input" and f.groups == 1 and f.ins <= half and f.gap[2] == 1:
            self.fold = 2 if f.stride[2] % 2 == 0 and f.size[2] % 2 == 0 else 1
        self.pitch = half if self.fold == 2 else _up(f.ins, self.chunk)  # channels of a place, as x is laid out
        ahead = -(-f.low[2] // 2) * 2
        self.shift = ahead - f.low[2] if self.fold == 2 else 0
        self.form = replace(f, ins=self.pitch * self.fold, outs=_up(f.outs, self.chunk))
        if self.fold == 2:
            self.form = replace(
                self.form, size=(*f.size[:2], f.size[2] // 2), kernel=(*f.kernel[:2], -(-(f.kernel[2] + self.shift) // 2)),
                stride=(*f.stride[:2], f.stride[2] // 2), low=(*f.low[:2], ahead // 2),
            )  # fmt: skip
        self.kind = device_type(c.dtype)

    # --- tiles --------------------------------------------------------------------------------------------------------

    def product(self) -> gemm.Product:
        """The matrix product that has the same sizes, which the choice of tiles goes by."""
        f, dtype = self.form, self.c.dtype
        rows, columns, depth = {
            "convolve": (f.positions, f.outs, f.taps * f.ins),
            "convolve_input": (f.places // math.prod(f.stride), f.ins, f.taps * f.outs // math.prod(f.stride)),
            "convolve_weight": (f.outs, f.taps * f.ins, f.positions),
        }[self.c.name]
        classes = math.prod(f.stride) if self.c.name == "convolve_input" else 1
        return gemm.Product(
            max(rows, 1), columns, max(depth, 1), gemm.Matrix("a", dtype, depth, 1), gemm.Matrix("b", dtype, columns, 1),
            gemm.Matrix("c", dtype, columns, 1), (f.groups * classes,), None, self.c.tf32,
        )  # fmt: skip

    def tiles(self) -> list[Tile]:
        product = self.product()
        found = [t for t in gemm.candidates(product, self.device) if t.rung == ("mma" if self.tensor_cores else "fma")]
        if self.c.name != "convolve_weight":
            found = [t for t in found if t.split == 1]
        return sorted(found, key=lambda tile: gemm.expected(product, tile, self.device))

    # --- launches -----------------------------------------------------------------------------------------------------

    def work(self, tile: Tile, first: str, second: str, result: str) -> Work:
        """Rearrange what needs it, multiply, rearrange back."""
        c, g, f = self.c, self.given, self.form
        x_last, w_last, y_last = c.last
        launches: list[Launch] = []
        workspace: dict[str, int] = {}

        def temporary(name: str, elements: int, dtype: DType = c.dtype) -> str:
            workspace[name] = elements * dtype.itemsize
            return name

        def images(buffer: str, name: str, last: bool, channels: int, pitch: int, places: int) -> str:
            """A value (batch, channels, places), channels last and filled up to `pitch`."""
            if last and pitch == channels:
                return buffer
            to = temporary(name, g.batch * places * pitch)
            launches.append(self.widen(buffer, to, channels, pitch, places) if last else self.last(buffer, to, channels, pitch, places))
            return to

        size, count = math.prod(g.size), math.prod(g.count)
        channels, outs = g.ins * g.groups, g.outs * g.groups
        in_pitch = self.pitch if g.groups == 1 else channels
        out_pitch = f.outs if g.groups == 1 else outs
        weights = f.outs * f.groups * f.taps * f.ins
        bare_weight = self.fold == 1 and f.ins == g.ins and f.outs == g.outs

        def weight(buffer: str) -> str:
            if w_last and bare_weight:
                return buffer
            to = temporary("weight_last", weights)
            launches.append(self.arrange(buffer, to, w_last))
            return to

        if c.name == "convolve":
            x, w = images(first, "x_last", x_last, channels, in_pitch, size), weight(second)
            to = result if y_last else temporary("y_last", f.positions * outs, c.result)
            launches.append(self.multiply(tile, x, w, to, outs))
            if not y_last:
                launches.append(self.first(to, result, outs, count, c.result))
        elif c.name == "convolve_input":
            y, w = images(first, "y_last", y_last, outs, out_pitch, count), weight(second)
            to = result if x_last else temporary("x_last", f.places * channels, c.result)
            launches.append(self.multiply(tile, y, w, to, channels))
            if not x_last:
                launches.append(self.first(to, result, channels, size, c.result))
        else:
            x = images(first, "x_last", x_last, channels, in_pitch, size)
            y = images(second, "y_last", y_last, outs, out_pitch, count)
            plain = w_last and bare_weight
            to = result if plain else temporary("weight_last", weights, float32)
            kind = c.result if plain else float32
            launches += self.by_weight(tile, x, y, to, kind, temporary)
            if not plain:
                launches.append(self.arrange_back(to, result, w_last))
        return Work(tuple(launches), workspace)

    # rearrangements

    def last(self, from_: str, to: str, channels: int, pitch: int, places: int) -> Launch:
        """(batch, channels, places) to (batch, places, pitch)."""
        if pitch * self.c.dtype.itemsize in (4, 8, 16):
            source = f"""#include "arrange.cuh"
extern "C" __global__ void channels_last(const {self.kind} *from, {self.kind} *to, int rows, int columns)
{{
    wg_swap_few<{self.kind}, {pitch}>(from, to, rows, columns, (long long)rows * columns, (long long)columns * {pitch});
}}
"""
            numbers = (np.int32(channels), np.int32(places))
            return Launch(source, "channels_last", (-(-places // 256), 1, self.given.batch), (256, 1, 1), (from_, to, *numbers))
        return self.swap("channels_last", from_, to, channels, places, places, pitch, self.c.dtype)

    def first(self, from_: str, to: str, channels: int, places: int, dtype: DType) -> Launch:
        """(batch, places, channels) to (batch, channels, places)."""
        return self.swap("channels_first", from_, to, places, channels, channels, places, dtype)

    def swap(
        self, name: str, from_: str, to: str, rows: int, columns: int, from_pitch: int, pitch: int, dtype: DType
    ) -> Launch:
        kind = device_type(dtype)
        source = f"""#include "arrange.cuh"
extern "C" __global__ void {name}(
    const {kind} *from, {kind} *to, int rows, int columns, int from_pitch, int pitch, long long from_step, long long to_step)
{{
    wg_swap(from, to, rows, columns, from_pitch, pitch, from_step, to_step);
}}
"""
        sizes = [np.int32(n) for n in (rows, columns, from_pitch, pitch)]
        steps = [np.int64(rows * from_pitch), np.int64(columns * pitch)]
        grid = (-(-columns // 32), -(-pitch // 32), self.given.batch)
        return Launch(source, name, grid, (32, 8, 1), (from_, to, *sizes, *steps), why="tiles of 32 x 32 swapped")

    def widen(self, from_: str, to: str, channels: int, pitch: int, places: int) -> Launch:
        """Channels last already, filled up with zeros: as a weight of 1 x 1 is."""
        return self._arranged("wg_arrange", self.kind, self.kind, from_, to, (self.given.batch * places,) * 2 + (channels, 1, 1, 1, 1, pitch, 0))

    def arrange(self, from_: str, to: str, last: bool) -> Launch:
        return self._weights("wg_arrange", self.kind, self.kind, from_, to, last)

    def arrange_back(self, from_: str, to: str, last: bool) -> Launch:
        return self._weights("wg_arrange_back", "float", device_type(self.c.result), from_, to, last)

    def _weights(self, function: str, from_kind: str, to_kind: str, from_: str, to: str, last: bool) -> Launch:
        g, f = self.given, self.form
        if last:
            raise ValueError("a weight that lies channels last has whole chunks of channels")
        lines, columns = g.kernel[0] * g.kernel[1], g.kernel[2]
        return self._arranged(
            function, from_kind, to_kind, from_, to,
            (f.outs * f.groups, g.outs * g.groups, g.ins, lines, columns, f.kernel[2], self.fold, self.pitch, self.shift),
        )  # fmt: skip

    def _arranged(self, function: str, from_kind: str, to_kind: str, from_: str, to: str, sizes: tuple[int, ...]) -> Launch:
        rows, outs, channels, lines, columns, wide, fold, pitch, _ = sizes
        inside, outside = outs * channels * lines * columns, rows * lines * wide * fold * pitch
        source = f"""#include "arrange.cuh"
extern "C" __global__ void arrange(const {from_kind} *from, {to_kind} *to, int rows, int outs, int channels, int lines,
                                   int columns, int wide, int fold, int pitch, int shift)
{{
    {function}(from, to, rows, outs, channels, lines, columns, wide, fold, pitch, shift);
}}
"""
        elements = inside if function == "wg_arrange_back" else outside
        return Launch(source, "arrange", (-(-elements // 256), 1, 1), (256, 1, 1), (from_, to, *map(np.int32, sizes)))

    # products

    def multiply(self, tile: Tile, first: str, weight: str, to: str, channels: int) -> Launch:
        """Forward or by the input, into (places, channels)."""
        forward = self.c.name == "convolve"
        f, result = self.form, device_type(self.c.result)
        own = self.given.outs if forward else self.given.ins  # columns that exist
        widest = 16 // self.c.result.itemsize if tile.rung == "mma" else 4
        width = widest if own % widest == 0 else 1
        classes = 1 if forward else math.prod(f.stride)
        rows = f.positions if forward else f.batch * math.prod(-(-n // s) for n, s in zip(f.size, f.stride))
        high, wide = -(-rows // tile.high), -(-own // tile.wide)
        if forward:
            body = f"""    int depth = wg_taps::count * wg_shape::ins;
    wg_unfolded_rows<{self.kind}> left = {{{{first + group * wg_shape::ins, rows, depth}}}};
    wg_matrix<{self.kind}, true, false> right = {{weight + group * wg_shape::outs * depth, depth, {own}, depth}};
    wg_plain<{result}, {width}> out = {{to + group * {own}, {channels}, rows, {own}}};"""
        else:
            body = f"""    wg_class c = wg_class::of(blockIdx.z % {classes});
    rows = images * c.places();
    int depth = c.taps() * wg_shape::outs;
    if (row * {tile.high} >= rows) return;
    wg_seen<{self.kind}> left = {{first + group * wg_shape::outs, c, rows, depth}};
    wg_seen_weight<{self.kind}> right = {{weight + (long long)group * wg_shape::outs * wg_taps::count * wg_shape::ins, c, {own}, depth}};
    wg_plain<{result}, {width}> plain = {{to + group * {own}, {channels}, images * wg_shape::size0 * wg_shape::size1 * wg_shape::size2, {own}}};
    wg_spread<wg_plain<{result}, {width}>> out = {{plain, c, rows}};"""
        source = f"""{f.text()}
#include "conv.cuh"
#include "gemm_{tile.rung}.cuh"
extern "C" __global__ void __launch_bounds__({tile.threads}) {self.c.name}(
    const {self.kind} *first, const {self.kind} *weight, {result} *to, int images, int rows)
{{
    int high = (rows + {tile.high - 1}) / {tile.high}, row, column, group = blockIdx.z / {classes};
    wg_place(blockIdx.x, high, {wide}, 8, row, column);
{body}
    wg_gemm_{tile.rung}{gemm._constant(tile)}(left, right, out, row * {tile.high}, column * {tile.wide}, 0, depth);
}}
"""
        return Launch(
            source, self.c.name, (high * wide, 1, f.groups * classes), (tile.threads, 1, 1),
            (first, weight, to, np.int32(f.batch), np.int32(rows)), gemm.shared_bytes(self.product(), tile),
            f"{rows} positions x {own} channels over {f.taps} taps by {tile}",
        )  # fmt: skip

    def by_weight(self, tile: Tile, x: str, y: str, to: str, kind: DType, temporary: Any) -> list[Launch]:
        """The sums over positions, in parts that are added up in order."""
        f = self.form
        outs, columns = self.given.outs, f.taps * f.ins
        split = tile.split
        size = outs * f.groups * columns
        parts = temporary("partial_sums", split * size, float32) if split > 1 else to
        into = device_type(float32 if split > 1 else kind)
        high, wide = -(-outs // tile.high), -(-columns // tile.wide)
        share = _up(-(-f.positions // split), tile.depth)
        source = f"""{f.text()}
#include "conv.cuh"
#include "gemm_{tile.rung}.cuh"
extern "C" __global__ void __launch_bounds__({tile.threads}) {self.c.name}(
    const {self.kind} *x, const {self.kind} *y, {into} *to, int positions, int share)
{{
    int group = blockIdx.z, row, column, columns = wg_taps::count * wg_shape::ins;
    wg_place(blockIdx.x, {high}, {wide}, 8, row, column);
    wg_matrix<{self.kind}, false, false> left = {{y + group * wg_shape::outs, wg_shape::outs * wg_shape::groups, {outs}, positions}};
    wg_unfolded_columns<{self.kind}> right = {{{{x + group * wg_shape::ins, columns, positions}}}};
    to += ((long long)blockIdx.y * wg_shape::groups + group) * {outs} * columns;
    wg_plain<{into}, 4> out = {{to, columns, {outs}, columns}};
    int first = blockIdx.y * share, last = first + share < positions ? first + share : positions;
    wg_gemm_{tile.rung}{gemm._constant(tile)}(left, right, out, row * {tile.high}, column * {tile.wide}, first, last);
}}
"""
        launches = [
            Launch(
                source, self.c.name, (high * wide, split, f.groups), (tile.threads, 1, 1),
                (x, y, parts, np.int32(f.positions), np.int32(share)), gemm.shared_bytes(self.product(), tile),
                f"{outs} x {columns} sums over {f.positions} positions by {tile}",
            )
        ]  # fmt: skip
        if split > 1:
            whole = gemm.Product(
                1, size, 1, gemm.Matrix("", float32, 1, 1), gemm.Matrix("", float32, 1, 1), gemm.Matrix(to, kind, size, 1)
            )
            launches.append(gemm._add_up(whole, split, gemm.Matrix(parts, float32, size, 1)))
        return launches

    # --- small groups and float64 ----------------------------------------------------------------------------------

    def directly(self, first: str, second: str, result: str) -> Work:
        """A thread an element, on the values as they lie."""
        c, f = self.c, self.given
        if any(c.last):
            raise ValueError("convolutions with few channels in a group take values channels first")
        kind, into = device_type(c.dtype), device_type(c.result)
        elements = {
            "convolve": f.positions * f.outs * f.groups,
            "convolve_input": f.places * f.ins * f.groups,
            "convolve_weight": f.outs * f.groups * f.ins * f.taps,
        }[c.name]
        one_block = c.name == "convolve_weight"
        source = f"""{f.text()}
#include "conv_direct.cuh"
extern "C" __global__ void __launch_bounds__(256) {c.name}(const {kind} *first, const {kind} *second, {into} *to, int images)
{{
    wg_{c.name}_direct(first, second, to, images);
}}
"""
        grid = (elements if one_block else -(-elements // 256), 1, 1)
        return Work((Launch(source, c.name, grid, (256, 1, 1), (first, second, result, np.int32(f.batch)), why="a thread an element"),))
