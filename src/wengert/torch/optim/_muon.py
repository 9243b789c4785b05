"""`torch.optim._muon`: where PyTorch's file has `Muon`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

Muon = optimizer_of(_optim.Muon)

__all__ = ["Muon", "Optimizer"]
