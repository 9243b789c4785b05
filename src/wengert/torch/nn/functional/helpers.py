"""Names of `torch.nn.functional` that are no functions of tensors: what PyTorch's own files import from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.torch.tensor import Tensor

DType = int
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Raise an error unless an argument is a number or a pair."""
    if not isinstance(arg, int) and len(arg) != 2:
        raise AssertionError(message.format(arg_name))


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str | None,
    func_name: str,
) -> Callable[..., Any]:
    """A function that dispatches to one of two, depending on an argument."""

    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    call.__name__ = call.__qualname__ = func_name
    call.__doc__ = if_false.__doc__
    return call


def _is_overriding(value: Any) -> bool:
    return not isinstance(value, Tensor) and hasattr(type(value), "__torch_function__")


def has_torch_function(relevant_args: Any) -> bool:
    """Whether one of these defines `__torch_function__` and is not a tensor of this package."""
    return any(map(_is_overriding, relevant_args))


def has_torch_function_unary(value: Any) -> bool:
    """Whether this defines `__torch_function__` and is not a tensor of this package."""
    return _is_overriding(value)


def has_torch_function_variadic(*values: Any) -> bool:
    """Whether one of these defines `__torch_function__` and is not a tensor of this package."""
    return any(map(_is_overriding, values))


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Dispatch a call to the first argument that defines `__torch_function__`."""
    types = tuple({type(value) for value in relevant_args if _is_overriding(value)})
    for value in filter(_is_overriding, relevant_args):
        found = type(value).__torch_function__(public_api, types, args, kwargs)
        if found is not NotImplemented:
            return found
    raise TypeError(f"no implementation found for {public_api.__name__!r} on types that implement __torch_function__")
