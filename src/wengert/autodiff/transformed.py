"""The result of a transform: a callable with the function's name, which is pickled and copied as that function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from wengert.core.errors import DTypeError
from wengert.core.pickled_names import reduced
from wengert.tensor import Tensor


class Transformed:
    """The function that `make(function, *options)` returns; `run` is what it does when called."""

    def __init__(self, run: Callable[..., Any], make: Callable[..., Any], function: Any, options: Any) -> None:
        functools.update_wrapper(self, function)
        self._run, self._make, self._options = run, make, options

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        of = getattr(self.__wrapped__, "__qualname__", type(self.__wrapped__).__name__)  # type: ignore[attr-defined]
        return f"<{self._make.__name__} of {of}>"

    def __reduce__(self) -> Any:
        return reduced(self, self._make, self.__wrapped__, self._options)  # type: ignore[attr-defined]

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


def transformed(
    make: Callable[..., Any], function: Any, *options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for the function that a transform runs instead of the original, like `functools.wraps`."""
    if not callable(function):
        raise DTypeError(f"{make.__name__} takes a function, not {_described(function, make.__name__)}")
    return lambda run: Transformed(run, make, function, options)


def _described(value: Any, name: str) -> str:
    if not isinstance(value, Tensor) or name == "vmap":
        return f"a {type(value).__name__}"
    return (
        "a Tensor. For a loss that is already computed, call loss.backward() and read p.grad of each parameter; or "
        f"write the loss as a function of the parameters: wg.{name}(lambda w: ...)(w)"
    )
