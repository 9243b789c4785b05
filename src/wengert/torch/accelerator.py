"""`torch.accelerator`: the GPU, if there is one."""

from __future__ import annotations

from typing import Any

from wengert.torch import cuda
from wengert.torch.devices import device


def is_available() -> bool:
    """Whether there is an accelerator."""
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> device | None:
    """The accelerator's kind, or None."""
    return device("cuda") if cuda.is_available() else None


def device_count() -> int:
    """How many there are."""
    return cuda.device_count()


def current_device_index() -> int:
    """The number of the one in use."""
    return cuda.current_device()


def synchronize(device: Any = None) -> None:
    """Wait until everything recorded has been computed."""
    cuda.synchronize(device)


set_device_index = set_device_idx = cuda.set_device
