"""Scaled dot-product attention, forward and backward, for any number of leading dimensions (batch, heads).

A backward function takes the gradient of the output first, then the inputs of the forward function, and returns the
gradients of the inputs in their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a NumPy array


def softmax(x: Array) -> Array:
    """exp(x) over its sum along the last axis, also where exp(x) would overflow, and where some scores are -inf."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax_backward(grad_output: Array, x: Array) -> Array:
    """The gradient of x."""
    y = softmax(x)
    return y * (grad_output - (grad_output * y).sum(axis=-1, keepdims=True))


def scores(q: Array, k: Array, is_causal: bool = False) -> Array:
    """q k^T / sqrt(d), of shape (..., queries, keys). If it is causal, keys after the i-th have -inf for query i."""
    found = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if is_causal:
        hidden = np.arange(k.shape[-2]) > np.arange(q.shape[-2])[:, None]
        found = np.where(hidden, -np.inf, found)
    return found


def attention(q: Array, k: Array, v: Array, is_causal: bool = False) -> Array:
    """softmax(q k^T / sqrt(d)) v, for q (..., queries, d), k (..., keys, d) and v (..., keys, e)."""
    return softmax(scores(q, k, is_causal)) @ v


def attention_backward(
    grad_output: Array, q: Array, k: Array, v: Array, is_causal: bool = False
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v."""
    x = scores(q, k, is_causal)
    dv = np.swapaxes(softmax(x), -1, -2) @ grad_output
    dx = softmax_backward(grad_output @ np.swapaxes(v, -1, -2), x) / np.sqrt(q.shape[-1])
    return dx @ k, np.swapaxes(dx, -1, -2) @ q, dv
