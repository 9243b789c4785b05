"""Questions about each element: which are NaN, infinite, real, close to another, among others."""

from __future__ import annotations

import math
from typing import Any

from wengert.core.dtypes import COMPLEX, FLOATING, INEXACT, bool_, float64
from wengert.core.graph import Node
from wengert.ops import comparison as c
from wengert.ops import elementwise as e
from wengert.ops import formulas as f
from wengert.ops import statistics
from wengert.ops.core import cast, literal, operand
from wengert.ops.movement import broadcast_to
from wengert.torch import dtypes
from wengert.torch.arguments import over_nodes, require_one
from wengert.torch.floats import require_real
from wengert.torch.registry import torch_function


@torch_function()
@over_nodes()
def isnan(input: Node) -> Node:
    """Which elements are NaN."""
    return c.isnan(input)


@torch_function()
@over_nodes()
def isinf(input: Node) -> Node:
    """Which elements are infinite."""
    return c.isinf(input)


@torch_function()
@over_nodes()
def isfinite(input: Node) -> Node:
    """Which elements are neither infinite nor NaN."""
    return c.isfinite(input)


@torch_function(out=True)
@over_nodes()
def isposinf(input: Node) -> Node:
    """Which elements are positive infinity."""
    require_real("isposinf", input)
    return c.equal(input, math.inf) if input.dtype in INEXACT else broadcast_to(literal(False, bool_), input.shape)


@torch_function(out=True)
@over_nodes()
def isneginf(input: Node) -> Node:
    """Which elements are negative infinity."""
    require_real("isneginf", input)
    return c.equal(input, -math.inf) if input.dtype in INEXACT else broadcast_to(literal(False, bool_), input.shape)


@torch_function()
@over_nodes()
def isreal(input: Node) -> Node:
    """Which elements have no imaginary part."""
    return c.equal(e.imag(input), 0) if input.dtype in COMPLEX else broadcast_to(literal(True, bool_), input.shape)


@torch_function(out=True)
@over_nodes()
def signbit(input: Node) -> Node:
    """Which elements have their sign bit set."""
    require_real("signbit", input)
    if input.dtype in FLOATING:
        return c.signbit(input)
    return c.less(input, 0) if input.dtype is not bool_ else broadcast_to(literal(False, bool_), input.shape)


@torch_function()
@over_nodes()
def isclose(input: Node, other: Node, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Node:
    """Where `|input - other| <= atol + rtol * |other|`."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{dtypes.scalar_name(input.dtype)} did not match {dtypes.scalar_name(other.dtype)}")
    if input.dtype not in INEXACT and input.dtype is not bool_:
        a, b = cast(input, float64), cast(other, float64)
        return c.less_equal(e.absolute(a - b), atol + e.absolute(b) * rtol)
    if input.dtype in COMPLEX:
        near = c.less_equal(e.absolute(input - other), atol + e.absolute(other) * rtol)
        same = c.logical_or(c.equal(input, other), c.logical_and(near, c.isfinite(input - other)))
        return c.logical_or(same, c.logical_and(c.isnan(input), c.isnan(other))) if equal_nan else same
    return f.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


@torch_function(method=False)
@over_nodes()
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Node:
    """Which elements are among others; with `invert`, which are not."""
    require_one("isin", elements, test_elements)
    a, b = (v if isinstance(v, Node) else operand(v, None) for v in (elements, test_elements))
    meet = dtypes.meet(a, b)
    return statistics.isin(cast(a, meet), cast(b, meet), invert=invert)
