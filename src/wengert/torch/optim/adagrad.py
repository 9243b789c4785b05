"""`torch.optim.adagrad`: where PyTorch's file has `Adagrad`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

Adagrad = optimizer_of(_optim.Adagrad)

__all__ = ["Adagrad", "Optimizer"]
