"""`torch.optim`: Wengert's optimizers; their schedules are in `lr_scheduler`, averages in `swa_utils`."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

from wengert import optim as _optim
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.optim import optimizer
from wengert.torch.optim.optimizer import Optimizer, optimizer_of

for _name, _kind in list(vars(_optim).items()):
    if isinstance(_kind, type) and issubclass(_kind, _optim.Optimizer):
        globals()[_name] = optimizer_of(_kind)

from wengert.torch.optim import lr_scheduler, swa_utils  # noqa: E402  (which are for those)

_FILES = (
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "lbfgs",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
)


def __getattr__(name: str) -> Any:
    if name in (*_FILES, "sparse_adam"):
        return _import_module(f"wengert.torch.optim.{name}")
    return _missing_attribute("torch.optim", name)
