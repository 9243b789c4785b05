"""Calls of libraries, which are not traced: they count as functions of the contents of their arguments.

These contents are watched. A function that depends on more, or has side effects (`impure`), raises an error on the
user's line; so does a change of something outside.
"""

from __future__ import annotations

import collections
import contextvars
import sys
import warnings
from decimal import Decimal
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any
from weakref import ref

from wengert.runtime.reads.arrays import watch_text
from wengert.runtime.reads.contents import watch_all, watch_decimals
from wengert.runtime.reads.impure import (
    AGAIN,
    LOOKED_UP,
    MUTATORS,
    SPECIAL,
    is_impure,
    may_be_own,
    module_of,
    name_of,
    shows,
    watch_subclasses,
    writes_text,
)
from wengert.runtime.reads.kinds import ATOMS, GROWING, MOST, is_iterator, is_of, is_opaque
from wengert.runtime.reads.log import INSTEAD, ReadLog

_NOTED_ONCE: set[tuple[str, str]] = set()


def call_library(log: ReadLog, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a library function that is not traced: it counts as reading the contents of its arguments."""
    if isinstance(function, ref):
        return _referred(log, function)
    if shows(function):
        _warn_once(log, function)
        return function(*args, **kwargs)
    special = SPECIAL.get(function) if isinstance(function, (BuiltinFunctionType, type, FunctionType)) else None
    if special is not None:
        return special(log, *args, **kwargs)
    owner = getattr(function, "__self__", None)
    if name_of(function) in AGAIN and (owner is None or isinstance(owner, ModuleType) or log.is_outside(owner)):
        return _again(log, function, args, kwargs)
    if is_impure(function, args) and not (may_be_own(function) and _is_of_its_own(log, function)):
        refuse_impure(log, function)
    if isinstance(owner, type) and function.__name__ == "__subclasses__":
        return watch_subclasses(log, owner)
    if owner is not None and not isinstance(owner, (ModuleType, type)):
        if isinstance(function, MethodType) and _is_of_its_module(function, owner):
            log.mark(owner, f"what {name_of(function)} belongs to")
        _check_owner(log, function, owner, args)
        if type(owner) is dict and function.__name__ == "get" and args and log.is_outside(owner):
            return _got(log, owner, *args)
        if is_opaque(owner) and log.is_outside(owner):
            return _asked(log, function, args, kwargs)
    is_object = not isinstance(function, (type, BuiltinFunctionType, FunctionType, MethodType))
    called = function if is_object else owner  # a callable object counts by its contents
    read = [one for value in (called, *args, *kwargs.values()) for one in _reached(log, value)]
    if not isinstance(function, (type, BuiltinFunctionType)):
        log.install(function)
        _watch_caches(log, function)
    result = function(*args, **kwargs)
    if writes_text(function) or is_of(result, str):
        watch_text(log, None if isinstance(owner, ModuleType) else owner, *args, *kwargs.values())
    for one in read:
        if log.guards.has_changed(one):
            log.refuse(f"{name_of(function)} changes {log.label(one)}, which is outside the function", INSTEAD)
    if is_iterator(result):
        log.going_through[id(result)] = [result, *read]
    if hasattr(function, "cache_info") or name_of(function) in LOOKED_UP:  # kept there, for others too
        log.mark(result, f"what {name_of(function)} gives")
    return result


def refuse_impure(log: ReadLog, function: Any) -> None:
    """Raise an error for a function whose results depend on more than its arguments."""
    known_as = log.labels.get(id(function))
    called = name_of(function) if known_as is None else f"{known_as} ({name_of(function)})"
    what = f"{called} depends on more than its arguments, or has side effects"
    log.refuse(what, "Call it outside, and pass the result as an argument")


def _referred(log: ReadLog, reference: Any) -> Any:
    """The referent of a weak reference, watched if it is from outside."""
    found = reference()
    if not log.is_outside(reference):
        return found
    label = f"what {log.label(reference)} refers to"
    if not isinstance(found, MethodType):  # which is made anew
        log.guards.watch_place(reference, "()", label)
    return log.mark(found, label)


def _again(log: ReadLog, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a quick function, whose result is compared at every call by calling it again."""
    result = function(*args, **kwargs)
    label = f"what {name_of(function)} gives"
    log.guards.watch_value((function, args), lambda: function(*args, **kwargs), label)
    return result


def _asked(log: ReadLog, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of an outside C object, which cannot be inspected: it is called again to compare at every call."""
    for value in (*args, *kwargs.values()):
        _reached(log, value)

    def ask() -> Any:
        given = function(*args, **kwargs)
        return [*islice(given, MOST)] if is_iterator(given) else given

    result, again = ask(), ask()
    if type(result) not in ATOMS and type(result) is not list and again is not result:
        return result  # made anew at each call
    found = _as_found(result)
    if _as_found(again) != found:
        refuse_impure(log, function)
    label = f"what {name_of(function)} gives"
    log.guards.watch_value((function, args), lambda: _as_found(ask()), label)
    for item in result if type(result) is list else [result]:
        log.mark(item, label)
    return result


def _as_found(result: Any) -> Any:
    """A method's result in comparable form: numbers and strings as they are, objects by their identity."""
    if type(result) is list:
        return [*map(_as_found, result)]
    return repr(result) if type(result) in ATOMS else id(result)


def _warn_once(log: ReadLog, function: Any) -> None:
    """Say once that a compiled function shows something only while it is recorded."""
    name = getattr(function, "__name__", "a call")
    if (log.name, name) not in _NOTED_ONCE:
        _NOTED_ONCE.add((log.name, name))
        message = f"{log.name}: {name} happens only while the function is recorded, not at every call"
        warnings.warn(message, stacklevel=4)


def _is_of_its_own(log: ReadLog, function: Any) -> bool:
    """Whether a method belongs to an object that the recorded function made itself, as a seeded generator is."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, (ModuleType, type)) or log.is_outside(owner):
        return False
    return not _is_of_its_module(function, owner)


def _is_of_its_module(function: Any, owner: Any) -> bool:
    """Whether a method's object is a global of the module of its class, as that behind `random.random` is."""
    home = sys.modules.get(module_of(function))
    return home is not None and any(value is owner for value in vars(home).values())


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
    """Watch what a library may read of a value; what that is of an iterator of Python's, it was made from."""
    if type(value) is Decimal:
        watch_decimals(log)
    if type(value) in ATOMS or is_of(value, ModuleType):
        return []
    found = watch_all(log, value)
    return [*found, *log.going_through.get(id(value), ())]


def _check_owner(log: ReadLog, function: Any, owner: Any, args: tuple[Any, ...]) -> None:
    """Raise an error where a method changes what it belongs to, which is outside."""
    if not log.is_outside(owner) or function.__name__ not in MUTATORS:
        return
    known = (*GROWING, collections.OrderedDict, collections.UserDict, collections.UserList, contextvars.ContextVar)
    if isinstance(owner, known) or is_opaque(owner):
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
