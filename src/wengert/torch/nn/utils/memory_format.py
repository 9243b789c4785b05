"""`torch.nn.utils.memory_format`: how weights lie in memory is for the compiler to say here."""

from __future__ import annotations

from typing import Any


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Return the module unchanged."""
    return module


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Return the module unchanged."""
    return module
