"""Functions element by element that are formulas: special cases, remainders, roundings, questions, powers.

Those that are one op are in `pointwise`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, FLOATING, INEXACT, bool_, complex128, float64, int32
from wengert.core.graph import Node
from wengert.ops import comparison as c
from wengert.ops import elementwise as e
from wengert.ops import exponential as x_
from wengert.ops import formulas as f
from wengert.ops.complex import angle as angle_of
from wengert.ops.core import Weak, cast, literal, operand, stop_gradient
from wengert.ops.creation import lerp as line
from wengert.ops.movement import broadcast_to
from wengert.ops.recorders import broadcast_shapes
from wengert.ops.special import lgamma
from wengert.ops.special import polygamma as _polygamma
from wengert.torch import dtypes, return_types
from wengert.torch.arguments import in_floats, int_of, over_nodes, require_one
from wengert.torch.pointwise import held
from wengert.torch.registry import torch_function
from wengert.torch.tensor import node_of, together


def _pair(a: Any, b: Any, floats: bool = False) -> tuple[Any, Any]:
    """Two operands, tensors or numbers, as nodes in the dtype in which they meet; integers as floats if asked for."""
    a, b = (v if isinstance(v, (Node, Weak)) else node_of(v) for v in (a, b))
    a, b = together(a, b)
    like = a if isinstance(a, Node) else b
    kind = like.dtype if not floats or like.dtype in INEXACT else dtypes.default()
    return _in(a, kind), _in(b, kind)


def _in(value: Any, dtype: np.dtype[Any]) -> Node:
    return cast(value, dtype) if isinstance(value, Node) else operand(value, dtype)


def require_real(name: str, *nodes: Node) -> None:
    """Raise an error if one of the values is complex."""
    for node in nodes:
        if node.dtype in COMPLEX:
            raise RuntimeError(f"{name} does not support complex inputs.")


# --- of one tensor --------------------------------------------------------------------------------------------------


@torch_function(in_place=True, out=True)
@over_nodes("full")
def exp2(input: Node) -> Node:
    """2 to the power of each element."""
    return f.exp2(in_floats(input))


@torch_function(in_place=True, out=True)
@over_nodes("full")
def rsqrt(input: Node) -> Node:
    """One over the square root."""
    return f.rsqrt(in_floats(input))


@torch_function(in_place=True, out=True)
@over_nodes()
def frac(input: Node) -> Node:
    """The fractional part, with the sign of the number."""
    if input.dtype not in FLOATING:
        raise NotImplementedError(f'"frac" not implemented for {dtypes.of(input.dtype).name!r}')
    return input - e.trunc(input)


@torch_function(in_place=True, out=True)
@over_nodes()
def round_(input: Node, *, decimals: int = 0) -> Node:
    """The nearest integer, or number with this many decimals; ties round to even."""
    if decimals and input.dtype not in FLOATING:
        raise NotImplementedError(f'"round_decimals" not implemented for {dtypes.of(input.dtype).name!r}')
    return f.round(input, decimals=decimals)


@torch_function(in_place=True, out=True)
@over_nodes()
def deg2rad(input: Node) -> Node:
    """Degrees as radians."""
    return in_floats(input) * (math.pi / 180)


@torch_function(in_place=True, out=True)
@over_nodes()
def rad2deg(input: Node) -> Node:
    """Radians as degrees."""
    return in_floats(input) * (180 / math.pi)


@torch_function(in_place=True, out=True)
@over_nodes("full")
def logit(input: Node, eps: float | None = None) -> Node:
    """`log(input / (1 - input))`; with `eps`, the input is first clipped to between `eps` and `1 - eps`."""
    return f.logit(in_floats(input), eps=eps)


@torch_function(in_place=True, out=True)
@over_nodes("full")
def sinc(input: Node) -> Node:
    """`sin(pi x) / (pi x)`, and 1 at 0."""
    return f.sinc(in_floats(input))


@torch_function(in_place=True, out=True)
@over_nodes()
def nan_to_num(input: Node, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Node:
    """Replace NaN and the infinities by numbers."""
    if input.dtype in COMPLEX:
        parts = [f.nan_to_num(part(input), nan or 0.0, posinf, neginf) for part in (e.real, e.imag)]
        return cast(parts[0], input.dtype) + cast(parts[1], input.dtype) * literal(1j, input.dtype)
    return f.nan_to_num(input, 0.0 if nan is None else nan, posinf, neginf)


@torch_function()
@over_nodes()
def positive(input: Node) -> Node:
    """The tensor as it is."""
    if input.dtype is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@torch_function("conj_physical", in_place=True)
@over_nodes()
def conj(input: Node) -> Node:
    """The complex conjugate."""
    return e.conj(input) if input.dtype in COMPLEX else input


@torch_function(out=True)
@over_nodes()
def angle(input: Node) -> Node:
    """The angle of complex numbers; 0 or pi for real ones."""
    return angle_of(in_floats(input))


@torch_function(in_place=True)
@over_nodes("full")
def mvlgamma(input: Node, p: int) -> Node:
    """The logarithm of the multivariate gamma function of dimension `p`."""
    x, count = in_floats(input), int_of(p)
    if count < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    total = literal(count * (count - 1) / 4 * math.log(math.pi), x.dtype)
    for j in range(count):
        total = total + lgamma.record(x - j / 2)
    return total


@torch_function(method=False)
@over_nodes("full")
def polygamma(n: int, input: Node) -> Node:
    """The `n`-th derivative of the digamma function."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return _polygamma(n, in_floats(input))


@torch_function()
@over_nodes()
def frexp(input: Node) -> Any:
    """The mantissa, from 0.5 to below 1, and the exponent of 2 that make up each number."""
    if input.dtype not in FLOATING:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    fixed = stop_gradient(input)
    size = e.absolute(fixed)
    plain = c.logical_and(c.isfinite(size), c.greater(size, 0))
    wide = cast(c.where(plain, size, 1.0), float64)
    power = e.floor(x_.log2(wide)) + 1
    rest = wide / e.pow(2.0, power)  # the logarithm is rounded
    power = power + cast(c.greater_equal(rest, 1.0), float64) - cast(c.less(rest, 0.5), float64)
    scale = c.where(plain, e.pow(2.0, power), 1.0)
    return return_types.frexp(input / cast(scale, input.dtype), cast(c.where(plain, power, 0.0), int32))


# --- of two ---------------------------------------------------------------------------------------------------------


@torch_function(in_place=True, out=True)
@over_nodes()
def fmod(input: Node, other: Any) -> Node:
    """The remainder of a quotient rounded towards 0: it has the sign of `input`."""
    a, b = _pair(input, other)
    require_real("fmod", a, b)
    if a.dtype not in INEXACT:
        return f.fmod(a, b)
    left = f.fmod(stop_gradient(a), stop_gradient(b))
    if not (a.tracked or b.tracked):
        return left
    return left + (a - stop_gradient(a)) - (b - stop_gradient(b)) * e.trunc(stop_gradient(a) / stop_gradient(b))


@torch_function(out=True)
@over_nodes()
def fmax(input: Node, other: Node) -> Node:
    """The larger of the two; if one is NaN, the other."""
    return f.fmax(*_pair(input, other))


@torch_function(out=True)
@over_nodes()
def fmin(input: Node, other: Node) -> Node:
    """The smaller of the two; if one is NaN, the other."""
    return f.fmin(*_pair(input, other))


@torch_function(in_place=True, out=True)
@over_nodes()
def copysign(input: Node, other: Any) -> Node:
    """The absolute value of the first with the sign of the second."""
    a, b = _pair(input, other, floats=True)
    return e.copysign.record(a, b)


@torch_function(in_place=True, out=True)
@over_nodes()
def heaviside(input: Node, values: Node) -> Node:
    """0 for negative numbers, 1 for positive ones, and `values` at 0."""
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    require_real("heaviside", input)
    step = cast(c.greater(input, 0), input.dtype)
    return c.where(c.equal(input, 0), stop_gradient(values), step)


@torch_function(in_place=True, out=True)
@over_nodes("full")
def xlogy(input: Any, other: Any) -> Node:
    """`input * log(other)`, and 0 where `input` is 0."""
    require_one("xlogy", input, other)
    return f.xlogy(*_pair(input, other, floats=True))


@torch_function(in_place=True, out=True)
@over_nodes()
def float_power(input: Any, exponent: Any) -> Node:
    """A power computed in double precision."""
    require_one("float_power", input, exponent)
    a, b = _pair(input, exponent)
    wide = complex128 if a.dtype in COMPLEX or b.dtype in COMPLEX else float64
    return e.pow(cast(a, wide), cast(b, wide))


@torch_function(in_place=True, out=True)
@over_nodes("full")
def ldexp(input: Node, other: Node) -> Node:
    """`input * 2 ** other`."""
    return e.multiply.record(*together(in_floats(input), e.pow(2.0, in_floats(other))))


@torch_function(out=True)
@over_nodes("full")
def logaddexp2(input: Node, other: Node) -> Node:
    """`log2(2**input + 2**other)`, without overflow."""
    return x_.logaddexp2.record(*_pair(input, other, floats=True))


@torch_function(in_place=True, out=True)
@over_nodes()
def gcd(input: Node, other: Node) -> Node:
    """The greatest common divisor."""
    a, b = _pair(input, other)
    if a.dtype in INEXACT or a.dtype is bool_:
        raise NotImplementedError(f'"gcd_cpu" not implemented for {dtypes.of(a.dtype).name!r}')
    return _euclid(e.absolute(a), e.absolute(b))


def _euclid(a: Node, b: Node) -> Node:
    """Euclid's algorithm for all at once, in as many steps as the largest numbers of the dtype can take."""
    a, b = (broadcast_to(v, broadcast_shapes("gcd", a.shape, b.shape)) for v in (a, b))
    for _ in range({1: 12, 2: 24, 4: 46, 8: 92}[a.dtype.itemsize]):
        done = c.equal(b, 0)
        a, b = c.where(done, a, b), c.where(done, b, e.remainder(a, c.where(done, 1, b)))
    return a


@torch_function(in_place=True, out=True)
@over_nodes()
def lcm(input: Node, other: Node) -> Node:
    """The least common multiple."""
    a, b = _pair(input, other)
    if a.dtype in INEXACT or a.dtype is bool_:
        raise NotImplementedError(f'"lcm_cpu" not implemented for {dtypes.of(a.dtype).name!r}')
    common = _euclid(e.absolute(a), e.absolute(b))
    zero = c.equal(common, 0)
    return e.absolute(c.where(zero, 0, e.floor_divide(a, c.where(zero, 1, common)) * b))


@torch_function()
@over_nodes()
def rsub(input: Node, other: Any, *, alpha: Any = 1) -> Node:
    """`other - alpha * input`."""
    a, b = _pair(input, other)
    return e.subtract(b, a if alpha == 1 else a * alpha)


# --- of three -------------------------------------------------------------------------------------------------------


@torch_function(in_place=True, out=True)
@over_nodes()
def lerp(input: Node, end: Node, weight: Any) -> Node:
    """Linear interpolation from `input` (weight 0) to `end` (weight 1)."""
    if input.dtype is not end.dtype:
        raise RuntimeError(f"expected dtype {dtypes.of(input.dtype).name} for `end`")
    return line(input, end, weight)


@torch_function(in_place=True, out=True)
@over_nodes()
def addcmul(input: Node, tensor1: Node, tensor2: Node, *, value: Any = 1) -> Node:
    """`input + value * tensor1 * tensor2`."""
    a, b = together(tensor1, tensor2)
    product = e.multiply(a, b)
    return e.add.record(*together(input, product if value is True or value == 1 else _scaled(product, value)))


@torch_function(in_place=True, out=True)
@over_nodes()
def addcdiv(input: Node, tensor1: Node, tensor2: Node, *, value: Any = 1) -> Node:
    """`input + value * tensor1 / tensor2`."""
    a, b = together(tensor1, tensor2)
    if a.dtype not in INEXACT:
        raise RuntimeError("Integer division with addcdiv is no longer supported")
    quotient = e.divide(a, b)
    return e.add.record(*together(input, quotient if value == 1 else _scaled(quotient, value)))


def _scaled(x: Node, value: Any) -> Node:
    a, b = together(x, value if isinstance(value, Node) else node_of(value))
    return e.multiply(a, b)


@torch_function(in_place=True, out=True)
@over_nodes()
def clamp_min(input: Node, min: Any) -> Node:
    """`input` with elements below `min` set to it."""
    return held(c.maximum, "min", *together(input, min if isinstance(min, Node) else node_of(min)))


@torch_function(in_place=True, out=True)
@over_nodes()
def clamp_max(input: Node, max: Any) -> Node:
    """`input` with elements above `max` set to it."""
    return held(c.minimum, "max", *together(input, max if isinstance(max, Node) else node_of(max)))
