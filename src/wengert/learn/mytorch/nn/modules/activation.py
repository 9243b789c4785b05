"""Activations: functions applied to every number. `state` keeps the last output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd_engine import Autograd
from ..functional import identity_backward, max_backward, sigmoid_backward, tanh_backward


class Activation:
    """What activations share: called with an array, they write one operation down. This one gives a copy."""

    backward_operation: Callable[..., Any] = staticmethod(identity_backward)

    def __init__(self, autograd_engine: Autograd) -> None:
        self.autograd_engine = autograd_engine
        self.state: Any = None

    def __call__(self, x: Any) -> Any:
        return self.forward(x)

    def forward(self, x: Any) -> Any:
        """The function of an array."""
        self.state = self.function(x)
        self.autograd_engine.add_operation(
            inputs=[x], output=self.state, gradients_to_update=[None], backward_operation=self.backward_operation
        )
        return self.state

    def function(self, x: Any) -> Any:
        """What is computed: a new array, since an array shares its spot for gradients with nothing but itself."""
        return np.array(x)


class Identity(Activation):
    """x."""


class Sigmoid(Activation):
    """1 / (1 + exp(-x))."""

    backward_operation = staticmethod(sigmoid_backward)

    def function(self, x: Any) -> Any:
        """The sigmoid, written with tanh: exp(-x) would overflow."""
        return (1 + np.tanh(x / 2)) / 2


class Tanh(Activation):
    """The hyperbolic tangent."""

    backward_operation = staticmethod(tanh_backward)

    def function(self, x: Any) -> Any:
        """NumPy's own."""
        return np.tanh(x)


class ReLU(Activation):
    """max(0, x)."""

    backward_operation = staticmethod(max_backward)

    def function(self, x: Any) -> Any:
        """The larger of 0 and each number."""
        return np.maximum(0, x)
