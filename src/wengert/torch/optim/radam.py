"""`torch.optim.radam`: where PyTorch's file has `RAdam`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

RAdam = optimizer_of(_optim.RAdam)

__all__ = ["Optimizer", "RAdam"]
