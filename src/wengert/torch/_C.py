"""`torch._C`: the few names of it that programs with classes of tensors use."""

from __future__ import annotations

from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.subclasses import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from wengert.torch.subclasses import disabled as _disabled_torch_function_impl  # noqa: F401

DisableTorchFunction = DisableTorchFunctionSubclass


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch._C", name)
