"""`torch.types`: the types that programs use in annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any

from wengert.torch.devices import Size as Size
from wengert.torch.devices import device as _as_device
from wengert.torch.dtypes import dtype as _dtype  # noqa: F401
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import Tensor

Number = builtins.int | builtins.float | builtins.bool
_TensorOrTensors = Tensor | Sequence[Tensor]
_int, _float, _bool, _complex, _symbol = builtins.int, builtins.float, builtins.bool, builtins.complex, builtins.str
_size = Size | list[builtins.int] | tuple[builtins.int, ...]
_device = _as_device
Device = _as_device | builtins.str | builtins.int | None
FileLike = builtins.str | os.PathLike[builtins.str] | Any
SymInt = IntLikeType = builtins.int
FloatLikeType, BoolLikeType = builtins.float, builtins.bool


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.types", name)
