"""`torch.optim._adafactor`: where PyTorch's file has `Adafactor`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

Adafactor = optimizer_of(_optim.Adafactor)

__all__ = ["Adafactor", "Optimizer"]
