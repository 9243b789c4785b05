"""`torch._dynamo`: what programs set and call of PyTorch's tracer; here it is `torch.compiler`."""

from __future__ import annotations

from typing import Any

from wengert.torch import compiler
from wengert.torch._dynamo import eval_frame as eval_frame
from wengert.torch.compiler import config as config
from wengert.torch.compiler import disable as disable
from wengert.torch.compiler import reset as reset
from wengert.torch.compiling import OptimizedModule as OptimizedModule
from wengert.torch.missing import missing_attribute as _missing_attribute


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not hasattr(compiler, name):
        return _missing_attribute("torch._dynamo", name)
    return getattr(compiler, name)
