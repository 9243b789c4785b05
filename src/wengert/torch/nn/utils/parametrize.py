"""`torch.nn.utils.parametrize`: parameters computed by modules."""

from __future__ import annotations

from typing import Any

from wengert.nn.utils import parametrize as _parametrize
from wengert.nn.utils.parametrize import (
    cached,
    is_parametrized,
    register_parametrization,
    remove_parametrizations,
    type_before_parametrizations,
)
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.module import layer_of

ParametrizationList: Any = layer_of(_parametrize.ParametrizationList)

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.nn.utils.parametrize", name)
