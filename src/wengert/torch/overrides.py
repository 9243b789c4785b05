"""`torch.overrides`: how functions of one's own ask whether an argument answers for them by `__torch_function__`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import wengert as wg
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.subclasses import answers


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor, or behaves like one."""
    return isinstance(inp, wg.Tensor) or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the arguments has `__torch_function__`."""
    return any(answers(type(each)) for each in relevant_args)


def has_torch_function_unary(arg: Any) -> bool:
    """Whether the argument has `__torch_function__`."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """Whether one of the arguments has `__torch_function__`."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Dispatch to the first argument that implements the function; subclasses come before their bases."""
    asked = [each for each in relevant_args if answers(type(each))]
    kinds = tuple({type(each): None for each in asked})
    for each in sorted(asked, key=lambda x: -len(type(x).__mro__)):
        result = each.__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    names = [kind.__name__ for kind in kinds]
    raise TypeError(f"no implementation found for {public_api.__name__!r} on types that implement it: {names}")


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that makes a function dispatch on the arguments that `dispatcher` returns."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.overrides", name)
