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
    raise NotImplementedError("TODO: softmax")


def softmax_backward(grad_output: Array, x: Array) -> Array:
    """The gradient of x."""
    raise NotImplementedError("TODO: softmax_backward")


def scores(q: Array, k: Array, is_causal: bool = False) -> Array:
    """q k^T / sqrt(d), of shape (..., queries, keys). If it is causal, keys after the i-th have -inf for query i."""
    raise NotImplementedError("TODO: scores")


def attention(q: Array, k: Array, v: Array, is_causal: bool = False) -> Array:
    """softmax(q k^T / sqrt(d)) v, for q (..., queries, d), k (..., keys, d) and v (..., keys, e)."""
    raise NotImplementedError("TODO: attention")


def attention_backward(
    grad_output: Array, q: Array, k: Array, v: Array, is_causal: bool = False
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v."""
    raise NotImplementedError("TODO: attention_backward")
