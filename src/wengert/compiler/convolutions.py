"""Other forms of a convolution, for `layout`: folded, or a matrix product. Values here have their channels last.

A convolution over few channels, as of an image, is folded: it becomes one over as many as tensor cores take at once.
Under a stride of 2 every 2 x 2 neighbours count as channels of one place: a kernel of 7 x 7 over 3 channels is one of
4 x 4 over 12, at stride 1. What is left of the last 16 bytes is filled up with zeros. All of it is movement, which the
kernel that casts the image takes in. A convolution with a kernel of one element is a product of places by channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from wengert.graph import Node, Shape
from wengert.ops.channels_last import last_order, turned
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT, Pairs
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import permute_dims, place, reshape, take_slice

CHUNK = 16  # bytes that are read at once
MOST = 16  # channels that folding makes, unless the kernel is then of one element: patches of an image


@dataclass(frozen=True)
class Folding:
    """How a convolution is folded: `factor` neighbours along each axis count as one place."""

    channels: int
    filled: int  # channels of a place, with those that are zeros
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
        """Its weight, folded."""
        whole = tuple(k * s for k, s in zip(self.kernel, self.factor))
        laid = place(weight, (weight.shape[0], *whole, self.channels), (0, *self.ahead, 0), (1,) * weight.ndim)
        return self._filled(self._folded(laid))

    def unfolded(self, weight: Node) -> Node:
        """A folded weight, or its gradient, as it was."""
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
    """How a convolution, or the gradient by its weight, is folded; None where it has channels enough."""
    if node.op is CONVOLVE_INPUT:
        return None
    x, a = node.sources[0], node.attrs
    weight, y = (node, node.sources[1]) if node.op is CONVOLVE_WEIGHT else (node.sources[1], node)
    channels, chunk = x.shape[1], CHUNK // x.dtype.itemsize
    if channels >= chunk or any(d != 1 for d in a["dilation"]):
        return None
    return _by(a["stride"], x, weight, y, a, chunk) or _by((1,) * len(a["stride"]), x, weight, y, a, chunk)


def _by(factor: Shape, x: Node, weight: Node, y: Node, a: dict[str, Any], chunk: int) -> Folding | None:
    """The folding by a factor; None where it does not fit the sizes, or makes too many channels."""
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


# --- products -------------------------------------------------------------------------------------------------------


def is_product(node: Node) -> bool:
    """Whether a convolution, or the one by its input, is a matrix product, of sizes that suit one.

    Over a weight's gradient, a sum over all places, a library's convolution shares the work out better.
    """
    if node.op is CONVOLVE_WEIGHT:
        return False
    weight, chunk = node.sources[1], CHUNK // node.dtype.itemsize
    padded = any(number for pair in node.attrs["padding"] for number in pair)
    return set(weight.shape[2:]) == {1} and not padded and not any(n % chunk for n in weight.shape[:2])


def as_product(node: Node, value: Node, weight: Node) -> Node:
    """Such a convolution of a value, and of its weight as it was recorded, as a product."""
    matrix = reshape(weight, weight.shape[:2])
    shape, steps, starts = turned(node.shape, last_order(node.ndim)), (1, *node.attrs["stride"], 1), (0,) * node.ndim
    if node.op is CONVOLVE:
        matrix = permute_dims(matrix, (1, 0))
        value = take_slice(value, starts, steps, (*shape[:-1], value.shape[-1]))
    rows = reshape(value, (math.prod(value.shape[:-1]), value.shape[-1]))
    made = reshape(MATMUL(rows, matrix), (*value.shape[:-1], shape[-1]))
    return made if node.op is CONVOLVE else place(made, shape, starts, steps)
