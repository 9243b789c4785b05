"""Watching everything that can be reached from an object, up to a bound: for code that cannot be followed.

In: a value that a library reads, or a function without source. Out: guards on what it holds, on what that holds, and on
what the user's classes give their objects. What the function made itself is gone through, and not watched.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.runtime.reads.contents import (
    ATOMS,
    HEAP_TYPE,
    MOST,
    elements,
    is_iterator,
    is_library_class,
    is_of,
    is_wengert,
    modules_in,
)
from wengert.runtime.static.guards import MISSING, namespace_of
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.reads.log import ReadLog

_LEAVES = (Tensor, ModuleType, np.dtype, np.generic, CodeType, BuiltinFunctionType)
_BEHAVIOUR = (
    *(FunctionType, property, staticmethod, classmethod, MemberDescriptorType, GetSetDescriptorType),
    *(functools.cached_property, functools.partialmethod),
)


def watch_all(log: ReadLog, value: Any) -> list[Any]:
    """Watch everything that can be reached from a value; gives the objects whose contents are watched."""
    seen: dict[int, Any] = {}
    todo = [value]
    while todo:
        one = todo.pop()
        kind = type(one)
        if kind in ATOMS or id(one) in seen or is_of(one, *_LEAVES) or id(one) in log._frozen:
            continue
        seen[id(one)] = one
        if is_of(one, FunctionType, MethodType, functools.partial, type):
            log.install(one)
            todo += _of_class(log, one) if is_of(one, type) else ()
        elif log.is_outside(one):
            if is_iterator(one):
                log.iterated(one)
            log.used(one)
            todo += _parts(log, one)
        else:
            todo += _own_parts(one)
        if len(seen) > MOST:
            log.refuse(f"more than {MOST} objects can be reached from {log.label(value)}", "Freeze it with wg.static")
    return list(seen.values())


def _own_parts(value: Any) -> list[Any]:
    """What an object holds that the function has made: parts of it may be from outside."""
    kind, found = type(value), elements(value) or []
    if not kind.__flags__ & HEAP_TYPE or is_library_class(kind) or len(modules_in(value)) > 1 or is_wengert(kind):
        return found
    places = [getattr(value, name) for name, _ in _slots(value)]
    return [*found, *places, *namespace_of(value).values()]


def _parts(log: ReadLog, value: Any) -> list[Any]:
    """What an object from outside holds, noted and watched."""
    label, found = log.label(value), elements(value)
    if (found is not None and is_library_class(type(value))) or len(modules_in(value)) > 1 or is_wengert(type(value)):
        return found or []
    found = found or []
    namespace = namespace_of(value, MISSING)
    if namespace is not MISSING:
        log.guards.watch_items(value, label, namespace, namespace.values(), what="namespace")
        found += [log.mark(item, f"{label}.{name}") for name, item in namespace.items()]
    for name, item in _slots(value):
        log.guards.watch_place(value, f".{name}", f"{label}.{name}")
        found.append(log.mark(item, f"{label}.{name}"))
    return found + _of_class(log, type(value))


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    for parent in type(value).__mro__:
        for name, place in vars(parent).items():
            if isinstance(place, MemberDescriptorType) and not is_library_class(parent) and hasattr(value, name):
                yield name, getattr(value, name)


def _of_class(log: ReadLog, kind: type) -> list[Any]:
    """What the user's classes hold that their objects have too, watched; functions among it are followed."""
    found = []
    for parent in kind.__mro__ if kind.__flags__ & HEAP_TYPE else ():
        for name, item in [] if is_library_class(parent) else list(vars(parent).items()):
            if not (name.startswith("__") or name == "_abc_impl" or isinstance(item, _BEHAVIOUR)):
                log.guards.watch_key(vars(parent), name, f"{parent.__name__}.{name}", id(parent))
                found.append(log.mark(item, f"{parent.__name__}.{name}"))
    return found
