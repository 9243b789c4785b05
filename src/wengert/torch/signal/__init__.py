"""`torch.signal`: windows."""

from __future__ import annotations

from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.signal import windows

__all__ = ["windows"]


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.signal", name)
