"""`torch.utils.dlpack`: arrays of other libraries as tensors, in the same memory where that is possible."""

from __future__ import annotations

from typing import Any

import wengert.torch as _torch


def from_dlpack(ext_tensor: Any, **options: Any) -> Any:
    """A tensor of what another library has."""
    return _torch.from_dlpack(ext_tensor, **options)


def to_dlpack(tensor: Any) -> Any:
    """The capsule that another library takes."""
    return tensor.__dlpack__()
