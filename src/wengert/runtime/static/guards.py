"""Guards: whether what a recorded function reads from outside is still what it was.

A recording is made of Python that read globals, closure variables, default arguments, attributes and items of what
these lead to. `Guards.of` follows the names that the function's code reads, through the user's own functions and
objects (not into libraries), before it is recorded; `changed` compares, in about a microsecond, and says what is
another. Objects are held weakly where they can be: a compiled function keeps nobody's model alive.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from wengert.core import code
from wengert.core.code import ATTRIBUTE, CELL, GLOBAL, ITEM, LOCAL, PACKAGE, Path, paths
from wengert.tensor import Tensor

_LIBRARIES = tuple({PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))})
_MANY = 400  # functions and objects: what lies beyond is left to the repeated recording
_LONG = 256  # items: a longer container is compared as an object
_VALUES = (int, float, complex, str, bytes, bool, type(None))
_KEPT = (CodeType, ModuleType)  # what may be held: it keeps nothing alive that would go
_MISSING = object()
_NONE: dict[str, Any] = {}
_HEAP_TYPE = 1 << 9  # the flag of a class made by Python code


def is_library(code: CodeType) -> bool:
    """Whether code belongs to Python, to an installed package or to Wengert."""
    return code.co_filename.startswith(_LIBRARIES) or code.co_filename.startswith("<frozen")


class _Watch:
    """Some places that hold objects, and those they held."""

    __slots__ = ("held", "labels", "read")

    def __init__(self, read: Callable[[], Iterable[Any]], labels: Sequence[str], forget: Callable[[], None]) -> None:
        self.read = read
        self.labels = labels
        self.held: list[Any] = [_hold(value, forget) for value in read()]

    def changed(self) -> str | None:
        """What is another, in words. A number that equals the old one is the same."""
        now = list(self.read())
        if len(now) != len(self.held):
            return f"{self._label(0)} has {len(now)} items, before {len(self.held)}"
        for i, (value, held) in enumerate(zip(now, self.held)):
            before = held() if type(held) is ref else held
            if before is value and (value is not None or held is None):
                continue
            if type(value) not in _VALUES or type(before) is not type(value) or repr(before) != repr(value):
                return f"{self._label(i)} is {_shown(value)}, before {_shown(before)}"
            self.held[i] = value
        return None

    def _label(self, i: int) -> str:
        return self.labels[i] if i < len(self.labels) else f"an item of {self.labels[0]}"


def _hold(value: Any, forget: Callable[[], None]) -> Any:
    """A reference by which to know an object, weak where that is possible; `forget` is called when it goes."""
    kind = type(value)
    return value if kind.__weakrefoffset__ == 0 or kind in _KEPT else ref(value, lambda _: forget())


def _shown(value: Any) -> str:
    return repr(value) if type(value) in _VALUES else f"another {type(value).__name__}"


class Guards:
    """The places that a function reads from outside."""

    def __init__(self) -> None:
        self._watches: list[_Watch] = []
        self._known = [True]  # empty when something that is watched has gone: None would pass for it
        self._named: dict[str, Any] = {"known": self._known}  # what the conditions name
        self._conditions = ["known"]
        self._stands: Callable[[], bool]  # whether all conditions hold
        self._mappings: dict[int, tuple[Mapping[str, Any], dict[Any, str]]] = {}
        self._cells: dict[int, tuple[CellType, str]] = {}
        self._functions: list[FunctionType] = []
        self._seen: set[tuple[int, int]] = set()
        self._alive: list[Any] = []  # keeps what was seen from giving its identity to something else while following

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: Sequence[Any] = ()) -> Guards:
        """The guards of a function called with these positional arguments."""
        guards = cls()
        guards._enter(function, arguments)
        guards._settle()
        return guards

    def _settle(self) -> None:
        """Make watches of what was found."""
        for mapping, labels in self._mappings.values():
            name = self._name(mapping)
            names = {key: self._name(key) for key in labels}
            places = [f"{name}[{k}]" if key in mapping else f"{name}.get({k})" for key, k in names.items()]
            self._watch(partial(map, mapping.get, labels), list(labels.values()), places)
        self._watch_attributes("cell_contents", list(self._cells.values()))
        for attribute, what in (("__code__", "the code"), ("__defaults__", "a default argument")):
            self._watch_attributes(attribute, [(f, f"{what} of {f.__name__}") for f in self._functions])
        self._stands = code.function([], " and ".join(self._conditions), self._named)
        self._learn()
        self._conditions, self._mappings, self._cells, self._seen, self._alive = [], {}, {}, set(), []

    def _watch(self, read: Callable[[], Iterable[Any]], labels: list[str], places: list[str]) -> None:
        """Watch single places, given as text too."""
        watch = _Watch(read, labels, self._known.clear)
        for i, (place, held) in enumerate(zip(places, watch.held)):
            self._conditions.append(f"{place} is held_{len(self._watches)}_{i}{'()' if type(held) is ref else ''}")
        self._watches.append(watch)

    def _watch_attributes(self, attribute: str, labelled: Sequence[tuple[Any, str]]) -> None:
        """Watch an attribute of some things, which are labelled."""
        things = [thing for thing, _ in labelled]
        places = [f"{self._name(thing)}.{attribute}" for thing in things]
        self._watch(partial(map, attrgetter(attribute), things), [label for _, label in labelled], places)

    def _watch_items(self, label: str, *containers: Iterable[Any]) -> None:
        """Watch all items of containers."""
        watch = _Watch(partial(chain, *containers), [label], self._known.clear)
        self._conditions.append(f"[*map(id, {self._name(watch.read)}())] == ids_{len(self._watches)}")
        self._watches.append(watch)

    def _name(self, thing: Any) -> str:
        name = f"_{len(self._named)}"
        self._named[name] = thing
        return name

    def _learn(self) -> None:
        """Have the test know what is there now."""
        self._known[:] = [True]
        for number, watch in enumerate(self._watches):
            self._named[f"ids_{number}"] = [*map(id, watch.read())]
            self._named.update((f"held_{number}_{i}", held) for i, held in enumerate(watch.held))

    def changed(self) -> str | None:
        """What is no longer as it was, in words, or None."""
        try:
            if self._stands():
                return None
        except (KeyError, ValueError):
            pass
        try:
            for watch in self._watches:  # one by one
                reason = watch.changed()
                if reason is not None:
                    return reason
            self._learn()
        except ValueError:
            return "a closure variable has no value any more"
        return None

    # --- following names --------------------------------------------------------------------------------------------

    def _enter(self, value: Any, arguments: Sequence[Any] = ()) -> None:
        """Follow what calling a value reads; `arguments` are the first of its positional ones."""
        where = (id(value), id(arguments[0]) if arguments else 0)
        if where in self._seen or len(self._seen) > _MANY:
            return
        self._seen.add(where)
        self._alive.append((value, arguments))
        if isinstance(value, FunctionType):
            self._enter_function(value, arguments)
        elif isinstance(value, MethodType):
            self._enter(value.__func__, (value.__self__, *arguments))
        elif isinstance(value, partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._enter(part)
        elif isinstance(value, type):
            self._enter_method(value, "__init__", ())
        elif not isinstance(value, (BuiltinFunctionType, ModuleType, Tensor, np.ndarray, *_VALUES)):
            wrapped = _own_namespace(value).get("__wrapped__")
            if wrapped is not None:
                self._enter(wrapped, arguments)
            for name in ("__call__", "forward"):
                self._enter_method(type(value), name, (value,))

    def _enter_method(self, kind: type, name: str, arguments: tuple[Any, ...]) -> None:
        method = getattr(kind, name, None)
        if isinstance(method, FunctionType):
            self._enter(method, arguments)

    def _enter_function(self, function: FunctionType, arguments: Sequence[Any]) -> None:
        closure = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        if is_library(function.__code__):  # a transform of Wengert's: what it closes over may be the user's
            for cell in closure.values():
                self._enter(_content(cell))
            return
        self._functions.append(function)
        keywords = function.__kwdefaults__ or {}
        for name in keywords:
            self._watch_key(keywords, name, f"a default argument of {function.__name__}")
        bound = dict(zip(function.__code__.co_varnames, arguments))
        for path in paths(function.__code__):
            self._follow(path, function.__globals__, closure, bound)

    def _follow(
        self, path: Path, variables: dict[str, Any], closure: dict[str, CellType], bound: dict[str, Any]
    ) -> None:
        """Watch every object on a path, and go on from where it leads."""
        name = path.name
        if path.root == GLOBAL and name in variables:
            self._watch_key(variables, name, f"the global {name}")
            value = variables[name]
        elif path.root == CELL and name in closure:
            value = _content(closure[name])
            if value is _MISSING:
                return
            self._cells.setdefault(id(closure[name]), (closure[name], f"the closure variable {name}"))
        elif path.root in (LOCAL, CELL) and name in bound:
            value = bound[name]
        else:
            return
        for kind, key in path.steps:
            value = self._step(value, kind, key, name)
            if value is _MISSING:
                return
            name = f"{name}.{key}" if kind == ATTRIBUTE else f"{name}[{key!r}]"
        self._watch_contents(value, name, depth=3)
        self._enter(value)

    def _step(self, value: Any, kind: str, key: Any, name: str) -> Any:
        """What an attribute or an item is, watched; _MISSING where that is not plainly stored."""
        if kind == ITEM:
            return self._item(value, key, name)
        if isinstance(value, ModuleType):
            if str(getattr(value, "__file__", None) or "/").startswith(_LIBRARIES) or not hasattr(value, "__file__"):
                return _MISSING
            namespace = vars(value)
        else:
            namespace = _own_namespace(value)
        if namespace is not _NONE:  # also where the class has it: an object's own attribute would come before
            self._watch_key(namespace, key, f"{name}.{key}")
        return namespace[key] if key in namespace else self._from_class(value, key, name)

    def _from_class(self, value: Any, key: str, name: str) -> Any:
        """An attribute found in a class: a method, bound; a plain value, watched."""
        kind = value if isinstance(value, type) else type(value)
        for parent in kind.__mro__:
            if key in vars(parent):
                if parent.__flags__ & _HEAP_TYPE:
                    self._watch_key(vars(parent), key, f"{name}.{key}", id(parent))
                return self._bound(vars(parent)[key], value)
        return _MISSING

    def _bound(self, found: Any, value: Any) -> Any:
        """What a class holds, as the attribute of an object."""
        if isinstance(found, property):
            if isinstance(found.fget, FunctionType):
                self._enter(found.fget, (value,))
            return _MISSING
        if isinstance(found, (staticmethod, classmethod)):
            return found.__func__
        function = _own_namespace(found).get("__wrapped__", found)  # a compiled method, or one otherwise wrapped
        if isinstance(function, FunctionType) and not isinstance(value, type):
            return MethodType(function, value)
        return found

    def _item(self, value: Any, key: Any, name: str) -> Any:
        if type(value) is dict and key in value:
            self._watch_key(value, key, f"{name}[{key!r}]")
            return value[key]
        if type(value) in (list, tuple) and type(key) is int and -len(value) <= key < len(value):
            self._watch_contents(value, name, depth=1)
            return value[key]
        return _MISSING

    def _watch_key(self, mapping: Mapping[str, Any], key: Any, label: str, identity: int | None = None) -> None:
        self._mappings.setdefault(identity or id(mapping), (mapping, {}))[1].setdefault(key, label)
        self._alive.append(mapping)

    def _watch_contents(self, value: Any, name: str, depth: int) -> None:
        """Watch the items of a list or a dictionary, and of those inside."""
        if type(value) not in (list, tuple, dict) or not depth or len(value) > _LONG:
            return
        if (id(value), -1) in self._seen or len(self._seen) > _MANY:
            return
        self._seen.add((id(value), -1))
        self._alive.append(value)
        items: Iterable[Any] = value
        if type(value) is dict:
            items = value.values()
            self._watch_items(name, value, value.values())
        elif type(value) is list:
            self._watch_items(name, value)
        for item in items:
            self._watch_contents(item, f"an item of {name}", depth - 1)
            if callable(item):
                self._enter(item)


def _own_namespace(value: Any) -> dict[str, Any]:
    """The attributes that an object stores itself; _NONE if it cannot."""
    namespace = _NONE if isinstance(value, type) else getattr(value, "__dict__", _NONE)
    return namespace if isinstance(namespace, dict) else _NONE


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not given a value yet
        return _MISSING
