"""Convolution in any number of spatial dimensions, one primitive for all: forward, both derivatives, and the transpose.

    x (N, C, *spatial),  weight (O, C / groups, *kernel)  ->  (N, O, *positions)

`x` is first spread out (`input_dilation - 1` zeros between elements) and padded by (low, high) pairs, where a negative
one crops. Every derivative of a convolution is a convolution again: by `x` it is that of the spread-out cotangent with
the flipped weight; by the weight it is that of `x` with the cotangent as its kernel, batch and channels exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from wengert.graph import Node, Shape
from wengert.ops.movement import flip, moveaxis, reshape
from wengert.ops.op import Op

Pairs = tuple[tuple[int, int], ...]

_BLOCK = 1 << 21  # elements of unfolded input made at a time: larger blocks leave the cache and gain nothing


def extent(size: int, dilation: int) -> int:
    """How far `size` elements reach that stand `dilation` apart."""
    return (size - 1) * dilation + 1 if size else 0


def _infer(
    x: Node, weight: Node, stride: Shape, padding: Pairs, input_dilation: Shape, dilation: Shape, groups: int
) -> tuple[Any, Any]:
    positions = []
    for size, kernel, step, (low, high), spread, apart in zip(
        x.shape[2:], weight.shape[2:], stride, padding, input_dilation, dilation
    ):
        room = extent(size, spread) + low + high - extent(kernel, apart)
        positions.append(max(0, room // step + 1))
    return (x.shape[0], weight.shape[0], *positions), x.dtype


# --- the reference --------------------------------------------------------------------------------------------------


def _spread_and_padded(x: Any, padding: Pairs, input_dilation: Shape) -> Any:
    """`x` with zeros between its elements and around them; elements that a negative padding crops are left out."""
    if not any(low or high for low, high in padding) and all(spread == 1 for spread in input_dilation):
        return x
    sizes, source, target = list(x.shape[:2]), [slice(None)] * 2, [slice(None)] * 2
    for size, (low, high), spread in zip(x.shape[2:], padding, input_dilation):
        full = max(0, extent(size, spread) + low + high)
        first = max(0, -(low // spread))
        last = min(size, max(first, -((low - full) // spread)))
        sizes.append(full)
        source.append(slice(first, last))
        target.append(slice(low + first * spread, low + (last - 1) * spread + 1 if last > first else 0, spread))
    result = np.zeros(sizes, x.dtype)
    result[tuple(target)] = x[tuple(source)]
    return result


def windows_of(x: Any, kernel: Shape, stride: Shape, dilation: Shape, positions: Shape) -> Any:
    """A view (*lead, *positions, *kernel) of the windows over the last axes of an array."""
    lead = x.ndim - len(kernel)
    over = x.strides[lead:]
    strides = (*x.strides[:lead], *(s * n for s, n in zip(over, stride)), *(s * n for s, n in zip(over, dilation)))
    return as_strided(x, (*x.shape[:lead], *positions, *kernel), strides, writeable=False)


def _convolve(
    x: Any, weight: Any, stride: Shape, padding: Pairs, input_dilation: Shape, dilation: Shape, groups: int
) -> Any:
    if all(step == 1 for step in stride) and any(spread > 1 for spread in input_dilation):
        return _by_folding(x, weight, padding, input_dilation, dilation, groups)
    return _by_unfolding(_spread_and_padded(x, padding, input_dilation), weight, stride, dilation, groups)


def _by_unfolding(x: Any, weight: Any, stride: Shape, dilation: Shape, groups: int) -> Any:
    """Unfold the input a block of the batch at a time, and multiply it with the weight as a matrix, group by group."""
    kernel, n = weight.shape[2:], len(stride)
    positions = tuple(
        max(0, (size - extent(k, d)) // s + 1) for size, k, s, d in zip(x.shape[2:], kernel, stride, dilation)
    )
    batch, outs, cells, taps = x.shape[0], weight.shape[0], math.prod(positions), math.prod(kernel)
    result = np.zeros((batch, groups, outs // groups, cells), x.dtype)
    if not (result.size and x.size and weight.size):
        return result.reshape(batch, outs, *positions)
    windows = windows_of(x, kernel, stride, dilation, positions)
    windows = windows.reshape(batch, groups, -1, *positions, *kernel) if groups > 1 else windows[:, None]
    matrices = weight.reshape(groups, outs // groups, -1)
    rows = matrices.shape[2]
    over, within = range(3, 3 + n), range(3 + n, 3 + 2 * n)
    block = max(1, _BLOCK // (x.shape[1] * taps * cells))
    for start in range(0, batch, block):
        part = windows[start : start + block]
        count = len(part)
        # the longer of the two goes last, so that unfolding copies long runs
        if cells >= taps:
            columns = part.transpose(0, 1, 2, *within, *over).reshape(count, groups, rows, cells)
            np.matmul(matrices, columns, out=result[start : start + block])
        else:
            columns = part.transpose(1, 0, *over, 2, *within).reshape(groups, count * cells, rows)
            product = np.matmul(columns, matrices.transpose(0, 2, 1)).reshape(groups, count, cells, -1)
            result[start : start + block] = product.transpose(1, 0, 3, 2)
    return result.reshape(batch, outs, *positions)


def _by_folding(x: Any, weight: Any, padding: Pairs, input_dilation: Shape, dilation: Shape, groups: int) -> Any:
    """Multiply first, then add each tap's product up where it belongs: the zeros of a spread-out input cost nothing."""
    batch, spatial = x.shape[0], x.shape[2:]
    outs, ins, *kernel = weight.shape
    cells, taps, each = math.prod(spatial), math.prod(kernel), outs // groups
    reach = tuple(extent(size, spread) for size, spread in zip(spatial, input_dilation))
    sizes = tuple(r + (k - 1) * d if r and k else 0 for r, k, d in zip(reach, kernel, dilation))
    total = np.zeros((batch, groups, each, *sizes), x.dtype)
    matrices = weight.reshape(groups, each, ins, taps).transpose(0, 3, 1, 2).reshape(groups, taps * each, ins)
    block = max(1, _BLOCK // max(1, outs * taps * cells))
    for start in range(0, batch if total.size and ins else 0, block):
        part = x[start : start + block].reshape(min(block, batch - start), groups, ins, cells)
        products = np.matmul(matrices, part).reshape(len(part), groups, taps, each, *spatial)
        for tap, place in enumerate(np.ndindex(*kernel)):
            starts = [(k - 1 - at) * d for k, at, d in zip(kernel, place, dilation)]
            where = tuple(slice(at, at + r, spread) for at, r, spread in zip(starts, reach, input_dilation))
            total[(slice(start, start + block), slice(None), slice(None), *where)] += products[:, :, tap]
    around = tuple((low - (k - 1) * d, high - (k - 1) * d) for (low, high), k, d in zip(padding, kernel, dilation))
    return _spread_and_padded(total.reshape(batch, outs, *sizes), around, (1,) * len(kernel))


# --- derivatives ----------------------------------------------------------------------------------------------------


def transposed_weight(weight: Node, groups: int) -> Node:
    """The weight with its input and output channels exchanged within each group, and its kernel the other way round."""
    outs, ins, *kernel = weight.shape
    grouped = reshape(weight, (groups, outs // groups, ins, *kernel))
    exchanged = reshape(moveaxis(grouped, 2, 1), (groups * ins, outs // groups, *kernel))
    return flip(exchanged, axis=tuple(range(2, weight.ndim)))


def _vjp_by_input(g: Node, y: Node, x: Node, weight: Node) -> Node:
    a = y.attrs
    padding = []
    for i, (low, _) in enumerate(a["padding"]):
        size, kernel = extent(x.shape[i + 2], a["input_dilation"][i]), extent(weight.shape[i + 2], a["dilation"][i])
        before = kernel - 1 - low
        padding.append((before, size + kernel - 1 - before - extent(g.shape[i + 2], a["stride"][i])))
    return CONVOLVE(
        g,
        transposed_weight(weight, a["groups"]),
        stride=a["input_dilation"],
        padding=tuple(padding),
        input_dilation=a["stride"],
        dilation=a["dilation"],
        groups=a["groups"],
    )


def _vjp_by_weight(g: Node, y: Node, x: Node, weight: Node) -> Node:
    a = y.attrs
    padding = []
    for i, (low, _) in enumerate(a["padding"]):
        size, kernel = extent(x.shape[i + 2], a["input_dilation"][i]), extent(weight.shape[i + 2], a["dilation"][i])
        padding.append((low, kernel - 1 + extent(g.shape[i + 2], a["stride"][i]) - size - low))
    batch, channels, *spatial = x.shape
    groups, ins = a["groups"], channels // a["groups"]
    grouped = moveaxis(reshape(x, (batch, groups, ins, *spatial)), (2, 1), (0, 1))
    product = CONVOLVE(
        reshape(grouped, (ins, groups * batch, *spatial)),
        moveaxis(g, 1, 0),
        stride=a["dilation"],
        padding=tuple(padding),
        input_dilation=a["input_dilation"],
        dilation=a["stride"],
        groups=groups,
    )
    return moveaxis(product, 1, 0)


def _batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    """Lanes go into the batch if only `x` has them, into output channels if only the weight has, else into groups."""
    x, weight = sources
    groups, outs, positions = y.attrs["groups"], y.shape[1], y.shape[2:]
    if not batched[1]:
        folded = CONVOLVE(reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:])), weight, **y.attrs)
        return reshape(folded, (x.shape[0], *y.shape))
    lanes, ins, kernel = weight.shape[0], weight.shape[2], weight.shape[3:]
    if not batched[0]:
        stacked = moveaxis(reshape(weight, (lanes, groups, outs // groups, ins, *kernel)), 0, 1)
        folded = CONVOLVE(x, reshape(stacked, (lanes * outs, ins, *kernel)), **y.attrs)
        apart = reshape(folded, (x.shape[0], groups, lanes, outs // groups, *positions))
        return reshape(moveaxis(apart, 2, 0), (lanes, *y.shape))
    side_by_side = reshape(moveaxis(x, 0, 1), (x.shape[1], lanes * x.shape[2], *x.shape[3:]))
    attrs = {**y.attrs, "groups": lanes * groups}
    folded = CONVOLVE(side_by_side, reshape(weight, (lanes * outs, ins, *kernel)), **attrs)
    return moveaxis(reshape(folded, (x.shape[1], lanes, outs, *positions)), 1, 0)


CONVOLVE = Op(
    "convolve",
    infer=_infer,
    numpy=_convolve,
    vjp=(_vjp_by_input, _vjp_by_weight),
    multilinear=(0, 1),
    batch=_batch,
    expensive=True,
)
