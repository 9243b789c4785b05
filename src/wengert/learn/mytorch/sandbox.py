"""A place to try the engine out: one operation after the other, and a look at the tape.

python -m wengert.learn.mytorch.sandbox
"""

from __future__ import annotations

import numpy as np

from .autograd_engine import Autograd
from .nn import Linear, SoftmaxCrossEntropy
from .nn.functional import add_backward, mul_backward


def operations_by_hand() -> None:
    """y = x1 * x2 + x1, written down line by line."""
    engine = Autograd()
    x1, x2 = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])
    product = x1 * x2
    engine.add_operation([x1, x2], product, [None, None], mul_backward)
    y = product + x1
    engine.add_operation([product, x1], y, [None, None], add_backward)
    engine.backward(1)
    print("the tape          ", engine.operation_list)
    print("dy/dx1 = x2 + 1 = ", engine.gradient_buffer.get_param(x1))
    print("dy/dx2 = x1     = ", engine.gradient_buffer.get_param(x2))


def a_layer_and_a_loss() -> None:
    """The gradients that a layer's parameters collect."""
    np.random.seed(0)
    engine = Autograd()
    layer, loss = Linear(2, 3, engine), SoftmaxCrossEntropy(engine)
    value = loss(np.array([[0.0, 1.0, 0.0]]), layer(np.array([[0.5, -1.0]])))
    loss.backward()
    print("the loss          ", value)
    print("dW                ", *layer.dW)
    print("db                ", layer.db.ravel())


if __name__ == "__main__":
    operations_by_hand()
    a_layer_and_a_loss()
