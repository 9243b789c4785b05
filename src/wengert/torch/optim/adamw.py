"""`torch.optim.adamw`: where PyTorch's file has `AdamW`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

AdamW = optimizer_of(_optim.AdamW)

__all__ = ["AdamW", "Optimizer"]
