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
    raise NotImplementedError("TODO: tanh_jvp")


def tanh_vjp(x: Array, g: Array) -> Array:
    """Of y = tanh(x)."""
    raise NotImplementedError("TODO: tanh_vjp")


def matmul_jvp(a: Array, b: Array, ta: Array, tb: Array) -> Array:
    """Of y = a @ b for two matrices, along the directions ta of a and tb of b."""
    raise NotImplementedError("TODO: matmul_jvp")


def matmul_vjp(a: Array, b: Array, g: Array) -> tuple[Array, Array]:
    """Of y = a @ b for two matrices: the cotangents of a and of b."""
    raise NotImplementedError("TODO: matmul_vjp")


def softmax_jvp(x: Array, t: Array) -> Array:
    """Of the softmax of each row of x, also where exp(x) would overflow."""
    raise NotImplementedError("TODO: softmax_jvp")


def softmax_vjp(x: Array, g: Array) -> Array:
    """Of the softmax of each row of x, also where exp(x) would overflow."""
    raise NotImplementedError("TODO: softmax_vjp")


def unit_jvp(x: Array, t: Array) -> Array:
    """Of each row of x divided by its length."""
    raise NotImplementedError("TODO: unit_jvp")


def unit_vjp(x: Array, g: Array) -> Array:
    """Of each row of x divided by its length."""
    raise NotImplementedError("TODO: unit_vjp")


def jacobian_by_columns(jvp: Callable[[Array], Array], inputs: int) -> Array:
    """The Jacobian (outputs, inputs), from a function t -> J t that may be called once for each input."""
    raise NotImplementedError("TODO: jacobian_by_columns")


def jacobian_by_rows(vjp: Callable[[Array], Array], outputs: int) -> Array:
    """The Jacobian (outputs, inputs), from a function g -> g J that may be called once for each output."""
    raise NotImplementedError("TODO: jacobian_by_rows")


def _softmax(x: Array) -> Array:
    """The softmax of each row."""
    raise NotImplementedError("TODO: _softmax")
