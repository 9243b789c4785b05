"""Linear: a weighted sum of the inputs, and a bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd_engine import Autograd
from ..functional import add_backward, matmul_backward


class Linear:
    """y = x W^T + b^T, for rows x. `dW` and `db` collect the gradients of `W` (out, in) and `b` (out, 1)."""

    def __init__(self, in_features: int, out_features: int, autograd_engine: Autograd) -> None:
        bound = np.sqrt(1 / in_features)
        self.W = np.random.uniform(-bound, bound, size=(out_features, in_features))
        self.b = np.random.uniform(-bound, bound, size=(out_features, 1))
        self.dW = np.zeros(self.W.shape)
        self.db = np.zeros(self.b.shape)
        self.momentum_W = np.zeros(self.W.shape)
        self.momentum_b = np.zeros(self.b.shape)
        self.autograd_engine = autograd_engine

    def __call__(self, x: Any) -> Any:
        return self.forward(x)

    def forward(self, x: Any) -> Any:
        """The outputs for a batch of rows, by two operations: a product and a sum."""
        product = x @ self.W.T
        self.autograd_engine.add_operation(
            inputs=[x, self.W.T],
            output=product,
            gradients_to_update=[None, self.dW.T],  # a view: what is added to it is added to dW
            backward_operation=matmul_backward,
        )
        y = product + self.b.T
        self.autograd_engine.add_operation(
            inputs=[product, self.b.T],
            output=y,
            gradients_to_update=[None, self.db.T],
            backward_operation=add_backward,
        )
        return y
