"""What `import torchvision` finds: data sets, transforms, models and helpers, as far as Wengert has them."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute

__version__ = "0.28.0+wengert"
_LATER = ("datasets", "io", "models", "ops", "transforms", "utils")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return _import_module(f"wengert.torch.vision.{name}")
    return _missing_attribute("torchvision", name)
