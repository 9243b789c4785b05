"""Calls of the C convolutions: the shape as a C struct, how the batch is split, and the scratch memory.

Sizes are planned for the widest vectors, 16 floats; processors with narrower vectors need less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wengert.core.dtypes import float32, float64
from wengert.core.graph import Node
from wengert.kernels.c_ops import CCall, Pointer, braces, called
from wengert.kernels.threads import thread_count
from wengert.kernels.writer import suffix
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT
from wengert.ops.fixed_order import TREE_CONVOLVE, TREE_CONVOLVE_INPUT, TREE_CONVOLVE_WEIGHT
from wengert.ops.op import Op

_VECTOR, _TALL, _PANEL, _WHOLE, _DEEP, _PAIRS, _OUTS = 16, 8, 48, 1536, 512, 12, 32  # as in conv_shape.h
_POSITIONS = (
    2048  # of a piece, by the weight: their cotangent, 32 channels wide, is a quarter of the second-level cache
)
_TILES = 16  # at least as many are worked on side by side, by the weight
_FEW = 6  # channels made in a group, below which most of a tile would be empty: planes are added up directly
_BAND = 8192  # elements of the panel of such a group: two thirds of the nearest cache, with what is made from it
_MANY_TILES = 256  # tiles of 2 x 2 outputs from which they are transformed
_WORTH, _WORTH_BY_WEIGHT = (
    (16, 1.6),
    (64, 1.2),
)  # if there are this many channels, and this little padding is computed
_CHUNK, _CHUNK_ELEMENTS = 64, 400_000  # as in winograd.h

_TILES_FIRST = ("matmul.h", "winograd.h")
HEADERS = {
    "winograd": _TILES_FIRST,
    "winograd_apart": _TILES_FIRST,
    "winograd_weight_gradient": (*_TILES_FIRST, "winograd_weight.h"),
    "convolve": ("conv.h",),
    "convolve_input": ("conv.h",),
    "convolve_weight": ("matmul.h", "conv_weight.h"),
    "convolve_direct": ("conv_direct.h",),
    "convolve_input_direct": ("conv_direct.h",),
    "convolve_weight_direct": ("conv_direct.h", "conv_direct_weight.h"),
}


_ORDINARY = {TREE_CONVOLVE: CONVOLVE, TREE_CONVOLVE_INPUT: CONVOLVE_INPUT, TREE_CONVOLVE_WEIGHT: CONVOLVE_WEIGHT}


class _Shape:
    """A convolution's sizes, extended to three axes."""

    def __init__(self, node: Node, x: Sequence[int], weight: Sequence[int], y: Sequence[int]) -> None:
        a, axes = node.attrs, len(x) - 2
        self.groups: int = a["groups"]
        self.batch, self.ins, self.outs = x[0], weight[1], weight[0] // self.groups
        ones, zeros = (1,) * (3 - axes), (0,) * (3 - axes)
        self.size: tuple[int, ...] = (*ones, *x[2:])
        self.kernel: tuple[int, ...] = (*ones, *weight[2:])
        self.count: tuple[int, ...] = (*ones, *y[2:])
        self.stride: tuple[int, ...] = (*ones, *a["stride"])
        self.dilation: tuple[int, ...] = (*ones, *a["dilation"])
        self.low: tuple[int, ...] = (*zeros, *(low for low, _ in a["padding"]))
        self.together, self.images, self.lines, self.parts, self.columns = 1, 1, 1, 1, 1

    def merge(self) -> None:
        """Merge the last two axes while the inner one has kernel size 1, to get the longest rows."""

        def merged(values: tuple[int, ...], by: int, fill: int) -> tuple[int, ...]:
            return fill, values[0], values[1] * by

        for _ in range(2):
            n = self.size[2]
            if (self.kernel[2], self.stride[1:], self.low[2], self.count[2]) != (1, (1, 1), 0, n):
                return
            self.size, self.count = merged(self.size, n, 1), merged(self.count, n, 1)
            self.low, self.dilation = merged(self.low, n, 0), merged(self.dilation, n, 1)
            self.kernel, self.stride = merged(self.kernel, 1, 1), merged(self.stride, 1, 1)

    def direct(self, op: Op) -> bool:
        """Whether the groups are too small for a matrix product."""
        return self.groups > 1 and (self.ins if op is CONVOLVE_INPUT else self.outs) < _FEW

    def in_tiles(self, op: Op) -> bool:
        """Whether Winograd applies: a 3 x 3 kernel, with enough channels and 2 x 2 tiles to pay for the transforms."""
        plain = (self.kernel[1:], self.stride) == ((3, 3), (1, 1, 1)) and 1 in (self.kernel[0], self.dilation[0])
        apart = all(low % d == 0 and 0 <= low <= 2 * d for low, d in zip(self.low[1:], self.dilation[1:]))
        flat = self.size[0] == 1 and self.low[0] == 0 and self.dilation[1:] == (1, 1) and self.groups == 1
        if not (plain and apart) or (op is CONVOLVE_WEIGHT and not flat):
            return False
        made = self.size if op is CONVOLVE_INPUT else self.count
        parts = math.prod(self.dilation[1:])
        half = [-(-n // (2 * d)) for n, d in zip(made[1:], self.dilation[1:])]
        tiles = self.batch * made[0] * parts * math.prod(half)
        many, waste = _WORTH_BY_WEIGHT if op is CONVOLVE_WEIGHT else _WORTH
        worth = min(self.ins, self.outs) >= many and tiles >= _MANY_TILES
        return worth and 4 * tiles <= waste * self.batch * math.prod(made)

    def text(self) -> str:
        """The struct."""
        names = [
            "batch",
            "groups",
            "ins",
            "outs",
            "size",
            "kernel",
            "count",
            "stride",
            "low",
            "dilation",
            "together",
            "images",
            "lines",
            "parts",
            "columns",
        ]
        values = [getattr(self, name) for name in names]
        parts = [f".{n} = {braces(v) if isinstance(v, tuple) else v}" for n, v in zip(names, values)]
        return f"&(wg_convolution){{{', '.join(parts)}}}"


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


def _images_together(columns: int, batch: int) -> int:
    """The number of images that share the panels of an output row, chosen to leave the fewest vectors partly empty."""

    def effort(images: int) -> float:
        positions = images * columns
        whole, rest = divmod(positions, _PANEL)
        return (
            3 * whole + (0, 1.5, 2.2, 3)[-(-rest // _VECTOR)]
        ) / positions  # one vector alone takes half as long as 3

    choices = [n for n in range(1, min(batch, 24) + 1) if n == 1 or n * columns <= 6 * _PANEL]
    return min(choices, key=effort)


def _product_scratch(rows: int, channels: int, kernel: tuple[int, ...], groups: int) -> int:
    """The packed weights, and for each thread a panel and its sums."""
    depth, tall = channels * math.prod(kernel), _up(rows, _TALL)
    panel = min(depth, max(_WHOLE, channels * kernel[2], _DEEP)) * _PANEL
    return groups * _up(tall * depth, _VECTOR) + thread_count() * (panel + tall * _PANEL + 2 * _VECTOR) + 2 * _VECTOR


def _cut(shape: _Shape) -> None:
    """How the weight gradient splits the batch: into groups of images, or rows of one image."""
    positions, columns = math.prod(shape.count), shape.count[2]
    shape.images = min(shape.batch, max(1, _POSITIONS // positions))
    shape.lines = shape.count[1]
    if positions > 2 * _POSITIONS and shape.count[0] == 1:
        shape.lines = max(1, _POSITIONS // columns)
    pieces = -(-shape.batch // shape.images) * -(-shape.count[1] // shape.lines)
    tiles = -(-shape.ins * math.prod(shape.kernel) // _PAIRS) * -(-shape.outs // _OUTS)
    shape.parts = min(pieces, max(1, _TILES // tiles))


def _weight_scratch(shape: _Shape) -> int:
    """The sums of every part, and a padded and a transposed part for each thread."""
    sums = _up(shape.ins * math.prod(shape.kernel), _PAIRS) * _up(shape.outs, _OUTS)
    covered = (shape.count[0], shape.lines, shape.count[2])
    pad = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(covered, shape.stride, shape.kernel, shape.dilation)]
    images = _up(shape.images * shape.ins * math.prod(pad), _VECTOR)
    cotangents = _up(shape.outs, _OUTS) * shape.images * math.prod(covered)
    return shape.parts * (sums + images + cotangents) + 2 * _VECTOR


def _bands(op: Op, shape: _Shape) -> int:
    """Settle the bands in which groups of few channels are made; the elements of scratch memory of a thread."""
    by_input = op is CONVOLVE_INPUT
    channels = {CONVOLVE: shape.ins, CONVOLVE_INPUT: shape.outs, CONVOLVE_WEIGHT: 1}[op]
    ways = list(zip(shape.kernel, shape.stride, shape.dilation))
    grid = [-(-n // s) for n, s in zip(shape.size, shape.stride)] if by_input else shape.count
    shift = [((k - 1) * d + s - 1) // s for k, s, d in ways]  # that a panel is longer than the band, at most
    slots = [1 if by_input else min(k, s) for k, s, _ in ways]
    planes = channels * shape.kernel[0] * slots[1] * slots[2]
    shape.columns = min(grid[2], max(_BAND // (2 * planes), shift[2]))
    pitch = shape.columns + shift[2]
    shape.lines = min(grid[1], max(_BAND // (planes * pitch) - shift[1], shift[1], 1))
    panel = planes * _up((shape.lines + shift[1]) * pitch, _VECTOR) + _VECTOR
    sums = _up(shape.lines * pitch, _VECTOR) + _VECTOR
    kinds = shape.stride[2] if by_input else 1  # of results that are made from one panel
    each: int = panel + (2 * sums + math.prod(shape.kernel) * _VECTOR if op is CONVOLVE_WEIGHT else kinds * sums)
    return each


def convolve(node: Node, pointer: Pointer, fixed: bool = False) -> CCall | None:
    """The call of convolve, convolve_input or convolve_weight.

    With `fixed`, the computation of one image does not depend on the others; for the weight gradient, the call is for
    one image.
    """
    if node.dtype not in (float32, float64) or len(node.shape) > 5:
        return None
    first, second = node.sources
    op = _ORDINARY.get(node.op, node.op)
    x = node.shape if op is CONVOLVE_INPUT else first.shape
    weight = node.shape if op is CONVOLVE_WEIGHT else second.shape
    y = {CONVOLVE: node, CONVOLVE_INPUT: first, CONVOLVE_WEIGHT: second}[op].shape
    shape = _Shape(node, x, weight, y)
    if fixed and op is CONVOLVE_WEIGHT:
        shape.batch = min(shape.batch, 1)
    if not (math.prod(x) and math.prod(weight) and math.prod(y)):
        return CCall(f"memset({pointer(node)}, 0, {node.size * node.dtype.itemsize}L);")
    arguments = f"{pointer(first)}, {pointer(second)}, {pointer(node)}"
    if shape.direct(op):
        each = _bands(op, shape)
        arguments = f"{arguments}, (void *)(arena + scratch), {each}, {shape.text()}"
        return called(f"{op.name}_direct", suffix(node.dtype), arguments, thread_count() * each * node.dtype.itemsize)
    if not fixed and shape.in_tiles(op):
        return _winograd(node, op, shape, arguments)
    scratch = _plan(op, shape)
    arguments = f"{arguments}, (void *)(arena + scratch), {shape.text()}"
    return called(op.name, suffix(node.dtype), arguments, scratch * node.dtype.itemsize)


def _winograd(node: Node, op: Op, shape: _Shape, arguments: str) -> CCall:
    """The call of a Winograd convolution; the input gradient is one with the kernel flipped."""
    taps = math.prod(shape.kernel)
    by_input, by_weight = op is CONVOLVE_INPUT, op is CONVOLVE_WEIGHT
    rows, channels = (shape.ins, shape.outs) if by_input else (shape.outs, shape.ins)
    row_step, channel_step = (taps, shape.ins * taps) if by_input else (shape.ins * taps, taps)
    size, count = (shape.count, shape.size) if by_input else (shape.size, shape.count)
    by = shape.dilation[1:]
    ahead = (shape.low[0], *(low // d for low, d in zip(shape.low[1:], by)))
    low = [k - 1 - n if by_input else n for k, n in zip(shape.kernel, ahead)]
    part, parts = [[-(-n // d) for n, d in zip(sizes[1:], by)] for sizes in (size, count)]
    batch = shape.batch * math.prod(by)
    numbers = f"{batch}, {channels}, {rows}, {row_step}, {channel_step}"
    sizes = ", ".join(map(braces, (part, parts, low[1:])))
    volume = f"{shape.groups}, {shape.kernel[0]}, {braces((size[0], count[0]))}, {low[0]}"
    struct = f"&(wg_image_shape){{{numbers}, {sizes}, {int(by_input)}, {volume}}}"
    name = "winograd_weight_gradient" if by_weight else "winograd"
    scratch = _tile_sums(rows, channels) if by_weight else _tile_panels(rows, channels * shape.kernel[0])
    arguments = f"{arguments}, (void *)(arena + scratch)"
    if by != (1, 1):
        name = "winograd_apart"
        scratch += _up(batch * shape.groups * channels * size[0] * math.prod(part), _VECTOR)
        scratch += _up(batch * shape.groups * rows * count[0] * math.prod(parts), _VECTOR)
        arguments += "".join(f", (long[]){braces(numbers)}" for numbers in (size[1:], count[1:], by))
    return called(name, suffix(node.dtype), f"{arguments}, {struct}", scratch * node.dtype.itemsize)


def _tile_panels(rows: int, channels: int) -> int:
    """The transformed weight, and for each thread a panel and its sums."""
    return 16 * _up(rows, _TALL) * channels + thread_count() * (16 * (channels + _CHUNK) * _PANEL + _VECTOR)


def _tile_sums(rows: int, channels: int) -> int:
    """The sums over tiles, and a chunk of transformed ones."""
    ins, outs = _up(channels, _VECTOR), _up(rows, _VECTOR)
    return 16 * rows * ins + max(16 * 64 * (ins + outs), _CHUNK_ELEMENTS)


def _plan(op: Op, shape: _Shape) -> int:
    """Settle how the work is cut; the elements of scratch memory that takes."""
    if op is CONVOLVE_WEIGHT:
        _cut(shape)
        return _weight_scratch(shape)
    shape.merge()
    if op is CONVOLVE:
        shape.together = _images_together(shape.count[2], shape.batch)
        return _product_scratch(shape.outs, shape.ins, shape.kernel, shape.groups)
    shape.together = _images_together(-(-shape.size[2] // shape.stride[2]), shape.batch)
    return _product_scratch(shape.ins, shape.outs, shape.kernel, shape.groups)
