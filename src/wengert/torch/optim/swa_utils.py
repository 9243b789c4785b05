"""`torch.optim.swa_utils`: averages of a model's parameters, and the learning rate at which they are taken."""

from __future__ import annotations

from typing import Any

from wengert import optim as _optim
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.module import layer_of
from wengert.torch.optim.lr_scheduler import SWALR, LRScheduler

AveragedModel: Any = layer_of(_optim.AveragedModel)
get_ema_avg_fn, get_swa_avg_fn = _optim.get_ema_avg_fn, _optim.get_swa_avg_fn
get_ema_multi_avg_fn, get_swa_multi_avg_fn = _optim.get_ema_multi_avg_fn, _optim.get_swa_multi_avg_fn
update_bn = _optim.update_bn

__all__ = ["SWALR", "AveragedModel", "LRScheduler", "update_bn"]


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.optim.swa_utils", name)
