"""Convolution in any number of spatial dimensions: one form that is linear in three values, and three primitives.

    x (N, C, *sizes),  weight (O, C / groups, *kernel),  y (N, O, *positions)

    form(x, weight, y) = sum of y[n, o, p] * weight[o, c, t] * x[n, c, p * stride + t * dilation - low]

CONVOLVE(x, weight), CONVOLVE_INPUT(y, weight) and CONVOLVE_WEIGHT(x, y) are the coefficients of the third value in it:
the convolution, its transpose (which is `conv_transpose`), and the sum over positions. Each has the other two as its
derivatives. `x` is padded by (low, high) zeros along each axis, where a negative one crops.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from wengert.core.graph import Node, Shape
from wengert.ops.factors import Factors, Labels, Rule
from wengert.ops.facts import product_flops
from wengert.ops.movement import moveaxis, reshape
from wengert.ops.op import Op

Pairs = tuple[tuple[int, int], ...]

_BLOCK = 1 << 21  # elements made at a time: larger blocks leave the cache and gain nothing


def extent(size: int, dilation: int) -> int:
    """The extent of `size` elements that are `dilation` apart."""
    return (size - 1) * dilation + 1 if size else 0


# --- the reference --------------------------------------------------------------------------------------------------


def _padded(x: Any, padding: Pairs) -> Any:
    """`x` with zeros around its last axes, or cropped where the padding is negative."""
    if not any(low or high for low, high in padding):
        return x
    sizes, source, target = list(x.shape[:2]), [slice(None)] * 2, [slice(None)] * 2
    for size, (low, high) in zip(x.shape[2:], padding):
        full = max(0, size + low + high)
        first, last = max(0, -low), max(0, -low, min(size, full - low))
        sizes.append(full)
        source.append(slice(first, last))
        target.append(slice(low + first, low + last))
    result = np.zeros(sizes, x.dtype)
    result[tuple(target)] = x[tuple(source)]
    return result


def windows_of(x: Any, kernel: Shape, stride: Shape, dilation: Shape, positions: Shape) -> Any:
    """The windows over the last axes of an array, as a view (*lead, *positions, *kernel)."""
    lead = x.ndim - len(kernel)
    over = x.strides[lead:]
    strides = (*x.strides[:lead], *(s * n for s, n in zip(over, stride)), *(s * n for s, n in zip(over, dilation)))
    return as_strided(x, (*x.shape[:lead], *positions, *kernel), strides, writeable=False)


def _columns(
    x: Any,
    kernel: Shape,
    positions: Shape,
    stride: Shape,
    dilation: Shape,
    groups: int,
    cells_last: bool,
    made: int = 0,
) -> Iterator[tuple[slice, Any]]:
    """The unfolded input a block of the batch at a time: (images, groups, C / groups * taps, cells), or cells first.

    `made` is how many elements are made of each image.
    """
    n, batch, cells, taps = len(kernel), x.shape[0], math.prod(positions), math.prod(kernel)
    windows = windows_of(x, kernel, stride, dilation, positions)
    windows = windows.reshape(batch, groups, -1, *positions, *kernel) if groups > 1 else windows[:, None]
    rows = windows.shape[2] * taps
    over, within = range(3, 3 + n), range(3 + n, 3 + 2 * n)
    block = max(1, _BLOCK // max(made, x.shape[1] * taps * cells))
    for start in range(0, batch, block):
        part = windows[start : start + block]
        if cells_last:
            columns = part.transpose(0, 1, 2, *within, *over).reshape(len(part), groups, rows, cells)
        else:
            columns = part.transpose(1, 0, *over, 2, *within).reshape(groups, len(part) * cells, rows)
        yield slice(start, start + block), columns


def _positions(sizes: Shape, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Shape:
    room = [n + low + high - extent(k, d) for n, k, (low, high), d in zip(sizes, kernel, padding, dilation)]
    return tuple(max(0, r // s + 1) for r, s in zip(room, stride))


def _convolve(x: Any, weight: Any, stride: Shape, padding: Pairs, dilation: Shape, groups: int) -> Any:
    """Unfold the input, and multiply it with the weight as a matrix, group by group."""
    kernel = weight.shape[2:]
    positions = _positions(x.shape[2:], kernel, stride, padding, dilation)
    batch, outs, cells = x.shape[0], weight.shape[0], math.prod(positions)
    result = np.zeros((batch, groups, outs // groups, cells), x.dtype)
    if result.size and x.size and weight.size:
        matrices = weight.reshape(groups, outs // groups, -1)
        cells_last = cells >= math.prod(kernel)  # the longer goes last, so that unfolding copies long runs
        x = _padded(x, padding)
        for block, columns in _columns(x, kernel, positions, stride, dilation, groups, cells_last):
            if cells_last:
                np.matmul(matrices, columns, out=result[block])
            else:
                product = np.matmul(columns, matrices.transpose(0, 2, 1)).reshape(groups, -1, cells, outs // groups)
                result[block] = product.transpose(1, 0, 3, 2)
    return result.reshape(batch, outs, *positions)


def _convolve_input(
    y: Any, weight: Any, sizes: Shape, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Any:
    """Multiply with the weight first, then add each tap's product up where it belongs."""
    batch, positions = y.shape[0], y.shape[2:]
    outs, ins, *kernel = weight.shape
    cells, taps = math.prod(positions), math.prod(kernel)
    reach = tuple(extent(n, s) for n, s in zip(positions, stride))
    room = tuple(r + (k - 1) * d if r and k else 0 for r, k, d in zip(reach, kernel, dilation))
    total = np.zeros((batch, groups, ins, *room), y.dtype)
    matrices = weight.reshape(groups, outs // groups, ins, taps).transpose(0, 3, 2, 1).reshape(groups, taps * ins, -1)
    block = max(1, _BLOCK // max(1, groups * ins * taps * cells))
    for start in range(0, batch if total.size and outs else 0, block):
        part = y[start : start + block].reshape(min(block, batch - start), groups, outs // groups, cells)
        products = np.matmul(matrices, part).reshape(len(part), groups, taps, ins, *positions)
        for tap, place in enumerate(np.ndindex(*kernel)):
            where = tuple(slice(t * d, t * d + r, s) for t, d, r, s in zip(place, dilation, reach, stride))
            total[(slice(start, start + block), slice(None), slice(None), *where)] += products[:, :, tap]
    around = tuple((-low, n + low - r) for n, (low, _), r in zip(sizes, padding, room))
    return _padded(total.reshape(batch, groups * ins, *room), around)


def _convolve_weight(x: Any, y: Any, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape, groups: int) -> Any:
    """The cotangent's rows times the unfolded input's, added up over the batch."""
    batch, outs, *positions = y.shape
    ins, cells = x.shape[1] // groups, math.prod(positions)
    total = np.zeros((groups, outs // groups, ins * math.prod(kernel)), x.dtype)
    if total.size and y.size:
        rows = y.reshape(batch, groups, outs // groups, cells)
        x = _padded(x, padding)
        for block, columns in _columns(x, kernel, tuple(positions), stride, dilation, groups, True, total.size):
            total += np.matmul(rows[block], columns.transpose(0, 1, 3, 2)).sum(0)
    return total.reshape(outs, ins, *kernel)


# --- lanes ----------------------------------------------------------------------------------------------------------

_Lanes = tuple[int, bool]  # an axis to hold lanes, and whether they go inside each of its groups or around them all
_IMAGES: _Lanes = (0, False)
_CHANNELS: _Lanes = (1, True)  # of x and y
_OUTS: _Lanes = (0, True)  # of the weight
_INS: _Lanes = (1, False)


def _into(x: Node, where: _Lanes, groups: int) -> Node:
    """`x` with its lanes made part of another axis."""
    axis, inside = where
    front, size, back = x.shape[1 : axis + 1], x.shape[axis + 1], x.shape[axis + 2 :]
    blocks = groups if inside else 1
    apart = reshape(x, (x.shape[0], *front, blocks, size // blocks, *back))
    return reshape(moveaxis(apart, 0, axis + 1), (*front, x.shape[0] * size, *back))


def _out_of(x: Node, where: _Lanes, groups: int, lanes: int) -> Node:
    """The inverse of `_into`."""
    axis, inside = where
    front, size, back = x.shape[:axis], x.shape[axis] // lanes, x.shape[axis + 1 :]
    blocks = groups if inside else 1
    apart = reshape(x, (*front, blocks, lanes, size // blocks, *back))
    return reshape(moveaxis(apart, axis + 1, 0), (lanes, *front, size, *back))


def _batch(first: tuple[_Lanes, _Lanes], second: tuple[_Lanes, _Lanes], both: tuple[int, int, int]) -> Any:
    """The batching rule. Lanes of one source go into an axis of it and come out of one of the result; lanes of both
    become groups, side by side on the axes `both`."""

    def batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
        groups = y.attrs["groups"]
        if all(batched):
            lanes = sources[0].shape[0]
            parts = [_into(source, (axis, False), 1) for source, axis in zip(sources, both)]
            return _out_of(y.op(*parts, **{**y.attrs, "groups": lanes * groups}), (both[2], False), 1, lanes)
        which = list(batched).index(True)
        into, out_of = (first, second)[which]
        parts = list(sources)
        parts[which] = _into(sources[which], into, groups)
        return _out_of(y.op(*parts, **y.attrs), out_of, groups, sources[which].shape[0])

    return batch


# --- cuts -----------------------------------------------------------------------------------------------------------


def _labels(node: Node) -> dict[str, Labels]:
    """The factors of the three values of the form. Groups are cut as such: their channels belong together."""
    if node.attrs["groups"] == 1:
        first: dict[str, Labels] = {"x": ("batch", "in"), "weight": ("out", "in"), "y": ("batch", "out")}
    else:
        first = {"x": ("batch", "group"), "weight": ("group", None), "y": ("batch", "group")}
    spatial = (None,) * len(node.attrs["stride"])
    return {name: (*labels, *spatial) for name, labels in first.items()}


def _localized(node: Node, factor: Hashable, n: int) -> dict[str, Any]:
    groups = node.attrs["groups"]
    return {**node.attrs, "groups": groups // n if factor == "group" else groups}


def _factors(*values: str) -> Rule:
    """The rule of a primitive: which two of the values it takes, and which it gives. What both have is summed over."""

    def rule(node: Node) -> Factors:
        first, second, result = (_labels(node)[name] for name in values)
        return Factors(
            (first, second),
            (result,),
            {label: "sum" for label in first if label is not None and label not in result},
            _localized,
            {"group": node.attrs["groups"]},
            ordered=True,
        )

    return rule


# --- the primitives -------------------------------------------------------------------------------------------------


def _form(y: Node) -> dict[str, Any]:
    """The attributes that the three have in common."""
    return {key: y.attrs[key] for key in ("stride", "padding", "dilation", "groups")}


def _by_x(y: Node, weight: Node, like: Node, form: dict[str, Any]) -> Node:
    return CONVOLVE_INPUT(y, weight, sizes=like.shape[2:], **form)


def _by_weight(x: Node, y: Node, like: Node, form: dict[str, Any]) -> Node:
    return CONVOLVE_WEIGHT(x, y, kernel=like.shape[2:], **form)


def _infer(x: Node, weight: Node, stride: Shape, padding: Pairs, dilation: Shape, groups: int) -> tuple[Any, Any]:
    return (x.shape[0], weight.shape[0], *_positions(x.shape[2:], weight.shape[2:], stride, padding, dilation)), x.dtype


CONVOLVE: Op = Op(
    "convolve",
    infer=_infer,
    numpy=_convolve,
    vjp=(
        lambda g, y, x, weight: _by_x(g, weight, x, _form(y)),
        lambda g, y, x, weight: _by_weight(x, g, weight, _form(y)),
    ),
    multilinear=(0, 1),
    batch=_batch((_IMAGES, _IMAGES), (_OUTS, _CHANNELS), (1, 0, 1)),
    expensive=True,
    precision="low",
    can_fail=False,
    factors=_factors("x", "weight", "y"),
    flops=lambda node: product_flops(node.size, node.sources[1].shape[1:]),
)
CONVOLVE_INPUT: Op = Op(
    "convolve_input",
    infer=lambda y, weight, sizes, groups, **form: ((y.shape[0], weight.shape[1] * groups, *sizes), y.dtype),
    numpy=_convolve_input,
    vjp=(
        lambda g, x, y, weight: CONVOLVE(g, weight, **_form(x)),
        lambda g, x, y, weight: _by_weight(g, y, weight, _form(x)),
    ),
    multilinear=(0, 1),
    batch=_batch((_IMAGES, _IMAGES), (_INS, _CHANNELS), (1, 0, 1)),
    expensive=True,
    can_fail=False,
    factors=_factors("y", "weight", "x"),
    flops=lambda node: product_flops(node.sources[0].size, node.sources[1].shape[1:]),
)
CONVOLVE_WEIGHT: Op = Op(
    "convolve_weight",
    infer=lambda x, y, kernel, groups, **form: ((y.shape[1], x.shape[1] // groups, *kernel), x.dtype),
    numpy=_convolve_weight,
    vjp=(
        lambda g, w, x, y: _by_x(y, g, x, _form(w)),
        lambda g, w, x, y: CONVOLVE(x, g, **_form(w)),
    ),
    multilinear=(0, 1),
    batch=_batch((_CHANNELS, _INS), (_CHANNELS, _OUTS), (1, 1, 0)),
    expensive=True,
    can_fail=False,
    factors=_factors("x", "y", "weight"),
    flops=lambda node: product_flops(node.sources[1].size, node.shape[1:]),
)
