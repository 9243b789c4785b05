"""Activations: compositions of elementwise ops and reductions, each in the form that neither overflows nor cancels.

At a kink the derivative is that of the flat side: relu'(0) = 0. NaN goes through.
"""

from __future__ import annotations

import math
from typing import Any

from wengert.core.dtypes import HALF, INEXACT, default_float, float32
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node
from wengert.ops.core import as_node, cast, require_floating, stop_gradient
from wengert.ops.elementwise import (
    absolute,
    exp,
    expm1,
    gelu_sigmoid,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    log,
    logaddexp,
    logical_and,
    reciprocal,
    sigmoid,
    tanh,
    where,
)
from wengert.ops.movement import normalize_axes, normalize_axis, reshape, slice_axis
from wengert.ops.reduce import MAX, SUM
from wengert.ops.special import erfc


def _floating(x: Any, name: str) -> Node:
    """A value in a real floating dtype: integers and booleans become the default one."""
    x = as_node(x)
    x = x if x.dtype in INEXACT else cast(x, default_float)
    require_floating(name, x)
    return x


# --- linear in pieces -----------------------------------------------------------------------------------------------


def relu(x: Any, /) -> Node:
    """`x` where it is positive, 0 elsewhere; the derivative at 0 is 0.

    >>> import wengert as wg
    >>> wg.relu(wg.tensor([-1.0, 0.0, 2.0])).tolist()
    [0.0, 0.0, 2.0]
    """
    x = as_node(x)
    return where(less_equal(x, 0), 0, x)


def leaky_relu(x: Any, /, negative_slope: float = 0.01) -> Node:
    """`x` where it is positive, `negative_slope * x` elsewhere.

    >>> import wengert as wg
    >>> wg.leaky_relu(wg.tensor([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    x = _floating(x, "leaky_relu")
    return where(greater(x, 0), x, negative_slope * x)


def prelu(x: Any, weight: Any) -> Node:
    """`x` where it is positive, `weight * x` elsewhere: one weight for all, or one for each channel, which is axis 1.

    >>> import wengert as wg
    >>> wg.prelu(wg.tensor([[-2.0, 3.0]]), wg.tensor([0.25])).tolist()
    [[-0.5, 3.0]]
    """
    x, weight = _floating(x, "prelu"), _floating(weight, "prelu")
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.ndim > 1 or weight.size not in (1, channels):
        raise ShapeError(f"prelu: {weight.size} slopes for {channels} channels (axis 1 of shape {x.shape})")
    slope = reshape(weight, (-1, *(1,) * (x.ndim - 2)) if weight.size > 1 else ())
    return where(greater(x, 0), x, slope * x)


def threshold(x: Any, /, threshold: float, value: float) -> Node:
    """`x` where it is above the threshold, `value` elsewhere.

    >>> import wengert as wg
    >>> wg.threshold(wg.tensor([0.5, 2.0]), 1.0, -1.0).tolist()
    [-1.0, 2.0]
    """
    x = as_node(x)
    return where(less_equal(x, threshold), value, x)


def hardshrink(x: Any, /, lambd: float = 0.5) -> Node:
    """`x` where it is further from 0 than `lambd`, 0 elsewhere.

    >>> import wengert as wg
    >>> wg.hardshrink(wg.tensor([-1.0, 0.5, 0.6])).numpy().round(2).tolist()
    [-1.0, 0.0, 0.6000000238418579]
    """
    x = _floating(x, "hardshrink")
    return where(logical_and(greater_equal(x, -lambd), less_equal(x, lambd)), 0, x)


def softshrink(x: Any, /, lambd: float = 0.5) -> Node:
    """`x` moved towards 0 by `lambd`, and 0 where it is no further away than that.

    >>> import wengert as wg
    >>> wg.softshrink(wg.tensor([-2.0, 0.25, 2.0])).tolist()
    [-1.5, 0.0, 1.5]
    """
    x = _floating(x, "softshrink")
    if not lambd >= 0:
        raise ArgumentError(f"softshrink: lambd is 0 or more, not {lambd!r}")
    return where(greater(x, lambd), x - lambd, where(less(x, -lambd), x + lambd, where(isnan(x), x, 0)))


def hardtanh(x: Any, /, min_val: float = -1.0, max_val: float = 1.0) -> Node:
    """`x` held between two bounds, with derivative 0 at the bounds (`clip` has 1 there).

    >>> import wengert as wg
    >>> wg.hardtanh(wg.tensor([-4.0, 0.5, 4.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    x = as_node(x)
    if not min_val <= max_val:
        raise ArgumentError(f"hardtanh: min_val {min_val} is more than max_val {max_val}")
    return where(less_equal(x, min_val), min_val, where(greater_equal(x, max_val), max_val, x))


def relu6(x: Any, /) -> Node:
    """`relu(x)`, and at most 6.

    >>> import wengert as wg
    >>> wg.relu6(wg.tensor([-1.0, 3.0, 9.0])).tolist()
    [0.0, 3.0, 6.0]
    """
    return hardtanh(x, 0, 6)


def hardsigmoid(x: Any, /) -> Node:
    """The logistic function in three straight pieces: 0 up to -3, 1 from 3 on, `x / 6 + 1 / 2` between.

    >>> import wengert as wg
    >>> wg.hardsigmoid(wg.tensor([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return hardtanh(_floating(x, "hardsigmoid") / 6.0 + 0.5, 0.0, 1.0)


def hardswish(x: Any, /) -> Node:
    """`x * hardsigmoid(x)`.

    >>> import wengert as wg
    >>> wg.hardswish(wg.tensor([-4.0, 0.0, 4.0])).tolist()
    [-0.0, 0.0, 4.0]
    """
    x = _floating(x, "hardswish")
    return x * hardsigmoid(x)


# --- exponential on the negative side -------------------------------------------------------------------------------


def elu(x: Any, /, alpha: float = 1.0) -> Node:
    """`x` where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    >>> import wengert as wg
    >>> print(wg.elu(wg.tensor([-1.0, 2.0])).numpy().round(4))
    [-0.6321  2.    ]
    """
    x = _floating(x, "elu")
    positive = greater(x, 0)
    return where(positive, x, alpha * expm1(where(positive, 0, x)))


def celu(x: Any, /, alpha: float = 1.0) -> Node:
    """`x` where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere: smooth at 0 for every alpha.

    >>> import wengert as wg
    >>> print(wg.celu(wg.tensor([-1.0, 2.0])).numpy().round(4))
    [-0.6321  2.    ]
    """
    if alpha == 0:
        raise ArgumentError("celu: alpha is 0, and x is divided by it")
    x = _floating(x, "celu")
    positive = greater(x, 0)
    return where(positive, x, alpha * expm1(where(positive, 0, x) / float(alpha)))


# The fixed point of Klambauer et al., "Self-Normalizing Neural Networks" (2017).
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def selu(x: Any, /) -> Node:
    """`elu` with the scale and alpha that keep mean 0 and variance 1 from layer to layer.

    >>> import wengert as wg
    >>> print(wg.selu(wg.tensor([-1.0, 2.0])).numpy().round(4))
    [-1.1113  2.1014]
    """
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


# --- smooth ---------------------------------------------------------------------------------------------------------


def gelu(x: Any, /, approximate: str = "none") -> Node:
    """`x` times the normal distribution function of `x`; with `approximate="tanh"`, Hendrycks and Gimpel's formula.

    Both keep their relative accuracy in the negative tail, where `1 + erf` and `1 + tanh` would cancel. Half precision
    is computed in float32: the constants would lose most of their digits.

    >>> import wengert as wg
    >>> print(wg.gelu(wg.tensor([-1.0, 2.0])).numpy().round(4))
    [-0.1587  1.9545]
    """
    x = _floating(x, "gelu")
    if x.dtype in HALF:
        return cast(gelu(cast(x, float32), approximate), x.dtype)
    if approximate == "none":
        return 0.5 * x * erfc(x * -math.sqrt(0.5))
    if approximate == "tanh":
        return gelu_sigmoid(x)  # (1 + tanh(u)) / 2 is sigmoid(2 u), and u = sqrt(2 / pi) (x + 0.044715 x^3)
    raise ArgumentError(f'gelu: approximate is "none" or "tanh", not {approximate!r}')


def silu(x: Any, /) -> Node:
    """`x * sigmoid(x)`, also called swish.

    >>> import wengert as wg
    >>> print(wg.silu(wg.tensor([-1.0, 2.0])).numpy().round(4))
    [-0.2689  1.7616]
    """
    x = _floating(x, "silu")
    return x * sigmoid(x)


def softplus(x: Any, /, beta: float = 1.0, threshold: float = 20.0) -> Node:
    """`log(1 + exp(beta * x)) / beta`, which is `x` itself where `beta * x` is above the threshold.

    >>> import wengert as wg
    >>> wg.softplus(wg.tensor([-1000.0, 1000.0])).tolist()
    [0.0, 1000.0]
    """
    if beta == 0:
        raise ArgumentError("softplus: beta is 0, and the result is divided by it")
    x = _floating(x, "softplus")
    scaled = x if beta == 1 else x * float(beta)
    curve = logaddexp(scaled, 0.0)
    return where(greater(scaled, float(threshold)), x, curve if beta == 1 else curve / float(beta))


def logsigmoid(x: Any, /) -> Node:
    """`log(sigmoid(x))`, exact in both tails.

    >>> import wengert as wg
    >>> print(wg.logsigmoid(wg.tensor([0.0])).numpy().round(4))
    [-0.6931]
    """
    return -logaddexp(-_floating(x, "logsigmoid"), 0.0)


def mish(x: Any, /) -> Node:
    """`x * tanh(softplus(x))`.

    >>> import wengert as wg
    >>> print(wg.mish(wg.tensor([-1.0, 2.0])).numpy().round(4))
    [-0.3034  1.944 ]
    """
    x = _floating(x, "mish")
    return x * tanh(logaddexp(x, 0.0))


def softsign(x: Any, /) -> Node:
    """`x / (1 + |x|)`.

    >>> import wengert as wg
    >>> wg.softsign(wg.tensor([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """
    x = _floating(x, "softsign")
    return x / (1 + absolute(x))


def tanhshrink(x: Any, /) -> Node:
    """`x - tanh(x)`.

    >>> import wengert as wg
    >>> print(wg.tanhshrink(wg.tensor([1.0])).numpy().round(4))
    [0.2384]
    """
    x = _floating(x, "tanhshrink")
    return x - tanh(x)


# --- along an axis --------------------------------------------------------------------------------------------------


def _below_largest(x: Node, axes: tuple[int, ...]) -> Node:
    """How far below the largest along these axes each element is: an exponential of it cannot overflow.

    The shift leaves the results as they are, so no derivative need pass through it.
    """
    return x - stop_gradient(MAX(x, axes=axes, keepdims=True))


def softmax(x: Any, /, axis: Any = -1) -> Node:
    """Positive numbers that sum to 1 along an axis (or several): `exp(x)` over the sum of it.

    >>> import wengert as wg
    >>> wg.softmax(wg.tensor([1000.0, 1000.0])).tolist()
    [0.5, 0.5]
    """
    x = _floating(x, "softmax")
    axes = normalize_axes(axis, x.ndim, "softmax")
    if x.size == 0:
        return x
    e = exp(_below_largest(x, axes))
    total = SUM(e, axes=axes, keepdims=True)
    return e / total if x.dtype in HALF else e * reciprocal(total)  # one division a row; the sum is 1 or more


def log_softmax(x: Any, /, axis: Any = -1) -> Node:
    """The logarithm of `softmax`, exact also where that is 0 or 1.

    >>> import wengert as wg
    >>> print(wg.log_softmax(wg.tensor([0.0, 0.0])).numpy().round(4))
    [-0.6931 -0.6931]
    """
    x = _floating(x, "log_softmax")
    axes = normalize_axes(axis, x.ndim, "log_softmax")
    if x.size == 0:
        return x
    below = _below_largest(x, axes)
    return below - log(SUM(exp(below), axes=axes, keepdims=True))


def softmin(x: Any, /, axis: Any = -1) -> Node:
    """`softmax(-x)`: the smallest has the most.

    >>> import wengert as wg
    >>> wg.softmin(wg.tensor([3.0, 3.0])).tolist()
    [0.5, 0.5]
    """
    return softmax(-_floating(x, "softmin"), axis=axis)


def glu(x: Any, /, axis: int = -1) -> Node:
    """The first half of `x` along an axis times the sigmoid of the second.

    >>> import wengert as wg
    >>> wg.glu(wg.tensor([1.0, 2.0, 0.0, 0.0])).tolist()
    [0.5, 1.0]
    """
    x = _floating(x, "glu")
    at = normalize_axis(axis, x.ndim, "glu")
    size = x.shape[at]
    if size % 2:
        raise ShapeError(f"glu: axis {at} of shape {x.shape} has {size} elements, which do not halve")
    return slice_axis(x, at, 0, size // 2) * sigmoid(slice_axis(x, at, size // 2, size))
