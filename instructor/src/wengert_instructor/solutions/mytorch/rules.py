"""The rules that a term's variant of `mytorch` may add to `mytorch/nn/functional.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from mytorch.nn.functional import _spread, _sum_to

Array = Any


def sqrt_backward(grad_output: Array, a: Array) -> Array:
    """Of the square root of a."""
    return grad_output / (2 * np.sqrt(a))


def square_backward(grad_output: Array, a: Array) -> Array:
    """Of a * a."""
    return 2 * a * grad_output


def sin_backward(grad_output: Array, a: Array) -> Array:
    """Of sin(a)."""
    return grad_output * np.cos(a)


def cos_backward(grad_output: Array, a: Array) -> Array:
    """Of cos(a)."""
    return -grad_output * np.sin(a)


def softplus_backward(grad_output: Array, a: Array) -> Array:
    """Of log(1 + exp(a)), also where exp(a) would overflow."""
    return grad_output * (1 + np.tanh(a / 2)) / 2


def abs_backward(grad_output: Array, a: Array) -> Array:
    """Of the absolute value of a. At 0 the gradient is 0."""
    return grad_output * np.sign(a)


def silu_backward(grad_output: Array, a: Array) -> Array:
    """Of a / (1 + exp(-a))."""
    share = (1 + np.tanh(a / 2)) / 2
    return grad_output * share * (1 + a * (1 - share))


def maximum_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of the larger of a and b, element by element. Where they are equal, each gets half of the gradient."""
    grad_output = _spread(grad_output, a, b)
    share = (np.sign(a - b) + 1) / 2
    return _sum_to(grad_output * share, a), _sum_to(grad_output * (1 - share), b)


def minimum_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of the smaller of a and b, element by element. Where they are equal, each gets half of the gradient."""
    grad_output = _spread(grad_output, a, b)
    share = (np.sign(b - a) + 1) / 2
    return _sum_to(grad_output * share, a), _sum_to(grad_output * (1 - share), b)
