"""Recurrent cells: an RNN's, a GRU's, and back-propagation through time.

A backward function takes the gradient of the output first, then the inputs of the forward function, and returns the
gradients of the inputs in their order. Weights are laid out as in PyTorch: W_ih has shape (gates * hidden, in), W_hh
(gates * hidden, hidden), the biases (gates * hidden,). Rows of x and h are the examples of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a NumPy array


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), which does not overflow."""
    return (1 + np.tanh(x / 2)) / 2


def rnn_cell(x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Array:
    """The next state, tanh(x W_ih^T + b_ih + h W_hh^T + b_hh)."""
    raise NotImplementedError("TODO: rnn_cell")


def rnn_cell_backward(
    grad_output: Array, x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array
) -> tuple[Array, ...]:
    """The gradients of x, h, W_ih, W_hh, b_ih and b_hh."""
    raise NotImplementedError("TODO: rnn_cell_backward")


def rnn(xs: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Array:
    """All states (time, batch, hidden) of an RNN over inputs (time, batch, in), from the first state h."""
    raise NotImplementedError("TODO: rnn")


def rnn_backward(
    grad_output: Array, xs: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array
) -> tuple[Array, ...]:
    """The gradients of xs, h, W_ih, W_hh, b_ih and b_hh. A state's gradient also comes from the step after it."""
    raise NotImplementedError("TODO: rnn_backward")


def gru_cell(x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Array:
    """The next state of a GRU. The rows of the weights are those of the gates r, z and n, one after the other.

    r = sigmoid(i_r + h_r), z = sigmoid(i_z + h_z), n = tanh(i_n + r * h_n), and the state is (1 - z) * n + z * h, where
    i = x W_ih^T + b_ih and h_* = h W_hh^T + b_hh.
    """
    raise NotImplementedError("TODO: gru_cell")


def gru_cell_backward(
    grad_output: Array, x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array
) -> tuple[Array, ...]:
    """The gradients of x, h, W_ih, W_hh, b_ih and b_hh."""
    raise NotImplementedError("TODO: gru_cell_backward")
