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
    return x @ W.T + b


def linear_backward(grad_output: Array, x: Array, W: Array, b: Array) -> tuple[Array, Array, Array]:
    """The gradients of x, W and b."""
    return grad_output @ W, grad_output.T @ x, grad_output.sum(axis=0)


def batch_norm(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> Array:
    """gamma (x - mean) / sqrt(variance + eps) + beta, where mean and variance are those of each column of the batch.

    The variance is the mean of the squared differences (it divides by the number of rows).
    """
    normalized = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + eps)
    return gamma * normalized + beta


def batch_norm_backward(
    grad_output: Array, x: Array, gamma: Array, beta: Array, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """The gradients of x, gamma and beta. Mean and variance depend on x too."""
    scale = 1 / np.sqrt(x.var(axis=0) + eps)
    normalized = (x - x.mean(axis=0)) * scale
    inner = grad_output * gamma
    along = normalized * (inner * normalized).mean(axis=0)
    return (
        scale * (inner - inner.mean(axis=0) - along),
        (grad_output * normalized).sum(axis=0),
        grad_output.sum(axis=0),
    )


def sgd_step(parameter: Array, gradient: Array, velocity: Array, lr: float, momentum: float) -> tuple[Array, Array]:
    """One step of gradient descent with momentum: the new parameter and the new velocity.

    The velocity is momentum times the old one, minus lr times the gradient; the parameter moves by the new velocity.
    """
    velocity = momentum * velocity - lr * gradient
    return parameter + velocity, velocity


class MLP:
    """Linear layers with ReLU between them, and none after the last."""

    def __init__(self, weights: list[Array], biases: list[Array]) -> None:
        self.weights = weights
        self.biases = biases
        self.inputs: list[Array] = []  # of each layer, kept by forward for backward

    def forward(self, x: Array) -> Array:
        """The output of the last layer. At 0, ReLU is 0 and so is its derivative."""
        self.inputs = []
        for k, (W, b) in enumerate(zip(self.weights, self.biases)):
            self.inputs.append(x)
            x = linear(x, W, b)
            if k < len(self.weights) - 1:
                x = np.maximum(0, x)
        return x

    def backward(self, grad_output: Array) -> tuple[Array, list[Array], list[Array]]:
        """The gradients of the input, of all weights and of all biases, first layer first, after `forward`."""
        dW: list[Array] = []
        db: list[Array] = []
        for k in reversed(range(len(self.weights))):
            grad_output, weight, bias = linear_backward(grad_output, self.inputs[k], self.weights[k], self.biases[k])
            dW.insert(0, weight)
            db.insert(0, bias)
            if k > 0:
                grad_output = grad_output * (self.inputs[k] > 0)  # the input of a layer is the output of ReLU
        return grad_output, dW, db
