"""The adjoint of broadcasting, and backward operations that rest on it.

A backward operation takes the gradient of the output first, then the inputs. It returns a gradient for each input, of
that input's own shape. NumPy aligns shapes from the right, adds axes in front, and stretches axes of length 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a NumPy array


def sum_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The adjoint of broadcasting an array of this shape to the gradient's shape."""
    raise NotImplementedError("TODO: sum_to")


def add_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of a + b."""
    raise NotImplementedError("TODO: add_backward")


def mul_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of a * b."""
    raise NotImplementedError("TODO: mul_backward")


def div_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of a / b."""
    raise NotImplementedError("TODO: div_backward")


def where_backward(grad_output: Array, condition: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of np.where(condition, a, b), whose three operands are broadcast: the gradients of a and b."""
    raise NotImplementedError("TODO: where_backward")


def maximum_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of np.maximum(a, b). Where they are equal, each gets half."""
    raise NotImplementedError("TODO: maximum_backward")


def mean_backward(grad_output: Array, a: Array, axis: int | None, keepdims: bool) -> Array:
    """Of a.mean(axis, keepdims=keepdims). With the axis None it is the mean of all elements."""
    raise NotImplementedError("TODO: mean_backward")
