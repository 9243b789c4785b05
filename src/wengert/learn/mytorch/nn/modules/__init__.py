"""Layers, activations and losses, a file each."""

from .activation import Activation, Identity, ReLU, Sigmoid, Tanh
from .linear import Linear
from .loss import LossFN, MSELoss, SoftmaxCrossEntropy

__all__ = ["Activation", "Identity", "Linear", "LossFN", "MSELoss", "ReLU", "Sigmoid", "SoftmaxCrossEntropy", "Tanh"]
