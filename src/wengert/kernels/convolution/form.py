"""A convolution as a CUDA kernel sees it: its sizes, dtypes and layouts, as values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from wengert.core.dtypes import float32, float64
from wengert.core.graph import Node, Shape
from wengert.kernels.matmul.product import FLOATS, DType
from wengert.ops.channels_last import (
    CONVOLVE_INPUT_LAST,
    CONVOLVE_LAST,
    CONVOLVE_WEIGHT_LAST,
    first_order,
    permuted,
)
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT
from wengert.ops.op import Op

Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Form:
    """A convolution's sizes along three axes (1 for missing ones), and the channels of one group."""

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
        """The positions of x, in all images."""
        return self.batch * math.prod(self.size)

    @property
    def positions(self) -> int:
        """The positions of y, in all images."""
        return self.batch * math.prod(self.count)

    @property
    def taps(self) -> int:
        """Elements of the kernel."""
        return math.prod(self.kernel)

    @property
    def classes(self) -> int:
        """The number of classes of x positions that meet different taps."""
        return math.prod(self.stride)

    @property
    def period(self) -> int:
        """Rows of y from one image to the next, if padding rows of zeros are shared between images.

        It is large enough that reads beyond the last row of an image do not reach the next image.
        """
        stride, low, count = self.stride[1], self.low[1], self.count[1]
        last = (count - 1) * stride + self.kernel[1]  # rows that are seen, from the first zeros on
        return max(count, -(-max(min(last, self.size[1] + low), last - low) // stride))

    @property
    def mirrored(self) -> Form:
        """The convolution of y with the flipped weight that equals the input gradient; for strides of 1."""
        low = tuple(k - 1 - n for k, n in zip(self.kernel, self.low))
        return replace(
            self, ins=self.outs, outs=self.ins, size=self.count, count=self.size, low=(low[0], low[1], low[2])
        )

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.positions * self.taps * self.ins * self.outs * self.groups

    def text(self) -> str:
        """The sizes as constants for conv.cuh."""
        names = ("size", "kernel", "count", "stride", "low", "gap")
        numbers = {f"{name}{axis}": getattr(self, name)[axis] for name in names for axis in range(3)}
        numbers |= {"ins": self.ins, "outs": self.outs, "groups": self.groups}
        lines = "".join(f"    static const int {name} = {value};\n" for name, value in numbers.items())
        return f"struct wg_shape {{\n{lines}}};\n"


@dataclass(frozen=True)
class ConvolutionForm:
    """One of the primitives: which, its form, dtypes, and whether channels come last in all values."""

    op: Op  # CONVOLVE, CONVOLVE_INPUT or CONVOLVE_WEIGHT, whichever way its channels lie
    form: Form
    dtype: DType
    result: DType
    last: bool = False
    tf32: bool = False

    @property
    def name(self) -> str:
        """The name of its kernels."""
        return self.op.name

    @property
    def is_forward(self) -> bool:
        """Whether it is the convolution itself."""
        return self.op is CONVOLVE

    @property
    def by_input(self) -> bool:
        """Whether it is the cotangent of the input."""
        return self.op is CONVOLVE_INPUT

    @property
    def by_weight(self) -> bool:
        """Whether it is the cotangent of the weight."""
        return self.op is CONVOLVE_WEIGHT

    @property
    def direct(self) -> bool:
        """Whether it is computed directly: its groups are too small for matrix products."""
        chunk = 16 // self.dtype.itemsize
        return self.dtype == float64 or (self.form.groups > 1 and bool(self.form.ins % chunk or self.form.outs % chunk))

    @property
    def by_rows(self) -> bool:
        """Whether the kernels that keep image rows on chip support it: tf32, two axes, one group, no dilation."""
        f = self.form
        plain = f.size[0] == f.kernel[0] == f.count[0] == f.groups == 1 and set(f.gap) == {1} and min(f.low) >= 0
        whole = f.outs % 4 == 0 and f.ins % 4 == 0 and f.positions > 0 and f.places > 0
        return self.tf32 and self.last and self.dtype == self.result == float32 and plain and whole


_FIRST = {CONVOLVE_LAST: CONVOLVE, CONVOLVE_INPUT_LAST: CONVOLVE_INPUT, CONVOLVE_WEIGHT_LAST: CONVOLVE_WEIGHT}
CONVOLUTIONS = (*_FIRST, *_FIRST.values())


def shapes_of(node: Node) -> tuple[Op, bool, Shape, Shape, Shape]:
    """Which of the three a node is, whether channels come last, and the shapes of x, weight and y, channels first."""
    op, last = _FIRST.get(node.op, node.op), node.op in _FIRST
    first, second, made = (permuted(n.shape, first_order(n.ndim)) if last else n.shape for n in (*node.sources, node))
    x, weight, y = {
        CONVOLVE: (first, second, made),
        CONVOLVE_INPUT: (made, second, first),
        CONVOLVE_WEIGHT: (first, made, second),
    }[op]
    return op, last, x, weight, y


def convolution(node: Node, tf32: bool = False) -> ConvolutionForm | None:
    """The form of a node; None if it has more than three axes or is not floating."""
    op, last, x, weight, y = shapes_of(node)
    a, dtype = node.attrs, node.sources[0].dtype
    if len(x) > 5 or dtype not in FLOATS:
        return None

    def three(values: Iterable[int], fill: int) -> Sizes:
        found = tuple(values)
        a, b, c = (*(fill,) * (3 - len(found)), *found)
        return a, b, c

    form = Form(
        x[0],
        a["groups"],
        weight[1],
        weight[0] // a["groups"],
        size=three(x[2:], 1),
        kernel=three(weight[2:], 1),
        count=three(y[2:], 1),
        stride=three(a["stride"], 1),
        low=three((low for low, _ in a["padding"]), 0),
        gap=three(a["dilation"], 1),
    )
    return ConvolutionForm(op, form, dtype, node.dtype, last, tf32)
