"""A multi-layer perceptron out of the layers of `mytorch`. Not graded: `mlp_runner.py` shows whether it learns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from mytorch.nn import Linear


class MLP:
    """Linear layers, each followed by an activation, trained by gradient descent with momentum."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hiddens: list[int],
        activations: list[Any],
        criterion: Any,
        lr: float,
        autograd_engine: Any,
        momentum: float = 0.0,
    ) -> None:
        sizes = [input_size, *hiddens, output_size]
        self.autograd_engine = autograd_engine
        self.linear_layers = [Linear(a, b, autograd_engine) for a, b in pairwise(sizes)]
        self.activations = activations
        self.criterion = criterion
        self.lr = lr
        self.momentum = momentum
        self.output: Any = None

    def __call__(self, x: Any) -> Any:
        return self.forward(x)

    def forward(self, x: Any) -> Any:
        """The scores (batch, output_size) of rows x; `self.output` keeps them."""
        raise NotImplementedError("TODO: MLP.forward")

    def zero_grads(self) -> None:
        """Forget the tape, and fill dW and db of all layers with zeros."""
        raise NotImplementedError("TODO: MLP.zero_grads")

    def step(self) -> None:
        """Move W and b of all layers against their gradients, with momentum (`momentum_W`, `momentum_b`)."""
        raise NotImplementedError("TODO: MLP.step")

    def error(self, labels: Any) -> int:
        """How many rows of the last output have their highest score at another class than their label."""
        return int(np.sum(self.output.argmax(axis=1) != labels.argmax(axis=1)))
