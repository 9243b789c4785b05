"""Differences of neighbours, slopes and integrals along an axis."""

from __future__ import annotations

from typing import Any

from wengert.core.dtypes import INEXACT
from wengert.core.graph import Node
from wengert.ops import statistics as st
from wengert.ops.core import cast
from wengert.ops.movement import concat, reshape, slice_axis
from wengert.ops.running import diff as differences
from wengert.torch import dtypes
from wengert.torch.arguments import axes_of, in_floats, over_nodes
from wengert.torch.registry import torch_function
from wengert.torch.tensor import together


@torch_function(out=True)
@over_nodes()
def diff(input: Node, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Node:
    """The differences of neighbours along an axis, taken `n` times."""
    if not input.shape:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    axis = axes_of(dim, input)[0]
    given = [input, *[x for x in (prepend, append) if isinstance(x, Node)]]
    meet = dtypes.promote_all(*given)
    ends = [cast(x, meet) if isinstance(x, Node) else x for x in (prepend, append)]
    whole = cast(input, meet)
    return differences(whole, axis=axis, n=n, prepend=ends[0], append=ends[1])


@torch_function("trapz", method=False)
@over_nodes("full")
def trapezoid(y: Node, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Node:
    """The integral along an axis by the trapezoidal rule."""
    y, x = _with_places(y, x)
    return st.trapezoid(y, x, dx=dx, axis=dim)


@torch_function(method=False)
@over_nodes("full")
def cumulative_trapezoid(y: Node, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Node:
    """The integral up to each element along an axis by the trapezoidal rule."""
    y, x = _with_places(y, x)
    return st.cumulative_trapezoid(y, x, dx=dx, axis=dim)


def _with_places(y: Node, x: Any) -> tuple[Node, Any]:
    y = in_floats(y)
    if not isinstance(x, Node):
        return y, x
    a, b = together(y, in_floats(x))
    return a, b


@torch_function(method=False)
@over_nodes("full")
def gradient(input: Node, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    """The gradient along each axis by central differences; one-sided at the ends."""
    if edge_order not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and edge_order=2. Got: {edge_order}")
    x = input if input.dtype in INEXACT else in_floats(input)
    axes, spacing = axes_of(dim, x), 1 if spacing is None else spacing
    steps = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(axes)
    if len(steps) != len(axes):
        raise RuntimeError(f"torch.gradient expected spacing for {len(axes)} axes, not {len(steps)}")
    for axis in axes:
        if x.shape[axis] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(_slope(x, axis, step, edge_order) for axis, step in zip(axes, steps))


def _slope(x: Node, axis: int, step: Any, edge_order: int) -> Node:
    n = x.shape[axis]
    if isinstance(step, Node) and step.shape:
        places = reshape(cast(step, x.dtype), tuple(-1 if i == axis else 1 for i in range(len(x.shape))))
        width = differences(places, axis=axis)
    else:
        width = None
    rise = differences(x, axis=axis)
    if width is None:
        slopes = rise / (step if isinstance(step, (int, float)) else cast(step, x.dtype))
        before, after = slice_axis(slopes, axis, 0, n - 2), slice_axis(slopes, axis, 1, n - 1)
        inner = (before + after) / 2
    else:
        slopes = rise / width
        first, second = slice_axis(width, axis, 0, n - 2), slice_axis(width, axis, 1, n - 1)
        before, after = slice_axis(slopes, axis, 0, n - 2), slice_axis(slopes, axis, 1, n - 1)
        inner = (before * second + after * first) / (first + second)
    return concat(
        [_end(slopes, width, axis, edge_order, 0), inner, _end(slopes, width, axis, edge_order, -1)], axis=axis
    )


def _end(slopes: Node, width: Node | None, axis: int, edge_order: int, side: int) -> Node:
    """The slope at an end: that of the last piece, or of the parabola through the last three elements."""
    n = slopes.shape[axis]
    last, next_to = (0, 1) if side == 0 else (n - 1, n - 2)
    slope = slice_axis(slopes, axis, last, last + 1)
    if edge_order == 1:
        return slope
    other = slice_axis(slopes, axis, next_to, next_to + 1)
    if width is None:
        return slope * 1.5 - other * 0.5
    a, b = slice_axis(width, axis, last, last + 1), slice_axis(width, axis, next_to, next_to + 1)
    return slope + (slope - other) * a / (a + b)
