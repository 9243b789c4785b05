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
    return np.tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)


def rnn_cell_backward(
    grad_output: Array, x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array
) -> tuple[Array, ...]:
    """The gradients of x, h, W_ih, W_hh, b_ih and b_hh."""
    inner = grad_output * (1 - rnn_cell(x, h, W_ih, W_hh, b_ih, b_hh) ** 2)
    return inner @ W_ih, inner @ W_hh, inner.T @ x, inner.T @ h, inner.sum(axis=0), inner.sum(axis=0)


def rnn(xs: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Array:
    """All states (time, batch, hidden) of an RNN over inputs (time, batch, in), from the first state h."""
    states = []
    for x in xs:
        h = rnn_cell(x, h, W_ih, W_hh, b_ih, b_hh)
        states.append(h)
    return np.stack(states)


def rnn_backward(
    grad_output: Array, xs: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array
) -> tuple[Array, ...]:
    """The gradients of xs, h, W_ih, W_hh, b_ih and b_hh. A state's gradient also comes from the step after it."""
    states = rnn(xs, h, W_ih, W_hh, b_ih, b_hh)
    dxs, sums, later = np.zeros(xs.shape), [np.zeros(w.shape) for w in (W_ih, W_hh, b_ih, b_hh)], np.zeros(h.shape)
    for t in reversed(range(len(xs))):
        before = states[t - 1] if t else h
        dxs[t], later, *found = rnn_cell_backward(grad_output[t] + later, xs[t], before, W_ih, W_hh, b_ih, b_hh)
        for total, share in zip(sums, found):
            total += share
    return dxs, later, *sums


def gru_cell(x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Array:
    """The next state of a GRU. The rows of the weights are those of the gates r, z and n, one after the other.

    r = sigmoid(i_r + h_r), z = sigmoid(i_z + h_z), n = tanh(i_n + r * h_n), and the state is (1 - z) * n + z * h, where
    i = x W_ih^T + b_ih and h_* = h W_hh^T + b_hh.
    """
    i_r, i_z, i_n = np.split(x @ W_ih.T + b_ih, 3, axis=1)
    h_r, h_z, h_n = np.split(h @ W_hh.T + b_hh, 3, axis=1)
    z = sigmoid(i_z + h_z)
    return (1 - z) * np.tanh(i_n + sigmoid(i_r + h_r) * h_n) + z * h


def gru_cell_backward(
    grad_output: Array, x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array
) -> tuple[Array, ...]:
    """The gradients of x, h, W_ih, W_hh, b_ih and b_hh."""
    i_r, i_z, i_n = np.split(x @ W_ih.T + b_ih, 3, axis=1)
    h_r, h_z, h_n = np.split(h @ W_hh.T + b_hh, 3, axis=1)
    r, z = sigmoid(i_r + h_r), sigmoid(i_z + h_z)
    n = np.tanh(i_n + r * h_n)
    dn = grad_output * (1 - z) * (1 - n**2)
    dz = grad_output * (h - n) * z * (1 - z)
    dr = dn * h_n * r * (1 - r)
    di, dh = np.concatenate([dr, dz, dn], axis=1), np.concatenate([dr, dz, dn * r], axis=1)
    return di @ W_ih, dh @ W_hh + grad_output * z, di.T @ x, dh.T @ h, di.sum(axis=0), dh.sum(axis=0)
