"""`torch.nn.attention`: which kernel computes attention, which here the compiler decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute


class SDPBackend(Enum):
    """PyTorch's names for ways to compute attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Select attention backends; without effect, because the result is the same."""
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in given:
        if not isinstance(backend, SDPBackend):
            raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.nn.attention", name)
