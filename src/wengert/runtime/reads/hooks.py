"""Hooks: the functions that a twin calls wherever its function reads, stores or calls something.

Called functions of the user's run as twins, and Wengert's unchanged. Libraries are not traced. Their functions count as
functions of the contents of their arguments, which are watched; a function that depends on more, or has side effects
(`impure`), raises an error on the user's line.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any
from weakref import CallableProxyType

import numpy as np

from wengert.core.code import PACKAGE, is_library
from wengert.runtime.reads import arrays, kinds, lookup
from wengert.runtime.reads.impure import OF_FILES
from wengert.runtime.reads.kinds import ATOMS, HEAP_TYPE, is_iterator, is_library_class, is_of, is_wengert
from wengert.runtime.reads.libraries import call_library, refuse_impure
from wengert.runtime.reads.log import INSTEAD, ReadLog, current
from wengert.runtime.reads.twin import is_twin, use
from wengert.tensor import Tensor

# --- reads and stores -----------------------------------------------------------------------------------------------


def _attribute(value: Any, name: str) -> Any:
    log = current.log
    return getattr(value, name) if log is None else log.attribute(value, name)


def _item(value: Any, key: Any) -> Any:
    log = current.log
    if log is None:
        return value[key]
    if issubclass(type(value), Tensor):
        if type(key) not in ATOMS:
            _index_of_tensor(log, key)
        return value[key]
    return log.item(value, key)


def _index_of_tensor(log: ReadLog, key: Any) -> None:
    """Watch what an index holds: lists, and masks, whose shapes depend on that. Arrays of integers are inputs."""
    for part in key if type(key) is tuple else (key,):
        if isinstance(part, list) or (isinstance(part, np.ndarray) and part.dtype.kind == "b"):
            log.deep(part)


def _used(value: Any) -> Any:
    log = current.log
    if (
        log is not None
        and not issubclass(type(value), Tensor)
        and type(value) not in ATOMS
        and not is_of(value, np.ndarray)
    ):
        log.used(value)
    return value


def _binary(name: str, left: Any, right: Any) -> Any:
    """An operator with two operands; arrays beside a tensor are inputs, others count by what they hold."""
    log = current.log
    if log is not None and not is_of(left, Tensor) and not is_of(right, Tensor):
        log.operands(left, right)
        if name == "Mod" and type(left) is str:
            arrays.watch_text(log, right)
    return _OPERATORS[name](left, right)


_NAMES = (
    *("Add add", "Sub sub", "Mult mul", "Div truediv", "FloorDiv floordiv", "Mod mod", "Pow pow", "MatMult matmul"),
    *("LShift lshift", "RShift rshift", "BitOr or_", "BitXor xor", "BitAnd and_"),
    *("Eq eq", "NotEq ne", "Lt lt", "LtE le", "Gt gt", "GtE ge"),
)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    node: getattr(operator, function) for node, function in map(str.split, _NAMES)
}


def _shown(value: Any) -> Any:
    log = current.log
    if log is not None and type(value) not in ATOMS:
        log.deep(value)
    return value


def _written(value: Any) -> Any:
    """A value formatted as text."""
    log = current.log
    if log is not None and type(value) not in ATOMS:
        log.deep(value)
        arrays.watch_text(log, value)
    return value


def _peeked(value: Callable[[], Any]) -> None:
    """A name that a pattern reads, if it comes to that."""
    if current.log is not None:
        with suppress(Exception):
            value()


def _pattern(kind: Callable[[], Any]) -> None:
    """A class that a pattern names: by what it takes its objects apart."""
    log = current.log
    if log is not None:
        with suppress(Exception):
            log.attribute(kind(), "__match_args__")


def _entered(manager: Any) -> Any:
    """The result of entering a `with`: a library's own code determines it."""
    log = current.log
    if log is not None and log.is_outside(manager) and is_library_class(type(manager)):
        log.deep(manager)
    return manager


def _iterated(value: Any) -> Any:
    log = current.log
    if log is not None and not issubclass(type(value), Tensor):
        log.iterated(value)
    return value


def _unpacked(value: Any) -> Any:
    """An iterable that is unpacked, with its items watched."""
    log = current.log
    if log is None or issubclass(type(value), Tensor):
        return value
    log.iterated(value)
    return _with_items_watched(log, value)


def _with_items_watched(log: ReadLog, value: Any) -> Any:
    for item in value:
        if type(item) not in ATOMS:
            log.deep(item)
        yield item


def _contains(element: Any, container: Any) -> bool:
    log = current.log
    return element in container if log is None else log.contains(element, container)


def _stored(value: Any) -> Any:
    """A value about to be stored under a key: a NumPy array or a list takes its contents."""
    log = current.log
    if log is not None:
        log.stored = value
    return value


def _writable(value: Any, place: str) -> Any:
    log = current.log
    if log is not None:
        log.writable(value, place)
        stored, log.stored, log.target = log.stored, None, value
        if place == "[...]" and not (issubclass(type(value), Tensor) and isinstance(stored, np.ndarray)):
            _shown(stored)  # an array beside a tensor is an input
    return value


def _key(key: Any) -> Any:
    """A key under which something is stored."""
    log = current.log
    if log is not None and type(key) not in ATOMS:
        if issubclass(type(log.target), Tensor):
            _index_of_tensor(log, key)
        else:
            log.deep(key)
    return key


def _added(value: Any, *target: Any) -> Any:
    """The operand of an in-place update. Beside a tensor an array is an input."""
    log = current.log
    if log is not None and not issubclass(type(value), Tensor):
        beside = target[0] if target else log.target
        if not issubclass(type(beside), Tensor):
            log.operands(value)
    return value


def _updated(value: Any, name: str) -> Any:
    """The object whose attribute is updated in place; a tensor is updated and stays the same object."""
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
    if log is not None and log.is_outside(value) and type(value) in kinds.GROWING:
        log.writable(value, f" (by {name} += or the like)")


def _global_store(name: str) -> None:
    log = current.log
    if log is not None:
        log.refuse(f"the global {name} is set, which is outside the function", INSTEAD)


def _nonlocal_store(name: str) -> None:
    log = current.log
    if log is not None and log.is_own_variable(sys._getframe(1).f_code, name):
        _nonlocal_refused(log, name)


def _nonlocal_refused(log: ReadLog, name: str) -> None:
    log.refuse(f"the closure variable {name} is set, which is outside the function", INSTEAD)


def _global_stored(name: str, value: Any) -> Any:
    _global_store(name)
    return value


def _nonlocal_stored(name: str, value: Any) -> Any:
    log = current.log
    if log is not None and log.is_own_variable(sys._getframe(1).f_code, name):
        _nonlocal_refused(log, name)
    return value


def _imported(module: str, level: int, *names: str) -> None:
    log = current.log
    if log is not None:
        lookup.imported(log, module, level, names, sys._getframe(1).f_globals)


def _marked(value: Any) -> Any:
    log = current.log
    return value if log is None else log.mark(value, "globals()")


def _evaluates(function: Any) -> Any:
    log = current.log
    if log is not None and function in (builtins.eval, builtins.exec):
        log.refuse(f"{function.__name__} runs code that cannot be traced", "Write the code as a function")
    return function


def _static(function: Any, value: Callable[[], Any]) -> Any:
    log = current.log
    if log is None or function is not static:
        return _call(function, value())
    return _log_static(log, value)


def _log_static(log: ReadLog, value: Callable[[], Any]) -> Any:
    """The value of `wg.static` during recording: that of the first recording, not watched."""
    frame = sys._getframe(2)
    place = (id(frame.f_code), frame.f_lasti)
    visit = log._visits[place] = log._visits.get(place, 0) + 1
    if (place, visit) not in log.memory.statics:
        current.log = None
        try:
            log.memory.statics[place, visit] = kinds.copied(value())
        finally:
            current.log = log
    found = log.memory.statics[place, visit]
    log._frozen[id(found)] = found
    return found


def static(value: Any) -> Any:
    """Mark a value as constant: a compiled function uses it as it is when first recorded, and does not watch it.

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
    elif kind is type and function.__flags__ & HEAP_TYPE and not is_library_class(function):
        log.enter_class(function)
        if issubclass(function, str):
            arrays.watch_text(log, *args)
        return function(*args, **kwargs)
    if kind is CallableProxyType:
        return _call(log.mark(function.__repr__.__self__, f"what {log.label(function)} refers to"), *args, **kwargs)
    if kind is functools.partial:
        log.install(function)
        return _call(function.func, *function.args, *args, **{**function.keywords, **kwargs})
    if is_wengert(kind) or (is_of(function, type) and is_wengert(function)):
        return _by_wengert(log, function, args, kwargs)
    if not is_of(function, type, BuiltinFunctionType, MethodType, FunctionType) and not is_library_class(kind):
        log.install(function)
        return function(*args, **kwargs)
    return call_library(log, function, args, kwargs)


def _by_wengert(log: ReadLog, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of Wengert's: containers count by their items, and functions among them are followed."""
    if getattr(function, "__module__", None) in OF_FILES:
        refuse_impure(log, function)
    log.install(function)
    seen: set[int] = set()
    for value in (*args, *kwargs.values()):
        if not issubclass(type(value), Tensor) and type(value) not in ATOMS:
            _given(log, value, seen)
    return function(*args, **kwargs)


def _given(log: ReadLog, value: Any, seen: set[int]) -> None:
    if is_of(value, np.ndarray) or id(value) in seen:
        return
    seen.add(id(value))
    if log.is_outside(value) and is_iterator(value):
        log.iterated(value)
    log.used(value)
    if not is_of(value, list, tuple, dict):
        log.install(value)
        return
    for item in value.values() if is_of(value, dict) else value:
        if not issubclass(type(item), Tensor) and type(item) not in ATOMS:
            _given(log, item, seen)


HOOKS: dict[str, Callable[..., Any]] = {
    "attribute": _attribute,
    "item": _item,
    "used": _used,
    "shown": _shown,
    "binary": _binary,
    "matched": _shown,
    "written": _written,
    "peeked": _peeked,
    "pattern": _pattern,
    "entered": _entered,
    "iterated": _iterated,
    "unpacked": _unpacked,
    "contains": _contains,
    "stored": _stored,
    "key": _key,
    "added": _added,
    "imported": _imported,
    "global_stored": _global_stored,
    "nonlocal_stored": _nonlocal_stored,
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
