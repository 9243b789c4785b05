"""Kinds of objects, and their attributes.

Kinds: the user's, Python's or a library's; containers, iterators, storage in objects. Attributes of classes, modules
and functions are watched when they are looked up.
"""

from __future__ import annotations

import collections
import contextvars
import copy
import dis
import functools
import sys
from array import array
from collections.abc import Iterator, Sequence
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from wengert.core.code import LIBRARIES, is_library
from wengert.core.errors import RecordingError
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.reads.log import ReadLog

ATOMS = frozenset({int, float, complex, str, bytes, bool, type(None), type(Ellipsis), slice, range, np.dtype, CodeType})
MOST = 5_000  # places that a recording may depend on
LARGE = 65_536  # elements of an array that is compared by value at every call
GROWING = (list, set, dict, bytearray, collections.deque, np.ndarray, collections.Counter, array)
MAPPINGS = (dict, collections.ChainMap, collections.UserDict, MappingProxyType, contextvars.Context)
BYTES = (bytearray, memoryview, array)
HEAP_TYPE = 1 << 9  # the flag of a class made by Python code
MISSING = object()
_KNOWN = frozenset(
    {
        *("builtins", "collections", "itertools", "functools", "_functools", "operator", "_operator", "re", "_sre"),
        *("datetime", "decimal", "_decimal", "_struct", "types", "weakref", "_weakref", "_weakrefset", "array", "enum"),
        *("contextvars", "_contextvars", "_thread", "_multiprocessing", "_asyncio", "_random", "_io", "_queue"),
        *("numpy", "ml_dtypes", "ctypes", "_ctypes", "zoneinfo", "typing", "ast", "_ast", "fractions"),
    }
)
"""Modules whose classes in C are looked after otherwise, or have objects that do not change."""
LOOKED_UP = ("__getattribute__", "__getattr__")
_OPERATORS = tuple(
    f"__{side}{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"),
    )
    for side in ("", "r")
)
_SPECIAL = (
    *("__bool__", "__len__", "__iter__", "__getitem__", "__contains__", "__next__", "__reversed__", "__index__"),
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__float__", "__int__", "__complex__"),
    *("__neg__", "__pos__", "__invert__", "__abs__", "__round__", "__str__", "__repr__", "__format__", "__array__"),
    *("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__call__", "__array_ufunc__"),
    *_OPERATORS,
)
"""Methods that Python, or a library, calls by itself: where a class has none of the name, it may be given one later."""
_NONE: dict[str, Any] = {}
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
    file = vars(module).get("__file__")  # results of its own `__getattr__` are excluded
    if file is not None:
        return str(file).startswith(LIBRARIES)
    return vars(module).get("__name__") in sys.builtin_module_names or vars(module).get("__path__") is not None


def is_wengert(thing: Any) -> bool:
    """Whether a module, a class or a function is Wengert's own."""
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    return isinstance(name, str) and (name == "wengert" or name.startswith("wengert."))


def is_of(value: Any, *kinds: type) -> bool:
    """Whether a value's type is a class: unlike `isinstance`, it never runs the user's code."""
    return issubclass(type(value), kinds)


def is_iterator(value: Any) -> bool:
    """Whether iterating over a value advances it."""
    return hasattr(type(value), "__next__")


def is_data_descriptor(found: Any) -> bool:
    """Whether a class attribute takes precedence over an object's own attribute."""
    return found is not MISSING and hasattr(type(found), "__set__")


def is_place(found: Any) -> bool:
    """Whether a class attribute is storage in its objects: a slot, or a member defined in C."""
    return isinstance(found, (MemberDescriptorType, GetSetDescriptorType))


def is_from_c(value: Any, name: str, found: Any, namespace: Any) -> bool:
    """Whether an attribute is read by code that is not traced: a library's property, a field of a structure.

    `found` is the class's attribute of that name, and `namespace` the object's own attributes.
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
    """Whether `value[key]` and `key in value` run none of the user's code for a class."""
    for name in ("__missing__", "__getitem__"):
        parent = next((one for one in kind.__mro__ if name in vars(one)), None)
        if parent is not None and not is_library_class(parent):
            return False
    return True


def looks_up_plainly(kind: type) -> bool:
    """Whether attribute lookup is Python's own and not a function of the user's."""
    found = kind.__getattribute__
    return not isinstance(found, FunctionType) or is_library_class(kind)


def iterates_plainly(value: Any) -> bool:
    """Whether iterating over a container runs none of the user's code."""
    for parent in type(value).__mro__:
        if "__iter__" in vars(parent):
            return is_library_class(parent)
    return False


def library_parent(kind: type) -> Any:
    """The class of Python or a library that a class derives from."""
    return next(parent for parent in kind.__mro__ if is_library_class(parent))


class ListElements:
    """The stored elements of a list or similar, even if a user's subclass overrides iteration."""

    def __init__(self, value: Any) -> None:
        self.value, self.kind = value, library_parent(type(value))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.kind.__iter__(self.value))


def elements(value: Any) -> list[Any] | None:
    """The stored items of a container; None if the value is not a container."""
    if is_of(value, dict):
        return [*library_parent(type(value)).values(value)]
    if is_of(value, *MAPPINGS):
        return [*value.values()] if has_library_items(type(value)) else []
    if is_of(value, list, tuple, set, frozenset, collections.deque):
        return [*ListElements(value)]
    return [*value] if is_opaque(value) and hasattr(type(value), "__len__") else None


def is_opaque(value: Any) -> bool:
    """Whether a value's class is implemented in C and unknown, so that only its methods reveal its contents."""
    kind = type(value)
    module = kind.__module__
    if kind in ATOMS or kind.__dictoffset__ or not isinstance(module, str) or module.partition(".")[0] in _KNOWN:
        return False
    has_code = any(type(found) is FunctionType for found in vars(kind).values())
    return not has_code and not is_wengert(kind) and not is_iterator(value) and is_library_class(kind)


def namespace_of(value: Any, default: Any = _NONE) -> Any:
    """The attributes that an object stores itself; the default if it stores none."""
    if issubclass(type(value), type) or not type(value).__dictoffset__:
        return default
    try:
        namespace = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return default
    return namespace if isinstance(namespace, dict) else default


# --- what classes, modules and functions have ------------------------------------------------------------------------


def functions_of(value: Any) -> Iterator[Any]:
    """The functions behind a class attribute."""
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
    """The functions stored by one of Wengert's objects: hooks of a Module, rules of a custom derivative."""
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
    """A class attribute, watched together with its absence in earlier classes; MISSING if no class has it."""
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


def of_module(log: ReadLog, module: ModuleType, name: str) -> Any:
    """An attribute of a module, watched."""
    if name not in vars(module) and "__getattr__" in vars(module):
        log.install(vars(module)["__getattr__"])
    result = getattr(module, name)
    log.guards.watch_key(vars(module), name, f"{module.__name__}.{name}")
    if is_library_module(module):
        is_plain = isinstance(result, (FunctionType, BuiltinFunctionType, ModuleType, type, Tensor))
        if is_plain or type(result) in ATOMS or is_wengert(module) or callable(result):
            return result
    return log.mark(result, f"{module.__name__}.{name}")


def watch_special(log: ReadLog, kind: type, names: Sequence[str] = _SPECIAL) -> None:
    """Watch the special methods of the user's classes, including absent ones."""
    for parent in kind.__mro__ if kind.__flags__ & HEAP_TYPE and kind not in log.specials else ():
        if parent.__flags__ & HEAP_TYPE and not is_library_class(parent):
            for name in names:
                log.guards.watch_key(vars(parent), name, f"{parent.__name__}.{name}", id(parent))
    if names is _SPECIAL:
        log.specials.add(kind)


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
    """The builtin that a function finds for a name that is not a global, watched."""
    log.guards.watch_key(function.__builtins__, name, f"the builtin {name}")
    return function.__builtins__.get(name, MISSING)


def copied(value: Any) -> Any:
    """A private copy of a value; the value itself if it cannot be copied."""
    try:
        return value if isinstance(value, (Tensor, ModuleType, type, FunctionType)) else copy.deepcopy(value)
    except Exception:
        return value


def require_few(log: ReadLog) -> None:
    """Raise an error if a recording depends on too many values."""
    if log.guards.places > MOST:
        raise RecordingError(
            f"compile: {log.name} depends on more than {MOST} values in Python objects, which would be compared at "
            "every call. Put the numbers into an array or a tensor, or freeze them with wg.static"
        )


def watch_result(log: ReadLog, value: Any) -> None:
    """Watch the outer containers that a function returns, because their items are read when it is recorded."""
    if is_of(value, list, tuple, dict):
        log.used(value)
        for item in elements(value) or ():
            watch_result(log, item)
