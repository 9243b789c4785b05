"""Products with Jacobians, without the Jacobians.

For y = f(x), a JVP takes x and a direction t of x's shape, and returns J t, of y's shape. A VJP takes x and a cotangent
g of y's shape, and returns g J, of x's shape. Arrays may be large: a matrix with a row for each element of x does not
fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # a NumPy array


def tanh_jvp(x: Array, t: Array) -> Array:
    """Of y = tanh(x)."""
    return (1 - np.tanh(x) ** 2) * t


def tanh_vjp(x: Array, g: Array) -> Array:
    """Of y = tanh(x)."""
    return g * (1 - np.tanh(x) ** 2)


def matmul_jvp(a: Array, b: Array, ta: Array, tb: Array) -> Array:
    """Of y = a @ b for two matrices, along the directions ta of a and tb of b."""
    return ta @ b + a @ tb


def matmul_vjp(a: Array, b: Array, g: Array) -> tuple[Array, Array]:
    """Of y = a @ b for two matrices: the cotangents of a and of b."""
    return g @ b.T, a.T @ g


def softmax_jvp(x: Array, t: Array) -> Array:
    """Of the softmax of each row of x, also where exp(x) would overflow."""
    y = _softmax(x)
    return y * (t - (y * t).sum(axis=-1, keepdims=True))


def softmax_vjp(x: Array, g: Array) -> Array:
    """Of the softmax of each row of x, also where exp(x) would overflow."""
    y = _softmax(x)
    return y * (g - (y * g).sum(axis=-1, keepdims=True))


def unit_jvp(x: Array, t: Array) -> Array:
    """Of each row of x divided by its length."""
    length = np.sqrt((x * x).sum(axis=-1, keepdims=True))
    y = x / length
    return (t - y * (y * t).sum(axis=-1, keepdims=True)) / length


def unit_vjp(x: Array, g: Array) -> Array:
    """Of each row of x divided by its length."""
    return unit_jvp(x, g)


def jacobian_by_columns(jvp: Callable[[Array], Array], inputs: int) -> Array:
    """The Jacobian (outputs, inputs), from a function t -> J t that may be called once for each input."""
    return np.stack([jvp(column) for column in np.eye(inputs)], axis=1)


def jacobian_by_rows(vjp: Callable[[Array], Array], outputs: int) -> Array:
    """The Jacobian (outputs, inputs), from a function g -> g J that may be called once for each output."""
    return np.stack([vjp(row) for row in np.eye(outputs)], axis=0)


def _softmax(x: Array) -> Array:
    """The softmax of each row."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
