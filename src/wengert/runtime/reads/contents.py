"""What objects from outside hold, as far as a recording depends on it; and calls of libraries, which read it.

`watch` has the guards look at a container's items, `watch_all` at everything that can be reached from an object, up to a
bound. `by_library` and `by_wengert` call a function that is not followed.
"""

from __future__ import annotations

import builtins
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
from wengert.core.errors import RecordingError
from wengert.runtime.reads import impure
from wengert.runtime.static.guards import MISSING, namespace_of
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.reads.log import Log

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
        is_built = module is None or module.__name__.startswith("_cython")
        found = _library_classes[kind] = not has_code if is_built else is_library_module(module)
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


def _is(value: Any, *kinds: type) -> bool:
    """Whether a value is of a class, by its type alone: `isinstance` may ask the object, and run the user's code."""
    return issubclass(type(value), kinds)


# --- contents -------------------------------------------------------------------------------------------------------


def watch(log: Log, value: Any) -> None:
    """Watch the items of a container from outside, and note that these are from outside."""
    label, guards = log.label(value), log.guards
    if _is(value, set, frozenset):
        guards.watch_value(value, lambda: frozenset(value), label)
        for item in value:
            log.mark(item, f"an element of {label}")
    elif _is(value, *_MAPPINGS) and has_library_items(type(value)):
        guards.watch_items(value, label, *((value, value.values()) if type(value) is dict else (_Pairs(value),)))
        for key, item in list(value.items()):
            log.mark(key, f"a key of {label}")
            log.mark(item, f"{label}[{key!r}]" if type(key) in (str, int) else f"an item of {label}")
    elif _is(value, *_BYTES):
        guards.watch_value(value, lambda: bytes(value), label)
    elif _is(value, np.ndarray):
        _watch_array(log, value, label)
    elif _is(value, list, collections.deque, collections.UserList) and _iterates_plainly(type(value)):
        guards.watch_items(value, label, value)
        for i, item in enumerate(value):
            log.mark(item, f"{label}[{i}]")
    elif _is(value, type({}.keys()), type({}.values()), type({}.items())):
        guards.watch_items(value, label, value)
    elif _is(value, SimpleNamespace):
        guards.watch_items(value, label, vars(value), vars(value).values())
    elif _is(value, contextvars.ContextVar):
        guards.watch_value(value, functools.partial(value.get, None), label)
    _require_few(log)


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


def _watch_array(log: Log, value: np.ndarray[Any, Any], label: str) -> None:
    if value.size > LARGE or value.dtype.hasobject:
        log.refuse(
            f"{label}, an array of {value.size} elements, is read by code that cannot be followed",
            "Make it a tensor, give it as an argument, or freeze it with wg.static",
        )
    log.guards.watch_value(value, value.tobytes, label)


def _require_few(log: Log) -> None:
    if log.guards.places > MOST:
        raise RecordingError(
            f"compile: {log.name} depends on more than {MOST} places in Python objects, which would be compared at "
            "every call. Put the numbers into an array or a tensor, or freeze them with wg.static"
        )


def watch_all(log: Log, value: Any) -> list[Any]:
    """Watch everything that can be reached from a value; gives the objects whose contents are watched."""
    seen: dict[int, Any] = {}
    todo = [value]
    while todo:
        one = todo.pop()
        kind = type(one)
        if kind in _SKIPPED or id(one) in seen or _is(one, *_LEAVES) or id(one) in log._frozen:
            continue
        seen[id(one)] = one
        if _is(one, FunctionType, MethodType, functools.partial, type):
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


def _parts(log: Log, value: Any) -> list[Any]:
    """What an object holds; of one from outside, noted and watched."""
    label = log.label(value)
    if _is(value, *_MAPPINGS):
        return [*value.values()]
    if _is(value, list, tuple, set, frozenset, collections.deque):
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


_SKIPPED = frozenset({int, float, complex, str, bytes, bool, type(None), type(Ellipsis), slice, range, Tensor})


# --- calls ----------------------------------------------------------------------------------------------------------


def by_wengert(log: Log, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of Wengert's: containers count by their items, and functions among them are followed."""
    log.install(function)
    for value in (*args, *kwargs.values()):
        if type(value) is not Tensor and type(value) not in _SKIPPED:
            _given(log, value, 4)
    return function(*args, **kwargs)


def _given(log: Log, value: Any, depth: int) -> None:
    if isinstance(value, (list, tuple, dict)):
        log.used(value)
        for item in value.values() if isinstance(value, dict) else value:
            if depth and type(item) is not Tensor and type(item) not in _SKIPPED:
                _given(log, item, depth - 1)
    elif not isinstance(value, np.ndarray):
        if log.is_outside(value) and is_iterator(value):
            log.iterated(value)
        log.install(value)


def by_library(log: Log, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of a library that is not followed: it counts as one of the contents of its arguments."""
    if type(function) is functools.partial:
        from wengert.runtime.reads.log import HOOKS

        log.install(function)
        return HOOKS["call"](function.func, *function.args, *args, **{**function.keywords, **kwargs})
    if is_wengert(type(function)) or (isinstance(function, type) and is_wengert(function)):
        return by_wengert(log, function, args, kwargs)
    if not isinstance(function, (type, BuiltinFunctionType, MethodType, FunctionType)) and not is_library_class(
        type(function)
    ):
        log.install(function)
        return function(*args, **kwargs)
    if impure.shows(function):
        from wengert.runtime.reads.log import said

        said(log, function)
        return function(*args, **kwargs)
    special = _SPECIAL.get(function) if isinstance(function, (BuiltinFunctionType, type)) else None
    if special is not None:
        return special(log, *args, **kwargs)
    if impure.is_impure(function, args) and not _is_of_its_own(log, function):
        called = log.labels.get(id(function), "")
        log.refuse(
            f"{called and called + ', '}{impure.name_of(function)}{called and ','} depends on more than its arguments, or does more than give a result",
            "Call it outside, and give the result as an argument",
        )
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
            log.refuse(
                f"{impure.name_of(function)} changes {log.label(one)}, which is outside of the function", _RETURN
            )
    return result


def _is_of_its_own(log: Log, function: Any) -> bool:
    """Whether a method belongs to an object that the recorded function made itself, as a seeded generator is."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, (ModuleType, type)) or log.is_outside(owner):
        return False
    home = sys.modules.get(impure.module_of(function))
    return home is None or all(value is not owner for value in vars(home).values())


def _watch_caches(log: Log, function: Any) -> None:
    """Watch what a function of functools keeps: results, which may be cleared, or cases, which may be added."""
    if hasattr(function, "cache_info"):
        known = function.cache_info().misses
        log.guards.watch_value(
            function, lambda: function.cache_info().misses >= known, f"the cache of {function.__name__}"
        )
    if _is(getattr(function, "registry", None), MappingProxyType):
        log.used(log.mark(function.registry, f"the cases of {function.__name__}"))


_RETURN = "Return the value, or keep it in a tensor made outside and assign that"


def _reached(log: Log, value: Any) -> list[Any]:
    if type(value) in _SKIPPED or isinstance(value, ModuleType):
        return []
    return watch_all(log, value)


def _check_owner(log: Log, function: Any, owner: Any, args: tuple[Any, ...]) -> None:
    """Raise where a method changes what it belongs to, which is outside."""
    if not log.is_outside(owner) or function.__name__ not in impure.MUTATORS:
        return
    known = (*GROWING, collections.OrderedDict, collections.UserDict, collections.UserList, contextvars.ContextVar)
    if isinstance(owner, known):
        log.writable(owner, f".{function.__name__}(...)")


def _got(log: Log, owner: dict[Any, Any], key: Any, default: Any = None) -> Any:
    label = f"{log.label(owner)}[{key!r}]" if type(key) in _SKIPPED else log.label(owner)
    if type(key) not in _SKIPPED:
        log.used(owner)
    elif key in owner:
        log.guards.watch_key(owner, key, label)
    else:
        log.guards.watch_containing(owner, key, False, f"whether {key!r} is in {log.label(owner)}")
    return log.mark(owner[key], label) if key in owner else default


# --- builtins that are not just functions of contents ---------------------------------------------------------------


def _getattr(log: Log, value: Any, name: str, *default: Any) -> Any:
    try:
        return log.attribute(value, name) if type(value) is not Tensor else getattr(value, name)
    except AttributeError:
        if not default:
            raise
        return default[0]


def _hasattr(log: Log, value: Any, name: str) -> bool:
    try:
        _getattr(log, value, name)
    except AttributeError:
        return False
    return True


def _setattr(log: Log, value: Any, name: str, *new: Any) -> None:
    log.writable(value, f".{name}")
    setattr(value, name, *new) if new else delattr(value, name)


def _isinstance(log: Log, value: Any, kinds: Any) -> bool:
    if log.is_outside(value):
        log.guards.watch_class(value, f"the class of {log.label(value)}")
    return isinstance(value, kinds)


def _type(log: Log, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and log.is_outside(args[0]):
        log.guards.watch_class(args[0], f"the class of {log.label(args[0])}")
    return type(*args, **kwargs)


def _next(log: Log, iterator: Any, *default: Any) -> Any:
    log.iterated(iterator)
    return next(iterator, *default)


def _vars(log: Log, *value: Any) -> Any:
    found = vars(*value)
    if value and log.is_outside(value[0]):
        log.mark(found, f"vars({log.label(value[0])})")
    return found


def _identity(log: Log, value: Any) -> int:
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
