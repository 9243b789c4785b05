"""Optimizers, schedules for their learning rates, gradient clipping, loss scaling and averages of parameters.

PyTorch's names, arguments and numbers. Everything that changes while training is a tensor that a step assigns.
"""

from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from wengert.optim.adaptive import Adadelta, Adagrad, RMSprop
from wengert.optim.average import ExponentialMovingAverage
from wengert.optim.chain import ChainedScheduler, SequentialLR
from wengert.optim.clip import clip_grad_norm_, clip_grad_value_
from wengert.optim.cycle import CosineAnnealingLR, CosineAnnealingWarmRestarts, OneCycleLR
from wengert.optim.groups import ParameterGroup
from wengert.optim.lion import Lion
from wengert.optim.muon import Muon
from wengert.optim.optimizer import Optimizer
from wengert.optim.plateau import ReduceLROnPlateau
from wengert.optim.scaling import GradScaler
from wengert.optim.schedule import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from wengert.optim.sgd import SGD

__all__ = [
    "Optimizer",
    "ParameterGroup",
    "SGD",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "Adagrad",
    "Adadelta",
    "RMSprop",
    "Lion",
    "Muon",
    "clip_grad_norm_",
    "clip_grad_value_",
    "GradScaler",
    "ExponentialMovingAverage",
    "LRScheduler",
    "LambdaLR",
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "PolynomialLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "ReduceLROnPlateau",
    "ChainedScheduler",
    "SequentialLR",
]


def __getattr__(name: str) -> object:
    return _module_attribute(name, __all__, __name__)
