"""The contents of outer objects, as far as a recording depends on them.

`watch` makes the guards check the items of a container; `watch_all` everything reachable from an object, up to a bound,
for code that cannot be traced. Objects that the function made itself are traversed but not watched.
"""

from __future__ import annotations

import collections
import contextvars
import decimal
import enum
import functools
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from wengert.runtime.reads.arrays import watch_array
from wengert.runtime.reads.kinds import (
    ATOMS,
    BYTES,
    HEAP_TYPE,
    MAPPINGS,
    MISSING,
    MOST,
    ListElements,
    elements,
    has_library_items,
    is_iterator,
    is_library_class,
    is_of,
    is_opaque,
    is_wengert,
    iterates_plainly,
    library_parent,
    modules_in,
    namespace_of,
)
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.reads.log import ReadLog

_OF_DECIMALS = attrgetter("prec", "rounding", "Emin", "Emax", "clamp")


# --- contents -------------------------------------------------------------------------------------------------------


def watch(log: ReadLog, value: Any) -> None:
    """Watch the items of an outer container, and mark them as from outside."""
    label, guards = log.label(value), log.guards
    if is_of(value, set, frozenset):
        guards.watch_value(value, lambda: frozenset(value), label)
        for item in frozenset(value):
            log.mark(item, f"an element of {label}")
    elif is_of(value, dict):
        kind = library_parent(type(value))
        keys, items = kind.keys(value), kind.values(value)  # past what a class of the user's makes of them
        guards.watch_items(value, label, keys, items)
        _mark_items(log, label, keys, items)
    elif is_of(value, *MAPPINGS) and has_library_items(type(value)):
        guards.watch_items(value, label, _Pairs(value))
        _mark_items(log, label, [*value], [*value.values()])
    elif is_of(value, *BYTES):
        guards.watch_value(value, lambda: bytes(value), label)
    elif is_of(value, np.ndarray):
        watch_array(log, value, label)
    elif is_of(value, list, collections.deque) or (is_of(value, collections.UserList) and iterates_plainly(value)):
        items = value if type(value) is list else ListElements(value)
        guards.watch_items(value, label, items)
        for i, item in enumerate(items):
            log.mark(item, f"{label}[{i}]")
    elif is_of(value, type({}.keys()), type({}.values()), type({}.items())):
        guards.watch_items(value, label, value)
    elif is_of(value, SimpleNamespace):
        guards.watch_items(value, label, vars(value), vars(value).values())
    elif is_of(value, contextvars.ContextVar):
        guards.watch_value(value, functools.partial(value.get, None), label)
    elif is_opaque(value) and hasattr(type(value), "__len__"):
        guards.watch_items(value, label, value)
        for item in value:
            log.mark(item, f"an item of {label}")
    elif is_of(value, decimal.Context):
        guards.watch_value(value, functools.partial(_OF_DECIMALS, value), label)


def _mark_items(log: ReadLog, label: str, keys: Iterable[Any], items: Iterable[Any]) -> None:
    for key, item in zip([*keys], [*items]):
        log.mark(key, f"a key of {label}")
        log.mark(item, f"{label}[{key!r}]" if type(key) in (str, int) else f"an item of {label}")


class _Pairs:
    """The keys and values of a mapping of any kind, in turn."""

    def __init__(self, mapping: Mapping[Any, Any]) -> None:
        self.mapping = mapping

    def __iter__(self) -> Iterator[Any]:
        for key in self.mapping:
            yield key
            yield self.mapping[key]


def watch_decimals(log: ReadLog) -> None:
    """Watch the decimal context, on which decimal arithmetic depends."""
    log.guards.watch_value(decimal, lambda: _OF_DECIMALS(decimal.getcontext()), "the context of decimal numbers")


# --- all that can be reached ----------------------------------------------------------------------------------------

_LEAVES = (Tensor, ModuleType, np.dtype, np.generic, CodeType, BuiltinFunctionType)
_BEHAVIOUR = (
    *(FunctionType, property, staticmethod, classmethod, MemberDescriptorType, GetSetDescriptorType),
    *(functools.cached_property, functools.partialmethod),
)


_DECLARED = ("__annotations__", "__dataclass_fields__")  # what libraries read of a class that Python keeps for itself


def watch_all(log: ReadLog, value: Any) -> list[Any]:
    """Watch everything reachable from a value; returns the objects whose contents are watched."""
    seen: dict[int, Any] = {}
    todo = [value]
    while todo:
        one = todo.pop()
        kind = type(one)
        if kind in (BuiltinFunctionType, MethodWrapperType) and not is_of(one.__self__, ModuleType, type):
            todo.append(one.__self__)
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
    """The contents of an object that the function has made: parts of it may be from outside."""
    kind, found = type(value), elements(value) or []
    if not kind.__flags__ & HEAP_TYPE or is_library_class(kind) or len(modules_in(value)) > 1 or is_wengert(kind):
        return found
    places = [getattr(value, name) for name, _ in _slots(value)]
    return [*found, *places, *namespace_of(value).values()]


def _parts(log: ReadLog, value: Any) -> list[Any]:
    """The contents of an object from outside, logged and watched."""
    label, found = log.label(value), elements(value)
    if is_of(value, ref):
        return [log.mark(value(), f"what {label} refers to")]
    if is_opaque(value):
        names = [name for name, place in vars(type(value)).items() if isinstance(place, GetSetDescriptorType)]
        return [*(found or ()), *(log.attribute(value, name) for name in names)]
    if (found is not None and is_library_class(type(value))) or len(modules_in(value)) > 1 or is_wengert(type(value)):
        return found or []
    found = found or []
    log.guards.watch_class(value, f"the class of {label}")
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
    """Attributes of the user's classes that their objects share, watched; functions among them are followed."""
    found = []
    for parent in kind.__mro__ if kind.__flags__ & HEAP_TYPE else ():
        own = "_" if issubclass(type(kind), enum.EnumMeta) else "__"  # how the names begin that Python keeps for itself
        for name, item in [] if is_library_class(parent) else list(vars(parent).items()):
            if not (name.startswith(own) or name == "_abc_impl" or isinstance(item, _BEHAVIOUR)):
                log.guards.watch_key(vars(parent), name, f"{parent.__name__}.{name}", id(parent))
                found.append(log.mark(item, f"{parent.__name__}.{name}"))
        for name in _DECLARED if not is_library_class(parent) else ():
            if name in vars(parent):
                found.append(log.mark(vars(parent)[name], f"{parent.__name__}.{name}"))
    return found
