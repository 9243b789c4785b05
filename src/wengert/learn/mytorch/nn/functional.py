"""Backward operations: from the gradient of an operation's output, and its inputs, to the gradients of its inputs.

For two inputs the gradients are a tuple, in the same order. An input that was broadcast was used several times, so its
gradient is the sum over those uses, and has the input's own shape again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    *("SoftmaxCrossEntropy_backward", "add_backward", "cos_backward", "div_backward", "exp_backward"),
    *("identity_backward", "log_backward", "matmul_backward", "max_backward", "mul_backward", "outer_backward"),
    *("power_backward", "sigmoid_backward", "sin_backward", "sqrt_backward", "sub_backward", "sum_backward"),
    "tanh_backward",
]

Array = Any  # a NumPy array


def identity_backward(grad_output: Array, a: Array) -> Array:
    """For a copy of a."""
    return grad_output


def add_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """For a + b."""
    grad_output = _spread(grad_output, a, b)
    return _sum_to(grad_output, a), _sum_to(grad_output, b)


def sub_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """For a - b."""
    grad_output = _spread(grad_output, a, b)
    return _sum_to(grad_output, a), _sum_to(-grad_output, b)


def mul_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """For a * b, element by element."""
    grad_output = _spread(grad_output, a, b)
    return _sum_to(grad_output * b, a), _sum_to(grad_output * a, b)


def div_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """For a / b, element by element."""
    grad_output = _spread(grad_output, a, b)
    return _sum_to(grad_output / b, a), _sum_to(-grad_output * a / b / b, b)


def matmul_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """For a @ b, for vectors, matrices and stacks of matrices."""
    if a.ndim == b.ndim == 2:
        return grad_output @ b.T, a.T @ grad_output
    rows, columns = np.atleast_2d(a), b if b.ndim > 1 else b[:, None]  # `@` takes vectors for a row, for a column
    if b.ndim == 1:
        grad_output = np.expand_dims(grad_output, -1)
    if a.ndim == 1:
        grad_output = np.expand_dims(grad_output, -2)
    grad_a = _sum_to(grad_output @ np.swapaxes(columns, -1, -2), rows)
    grad_b = _sum_to(np.swapaxes(rows, -1, -2) @ grad_output, columns)
    return grad_a.reshape(a.shape), grad_b.reshape(b.shape)


def outer_backward(grad_output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """For np.outer(a, b): every number of a times every number of b."""
    return (grad_output @ np.ravel(b)).reshape(a.shape), (np.ravel(a) @ grad_output).reshape(b.shape)


def log_backward(grad_output: Array, a: Array) -> Array:
    """For log(a)."""
    return grad_output / a


def exp_backward(grad_output: Array, a: Array) -> Array:
    """For exp(a)."""
    return grad_output * np.exp(a)


def sqrt_backward(grad_output: Array, a: Array) -> Array:
    """For the square root of a."""
    return grad_output / (2 * np.sqrt(a))


def sin_backward(grad_output: Array, a: Array) -> Array:
    """For sin(a)."""
    return grad_output * np.cos(a)


def cos_backward(grad_output: Array, a: Array) -> Array:
    """For cos(a)."""
    return grad_output * -np.sin(a)


def power_backward(grad_output: Array, a: Array, exponent: Array) -> tuple[Array, None]:
    """For a ** exponent. The exponent is a constant without a gradient. a ** 0 is 1, with derivative 0."""
    lowered = np.where(exponent == 0, 0, a ** np.where(exponent == 0, 1, exponent - 1))
    return _sum_to(_spread(grad_output, a, exponent) * exponent * lowered, a), None


def max_backward(grad_output: Array, a: Array) -> Array:
    """For max(0, a), element by element, which is ReLU. At 0 the gradient is 0."""
    return grad_output * (a > 0)


def sum_backward(grad_output: Array, a: Array) -> Array:
    """For the sum of all numbers of a, or along axes that are kept with length 1."""
    return grad_output * np.ones(a.shape)


def sigmoid_backward(grad_output: Array, a: Array) -> Array:
    """For 1 / (1 + exp(-a)), written with tanh, which is exact at both ends, where exp overflows."""
    return grad_output * (1 - np.tanh(a / 2) ** 2) / 4


def tanh_backward(grad_output: Array, a: Array) -> Array:
    """For tanh(a)."""
    return grad_output * (1 - np.tanh(a) ** 2)


def SoftmaxCrossEntropy_backward(grad_output: Array, pred: Array, ground_truth: Array) -> tuple[Array, None]:
    """For the mean over the batch of -sum(ground_truth * log(softmax(pred))). Labels have no gradient."""
    powers = np.exp(pred - pred.max(axis=-1, keepdims=True))
    softmax = powers / powers.sum(axis=-1, keepdims=True)
    share = softmax * ground_truth.sum(axis=-1, keepdims=True) - ground_truth
    return grad_output * share / len(pred), None


def _spread(gradient: Array, a: Array, b: Array) -> Array:
    """A gradient in the shape that a and b are broadcast to: that of the output it belongs to."""
    return np.broadcast_to(gradient, np.broadcast_shapes(np.shape(gradient), np.shape(a), np.shape(b)))


def _sum_to(gradient: Array, array: Array) -> Array:
    """A gradient summed over the axes along which the array was broadcast."""
    shape = np.shape(array)
    added = gradient.ndim - len(shape)
    stretched = [added + i for i, n in enumerate(shape) if n == 1]
    return gradient.sum(axis=(*range(added), *stretched)).reshape(shape)
