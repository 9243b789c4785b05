"""What `safetensors.torch` reads when it saves a tensor: an array of its bytes, not memory at `data_ptr()`.

A tensor's `data_ptr()` here only tells whether tensors share memory: values are computed later, and may move.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from wengert.tensor import engine


def adapt(module: ModuleType) -> None:
    """Have the module save tensors of this package."""
    module._to_ndarray = _bytes_of  # type: ignore[attr-defined]


def _bytes_of(tensor: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """The bytes of a tensor, and what keeps them in memory."""
    array = np.ascontiguousarray(engine.value(tensor.node))
    return array.reshape(-1).view(np.uint8), array
