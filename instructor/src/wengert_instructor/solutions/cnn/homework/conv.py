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
    kernel = w.shape[2]
    positions = 1 + (x.shape[2] - kernel) // stride
    y = np.zeros((len(x), len(w), positions)) + b[:, None]
    for k in range(kernel):
        y += np.einsum("ncl,oc->nol", x[:, :, k : k + stride * positions : stride], w[:, :, k])
    return y


def conv1d_backward(grad_output: Array, x: Array, w: Array, b: Array, stride: int = 1) -> tuple[Array, Array, Array]:
    """The gradients of x, w and b. What the last kernel did not reach has a gradient of 0."""
    dx, dw, positions = np.zeros(x.shape), np.zeros(w.shape), grad_output.shape[2]
    for k in range(w.shape[2]):
        reached = slice(k, k + stride * positions, stride)
        dx[:, :, reached] += np.einsum("nol,oc->ncl", grad_output, w[:, :, k])
        dw[:, :, k] = np.einsum("nol,ncl->oc", grad_output, x[:, :, reached])
    return dx, dw, grad_output.sum(axis=(0, 2))


def conv2d(x: Array, w: Array, b: Array, stride: int = 1, padding: int = 0) -> Array:
    """The convolution of images x (batch, channels, height, width) with w (out, channels, rows, columns), plus b.

    `padding` rows and columns of zeros are put on all four sides first.
    """
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows, columns = w.shape[2:]
    height, width = 1 + (x.shape[2] - rows) // stride, 1 + (x.shape[3] - columns) // stride
    y = np.zeros((len(x), len(w), height, width)) + b[:, None, None]
    for i in range(rows):
        for j in range(columns):
            reached = x[:, :, i : i + stride * height : stride, j : j + stride * width : stride]
            y += np.einsum("nchw,oc->nohw", reached, w[:, :, i, j])
    return y


def conv2d_backward(
    grad_output: Array, x: Array, w: Array, b: Array, stride: int = 1, padding: int = 0
) -> tuple[Array, Array, Array]:
    """The gradients of x, w and b. That of x has the shape of x, without the padding."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    height, width = grad_output.shape[2:]
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            reached = (..., slice(i, i + stride * height, stride), slice(j, j + stride * width, stride))
            dx[reached] += np.einsum("nohw,oc->nchw", grad_output, w[:, :, i, j])
            dw[:, :, i, j] = np.einsum("nohw,nchw->oc", grad_output, x[reached])
    inner = slice(padding, dx.shape[2] - padding), slice(padding, dx.shape[3] - padding)
    return dx[:, :, inner[0], inner[1]], dw, grad_output.sum(axis=(0, 2, 3))


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
        y = conv2d(x, self.W, self.b, self.stride, self.padding)
        self.autograd_engine.add_operation(
            inputs=[x, self.W, self.b],
            output=y,
            gradients_to_update=[None, self.dW, self.db],
            backward_operation=lambda g, x, w, b: conv2d_backward(g, x, w, b, self.stride, self.padding),
        )
        return y
