"""Calls while a function is recorded: of the user's functions, which run as twins, of Wengert's and of libraries'.

A library is not followed. Its functions count as functions of the contents of what they are given, which are watched;
what depends on more than that, or does more than give a result (`impure`), raises on the user's line.
"""

from __future__ import annotations

import builtins
import collections
import contextvars
import functools
import sys
import warnings
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from wengert.core.code import PACKAGE, is_library
from wengert.runtime.reads.contents import ATOMS, GROWING, is_iterator, is_library_class, is_of, is_wengert, watch_all
from wengert.runtime.reads.impure import MUTATORS, is_impure, module_of, name_of, shows
from wengert.runtime.reads.log import INSTEAD, ReadLog, current
from wengert.runtime.reads.twin import is_twin
from wengert.tensor import Tensor

_HEAP_TYPE = 1 << 9  # the flag of a class made by Python code
_NOTED_ONCE: set[tuple[str, str]] = set()


def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function: the user's as its twin, Wengert's and libraries' as what they are."""
    log = current.log
    if log is None:
        return function(*args, **kwargs)
    kind = type(function)
    inner = function.__func__ if kind is MethodType else function
    if type(inner) is FunctionType:
        code = inner.__code__
        if is_twin(code):
            return function(*args, **kwargs)
        if not is_library(code):
            log.enter(inner)
            if not is_twin(inner.__code__):  # there is no source: all that it may read is watched
                for value in (*args, *kwargs.values()):
                    log.deep(value)
            return function(*args, **kwargs)
        if code.co_filename.startswith(PACKAGE):
            return by_wengert(log, function, args, kwargs)
    elif kind is type and function.__flags__ & _HEAP_TYPE and not is_library_class(function):
        log.enter_class(function)
        return function(*args, **kwargs)
    return by_library(log, function, args, kwargs)


def said(log: ReadLog, function: Any) -> None:
    """Say once that a compiled function shows something only while it is recorded."""
    name = getattr(function, "__name__", "a call")
    if (log.name, name) not in _NOTED_ONCE:
        _NOTED_ONCE.add((log.name, name))
        message = f"{log.name}: {name} happens only while the function is recorded, not at every call"
        warnings.warn(message, stacklevel=4)


# --- calls ----------------------------------------------------------------------------------------------------------


def by_wengert(log: ReadLog, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of Wengert's: containers count by their items, and functions among them are followed."""
    log.install(function)
    for value in (*args, *kwargs.values()):
        if not issubclass(type(value), Tensor) and type(value) not in ATOMS:
            _given(log, value, 4)
    return function(*args, **kwargs)


def _given(log: ReadLog, value: Any, depth: int) -> None:
    if isinstance(value, (list, tuple, dict)):
        log.used(value)
        for item in value.values() if isinstance(value, dict) else value:
            if depth and not issubclass(type(item), Tensor) and type(item) not in ATOMS:
                _given(log, item, depth - 1)
    elif not isinstance(value, np.ndarray):
        if log.is_outside(value) and is_iterator(value):
            log.iterated(value)
        log.install(value)


def by_library(log: ReadLog, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of a library that is not followed: it counts as one of the contents of its arguments."""
    if type(function) is functools.partial:
        log.install(function)
        return call(function.func, *function.args, *args, **{**function.keywords, **kwargs})
    if is_wengert(type(function)) or (isinstance(function, type) and is_wengert(function)):
        return by_wengert(log, function, args, kwargs)
    if not isinstance(function, (type, BuiltinFunctionType, MethodType, FunctionType)) and not is_library_class(
        type(function)
    ):
        log.install(function)
        return function(*args, **kwargs)
    if shows(function):
        said(log, function)
        return function(*args, **kwargs)
    special = _SPECIAL.get(function) if isinstance(function, (BuiltinFunctionType, type)) else None
    if special is not None:
        return special(log, *args, **kwargs)
    if is_impure(function, args) and not _is_of_its_own(log, function):
        known_as = log.labels.get(id(function))
        called = name_of(function) if known_as is None else f"{known_as} ({name_of(function)})"
        what = f"{called} depends on more than its arguments, or does more than give a result"
        log.refuse(what, "Call it outside, and give the result as an argument")
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, (ModuleType, type)):
        _check_owner(log, function, owner, args)
        if type(owner) is dict and function.__name__ == "get" and args and log.is_outside(owner):
            return _got(log, owner, *args)
    read = [one for value in (owner, *args, *kwargs.values()) for one in _reached(log, value)]
    if not isinstance(function, (type, BuiltinFunctionType)):
        log.install(function)
        _watch_caches(log, function)
    result = function(*args, **kwargs)
    for one in read:
        if log.guards.has_changed(one):
            log.refuse(f"{name_of(function)} changes {log.label(one)}, which is outside of the function", INSTEAD)
    return result


def _is_of_its_own(log: ReadLog, function: Any) -> bool:
    """Whether a method belongs to an object that the recorded function made itself, as a seeded generator is."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, (ModuleType, type)) or log.is_outside(owner):
        return False
    home = sys.modules.get(module_of(function))
    return home is None or all(value is not owner for value in vars(home).values())


def _watch_caches(log: ReadLog, function: Any) -> None:
    """Watch what a function of functools keeps: results, which may be cleared, or cases, which may be added."""
    if hasattr(function, "cache_info"):
        known = function.cache_info().misses
        log.guards.watch_value(
            function, lambda: function.cache_info().misses >= known, f"the cache of {function.__name__}"
        )
    if is_of(getattr(function, "registry", None), MappingProxyType):
        log.used(log.mark(function.registry, f"the cases of {function.__name__}"))


def _reached(log: ReadLog, value: Any) -> list[Any]:
    if type(value) in ATOMS or isinstance(value, ModuleType):
        return []
    return watch_all(log, value)


def _check_owner(log: ReadLog, function: Any, owner: Any, args: tuple[Any, ...]) -> None:
    """Raise where a method changes what it belongs to, which is outside."""
    if not log.is_outside(owner) or function.__name__ not in MUTATORS:
        return
    known = (*GROWING, collections.OrderedDict, collections.UserDict, collections.UserList, contextvars.ContextVar)
    if isinstance(owner, known):
        log.writable(owner, f".{function.__name__}(...)")


def _got(log: ReadLog, owner: dict[Any, Any], key: Any, default: Any = None) -> Any:
    label = f"{log.label(owner)}[{key!r}]" if type(key) in ATOMS else log.label(owner)
    if type(key) not in ATOMS:
        log.used(owner)
    elif key in owner:
        log.guards.watch_key(owner, key, label)
    else:
        log.guards.watch_containing(owner, key, False, f"whether {key!r} is in {log.label(owner)}")
    return log.mark(owner[key], label) if key in owner else default


# --- builtins that are not just functions of contents ---------------------------------------------------------------


def _getattr(log: ReadLog, value: Any, name: str, *default: Any) -> Any:
    try:
        return log.attribute(value, name)
    except AttributeError:
        if not default:
            raise
        return default[0]


def _hasattr(log: ReadLog, value: Any, name: str) -> bool:
    try:
        _getattr(log, value, name)
    except AttributeError:
        return False
    return True


def _setattr(log: ReadLog, value: Any, name: str, *new: Any) -> None:
    log.writable(value, f".{name}")
    setattr(value, name, *new) if new else delattr(value, name)


def _isinstance(log: ReadLog, value: Any, kinds: Any) -> bool:
    if log.is_outside(value):
        log.guards.watch_class(value, f"the class of {log.label(value)}")
    return isinstance(value, kinds)


def _type(log: ReadLog, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and log.is_outside(args[0]):
        log.guards.watch_class(args[0], f"the class of {log.label(args[0])}")
    return type(*args, **kwargs)


def _next(log: ReadLog, iterator: Any, *default: Any) -> Any:
    log.iterated(iterator)
    return next(iterator, *default)


def _vars(log: ReadLog, *value: Any) -> Any:
    found = vars(*value)
    if value and log.is_outside(value[0]):
        log.mark(found, f"vars({log.label(value[0])})")
    return found


def _identity(log: ReadLog, value: Any) -> int:
    return id(value)


_SPECIAL: dict[Any, Any] = {
    builtins.getattr: _getattr,
    builtins.hasattr: _hasattr,
    builtins.setattr: _setattr,
    builtins.delattr: _setattr,
    builtins.isinstance: _isinstance,
    builtins.type: _type,
    builtins.next: _next,
    builtins.vars: _vars,
    builtins.id: _identity,
}
