"""A multi-layer perceptron on the tape, and a run that trains it.

    python -m wengert.learn.mytorch.mlp

tells two half-moons of points apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .autograd_engine import Autograd
from .nn import Linear, ReLU, SoftmaxCrossEntropy


class MLP:
    """Linear layers of the given sizes with an activation between them, trained by gradient descent with momentum."""

    def __init__(self, sizes: Sequence[int], lr: float = 0.1, momentum: float = 0.9, activation: Any = ReLU) -> None:
        self.autograd_engine = Autograd()
        self.layers = [Linear(a, b, self.autograd_engine) for a, b in pairwise(sizes)]
        self.activations = [activation(self.autograd_engine) for _ in self.layers[1:]]
        self.criterion = SoftmaxCrossEntropy(self.autograd_engine)
        self.lr = lr
        self.momentum = momentum

    def forward(self, x: Any) -> Any:
        """A score for each class, for each row."""
        for layer, activation in zip(self.layers, self.activations):
            x = activation(layer(x))
        return self.layers[-1](x)

    def train_step(self, x: Any, y: Any) -> float:
        """Learn from a batch of rows and their one-hot labels; the loss before."""
        self.zero_grad()
        loss = self.criterion(y, self.forward(x))
        self.criterion.backward()
        self.step()
        return float(loss[0])

    def zero_grad(self) -> None:
        """Forget the tape and all gradients."""
        self.autograd_engine.zero_grad()
        for layer in self.layers:
            layer.dW.fill(0.0)
            layer.db.fill(0.0)

    def step(self) -> None:
        """Move the parameters against their gradients."""
        for layer in self.layers:
            layer.momentum_W = self.momentum * layer.momentum_W - self.lr * layer.dW
            layer.momentum_b = self.momentum * layer.momentum_b - self.lr * layer.db
            layer.W += layer.momentum_W
            layer.b += layer.momentum_b

    def accuracy(self, x: Any, y: Any) -> float:
        """The share of the rows whose own class gets the highest score."""
        self.autograd_engine.zero_grad()
        return float(np.mean(self.forward(x).argmax(axis=1) == y.argmax(axis=1)))


def moons(count: int, noise: float = 0.1) -> tuple[Any, Any]:
    """Points on two interleaved half circles, and their one-hot labels."""
    labels = np.arange(count) % 2
    angle = np.random.uniform(0, np.pi, count)
    outer = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = np.where(labels[:, None] == 0, outer, [1, 0.5] - outer)
    return points + np.random.normal(0, noise, points.shape), np.eye(2)[labels]


def main(epochs: int = 30, batch: int = 20) -> None:
    """Train on 200 points, and see how many of 200 others are told apart."""
    np.random.seed(0)
    x, y = moons(200)
    network = MLP([2, 16, 16, 2])
    for epoch in range(1, epochs + 1):
        order = np.random.permutation(len(x)).reshape(-1, batch)
        losses = [network.train_step(x[rows], y[rows]) for rows in order]
        if epoch == 1 or epoch % 10 == 0:
            print(f"epoch {epoch:3}   loss {np.mean(losses):.4f}")
    print(f"{network.accuracy(*moons(200)):.1%} of new points are told apart")


if __name__ == "__main__":
    main()
