"""`torch.fx`: what libraries mark for PyTorch's tracer. Tracing itself is not there: Wengert records what runs."""

from __future__ import annotations

from typing import Any, NoReturn

from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.module import Module


def wrap(fn_or_name: Any) -> Any:
    """The function, or its name, as it is: a leaf for a tracer."""
    return fn_or_name


def symbolic_trace(root: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Say that it is not there."""
    raise RuntimeError("torch.fx.symbolic_trace is not in wengert.torch: wg.inspect.page(model, ...) shows the graph")


class GraphModule(Module):
    """What tracing gives in PyTorch. There is none here: `isinstance` says no of every module."""


class Tracer:
    """What traces in PyTorch; a library may derive its own from it."""

    def trace(self, root: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Say that it is not there."""
        symbolic_trace(root)


class Proxy:
    """What stands for a tensor while PyTorch traces. There is none here: `isinstance` says no of every tensor."""


Graph = type("Graph", (), {"__doc__": "A traced graph in PyTorch. There is none here."})
Node = type("Node", (), {"__doc__": "A step of a traced graph in PyTorch. There is none here."})


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.fx", name)
