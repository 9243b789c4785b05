"""Neural networks of single numbers: a Neuron weighs its inputs, a Layer is neurons, an MLP is layers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .engine import Value

Number = Value | float


class Module:
    """Something with parameters."""

    def parameters(self) -> list[Value]:
        """The Values to learn."""
        return []

    def zero_grad(self) -> None:
        """Forget the gradients of the parameters."""
        for parameter in self.parameters():
            parameter.grad = 0.0


class Neuron(Module):
    """A weighted sum of `nin` inputs plus a bias, through a relu if `nonlin`."""

    def __init__(self, nin: int, nonlin: bool = True) -> None:
        self.w = [Value(random.uniform(-1, 1)) for _ in range(nin)]
        self.b = Value(0.0)
        self.nonlin = nonlin

    def __call__(self, x: Sequence[Number]) -> Value:
        if len(x) != len(self.w):
            raise ValueError(f"the neuron takes {len(self.w)} inputs, {len(x)} were given")
        total = sum((weight * value for weight, value in zip(self.w, x)), self.b)
        return total.relu() if self.nonlin else total

    def parameters(self) -> list[Value]:
        """The weights and the bias."""
        return [*self.w, self.b]

    def __repr__(self) -> str:
        return f"{'ReLU' if self.nonlin else 'Linear'}Neuron({len(self.w)})"


class Layer(Module):
    """`nout` neurons that see the same `nin` inputs."""

    def __init__(self, nin: int, nout: int, **kwargs: Any) -> None:
        self.neurons = [Neuron(nin, **kwargs) for _ in range(nout)]

    def __call__(self, x: Sequence[Number]) -> Any:
        outputs = [neuron(x) for neuron in self.neurons]
        return outputs[0] if len(outputs) == 1 else outputs

    def parameters(self) -> list[Value]:
        """Those of all neurons."""
        return [parameter for neuron in self.neurons for parameter in neuron.parameters()]

    def __repr__(self) -> str:
        return f"Layer of [{', '.join(map(str, self.neurons))}]"


class MLP(Module):
    """Layers from `nin` inputs through each of `nouts`, with a relu after all but the last."""

    def __init__(self, nin: int, nouts: Sequence[int]) -> None:
        sizes = list(pairwise([nin, *nouts]))
        self.layers = [Layer(a, b, nonlin=i < len(sizes) - 1) for i, (a, b) in enumerate(sizes)]

    def __call__(self, x: Sequence[Number]) -> Any:
        outputs: Any = x
        for i, layer in enumerate(self.layers):
            outputs = layer([outputs] if i and isinstance(outputs, Value) else outputs)
        return outputs

    def parameters(self) -> list[Value]:
        """Those of all layers."""
        return [parameter for layer in self.layers for parameter in layer.parameters()]

    def __repr__(self) -> str:
        return f"MLP of [{', '.join(map(str, self.layers))}]"
