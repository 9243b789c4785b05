"""`torch.optim.sgd`: where PyTorch's file has `SGD`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

SGD = optimizer_of(_optim.SGD)

__all__ = ["SGD", "Optimizer"]
