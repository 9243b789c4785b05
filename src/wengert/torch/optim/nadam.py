"""`torch.optim.nadam`: where PyTorch's file has `NAdam`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

NAdam = optimizer_of(_optim.NAdam)

__all__ = ["NAdam", "Optimizer"]
