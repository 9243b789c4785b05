"""`torch.optim.adadelta`: where PyTorch's file has `Adadelta`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

Adadelta = optimizer_of(_optim.Adadelta)

__all__ = ["Adadelta", "Optimizer"]
