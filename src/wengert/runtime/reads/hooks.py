"""Hooks: what a twin calls where its function reads, stores or calls something.

Of the functions that are called, the user's run as twins, and Wengert's as what they are. A library is not followed.
Its functions count as functions of the contents of what they are given, which are watched; what depends on more than
that, or does more than give a result (`impure`), raises on the user's line.
"""

from __future__ import annotations

import builtins
import collections
import contextvars
import functools
import operator
import sys
import warnings
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from wengert.core.code import PACKAGE, is_library
from wengert.runtime.reads import contents
from wengert.runtime.reads.contents import ATOMS, GROWING, is_iterator, is_library_class, is_of, is_wengert, watch_all
from wengert.runtime.reads.impure import MUTATORS, SPECIAL, is_impure, module_of, name_of, shows
from wengert.runtime.reads.log import INSTEAD, ReadLog, current
from wengert.runtime.reads.twin import is_twin, use
from wengert.tensor import Tensor

_HEAP_TYPE = 1 << 9  # the flag of a class made by Python code
_NOTED_ONCE: set[tuple[str, str]] = set()

# --- reads and stores -----------------------------------------------------------------------------------------------


def _attribute(value: Any, name: str) -> Any:
    log = current.log
    return getattr(value, name) if log is None else log.attribute(value, name)


def _item(value: Any, key: Any) -> Any:
    log = current.log
    return value[key] if log is None or issubclass(type(value), Tensor) else log.item(value, key)


def _used(value: Any) -> Any:
    log = current.log
    if (
        log is not None
        and not issubclass(type(value), Tensor)
        and type(value) not in ATOMS
        and not isinstance(value, np.ndarray)
    ):
        log.used(value)
    return value


def _binary(name: str, left: Any, right: Any) -> Any:
    """An operator with two operands; arrays beside a tensor are inputs, others count by what they hold."""
    log = current.log
    if log is not None and not isinstance(left, Tensor) and not isinstance(right, Tensor):
        log.operands(left, right)
    return _OPERATORS[name](left, right)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "BitAnd": operator.and_,
    "MatMult": operator.matmul,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
}


def _shown(value: Any) -> Any:
    log = current.log
    if log is not None and log.is_outside(value):
        log.deep(value)
    return value


def _iterated(value: Any) -> Any:
    log = current.log
    if log is not None and not issubclass(type(value), Tensor):
        log.iterated(value)
    return value


def _contains(element: Any, container: Any) -> bool:
    log = current.log
    return element in container if log is None else log.contains(element, container)


def _writable(value: Any, place: str) -> Any:
    log = current.log
    if log is not None:
        log.writable(value, place)
    return value


def _updated(value: Any, name: str) -> Any:
    """What has an attribute that is updated in place; a tensor is, and stays the object that it is."""
    log = current.log
    if log is not None and log.is_outside(value) and isinstance(log.attribute(value, name), Tensor):
        return _Holder(value, name)
    return value


class _Holder:
    """Stands for an object whose tensor is updated: the tensor is read, and put back as it is."""

    def __init__(self, value: Any, name: str) -> None:
        object.__setattr__(self, name, getattr(value, name))


def _grown(value: Any, name: str) -> None:
    log = current.log
    if log is not None and log.is_outside(value) and type(value) in contents.GROWING:
        log.writable(value, " (by += or the like)")


def _global_store(name: str) -> None:
    log = current.log
    if log is not None:
        log.refuse(f"the global {name} is set, which is outside of the function", INSTEAD)


def _nonlocal_store(name: str) -> None:
    log = current.log
    if log is not None and log.is_own_variable(sys._getframe(1).f_code, name):
        log.refuse(f"the closure variable {name} is set, which is outside of the function", INSTEAD)


def _marked(value: Any) -> Any:
    log = current.log
    return value if log is None else log.mark(value, "globals()")


def _evaluates(function: Any) -> Any:
    log = current.log
    if log is not None and function in (builtins.eval, builtins.exec):
        log.refuse(f"{function.__name__} runs code that cannot be followed", "Write the code as a function")
    return function


def _static(function: Any, value: Callable[[], Any]) -> Any:
    log = current.log
    if log is None or function is not static:
        return _call(function, value())
    return _log_static(log, value)


def _log_static(log: ReadLog, value: Callable[[], Any]) -> Any:
    """What `wg.static` gives while recording: the value that it had at the first recording, not watched."""
    frame = sys._getframe(2)
    place = (id(frame.f_code), frame.f_lasti)
    visit = log._visits[place] = log._visits.get(place, 0) + 1
    if (place, visit) not in log.memory.statics:
        current.log = None
        try:
            log.memory.statics[place, visit] = contents.copied(value())
        finally:
            current.log = log
    found = log.memory.statics[place, visit]
    log._frozen[id(found)] = found
    return found


def static(value: Any) -> Any:
    """A value that a compiled function takes as it is when it is first recorded, and does not watch.

    >>> import wengert as wg
    >>> config = {"scale": 2.0}
    >>> double = wg.compile(lambda x: x * wg.static(config["scale"]))
    >>> double(wg.tensor([1.0])).tolist()
    [2.0]
    >>> config["scale"] = 3.0
    >>> double(wg.tensor([1.0])).tolist()
    [2.0]
    """
    return value


# --- calls ----------------------------------------------------------------------------------------------------------


def _call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
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
            return _by_wengert(log, function, args, kwargs)
    elif kind is type and function.__flags__ & _HEAP_TYPE and not is_library_class(function):
        log.enter_class(function)
        return function(*args, **kwargs)
    return _by_library(log, function, args, kwargs)


def _warn_once(log: ReadLog, function: Any) -> None:
    """Say once that a compiled function shows something only while it is recorded."""
    name = getattr(function, "__name__", "a call")
    if (log.name, name) not in _NOTED_ONCE:
        _NOTED_ONCE.add((log.name, name))
        message = f"{log.name}: {name} happens only while the function is recorded, not at every call"
        warnings.warn(message, stacklevel=4)


def _by_wengert(log: ReadLog, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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


def _by_library(log: ReadLog, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of a library that is not followed: it counts as one of the contents of its arguments."""
    if type(function) is functools.partial:
        log.install(function)
        return _call(function.func, *function.args, *args, **{**function.keywords, **kwargs})
    if is_wengert(type(function)) or (isinstance(function, type) and is_wengert(function)):
        return _by_wengert(log, function, args, kwargs)
    if not isinstance(function, (type, BuiltinFunctionType, MethodType, FunctionType)) and not is_library_class(
        type(function)
    ):
        log.install(function)
        return function(*args, **kwargs)
    if shows(function):
        _warn_once(log, function)
        return function(*args, **kwargs)
    special = SPECIAL.get(function) if isinstance(function, (BuiltinFunctionType, type)) else None
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


HOOKS: dict[str, Callable[..., Any]] = {
    "attribute": _attribute,
    "item": _item,
    "used": _used,
    "shown": _shown,
    "binary": _binary,
    "matched": _shown,
    "iterated": _iterated,
    "contains": _contains,
    "writable": _writable,
    "updated": _updated,
    "grown": _grown,
    "global_store": _global_store,
    "nonlocal_store": _nonlocal_store,
    "marked": _marked,
    "evaluates": _evaluates,
    "static": _static,
    "call": _call,
    "slice": slice,
}
use(HOOKS)
