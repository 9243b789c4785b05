"""`torch.optim.lbfgs`: where PyTorch's file has `LBFGS`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

LBFGS = optimizer_of(_optim.LBFGS)

__all__ = ["LBFGS", "Optimizer"]
