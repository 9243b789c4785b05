"""Losses: how far a network's outputs are from what they should be, as one number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd_engine import Autograd
from ..functional import SoftmaxCrossEntropy_backward, div_backward, mul_backward, sub_backward, sum_backward


class LossFN:
    """What losses share: called as `loss(y, y_hat)`, label first, they keep `loss_val`, and go back from it."""

    def __init__(self, autograd_engine: Autograd) -> None:
        self.autograd_engine = autograd_engine
        self.loss_val: Any = None

    def __call__(self, y: Any, y_hat: Any) -> Any:
        return self.forward(y, y_hat)

    def forward(self, y: Any, y_hat: Any) -> Any:
        """The loss of outputs y_hat where the labels are y."""
        if np.shape(y) != np.shape(y_hat):
            raise ValueError(
                f"{type(self).__name__}: the labels have shape {np.shape(y)} and the outputs {np.shape(y_hat)}; they "
                "must agree. A class is given as a row of zeros with a single one"
            )
        self.loss_val = self.function(y, y_hat)
        return self.loss_val

    def function(self, y: Any, y_hat: Any) -> Any:
        """What is computed."""
        raise TypeError(f"{type(self).__name__} is what losses share: take one of them, or define function(y, y_hat)")

    def backward(self) -> None:
        """Go back from the loss, whose gradient with respect to itself is 1."""
        self.autograd_engine.backward(1)

    def _record(self, backward_operation: Any, output: Any, *inputs: Any) -> Any:
        """Write an operation down; its output, as an array."""
        output = np.asarray(output)
        self.autograd_engine.add_operation(list(inputs), output, [None] * len(inputs), backward_operation)
        return output


class MSELoss(LossFN):
    """The mean of the squared differences."""

    def function(self, y: Any, y_hat: Any) -> Any:
        """The loss, by four operations."""
        difference = self._record(sub_backward, y_hat - y, y_hat, y)
        squares = self._record(mul_backward, difference * difference, difference, difference)
        total = self._record(sum_backward, np.sum(squares), squares)
        count = np.array(float(squares.size))
        return self._record(div_backward, total / count, total, count)


class SoftmaxCrossEntropy(LossFN):
    """The mean over the batch of -sum(y * log(softmax(y_hat))), for rows of scores and of one-hot labels."""

    def function(self, y: Any, y_hat: Any) -> Any:
        """The loss, of shape (1,), by one operation."""
        if np.ndim(y) != 2:
            raise ValueError(f"SoftmaxCrossEntropy takes labels of shape (batch, classes), not {np.shape(y)}")
        shifted = y_hat - y_hat.max(axis=-1, keepdims=True)  # so that the largest power is exp(0)
        log_softmax = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        loss = (y * -log_softmax).sum() / len(y)
        return self._record(SoftmaxCrossEntropy_backward, loss.reshape(1), y_hat, y)
