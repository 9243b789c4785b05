"""`torch.optim.asgd`: where PyTorch's file has `ASGD`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

ASGD = optimizer_of(_optim.ASGD)

__all__ = ["ASGD", "Optimizer"]
