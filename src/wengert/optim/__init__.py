"""Optimizers, schedules for their learning rates, gradient clipping, loss scaling and averages of parameters.

PyTorch's names, arguments and numbers. Everything that changes while training is a tensor that a step assigns.
"""

from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.optim.adafactor import Adafactor
from wengert.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from wengert.optim.adaptive import Adadelta, Adagrad, RMSprop
from wengert.optim.average import ExponentialMovingAverage
from wengert.optim.averaged_sgd import ASGD
from wengert.optim.chain import ChainedScheduler, SequentialLR
from wengert.optim.clip import clip_grad_norm_, clip_grad_value_
from wengert.optim.cycle import CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from wengert.optim.groups import ParameterGroup
from wengert.optim.lbfgs import LBFGS
from wengert.optim.lion import Lion
from wengert.optim.muon import Muon
from wengert.optim.optimizer import Optimizer
from wengert.optim.plateau import ReduceLROnPlateau
from wengert.optim.rprop import Rprop
from wengert.optim.scaling import GradScaler
from wengert.optim.schedule import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from wengert.optim.sgd import SGD
from wengert.optim.sparse_adam import SparseAdam
from wengert.optim.swa import (
    SWALR,
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    get_swa_multi_avg_fn,
    update_bn,
)

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
    "Rprop",
    "ASGD",
    "Adafactor",
    "SparseAdam",
    "LBFGS",
    "Lion",
    "Muon",
    "clip_grad_norm_",
    "clip_grad_value_",
    "GradScaler",
    "ExponentialMovingAverage",
    "AveragedModel",
    "get_swa_avg_fn",
    "get_ema_avg_fn",
    "get_swa_multi_avg_fn",
    "get_ema_multi_avg_fn",
    "update_bn",
    "LRScheduler",
    "LambdaLR",
    "MultiplicativeLR",
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "PolynomialLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "CyclicLR",
    "SWALR",
    "ReduceLROnPlateau",
    "ChainedScheduler",
    "SequentialLR",
]


def __getattr__(name: str) -> object:
    return _module_attribute(name, __all__, __name__)
