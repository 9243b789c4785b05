"""`torch.optim.lr_scheduler`: Wengert's schedules, and the base for a program's own."""

from __future__ import annotations

from typing import Any

from wengert import optim as _optim
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.optim.optimizer import Optimizer as _Optimizer

for _name, _kind in list(vars(_optim).items()):
    is_schedule = isinstance(_kind, type) and (issubclass(_kind, _optim.LRScheduler) or "LR" in _name)
    if is_schedule and _name not in ("Tensor",):
        globals()[_name] = _kind

Optimizer: Any = _Optimizer
ChainedScheduler = _optim.ChainedScheduler
LRScheduler: Any = _optim.LRScheduler
_LRScheduler = LRScheduler


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.optim.lr_scheduler", name)
