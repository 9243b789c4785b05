"""Reverse mode on single numbers, in a hundred lines: after Andrej Karpathy's micrograd, under its names.

`engine` has the `Value`, `nn` the neurons, layers and multi-layer perceptrons made of it. Nothing but Python is needed.
"""

from . import nn
from .engine import Value
from .nn import MLP, Layer, Neuron

__all__ = ["MLP", "Layer", "Neuron", "Value", "nn"]
