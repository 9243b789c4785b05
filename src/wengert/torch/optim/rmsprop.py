"""`torch.optim.rmsprop`: where PyTorch's file has `RMSprop`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

RMSprop = optimizer_of(_optim.RMSprop)

__all__ = ["Optimizer", "RMSprop"]
