"""`torch.nn.utils.parametrizations`: weight norm and spectral norm as parametrizations."""

from __future__ import annotations

from typing import Any

from wengert.nn.utils.parametrizations import spectral_norm, weight_norm
from wengert.torch.missing import missing_attribute as _missing_attribute

__all__ = ["spectral_norm", "weight_norm"]


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.nn.utils.parametrizations", name)
