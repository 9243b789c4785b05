"""`torch.optim.sparse_adam`: where PyTorch's file has `SparseAdam`."""

from wengert import optim as _optim
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

SparseAdam = optimizer_of(_optim.SparseAdam)

__all__ = ["Optimizer", "SparseAdam"]
