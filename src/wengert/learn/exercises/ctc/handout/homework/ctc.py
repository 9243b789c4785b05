"""Connectionist temporal classification: the probability of labels, whatever their alignment with frames.

Everything is computed with logarithms: products of many probabilities would be too small for a float.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a NumPy array


def extended(labels: list[int], blank: int = 0) -> list[int]:
    """The labels with blanks between them, before the first and after the last."""
    raise NotImplementedError("TODO: extended")


def forward_scores(log_probs: Array, labels: list[int], blank: int = 0) -> Array:
    """alpha[t, s]: the log-probability of all ways to be at symbol s of the extended labels after frames 0 to t.

    `log_probs` has shape (frames, classes). A way stays at its symbol, goes on to the next one, or skips a blank that
    lies between two different labels. It begins at symbol 0 or 1. What cannot be reached is -inf.
    """
    raise NotImplementedError("TODO: forward_scores")


def backward_scores(log_probs: Array, labels: list[int], blank: int = 0) -> Array:
    """beta[t, s]: the log-probability of all ways on from symbol s after frame t, through frames t + 1 to the last."""
    raise NotImplementedError("TODO: backward_scores")


def ctc_loss(log_probs: Array, labels: list[int], blank: int = 0) -> float:
    """Minus the log-probability of the labels: a way may end at the last label or at the blank behind it."""
    raise NotImplementedError("TODO: ctc_loss")


def ctc_loss_backward(grad_output: float, log_probs: Array, labels: list[int], blank: int = 0) -> Array:
    """The gradient with respect to log_probs: for each frame, minus how probable it is to be at each class."""
    raise NotImplementedError("TODO: ctc_loss_backward")


def greedy_decode(log_probs: Array, blank: int = 0) -> list[int]:
    """The labels of the best class of every frame: repeated classes count once, and blanks are left out."""
    raise NotImplementedError("TODO: greedy_decode")
