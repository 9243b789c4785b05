"""What objects from outside hold, as far as a recording depends on it, and what kinds of things there are.

`watch` has the guards look at a container's items. `reachable` goes on from there.
"""

from __future__ import annotations

import collections
import contextvars
import copy
import decimal
import dis
import functools
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import (
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

from wengert.core.code import LIBRARIES, is_library
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
HEAP_TYPE = 1 << 9  # the flag of a class made by Python code


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


def is_from_c(value: Any, name: str, found: Any, namespace: Any) -> bool:
    """Whether an attribute is read by code that is not followed: a property of a library's, a field of a structure.

    `found` is what the class has under the name, and `namespace` what the object itself has.
    """
    if is_place(found):
        return True
    if is_data_descriptor(found):
        getter = found.fget if isinstance(found, property) else getattr(type(found), "__get__", None)
        if isinstance(getter, FunctionType):
            return not is_wengert(getter) and is_library(getter.__code__)
        return is_library_class(type(found))
    if found is not MISSING or (namespace is not MISSING and name in namespace):
        return False
    getter = getattr(type(value), "__getattr__", None)
    return not isinstance(getter, FunctionType) or (is_library(getter.__code__) and not is_wengert(getter))


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


def in_class(log: ReadLog, owner: type, name: str, classes: Sequence[type] | None = None) -> Any:
    """What a class has under a name, watched, and that no class before has it; MISSING where none has."""
    for parent in classes or owner.__mro__:
        found = vars(parent).get(name, MISSING)
        if parent.__flags__ & HEAP_TYPE and (found is not MISSING or not is_library_class(parent)):
            log.guards.watch_key(vars(parent), name, f"{parent.__name__}.{name}", id(parent))
        if found is not MISSING:
            if type(found) is not FunctionType:
                for function in functions_of(found):
                    log.install(function)
                if not issubclass(type(found), (property, staticmethod, classmethod, type)):
                    log.mark(found, f"{parent.__name__}.{name}")
            if owner.__flags__ & HEAP_TYPE and not is_library_class(owner):
                log.guards.watch_place(owner, ".__mro__", f"the bases of {owner.__name__}")
            return found
    return MISSING


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


def builtin(log: ReadLog, function: Any, name: str) -> Any:
    """What a function finds under a name that is no global, watched."""
    log.guards.watch_key(function.__builtins__, name, f"the builtin {name}")
    return function.__builtins__.get(name, MISSING)


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
        for item in frozenset(value):
            log.mark(item, f"an element of {label}")
    elif is_of(value, dict):
        kind = library_parent(type(value))
        keys, items = kind.keys(value), kind.values(value)  # past what a class of the user's makes of them
        guards.watch_items(value, label, keys, items)
        _mark_items(log, label, keys, items)
    elif is_of(value, *_MAPPINGS) and has_library_items(type(value)):
        guards.watch_items(value, label, _Pairs(value))
        _mark_items(log, label, [*value], [*value.values()])
    elif is_of(value, *_BYTES):
        guards.watch_value(value, lambda: bytes(value), label)
    elif is_of(value, np.ndarray):
        watch_array(log, value, label)
    elif is_of(value, list, collections.deque) or (is_of(value, collections.UserList) and iterates_plainly(value)):
        items = _Elements(value)
        guards.watch_items(value, label, items)
        for i, item in enumerate(items):
            log.mark(item, f"{label}[{i}]")
    elif is_of(value, type({}.keys()), type({}.values()), type({}.items())):
        guards.watch_items(value, label, value)
    elif is_of(value, SimpleNamespace):
        guards.watch_items(value, label, vars(value), vars(value).values())
    elif is_of(value, contextvars.ContextVar):
        guards.watch_value(value, functools.partial(value.get, None), label)


def _mark_items(log: ReadLog, label: str, keys: Iterable[Any], items: Iterable[Any]) -> None:
    for key, item in zip([*keys], [*items]):
        log.mark(key, f"a key of {label}")
        log.mark(item, f"{label}[{key!r}]" if type(key) in (str, int) else f"an item of {label}")


def iterates_plainly(value: Any) -> bool:
    """Whether going through a container runs no code of the user's."""
    for parent in type(value).__mro__:
        if "__iter__" in vars(parent):
            return is_library_class(parent)
    return False


def library_parent(kind: type) -> Any:
    """The class of Python's, or of a library, that a class is made from."""
    return next(parent for parent in kind.__mro__ if is_library_class(parent))


class _Elements:
    """The elements of a list or the like as it keeps them, whatever a class of the user's makes of iteration."""

    def __init__(self, value: Any) -> None:
        self.value, self.kind = value, library_parent(type(value))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.kind.__iter__(self.value))


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


def watch_decimals(log: ReadLog) -> None:
    """Watch the context of decimal numbers, of which their arithmetic depends."""
    context = attrgetter("prec", "rounding", "Emin", "Emax", "clamp")
    log.guards.watch_value(decimal, lambda: context(decimal.getcontext()), "the context of decimal numbers")


def part_of_array(log: ReadLog, array: Any, key: Any, part: Any, label: str) -> Any:
    """What an array from outside has under a key: a view, from outside too, or a copy, which is compared by value."""
    if not is_view_of_one(log, part):
        log.deep(key)
        if part.size > LARGE or part.dtype.hasobject:
            watch_array(log, array, label)
        log.guards.watch_value(part, lambda: array[key].tobytes(), label)
    return part


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


def elements(value: Any) -> list[Any] | None:
    """The items of a container as it keeps them; None for what is no container."""
    if is_of(value, dict):
        return [*library_parent(type(value)).values(value)]
    if is_of(value, *_MAPPINGS):
        return [*value.values()] if has_library_items(type(value)) else []
    if is_of(value, list, tuple, set, frozenset, collections.deque):
        return [*_Elements(value)]
    return None


def watch_result(log: ReadLog, value: Any) -> None:
    """Watch the containers from outside that a function gives back: their items are taken when it is recorded."""
    if is_of(value, list, tuple, dict):
        log.used(value)
        for item in elements(value) or ():
            watch_result(log, item)
