"""Layers, activations and losses that write their operations on the tape."""

from . import activation, functional, linear, loss, modules
from .modules import Activation, Identity, Linear, LossFN, MSELoss, ReLU, Sigmoid, SoftmaxCrossEntropy, Tanh

__all__ = [
    *("Activation", "Identity", "Linear", "LossFN", "MSELoss", "ReLU", "Sigmoid", "SoftmaxCrossEntropy", "Tanh"),
    *("activation", "functional", "linear", "loss", "modules"),
]
