"""Sampling images and volumes at the coordinates in a grid, with derivatives with respect to the values and the
coordinates.

A coordinate is in [-1, 1] along each axis, x first. It is mapped to element positions and clipped according to
`padding_mode`; the neighbours are read at once, through flat indices into each image, and weighted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import int64
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.addressing import GATHER
from wengert.ops.conv import per_axis
from wengert.ops.core import as_node, cast, data, require_floating, stop_gradient
from wengert.ops.elementwise import absolute, equal, floor, greater_equal, less_equal, logical_and, remainder, where
from wengert.ops.elementwise import round as rounded
from wengert.ops.interpolate import cubic_weights
from wengert.ops.linalg import matmul
from wengert.ops.movement import expand_dims, matrix_transpose, moveaxis, reshape, slice_axis

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
Coordinate = Callable[[Node, int], Node]


def grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Node:
    """Sample `x` (N, C, H, W) at the coordinates in `grid` (N, Ho, Wo, 2), as (N, C, Ho, Wo); volumes have one more
    axis.

    The last axis of the grid is a coordinate (x, y) from -1 to 1; with `align_corners` these are the centres of the
    corner elements, without it their outer edges. `mode` is "bilinear" (also for volumes), "nearest" or "bicubic".
    `padding_mode` gives the values outside: "zeros", "border" (the nearest element), or "reflection" (the image
    mirrored).

    >>> import wengert as wg
    >>> image = wg.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> wg.grid_sample(image, wg.tensor([[[[0.0, 0.0]]]]), align_corners=True).tolist()
    [[[[2.5]]]]
    """
    x, grid = as_node(x), as_node(grid)
    sizes = _checked(x, grid, mode, padding_mode)
    aligned = bool(align_corners)
    places = [_unnormalized(_component(grid, len(sizes) - 1 - axis), n, aligned) for axis, n in enumerate(sizes)]
    inside = _kept(padding_mode, aligned)
    read = _Reader(x, grid.shape[1:-1])
    if mode == "bicubic":
        return _by_cubics(read, places, sizes, inside)
    places = [inside(place, n) for place, n in zip(places, sizes)]
    if mode == "nearest":
        return read.result(read([rounded(stop_gradient(place)) for place in places]))
    return _by_corners(read, places)


def _checked(x: Node, grid: Node, mode: str, padding_mode: str) -> Shape:
    require_floating("grid_sample", x, grid)
    axes = x.ndim - 2
    if axes not in (2, 3) or grid.ndim != x.ndim or grid.shape[-1] != axes or grid.shape[0] != x.shape[0]:
        raise ShapeError(
            "grid_sample: the input must be (N, C, H, W) and the grid (N, Ho, Wo, 2), or (N, C, D, H, W) and "
            f"(N, Do, Ho, Wo, 3); their shapes are {x.shape} and {grid.shape}"
        )
    if 0 in x.shape[2:]:
        raise ShapeError(f"grid_sample: shape {x.shape} has no elements to sample")
    if mode not in MODES or padding_mode not in PADDINGS:
        raise ArgumentError(
            f"grid_sample: mode must be one of {', '.join(MODES)} and padding_mode one of {', '.join(PADDINGS)}; they "
            "are "
            f"{mode!r} and {padding_mode!r}"
        )
    if mode == "bicubic" and axes == 3:
        raise ShapeError(f'grid_sample: mode "bicubic" takes images, (N, C, H, W); the shape is {x.shape}')
    return x.shape[2:]


# --- places ---------------------------------------------------------------------------------------------------------


def _component(grid: Node, index: int) -> Node:
    """One coordinate of every place, as (N, places)."""
    return reshape(slice_axis(grid, grid.ndim - 1, index, index + 1), (grid.shape[0], math.prod(grid.shape[1:-1])))


def _unnormalized(place: Node, size: int, aligned: bool) -> Node:
    return (place + 1) * ((size - 1) / 2) if aligned else ((place + 1) * size - 1) / 2


def _kept(padding_mode: str, aligned: bool) -> Coordinate:
    """What keeps a place inside an axis; zeros are for the reader, which knows what is outside."""
    if padding_mode == "zeros":
        return lambda place, size: place
    if padding_mode == "border":
        return _clipped
    return lambda place, size: _clipped(_reflected(place, size, aligned), size)


def _clipped(place: Node, size: int) -> Node:
    """Held between the first and the last element; the derivative is 0 from there on."""
    return where(less_equal(place, 0), 0, where(greater_equal(place, size - 1), size - 1, place))


def _reflected(place: Node, size: int, aligned: bool) -> Node:
    """Mirrored at the centres of the outer elements, or at their edges."""
    low, span = (0.0, float(size - 1)) if aligned else (-0.5, float(size))
    if not span:
        return place * 0.0
    away = absolute(place - low)
    extra, flips = remainder(away, span), floor(away / span)
    return where(equal(remainder(flips, 2.0), 0), extra + low, span + low - extra)


# --- elements -------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads elements of each image at whole places, given along each axis as (N, places): (N, places, C)."""

    def __init__(self, x: Node, shape: Shape) -> None:
        self.sizes, self.shape = x.shape[2:], shape
        self.values = moveaxis(reshape(x, (*x.shape[:2], math.prod(self.sizes))), 1, 2)
        self.samples = data(np.arange(x.shape[0]).reshape(-1, 1), x.device)

    def __call__(self, places: Sequence[Node], weight: Node | None = None) -> Node:
        """The elements, times their weights; 0 for those that are outside."""
        there: Any = None
        flat: Any = 0
        for place, size in zip(places, self.sizes):
            within = logical_and(greater_equal(place, 0), less_equal(place, size - 1))
            there = within if there is None else logical_and(there, within)
            flat = flat * size + cast(where(within, place, 0), int64)
        found = GATHER(self.values, self.samples, where(there, flat, 0), axis=0)
        if weight is not None:
            found = found * expand_dims(weight, axis=-1)
        return where(expand_dims(there, axis=-1), found, 0)

    def result(self, found: Node) -> Node:
        """What was read, as (N, C, *places)."""
        channels_first = moveaxis(found, 2, 1)
        return reshape(channels_first, (*channels_first.shape[:2], *self.shape))


def _by_corners(read: _Reader, places: Sequence[Node]) -> Node:
    """The mean of the neighbours at the corners of the cell that a place is in, weighted by how near they are."""
    low = [floor(stop_gradient(place)) for place in places]
    total: Any = 0.0
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight: Any = 1.0
        for up, place, first in zip(corner, places, low):
            weight = (place - first if up else first + 1 - place) * weight
        total = read([first + up for up, first in zip(corner, low)], weight) + total
    return read.result(total)


def _by_cubics(read: _Reader, places: Sequence[Node], sizes: Shape, inside: Coordinate) -> Node:
    """A cubic through four neighbours along each axis; of the neighbours each is kept inside by itself."""
    low = [floor(stop_gradient(place)) for place in places]
    weights = [cubic_weights(place - first) for place, first in zip(places, low)]
    total: Any = 0.0
    for down, across in itertools.product(range(4), repeat=2):
        at = [inside(first + k - 1, n) for first, k, n in zip(low, (down, across), sizes)]
        total = read(at, weights[0][down] * weights[1][across]) + total
    return read.result(total)


# --- grids ----------------------------------------------------------------------------------------------------------


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Node:
    """The grid for `grid_sample` that maps each position in an output of this size by an affine matrix.

    `theta` is (N, 2, 3) and `size` (N, C, H, W), or (N, 3, 4) and (N, C, D, H, W) for volumes.

    >>> import wengert as wg
    >>> wg.affine_grid(wg.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), align_corners=True).tolist()
    [[[[-1.0, 0.0], [1.0, 0.0]]]]
    """
    theta = as_node(theta)
    require_floating("affine_grid", theta)
    sizes = per_axis(tuple(size), len(tuple(size)), "affine_grid", "size")
    axes = len(sizes) - 2
    if axes not in (2, 3) or theta.shape != (sizes[0], axes, axes + 1):
        raise ShapeError(
            "affine_grid: theta must be (N, 2, 3) for a size (N, C, H, W) or (N, 3, 4) for (N, C, D, H, W); its "
            "shape is "
            f"{theta.shape}, and the size {sizes}"
        )
    spans = [_centres(n, bool(align_corners)) for n in sizes[2:]]
    grids = np.meshgrid(*spans, indexing="ij")
    base = np.stack([*reversed(grids), np.ones(sizes[2:])], axis=-1).reshape(-1, axes + 1)
    places = matmul(data(base.astype(theta.dtype), theta.device), matrix_transpose(theta))
    return reshape(places, (sizes[0], *sizes[2:], axes))


def _centres(count: int, aligned: bool) -> Any:
    if count == 1:
        return np.zeros(1)
    ends = np.linspace(-1, 1, count)
    return ends if aligned else ends * (count - 1) / count
