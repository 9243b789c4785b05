"""`torch.utils`: data, checkpoint and the rest of the toolbox."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute

_LATER = ("_pytree", "checkpoint", "data", "dlpack", "hooks", "model_zoo", "tensorboard")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return _import_module(f"wengert.torch.utils.{name}")
    return _missing_attribute("torch.utils", name)
