"""A multi-layer perceptron by hand: each layer's forward function, and the backward one that goes with it.

A backward function takes the gradient of the output first, then the inputs of the forward function, and returns the
gradients of the inputs in their order, as the rules of `mytorch` do. Rows of x are examples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a NumPy array


def linear(x: Array, W: Array, b: Array) -> Array:
    """x W^T + b, for rows x, W of shape (out, in) and b of shape (out,)."""
    raise NotImplementedError("TODO: linear")


def linear_backward(grad_output: Array, x: Array, W: Array, b: Array) -> tuple[Array, Array, Array]:
    """The gradients of x, W and b."""
    raise NotImplementedError("TODO: linear_backward")


def batch_norm(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> Array:
    """gamma (x - mean) / sqrt(variance + eps) + beta, where mean and variance are those of each column of the batch.

    The variance is the mean of the squared differences (it divides by the number of rows).
    """
    raise NotImplementedError("TODO: batch_norm")


def batch_norm_backward(
    grad_output: Array, x: Array, gamma: Array, beta: Array, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """The gradients of x, gamma and beta. Mean and variance depend on x too."""
    raise NotImplementedError("TODO: batch_norm_backward")


def sgd_step(parameter: Array, gradient: Array, velocity: Array, lr: float, momentum: float) -> tuple[Array, Array]:
    """One step of gradient descent with momentum: the new parameter and the new velocity.

    The velocity is momentum times the old one, minus lr times the gradient; the parameter moves by the new velocity.
    """
    raise NotImplementedError("TODO: sgd_step")


class MLP:
    """Linear layers with ReLU between them, and none after the last."""

    def __init__(self, weights: list[Array], biases: list[Array]) -> None:
        self.weights = weights
        self.biases = biases
        self.inputs: list[Array] = []  # of each layer, kept by forward for backward

    def forward(self, x: Array) -> Array:
        """The output of the last layer. At 0, ReLU is 0 and so is its derivative."""
        raise NotImplementedError("TODO: MLP.forward")

    def backward(self, grad_output: Array) -> tuple[Array, list[Array], list[Array]]:
        """The gradients of the input, of all weights and of all biases, first layer first, after `forward`."""
        raise NotImplementedError("TODO: MLP.backward")
