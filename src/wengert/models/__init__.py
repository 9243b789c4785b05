"""Models to train and to compare with: MLP, ConvNet, ResNet, GPT, under the names that published weights have.

`load_weights` gives a model the values of a safetensors file by name.
"""

from wengert.models.convnet import ConvNet
from wengert.models.generation import KeyValueCache
from wengert.models.gpt import GPT, GPTConfig
from wengert.models.mlp import MLP
from wengert.models.resnet import ResNet, resnet18, resnet34, resnet50
from wengert.models.weights import load_weights

__all__ = [
    "GPT",
    "MLP",
    "ConvNet",
    "GPTConfig",
    "KeyValueCache",
    "ResNet",
    "load_weights",
    "resnet18",
    "resnet34",
    "resnet50",
]
