"""Registers a function under PyTorch's names: in the module, as a method, in place (`add_`), with `out=`.

Each family of functions is a file. A function is written once, over Tensors, with PyTorch's argument names, and
registers here the names under which it is found. The package's `__init__` and `Tensor` read the tables after all
families have been imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from wengert.torch.tensor import write

F = TypeVar("F", bound=Callable[..., Any])

functions: dict[str, Callable[..., Any]] = {}
"""What `torch.<name>` is."""

methods: dict[str, Any] = {}
"""What `Tensor.<name>` is: functions whose first argument is the tensor, and properties."""


def torch_function(
    *aliases: str, module: bool = True, method: bool = True, in_place: bool = False, out: bool = False
) -> Callable[[F], F]:
    """A decorator: the function is `torch.<its name>` and a method of Tensor, and so under each alias.

    With `in_place` there is `name_` too, which gives the tensor the result; with `out` the function takes `out=`.
    A trailing underscore that keeps a name from hiding a builtin (`sum_`) is not part of the public name.
    """

    def register(function: F) -> F:
        name = function.__name__.rstrip("_")
        public: Any = with_out(function) if out else function
        for each in (name, *aliases):
            if module:
                functions[each] = public
            if method:
                methods[each] = public
            if in_place:
                methods[f"{each}_"] = _in_place(function, f"{each}_")
        return function

    return register


def with_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a keyword `out`: a tensor, or a tuple of them, that gets the result."""

    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if out is None:
            return result
        if isinstance(out, (tuple, list)):
            for slot, value in zip(out, result):
                resized(slot, value)
            return type(result)(*out) if hasattr(result, "_fields") else tuple(out)
        return resized(out, result)

    return call


def resized(out: Any, value: Any) -> Any:
    """`out` with the value in it, and its shape."""
    if out.node.shape != value.node.shape:
        out.resize_(value.node.shape)
    return write(out, value)


def _in_place(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The method that gives its tensor what the function computes from it."""

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return write(self, function(self, *args, **kwargs))

    call.__name__ = call.__qualname__ = name
    return call
