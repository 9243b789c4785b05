"""Devices by name: "cpu", and "cuda:0", "cuda:1", ... for GPUs. "cuda" is the first of them.

A GPU is opened when it is named first, so that what is missing is said on the user's line. The runtime says how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from wengert.core.errors import DeviceError

default = "cpu"

opener: Callable[[str], Any] | None = None
"""Opens a GPU, or raises with what is missing; set by the runtime."""

_opened: set[str] = set()
keepers: WeakSet[Any] = WeakSet()
"""Who keeps memory of GPUs that nobody refers to for the next call: `let_go` is called where it is short."""


def named(device: Any, asker: str) -> str:
    """The full name of a device, which is there; raises in the name of who asked for it.

    >>> named("cpu", "zeros")
    'cpu'
    """
    if device == "cpu":
        return "cpu"
    if not is_device(device):
        raise DeviceError(f"{asker}: {device!r} is no device; there is 'cpu', and 'cuda' where there is an NVIDIA GPU")
    full = device if ":" in device else f"{device}:0"
    if full not in _opened:
        assert opener is not None
        opener(full)
        _opened.add(full)
    return full


def in_use() -> list[str]:
    """The GPUs that were named so far."""
    return sorted(_opened)


def is_device(name: Any) -> bool:
    """Whether this is the name of a device, there or not."""
    if not isinstance(name, str):
        return False
    kind, _, index = name.partition(":")
    return (kind == "cpu" and not index) or (kind == "cuda" and (not index or index.isdigit()))


def set_default_device(device: str) -> None:
    """Have tensors that are made without a device be on this one from now on.

    >>> import wengert as wg
    >>> wg.set_default_device("cpu")
    """
    global default
    default = named(device, "set_default_device")
    if on_change is not None:
        on_change()


on_change: Callable[[], Any] | None = None
"""Told that the default is another: recorded functions may mean another device now; set by the runtime."""


def gpus() -> list[str]:
    """The GPUs there are, by name; none where CUDA is not installed or has no driver."""
    return [] if lister is None else lister()


lister: Callable[[], list[str]] | None = None
"""Names the GPUs; set by the runtime."""
