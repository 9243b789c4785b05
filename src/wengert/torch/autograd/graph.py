"""`torch.autograd.graph`: what PyTorch does with values that a backward pass needs; here the compiler decides that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute


@contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """Inside, values stay where they are: nothing is moved to the host."""
    yield


@contextmanager
def saved_tensors_hooks(pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> Iterator[None]:
    """Say that the hooks would not be called."""
    raise RuntimeError(
        "torch.autograd.graph.saved_tensors_hooks is not in wengert.torch: the graph keeps values itself; "
        "torch.utils.checkpoint computes them again"
    )
    yield


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.autograd.graph", name)
