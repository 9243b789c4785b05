"""`torch._dynamo.eval_frame`: the class of a compiled module, which libraries look for to unwrap it."""

from __future__ import annotations

from typing import Any

from wengert.torch.compiling import OptimizedModule as OptimizedModule
from wengert.torch.missing import missing_attribute as _missing_attribute


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch._dynamo.eval_frame", name)
