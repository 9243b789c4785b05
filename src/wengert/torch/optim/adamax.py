"""`torch.optim.adamax`: where PyTorch's file has `Adamax`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

Adamax = optimizer_of(_optim.Adamax)

__all__ = ["Adamax", "Optimizer"]
