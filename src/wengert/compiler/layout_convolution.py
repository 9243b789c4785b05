"""Other forms of a convolution, for `layout`: folded, or a matrix product. Values here have channels last.

A convolution over few channels, as of an image, is folded into one over as many channels as tensor cores process at
once. With stride 2, each 2 x 2 neighbourhood becomes the channels of one position: a 7 x 7 kernel over 3 channels
becomes a 4 x 4 kernel over 12 channels with stride 1. Zeros fill the rest of the last 16 bytes. Folding is only
movement, which fuses into the kernel that casts the image. A convolution with a 1-element kernel is a matrix product of
positions by channels. Zeros placed around a convolution's input become its padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from wengert.compiler.rewrite import made_by
from wengert.core.dtypes import HALF
from wengert.core.graph import Node, Shape
from wengert.ops.channels_last import last_order, permuted
from wengert.ops.convolve import CONVOLVE_INPUT, CONVOLVE_WEIGHT, Pairs
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import PLACE, SLICE, flip, permute_dims, place, reshape, take_slice

CHUNK = 16  # bytes of a vector load
FEW = 16  # channels of a group
MOST = 16  # maximum channels after folding, unless the kernel then has one element (image patches)


@dataclass(frozen=True)
class Folding:
    """How a convolution is folded: `factor` neighbours along each axis become the channels of one position."""

    channels: int
    filled: int  # channels per position, including zero padding
    factor: Shape
    ahead: Shape  # zeros before the kernel's first element
    given: Shape  # the kernel as it was
    kernel: Shape
    stride: Shape
    padding: Pairs

    @property
    def form(self) -> dict[str, Any]:
        """The attributes of the folded convolution."""
        ones = (1,) * len(self.kernel)
        return {"stride": self.stride, "padding": self.padding, "dilation": ones, "groups": 1}

    def values(self, x: Node) -> Node:
        """The convolution's input, folded."""
        return self._filled(self._folded(x))

    def weight(self, weight: Node) -> Node:
        """The convolution's weight, folded."""
        whole = tuple(k * s for k, s in zip(self.kernel, self.factor))
        laid = place(weight, (weight.shape[0], *whole, self.channels), (0, *self.ahead, 0), (1,) * weight.ndim)
        return self._filled(self._folded(laid))

    def unfolded(self, weight: Node) -> Node:
        """A folded weight, or its gradient, in the original form."""
        n, outs = len(self.kernel), weight.shape[0]
        own = take_slice(weight, (0,) * (n + 2), (1,) * (n + 2), (*weight.shape[:-1], self._own))
        apart = reshape(own, (outs, *self.kernel, *self.factor, self.channels))
        order = [0, *(axis for i in range(n) for axis in (1 + i, 1 + n + i)), 1 + 2 * n]
        whole = reshape(
            permute_dims(apart, order), (outs, *(k * s for k, s in zip(self.kernel, self.factor)), self.channels)
        )
        return take_slice(whole, (0, *self.ahead, 0), (1,) * (n + 2), (outs, *self.given, self.channels))

    @property
    def _own(self) -> int:
        return self.channels * math.prod(self.factor)

    def _folded(self, x: Node) -> Node:
        n, sizes = len(self.kernel), tuple(m // s for m, s in zip(x.shape[1:], self.factor))
        pairs = (number for pair in zip(sizes, self.factor) for number in pair)
        apart = reshape(x, (x.shape[0], *pairs, self.channels))
        order = (0, *range(1, 2 * n, 2), *range(2, 2 * n + 1, 2), 2 * n + 1)
        return reshape(permute_dims(apart, order), (x.shape[0], *sizes, self._own))

    def _filled(self, x: Node) -> Node:
        return place(x, (*x.shape[:-1], self.filled), (0,) * x.ndim, (1,) * x.ndim)


def folding(node: Node) -> Folding | None:
    """The folding of a convolution, or of the gradient of its weight; None if it has enough channels."""
    if node.op is CONVOLVE_INPUT or node.attrs["groups"] > 1:
        return None
    x, a = node.sources[0], node.attrs
    weight, y = (node, node.sources[1]) if node.op is CONVOLVE_WEIGHT else (node.sources[1], node)
    channels, chunk = x.shape[1], CHUNK // x.dtype.itemsize
    if channels >= chunk or any(d != 1 for d in a["dilation"]):
        return None
    return _by(a["stride"], x, weight, y, a, chunk) or _by((1,) * len(a["stride"]), x, weight, y, a, chunk)


def _by(factor: Shape, x: Node, weight: Node, y: Node, a: dict[str, Any], chunk: int) -> Folding | None:
    """The folding by a factor; None if it does not divide the sizes, or makes too many channels."""
    sizes, given = x.shape[2:], weight.shape[2:]
    own = x.shape[1] * math.prod(factor)
    lows = [low for low, _ in a["padding"]]
    ahead = tuple(-low % s for low, s in zip(lows, factor))
    kernel = tuple(-(-(k + e) // s) for k, e, s in zip(given, ahead, factor))
    if any(n % s for n, s in zip(sizes, factor)) or (own > MOST and max(kernel) > 1):
        return None
    stride = tuple(t // s for t, s in zip(a["stride"], factor))
    first = [(low + e) // s for low, e, s in zip(lows, ahead, factor)]
    reach = [(n - 1) * t + k for n, t, k in zip(y.shape[2:], stride, kernel)]
    padding = tuple((low, r - n // s - low) for low, r, n, s in zip(first, reach, sizes, factor))
    if any(number < 0 for pair in padding for number in pair):
        return None
    return Folding(x.shape[1], -(-own // chunk) * chunk, factor, ahead, given, kernel, stride, padding)


# --- padding --------------------------------------------------------------------------------------------------------


def with_padding(node: Node) -> Node:
    """A convolution (or its weight gradient) whose input is zero-padded explicitly, with those zeros as its padding.

    Other convolutions are returned unchanged. A causal convolution is recorded with explicit padding on one side.
    """
    x = node.sources[0]
    if node.op is CONVOLVE_INPUT or not made_by(x, PLACE) or not _is_along_space(x.attrs, x.shape, x.sources[0].shape):
        return node
    inner = x.sources[0]
    padding = _wider(node.attrs["padding"], x.attrs["starts"][2:], x.shape[2:], inner.shape[2:])
    return node.op(inner, node.sources[1], **{**node.attrs, "padding": padding})


def without_padding(node: Node, part: Node) -> Node | None:
    """An input gradient of which only a slice is needed, as one that computes just that; None for a strided slice."""
    if not made_by(part, SLICE) or not _is_along_space(part.attrs, node.shape, part.shape):
        return None
    padding = _wider(node.attrs["padding"], part.attrs["starts"][2:], node.shape[2:], part.shape[2:])
    return CONVOLVE_INPUT(*node.sources, **{**node.attrs, "padding": padding, "sizes": part.shape[2:]})


def _is_along_space(attrs: dict[str, Any], whole: Shape, part: Shape) -> bool:
    """Whether a slice has unit steps and is smaller only along spatial axes."""
    return set(attrs["steps"]) == {1} and whole[:2] == part[:2] and bool(math.prod(part))


def _wider(padding: Pairs, starts: Shape, whole: Shape, part: Shape) -> Pairs:
    return tuple((a + s, b + w - s - p) for (a, b), s, w, p in zip(padding, starts, whole, part))


# --- groups ---------------------------------------------------------------------------------------------------------


def weight_of(node: Node) -> Node:
    """The weight of a convolution, or its gradient."""
    return node if node.op is CONVOLVE_WEIGHT else node.sources[1]


def is_depthwise(node: Node) -> bool:
    """Whether every input channel has its own kernels."""
    return bool(node.attrs["groups"] > 1 and weight_of(node).shape[1] == 1)


def suits_groups(node: Node) -> bool:
    """Whether each group has few channels, or enough of them to fill a vector load."""
    ins, outs = weight_of(node).shape[1], weight_of(node).shape[0] // node.attrs["groups"]
    chunk = CHUNK // node.dtype.itemsize
    return max(ins, outs) <= FEW or not (ins % chunk or outs % chunk)


# --- gradients with respect to an input -------------------------------------------------------------------------------

NARROW = 64  # channels up to which libraries are faster at the convolution than at its gradient


def is_convolution_of_gradient(node: Node) -> bool:
    """Whether an input gradient is faster as a convolution of the cotangent with the flipped weight.

    Measured on an H200 with cuDNN 9.19 in bfloat16: 89 us instead of 106 for 512 x 32 x 32 positions of 64 channels;
    the same ratio for more channels.
    """
    a = node.attrs
    is_plain = set(a["stride"]) == set(a["dilation"]) == {1} and a["groups"] == 1
    fits = all(n < k for k, pair in zip(node.sources[1].shape[2:], a["padding"]) for n in pair)
    return node.op is CONVOLVE_INPUT and is_plain and fits and node.shape[1] <= NARROW and node.dtype in HALF


def weight_round(weight: Node) -> Node:
    """The weight for the convolution of the cotangent: input and output channels swapped, spatial axes flipped."""
    order = (1, *range(2, weight.ndim), 0)
    return flip(permute_dims(weight, order), tuple(range(1, weight.ndim - 1)))


def form_round(node: Node) -> dict[str, Any]:
    """The attributes of that convolution."""
    sizes = zip(node.sources[1].shape[2:], node.attrs["padding"])
    padding = tuple((k - 1 - low, k - 1 - high) for k, (low, high) in sizes)
    return {"padding": padding, **{name: node.attrs[name] for name in ("stride", "dilation", "groups")}}


# --- products -------------------------------------------------------------------------------------------------------


def is_product(node: Node) -> bool:
    """Whether a convolution, or one of its gradients, is a matrix product of a suitable size."""
    weight, chunk = weight_of(node), CHUNK // node.dtype.itemsize
    padded = any(number for pair in node.attrs["padding"] for number in pair) or node.attrs["groups"] > 1
    return set(weight.shape[2:]) == {1} and not padded and not any(n % chunk for n in weight.shape[:2])


def steps_over(node: Node) -> Shape:
    """The strides of such a convolution over its input, for every axis of a channels-last value."""
    return (1, *node.attrs["stride"], 1)


def taken(x: Node, y: Shape, steps: Shape) -> Node:
    """The input positions that such a convolution reads; `y` is the shape of its result."""
    return take_slice(x, (0,) * x.ndim, steps, (*y[:-1], x.shape[-1]))


def product(value: Node, weight: Node) -> Node:
    """Such a convolution, as a product of the positions it reads and its weight as recorded."""
    matrix = permute_dims(reshape(weight, weight.shape[:2]), (1, 0))
    return reshape(MATMUL(_rows(value), matrix), (*value.shape[:-1], weight.shape[0]))


def product_by_input(node: Node, g: Node, weight: Node) -> Node:
    """The input gradient of such a convolution."""
    made = MATMUL(_rows(g), reshape(weight, weight.shape[:2]))
    shape = permuted(node.shape, last_order(node.ndim))
    return place(reshape(made, (*g.shape[:-1], shape[-1])), shape, (0,) * node.ndim, steps_over(node))


def product_by_weight(node: Node, value: Node, g: Node) -> Node:
    """The weight gradient of such a convolution, in the recorded form: a sum over all positions."""
    return reshape(MATMUL(permute_dims(_rows(g), (1, 0)), _rows(value)), node.shape)


def _rows(x: Node) -> Node:
    return reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
