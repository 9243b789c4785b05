"""The same as `modules.activation`, where older handouts look for it."""

from .modules.activation import Activation, Identity, ReLU, Sigmoid, Tanh

__all__ = ["Activation", "Identity", "ReLU", "Sigmoid", "Tanh"]
