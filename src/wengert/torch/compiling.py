"""`torch.compile`: Wengert's compiler where it can take a function as a whole, else the function as it is.

A forward pass whose loss is differentiated outside stays dynamic: the whole step, the backward pass included, is one
pending graph then, and compiled when it comes back. What cannot be recorded (a value is looked at, a list is appended
to) runs as it is too, as behind PyTorch's graph breaks; a warning says so once, `fullgraph=True` raises instead.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.core import tree
from wengert.core.context import mode
from wengert.core.errors import WengertError
from wengert.core.graph import recording
from wengert.torch.nn.module import Module


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "wengert",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """Compile a function or module where possible; `backend`, `mode`, `options` are PyTorch's and ignored."""
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, disable=disable)
    if disable:
        return model
    if isinstance(model, Module):
        return OptimizedModule(model, fullgraph)
    return functools.wraps(model)(_Optimized(model, fullgraph))


class _Optimized:
    """A function that is compiled when it is called, if it can be."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool) -> None:
        self._function = function
        self._compiled = wg.compile(function)
        self._fullgraph = fullgraph
        self._calls = 0
        self._is_part = False  # of a graph that is differentiated outside
        self._is_plain = False  # since it cannot be recorded

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_plain or recording.trace is not None or (self._is_part and mode().grad):
            return self._function(*args, **kwargs)
        self._calls += 1
        if self._calls == 1 and mode().grad and not self._fullgraph:
            result = self._function(*args, **kwargs)  # which shows whether it is to be differentiated
            self._is_part = any(isinstance(x, wg.Tensor) and x.node.tracked for x in tree.flatten(result)[0])
            return result
        try:
            return self._compiled(*args, **kwargs)
        except WengertError as error:
            if self._fullgraph:
                raise
            self._is_plain = True
            result = self._function(*args, **kwargs)  # a mistake of the function's raises here again
            name = getattr(self._function, "__qualname__", type(self._function).__name__)
            warnings.warn(f"torch.compile: {name} runs uncompiled, op by op: {error.message}", stacklevel=2)
            return result


class OptimizedModule(Module):
    """A module whose calls are compiled where possible; `_orig_mod` is the original module."""

    def __init__(self, module: Module, fullgraph: bool = False) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["_call"] = _Optimized(module.__call__, fullgraph)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_call"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name != "_orig_mod" and "_orig_mod" in self.__dict__:
            return getattr(self.__dict__["_orig_mod"], name)
        return super().__getattr__(name)

    def train(self, mode: bool = True) -> Any:
        """Set training mode of the module."""
        self.training = mode
        self._orig_mod.train(mode)
        return self
