"""Compiled functions in pickles and copies: by their source function, as Python does with functions.

A pickle holds the name of the function, or of what it was made from, and the options of `compile`; it is recorded again
where it is loaded. A copy of a function is the function itself.
"""

from __future__ import annotations

import copy
import sys
from types import FunctionType
from typing import Any

from wengert.core.errors import ArgumentError

_MISSING = object()


class ByFunction:
    """A compiled function, pickled and copied by the function that it was made from."""

    _function: Any
    _check: bool
    _limit: int
    _tuning: float

    def __reduce__(self) -> Any:
        options = (self._check, self._limit, self._tuning)
        if not isinstance(self._function, FunctionType):  # an object or a bound method, which knows how it is pickled
            return _compiled_again, (type(self), self._function, *options)
        found = _named(self, self._function)
        if found is self:
            return self._function.__qualname__
        return _compiled_again, (type(self), found, *options)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        function = copy.deepcopy(self._function, memo)
        if function is self._function:
            return self
        return _compiled_again(type(self), function, self._check, self._limit, self._tuning)


class ByObject:
    """A compiled method of an object, pickled and copied with the object."""

    __self__: Any
    __func__: Any

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__func__.__name__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)(self.__func__, copy.deepcopy(self.__self__, memo))  # type: ignore[call-arg]


def _compiled_again(kind: Any, function: Any, check: bool, limit: int, tuning: float) -> Any:
    source = function._function if isinstance(function, ByFunction) else function
    return kind(source, check, limit, tuning)


def _named(compiled: Any, function: FunctionType) -> Any:
    """What the name of a function stands for: itself, or a compiled function made from it."""
    name, module = function.__qualname__, function.__module__
    if name.endswith("<lambda>"):
        raise _cannot(compiled, "a lambda has no name to find it by; define it with def at the top of a module")
    if "<locals>" in name:
        outer, _, inner = name.rpartition(".<locals>.")
        raise _cannot(compiled, f"{inner} is defined inside {outer}; define it at the top of a module")
    if module is None or module not in sys.modules:
        raise _cannot(compiled, f"{name} is in no module that is loaded")
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, _MISSING)
    if found is _MISSING:
        raise _cannot(compiled, f"{module} has no {name}")
    if found is not function and getattr(found, "_function", None) is not function:
        raise _cannot(compiled, f"{name} of {module} is another object by now")
    return found


def _cannot(compiled: Any, why: str) -> ArgumentError:
    return ArgumentError(f"{compiled!r} cannot be pickled: {why}")
