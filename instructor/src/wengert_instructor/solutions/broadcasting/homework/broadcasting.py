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
    added = gradient.ndim - len(shape)
    stretched = [added + i for i, n in enumerate(shape) if n == 1]
    return gradient.sum(axis=(*range(added), *stretched)).reshape(shape)


def add_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of a + b."""
    return sum_to(grad_output, a.shape), sum_to(grad_output, b.shape)


def mul_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of a * b."""
    return sum_to(grad_output * b, a.shape), sum_to(grad_output * a, b.shape)


def div_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of a / b."""
    return sum_to(grad_output / b, a.shape), sum_to(-grad_output * a / b / b, b.shape)


def where_backward(grad_output: Array, condition: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of np.where(condition, a, b), whose three operands are broadcast: the gradients of a and b."""
    return sum_to(np.where(condition, grad_output, 0.0), a.shape), sum_to(
        np.where(condition, 0.0, grad_output), b.shape
    )


def maximum_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Of np.maximum(a, b). Where they are equal, each gets half."""
    share = np.where(a == b, 0.5, np.where(a > b, 1.0, 0.0))
    return sum_to(grad_output * share, a.shape), sum_to(grad_output * (1 - share), b.shape)


def mean_backward(grad_output: Array, a: Array, axis: int | None, keepdims: bool) -> Array:
    """Of a.mean(axis, keepdims=keepdims). With the axis None it is the mean of all elements."""
    if axis is None:
        return np.broadcast_to(np.reshape(grad_output, (1,) * a.ndim), a.shape) / a.size
    if not keepdims:
        grad_output = np.expand_dims(grad_output, axis)
    return np.broadcast_to(grad_output, a.shape) / a.shape[axis]
