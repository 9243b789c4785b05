"""Convolution in one and two dimensions: forward, backward, and a layer on the tape of `mytorch`.

A backward function takes the gradient of the output first, then the inputs of the forward function, and returns the
gradients of the inputs in their order. As everywhere in deep learning, "convolution" does not flip the kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a NumPy array


def conv1d(x: Array, w: Array, b: Array, stride: int = 1) -> Array:
    """The convolution of x (batch, channels, length) with w (out, channels, kernel), plus b (out,).

    Position t of the output is the sum over channels and kernel positions k of x[:, :, t * stride + k] * w[:, :, k].
    There is no padding: the output has 1 + (length - kernel) // stride positions.
    """
    raise NotImplementedError("TODO: conv1d")


def conv1d_backward(grad_output: Array, x: Array, w: Array, b: Array, stride: int = 1) -> tuple[Array, Array, Array]:
    """The gradients of x, w and b. What the last kernel did not reach has a gradient of 0."""
    raise NotImplementedError("TODO: conv1d_backward")


def conv2d(x: Array, w: Array, b: Array, stride: int = 1, padding: int = 0) -> Array:
    """The convolution of images x (batch, channels, height, width) with w (out, channels, rows, columns), plus b.

    `padding` rows and columns of zeros are put on all four sides first.
    """
    raise NotImplementedError("TODO: conv2d")


def conv2d_backward(
    grad_output: Array, x: Array, w: Array, b: Array, stride: int = 1, padding: int = 0
) -> tuple[Array, Array, Array]:
    """The gradients of x, w and b. That of x has the shape of x, without the padding."""
    raise NotImplementedError("TODO: conv2d_backward")


class Conv2d:
    """A layer on the tape: `dW` and `db` collect the gradients of `W` and `b`, as in `mytorch.nn.Linear`."""

    def __init__(self, W: Array, b: Array, autograd_engine: Any, stride: int = 1, padding: int = 0) -> None:
        self.W = W
        self.b = b
        self.dW = np.zeros(W.shape)
        self.db = np.zeros(b.shape)
        self.autograd_engine = autograd_engine
        self.stride = stride
        self.padding = padding

    def __call__(self, x: Array) -> Array:
        return self.forward(x)

    def forward(self, x: Array) -> Array:
        """The convolution, written on the tape as one operation of x, W and b.

        The tape calls `backward_operation(grad_output, x, W, b)`: it has to know the stride and the padding by itself.
        """
        raise NotImplementedError("TODO: Conv2d.forward")
