"""`torch.optim.rprop`: where PyTorch's file has `Rprop`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

Rprop = optimizer_of(_optim.Rprop)

__all__ = ["Optimizer", "Rprop"]
