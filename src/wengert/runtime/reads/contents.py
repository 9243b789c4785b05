"""What objects from outside hold, as far as a recording depends on it, and what kinds of things there are.

`watch` has the guards look at a container's items, `watch_all` at everything that can be reached from an object, up to
a bound.
"""

from __future__ import annotations

import collections
import contextvars
import copy
import dis
import functools
import sys
from array import array
from collections.abc import Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from wengert.core.code import LIBRARIES
from wengert.core.dtypes import ALL
from wengert.core.errors import RecordingError
from wengert.core.graph import Node
from wengert.ops.core import data
from wengert.runtime.static.guards import MISSING, namespace_of
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.reads.log import ReadLog

ATOMS = frozenset({int, float, complex, str, bytes, bool, type(None), type(Ellipsis), slice, range, np.dtype, CodeType})
MOST = 5_000  # places that a recording may depend on
LARGE = 65_536  # elements of an array that is compared by value at every call
GROWING = (list, set, dict, bytearray, collections.deque, np.ndarray, collections.Counter, array)
_MAPPINGS = (dict, collections.ChainMap, collections.UserDict, MappingProxyType)
_BYTES = (bytearray, memoryview, array)
_LEAVES = (Tensor, ModuleType, np.dtype, np.generic, CodeType, BuiltinFunctionType)


# --- kinds of things ------------------------------------------------------------------------------------------------

_library_classes: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def is_library_class(kind: type) -> bool:
    """Whether a class belongs to Python, to an installed package or to Wengert."""
    found = _library_classes.get(kind)
    if found is None:
        module = sys.modules.get(kind.__module__ or "")
        has_code = any(type(value) is FunctionType for value in vars(kind).values())
        if module is None or module.__name__.startswith("_cython"):
            found = not has_code
        else:
            found = is_library_module(module)
        _library_classes[kind] = found
    return found


def is_library_module(module: ModuleType) -> bool:
    """Whether a module belongs to Python, to an installed package or to Wengert."""
    file = getattr(module, "__file__", None)
    if file is not None:
        return str(file).startswith(LIBRARIES)
    return module.__name__ in sys.builtin_module_names or getattr(module, "__path__", None) is not None


def is_wengert(thing: Any) -> bool:
    """Whether a module, a class or a function is Wengert's own."""
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    return isinstance(name, str) and (name == "wengert" or name.startswith("wengert."))


def is_iterator(value: Any) -> bool:
    """Whether going through a value moves it on."""
    return hasattr(type(value), "__next__")


def is_data_descriptor(found: Any) -> bool:
    """Whether what a class has comes before an object's own attribute."""
    return found is not MISSING and hasattr(type(found), "__set__")


def is_place(found: Any) -> bool:
    """Whether what a class has is a place in its objects: a slot, or what C code keeps."""
    return isinstance(found, (MemberDescriptorType, GetSetDescriptorType))


def has_library_items(kind: type) -> bool:
    """Whether `value[key]` and `key in value` of a class run no code of the user's."""
    for name in ("__missing__", "__getitem__"):
        parent = next((one for one in kind.__mro__ if name in vars(one)), None)
        if parent is not None and not is_library_class(parent):
            return False
    return True


def functions_of(value: Any) -> Iterator[Any]:
    """The functions behind what a class has under a name."""
    kind = type(value)
    if kind is FunctionType:
        yield value
    elif issubclass(kind, property):
        yield from (f for f in (value.fget, value.fset, value.fdel) if isinstance(f, FunctionType))
    elif issubclass(kind, (staticmethod, classmethod)):
        yield value.__func__
    elif issubclass(kind, (functools.cached_property, functools.partialmethod)):
        yield value.func
    elif not issubclass(kind, (type, ModuleType)):
        wrapped = namespace_of(value).get("__wrapped__")
        if callable(wrapped):
            yield wrapped
        own = [] if is_library_class(kind) else [vars(kind).get(name) for name in ("__get__", "__set__", "__call__")]
        yield from (function for function in own if isinstance(function, FunctionType))


def functions_kept(value: Any) -> Iterator[Any]:
    """The functions that an object of Wengert's keeps: hooks of a Module, rules of a custom derivative."""
    if not any(is_wengert(parent) for parent in type(value).__mro__):
        return
    todo = list(namespace_of(value).values())
    for one in todo:  # which grows
        if isinstance(one, (FunctionType, MethodType, functools.partial)):
            yield one
        elif type(one) in (list, tuple):
            todo += one
        elif type(one) is dict:
            todo += one.values()
        elif is_wengert(type(one)) and isinstance(one, tuple):
            todo += one
        elif type(one).__name__ == "Hook":
            todo += namespace_of(one).values()


def looks_up_plainly(kind: type) -> bool:
    """Whether attributes are looked up as Python does, and not by a function of the user's."""
    found = kind.__getattribute__
    return not isinstance(found, FunctionType) or is_library_class(kind)


def modules_in(value: Any) -> list[Any]:
    """A Module and all inside it; any other value itself."""
    kind = type(value)
    if any(is_wengert(parent) and parent.__name__ == "Module" for parent in kind.__mro__):
        return [value, *(part for _, part in value.named_modules())]
    return [value]


@functools.lru_cache(maxsize=4096)
def _names_of(code: CodeType) -> tuple[str, ...]:
    own = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in _names_of(one)]
    return tuple(dict.fromkeys([*own, *inner]))


def global_names(code: CodeType) -> tuple[str, ...]:
    """The globals that a code object and those inside it load."""
    return _names_of(code)


def copied(value: Any) -> Any:
    """A copy of a value that nobody else changes; the value itself where there is none."""
    try:
        return value if isinstance(value, (Tensor, ModuleType, type, FunctionType)) else copy.deepcopy(value)
    except Exception:
        return value


def is_of(value: Any, *kinds: type) -> bool:
    """Whether a value is of a class, by its type alone: `isinstance` may ask the object, and run the user's code."""
    return issubclass(type(value), kinds)


# --- contents -------------------------------------------------------------------------------------------------------


def watch(log: ReadLog, value: Any) -> None:
    """Watch the items of a container from outside, and note that these are from outside."""
    label, guards = log.label(value), log.guards
    if is_of(value, set, frozenset):
        guards.watch_value(value, lambda: frozenset(value), label)
        for item in value:
            log.mark(item, f"an element of {label}")
    elif is_of(value, *_MAPPINGS) and has_library_items(type(value)):
        guards.watch_items(value, label, *((value, value.values()) if type(value) is dict else (_Pairs(value),)))
        for key, item in list(value.items()):
            log.mark(key, f"a key of {label}")
            log.mark(item, f"{label}[{key!r}]" if type(key) in (str, int) else f"an item of {label}")
    elif is_of(value, *_BYTES):
        guards.watch_value(value, lambda: bytes(value), label)
    elif is_of(value, np.ndarray):
        watch_array(log, value, label)
    elif is_of(value, list, collections.deque, collections.UserList) and _iterates_plainly(type(value)):
        guards.watch_items(value, label, value)
        for i, item in enumerate(value):
            log.mark(item, f"{label}[{i}]")
    elif is_of(value, type({}.keys()), type({}.values()), type({}.items())):
        guards.watch_items(value, label, value)
    elif is_of(value, SimpleNamespace):
        guards.watch_items(value, label, vars(value), vars(value).values())
    elif is_of(value, contextvars.ContextVar):
        guards.watch_value(value, functools.partial(value.get, None), label)


def _iterates_plainly(kind: type) -> bool:
    for parent in kind.__mro__:
        if "__iter__" in vars(parent):
            return is_library_class(parent)
    return False


class _Pairs:
    """The keys and values of a mapping of any kind, in turn."""

    def __init__(self, mapping: Mapping[Any, Any]) -> None:
        self.mapping = mapping

    def __iter__(self) -> Iterator[Any]:
        for key in self.mapping:
            yield key
            yield self.mapping[key]


def is_view_of_one(log: ReadLog, value: Any) -> bool:
    """Whether an array, or one that it shares memory with, is from outside."""
    while is_of(value, np.ndarray):
        if id(value) in log.outside:
            return True
        value = value.base
    return False


def watch_array(log: ReadLog, value: np.ndarray[Any, Any], label: str) -> None:
    """Watch the elements of an array."""
    if value.size > LARGE or value.dtype.hasobject:
        log.refuse(
            f"{label}, an array of {value.size} elements, is read by code that cannot be followed",
            "Make it a tensor, give it as an argument, or freeze it with wg.static",
        )
    log.guards.watch_value(value, value.tobytes, label)


def array_input(log: ReadLog, array: Any) -> Node | None:
    """The node by which the contents of an array from outside are read at every call; None for any other array.

    It belongs to a tensor that shares the array's memory, a slot like those of the user's. An array that a program
    cannot read where it lies is compared by value instead.
    """
    if not isinstance(array, np.ndarray) or not is_view_of_one(log, array):
        return None
    if id(array) in log.outside:
        log.guards.watch_place(array, ".shape", "the shape of an array from outside")
    if not array.flags.c_contiguous or not array.flags.aligned or array.dtype not in ALL:
        watch_array(log, array, log.label(array))
        return None
    key = (array.__array_interface__["data"][0], array.shape, array.dtype)
    slot = log.memory.arrays.get(key)
    if slot is None:
        serial = next(log.serials, None)
        if serial is None:
            watch_array(log, array, log.label(array))
            return None
        slot = log.memory.arrays[key] = Tensor(data(array.view()))
        slot.node.serial = serial
    log.arrays.append(slot)
    return slot.node


def require_few(log: ReadLog) -> None:
    """Raise where a recording depends on too many places."""
    if log.guards.places > MOST:
        raise RecordingError(
            f"compile: {log.name} depends on more than {MOST} places in Python objects, which would be compared at "
            "every call. Put the numbers into an array or a tensor, or freeze them with wg.static"
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
            continue
        if log.is_outside(one):
            if is_iterator(one):
                log.iterated(one)
            log.used(one)
        elif kind not in (list, tuple, dict, set, frozenset, collections.deque):
            continue
        todo += _parts(log, one)
        if len(seen) > MOST:
            log.refuse(f"more than {MOST} objects can be reached from {log.label(value)}", "Freeze it with wg.static")
    return list(seen.values())


def _parts(log: ReadLog, value: Any) -> list[Any]:
    """What an object holds; of one from outside, noted and watched."""
    label = log.label(value)
    if is_of(value, *_MAPPINGS):
        return [*value.values()]
    if is_of(value, list, tuple, set, frozenset, collections.deque):
        return list(value)
    if len(modules_in(value)) > 1 or is_wengert(type(value)):
        return []
    found = []
    namespace = namespace_of(value, MISSING)
    if namespace is not MISSING:
        log.guards.watch_items(namespace, label, namespace, namespace.values())
        found += [log.mark(item, f"{label}.{name}") for name, item in namespace.items()]
    for parent in type(value).__mro__:
        for name, place in vars(parent).items():
            if isinstance(place, MemberDescriptorType) and not is_library_class(parent) and hasattr(value, name):
                item = getattr(value, name)
                log.guards.watch_place(value, f".{name}", f"{label}.{name}")
                found.append(log.mark(item, f"{label}.{name}"))
    return found
