"""What PyTorch refuses and Wengert takes: dtypes that differ, and targets that are no classes.

In: the operands of a layer or function. Out: nothing, or the RuntimeError (NotImplementedError) that PyTorch raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import INEXACT
from wengert.core.graph import recording
from wengert.torch import dtypes

_CLASSES = (np.dtype(np.int64), np.dtype(np.uint8))


def _kind(x: Any) -> str:
    return dtypes.scalar_name(x.node.dtype)


def require_one_dtype(name: str, input: Any, weight: Any) -> None:
    """Raise where an input and a weight have different dtypes. Under autocast they may: both are cast."""
    if recording.autocast is not None or not hasattr(input, "node") or not hasattr(weight, "node"):
        return
    if input.node.dtype is not weight.node.dtype:
        raise RuntimeError(
            f"{name}: the input and the weight must have the same dtype, but got {_kind(input)} and {_kind(weight)}"
        )


def require_classes(target: Any) -> None:
    """Raise where numbers of classes are integers other than int64 and uint8."""
    dtype = target.node.dtype if hasattr(target, "node") else None
    if dtype is not None and dtype not in INEXACT and dtype not in _CLASSES:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {_kind(target)}")


def require_floats(name: str, input: Any) -> None:
    """Raise where an input is not of real or complex floating-point numbers."""
    if hasattr(input, "node") and input.node.dtype not in INEXACT:
        raise NotImplementedError(f"\"{name}\" not implemented for '{_kind(input)}'")
