"""Pickling of callables made from a function: by their own name, or by the function's name and how they were made.

Python pickles functions by their names alone. `reduced` does the same for callables that wrap one, such as the result
of a transform or `compile`. If the function could not be found again, an error says why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from wengert.core.errors import ArgumentError

_MISSING = object()


def reduced(thing: Any, make: Callable[..., Any], function: Any, options: Sequence[Any]) -> Any:
    """The result of `__reduce__` for a callable made by `make(function, *options)`."""
    name = getattr(thing, "__qualname__", None)
    if name is not None and _found(thing.__module__, name) is thing:
        return name
    depth = 0
    if isinstance(function, FunctionType):  # anything else knows how it is pickled
        function, depth = _named(thing, function)
    return _made_again, (make, function, depth, tuple(options))


def name_by_place(variables: dict[str, Any]) -> None:
    """Name the functions of a module that are found nowhere else by their place in it."""
    module = variables["__name__"]
    for name, value in variables.items():
        if type(value) is FunctionType and _found(value.__module__, value.__qualname__) is not value:
            value.__module__, value.__qualname__ = module, name


def _made_again(make: Callable[..., Any], function: Any, depth: int, options: Sequence[Any]) -> Any:
    for _ in range(depth):
        function = function.__wrapped__
    return make(function, *options)


def _found(module: str | None, name: str) -> Any:
    """The object that a module has under a (possibly dotted) name."""
    found: Any = sys.modules.get(module or "", _MISSING)
    for part in name.split("."):
        found = getattr(found, part, _MISSING)
    return found


def _named(thing: Any, function: FunctionType) -> tuple[Any, int]:
    """The object that a function's name refers to, and the number of wrappers around the function there."""
    name, module = function.__qualname__, function.__module__
    if name.endswith("<lambda>"):
        raise _cannot(thing, "a lambda cannot be found by name; define it with def at the top level of a module")
    if "<locals>" in name:
        outer, _, inner = name.rpartition(".<locals>.")
        raise _cannot(thing, f"{inner} is defined inside {outer}; define it at the top level of a module")
    if module is None or module not in sys.modules:
        raise _cannot(thing, f"{name} is not in any loaded module")
    found = layer = _found(module, name)
    if found is _MISSING:
        raise _cannot(thing, f"{module} has no {name}")
    depth = 0
    while layer is not function:
        layer, depth = getattr(layer, "__wrapped__", _MISSING), depth + 1
        if layer is _MISSING:
            raise _cannot(thing, f"{name} of {module} is now a different object")
    return found, depth


def _cannot(thing: Any, why: str) -> ArgumentError:
    return ArgumentError(f"{thing!r} cannot be pickled: {why}")
