"""`torch.optim.adam`: where PyTorch's file has `Adam`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

Adam = optimizer_of(_optim.Adam)

__all__ = ["Adam", "Optimizer"]
