"""`torch.distributed.algorithms`: the names that libraries ask for."""

from __future__ import annotations

from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.distributed.algorithms", name)
