"""Connectionist temporal classification: the probability of labels, whatever their alignment with frames.

Everything is computed with logarithms: products of many probabilities would be too small for a float.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a NumPy array


def extended(labels: list[int], blank: int = 0) -> list[int]:
    """The labels with blanks between them, before the first and after the last."""
    found = [blank]
    for label in labels:
        found += [label, blank]
    return found


def forward_scores(log_probs: Array, labels: list[int], blank: int = 0) -> Array:
    """alpha[t, s]: the log-probability of all ways to be at symbol s of the extended labels after frames 0 to t.

    `log_probs` has shape (frames, classes). A way stays at its symbol, goes on to the next one, or skips a blank that
    lies between two different labels. It begins at symbol 0 or 1. What cannot be reached is -inf.
    """
    symbols = extended(labels, blank)
    alpha = np.full((len(log_probs), len(symbols)), -np.inf)
    alpha[0, :2] = log_probs[0, symbols[:2]]
    for t in range(1, len(log_probs)):
        for s, symbol in enumerate(symbols):
            ways = [alpha[t - 1, s]]
            if s > 0:
                ways.append(alpha[t - 1, s - 1])
            if s > 1 and symbol != blank and symbol != symbols[s - 2]:
                ways.append(alpha[t - 1, s - 2])
            alpha[t, s] = np.logaddexp.reduce(ways) + log_probs[t, symbol]
    return alpha


def backward_scores(log_probs: Array, labels: list[int], blank: int = 0) -> Array:
    """beta[t, s]: the log-probability of all ways on from symbol s after frame t, through frames t + 1 to the last."""
    symbols = extended(labels, blank)
    beta = np.full((len(log_probs), len(symbols)), -np.inf)
    beta[-1, -2:] = 0.0
    for t in reversed(range(len(log_probs) - 1)):
        onward = beta[t + 1] + log_probs[t + 1, symbols]
        for s, symbol in enumerate(symbols):
            ways = [onward[s]]
            if s + 1 < len(symbols):
                ways.append(onward[s + 1])
            if s + 2 < len(symbols) and symbols[s + 2] != blank and symbols[s + 2] != symbol:
                ways.append(onward[s + 2])
            beta[t, s] = np.logaddexp.reduce(ways)
    return beta


def ctc_loss(log_probs: Array, labels: list[int], blank: int = 0) -> float:
    """Minus the log-probability of the labels: a way may end at the last label or at the blank behind it."""
    alpha = forward_scores(log_probs, labels, blank)
    return -float(np.logaddexp.reduce(alpha[-1, -2:]))


def ctc_loss_backward(grad_output: float, log_probs: Array, labels: list[int], blank: int = 0) -> Array:
    """The gradient with respect to log_probs: for each frame, minus how probable it is to be at each class."""
    alpha, beta = forward_scores(log_probs, labels, blank), backward_scores(log_probs, labels, blank)
    share = np.exp(alpha + beta + ctc_loss(log_probs, labels, blank))
    gradient = np.zeros(log_probs.shape)
    for s, symbol in enumerate(extended(labels, blank)):
        gradient[:, symbol] -= share[:, s]
    return grad_output * gradient


def greedy_decode(log_probs: Array, blank: int = 0) -> list[int]:
    """The labels of the best class of every frame: repeated classes count once, and blanks are left out."""
    best = [int(k) for k in log_probs.argmax(axis=1)]
    return [k for t, k in enumerate(best) if k != blank and (t == 0 or best[t - 1] != k)]
