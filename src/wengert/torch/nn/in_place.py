"""Layers with `inplace=True`: their input takes the result too, as whoever holds it expects."""

from __future__ import annotations

from typing import Any

from wengert.torch.nn.module import part_of
from wengert.torch.tensor import Tensor, write


@part_of("_PlainInplace", "_Exponential", "LeakyReLU", "Threshold", "RReLU", "Hardtanh", "_Dropout")
def forward(self: Any, input: Any) -> Any:
    """The layer's output, which also replaces its input if it works in place."""
    base: Any = next(kind for kind in type(self).__mro__ if kind.__module__.startswith("wengert.nn."))
    result = base.forward(self, input)
    if not self.inplace or result is input or not isinstance(input, Tensor):
        return result
    return write(input, result)
