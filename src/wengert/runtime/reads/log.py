"""The log of a recording: which objects are from outside, what was read of them, and the check that none is changed.

While a function is recorded, every function of the user's that runs does so as its twin (`twin`), which calls the hooks
here. An object is from outside if it was reached from a global, a closure, a default argument or an argument; whatever
is read of it becomes a guard. Objects that the function made itself may be read and changed freely.

Libraries are not traced. Their results count as functions of the contents of their arguments, which are watched; a
function that depends on more (`impure`) is an error on the user's line, and so is a change of an outside object.
"""

from __future__ import annotations

import collections
import enum
import functools
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from wengert.core.code import forget_sources, functions_of, here, is_library
from wengert.core.errors import RecordingError
from wengert.core.graph import now, recording
from wengert.runtime.reads import arrays, contents, kinds, lookup
from wengert.runtime.reads.kinds import ATOMS, HEAP_TYPE, MISSING, is_library_class, is_of, namespace_of
from wengert.runtime.reads.twin import covering, is_twin, twin_of, without_hooks
from wengert.runtime.static.guards import Guards
from wengert.tensor import Tensor

INSTEAD = "Return the value, or keep it in a tensor created outside and assign that"
_OF_TENSORS = frozenset({"requires_grad", "is_leaf", "shape", "dtype", "device", "ndim", "size"})
_ARRAYS = 128  # from outside that one recording may read where they lie; others are compared by value


class _CurrentLog(threading.local):
    log: ReadLog | None = None


current = _CurrentLog()
"""Of this thread: the log of the recording that is in progress."""


class ReadState:
    """State shared by the recordings of one function."""

    def __init__(self) -> None:
        self.statics: dict[Any, Any] = {}  # what `wg.static` froze, by where and how often
        self.arrays: WeakValueDictionary[Any, Tensor] = WeakValueDictionary()  # for arrays from outside, by their place
        self.functions: list[FunctionType] = []  # the user's functions that a library called, unseen until then


class ReadLog:
    """The log of what one recording reads from outside."""

    def __init__(self, name: str, memory: ReadState | None = None, instance: Any = None, covers: bool = False) -> None:
        self.instance = instance
        self.covers = covers and sys.getprofile() is None  # whether all functions that run are looked at
        self.memory = memory or ReadState()
        self.name = name
        self.guards = Guards()
        self.outside: dict[int, Any] = {}
        self.labels: dict[int, str] = {}
        self.arrays: list[Tensor] = []  # what stands for arrays from outside
        self.uncovered: dict[CodeType, dict[str, Any]] = {}  # that ran without a twin, with their globals
        self.stored: Any = None  # the value being stored, until its destination is known
        self.target: Any = None
        self.specials: set[type] = set()  # classes whose special methods are watched
        self.going_through: dict[int, list[Any]] = {}  # by library-made iterator: the iterator and its source
        self._visits: dict[Any, int] = {}
        self.serials = iter([now() for _ in range(_ARRAYS)])  # older than the recording, for what stands for arrays
        self._frozen, self._entered, self._used = dict[int, Any](), dict[int, Any](), dict[int, Any]()
        self._swapped: list[tuple[FunctionType, CodeType]] = []

    # --- begin and end ------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self, function: Any, arguments: Sequence[tuple[str, Any]]) -> Iterator[None]:
        """A context in which the user's functions run as their twins. `arguments` are those that are objects, with
        their names."""
        outer, current.log = current.log, self
        for label, value in (("self", self.instance), *arguments):
            self.mark(value, label)
        try:
            root = function if self.instance is None else function.func  # a partial of the method and its object
            self.mark(root, self.name)
            for one in (root, *self.memory.functions):
                self.install(one)
            with covering(self.uncovered) if self.covers else nullcontext():
                yield
        except BaseException as error:
            error.__traceback__ = without_hooks(error.__traceback__)
            raise
        finally:
            current.log = outer
            for one, code in self._swapped:
                one.__code__ = code
            self._swapped = []

    def found_more(self) -> bool:
        """Whether new functions of the user's ran; they are known from now on."""
        found = [one for one in functions_of(self.uncovered) if one not in self.memory.functions]
        known = [one.__code__ for one in self.memory.functions]
        # Equal code that is another object: made by each run anew, as by `dataclass` inside the function.
        new = [one for one in found if one.__code__ not in known or any(one.__code__ is code for code in known)]
        self.memory.functions += new
        return bool(new)

    def finish(self) -> Guards:
        """The guards of everything that was read; raises an error if any of it was changed."""
        self.outside, self._entered, self._used, self._frozen, self.going_through = {}, {}, {}, {}, {}
        forget_sources()
        kinds.require_few(self)
        self.guards.settle()
        reason = self.guards.changed()
        if reason is not None:
            raise RecordingError(
                f"compile: {self.name} changes what it reads: {reason}. That would happen only while it is recorded. "
                "Return the new value, or keep it in a tensor created outside and assign that"
            )
        return self.guards

    # --- what is from outside -----------------------------------------------------------------------------------

    def mark(self, value: Any, label: str) -> Any:
        """Mark a value as from outside, with its name; returns the value."""
        kind = type(value)
        if kind in ATOMS or issubclass(kind, Tensor) or id(value) in self.outside or id(value) in self._frozen:
            return value
        self.outside[id(value)] = value
        self.labels[id(value)] = label
        if issubclass(kind, (tuple, frozenset)):
            for i, item in enumerate(kinds.elements(value) or ()):
                self.mark(item, f"{label}[{i}]")
            self.enter_class(kind)
        elif issubclass(kind, enum.EnumMeta):
            for member in value:
                self.mark(member, f"{label}.{member.name}")
        elif kind in (BuiltinFunctionType, MethodType):
            if not isinstance(value.__self__, (ModuleType, type)):
                self.mark(value.__self__, f"what {label} belongs to")
        elif kind not in (list, dict, ModuleType, FunctionType, type):
            for part in kinds.modules_in(value):
                self.enter_class(type(part))
        return value

    def is_outside(self, value: Any) -> bool:
        """Whether a value is known to be from outside, or an array that shares memory with one that is."""
        return id(value) in self.outside or (issubclass(type(value), np.ndarray) and arrays.is_view_of_one(self, value))

    def label(self, value: Any) -> str:
        """The name of an outer value."""
        return self.labels.get(id(value), f"a {type(value).__name__}")

    def enter(self, function: FunctionType) -> None:
        """Make a function run as its twin, and watch the names that it reads."""
        if id(function) in self._entered or is_twin(function.__code__):
            return
        self._entered[id(function)] = function
        code = function.__code__
        twin = twin_of(code)
        if twin is not None:
            self._swapped.append((function, code))
            function.__code__ = twin.code
        self.guards.watch_function(function)
        variables = function.__globals__
        for name in kinds.global_names(code):
            if twin is None or name in twin.names:
                self.guards.watch_key(variables, name, f"the global {name}")
                found = variables.get(name, MISSING)
                if found is MISSING:
                    found = kinds.builtin(self, function, name)
                self._from_name(found, name, twin is None)
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            if twin is None or name in twin.names or name == "__class__":
                self._enter_cell(cell, name, twin is None)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._from_name(value, f"a default argument of {function.__name__}", twin is None)

    def _from_name(self, value: Any, label: str, is_blind: bool) -> None:
        if value is not MISSING:
            self.mark(value, label)
            if is_blind:
                self.deep(value)

    def _enter_cell(self, cell: CellType, name: str, is_blind: bool) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # not given a value yet
            return
        self.guards.watch_cell(cell, f"the closure variable {name}")
        self._from_name(value, name, is_blind)

    def enter_class(self, kind: type) -> None:
        """Make the functions of a class that Python or a library calls (properties, operators, ...) run as twins."""
        if id(kind) in self._entered:
            return
        self._entered[id(kind)] = kind
        for parent in kind.__mro__:
            if not parent.__flags__ & HEAP_TYPE or is_library_class(parent):
                continue
            for name, value in list(vars(parent).items()):
                is_called = name.startswith("__") or name == "forward"  # by Python, or by Module
                if is_called or type(value) is not FunctionType:
                    for function in kinds.functions_of(value):
                        self.install(function)
                if is_called and type(value) is FunctionType:
                    self.guards.watch_key(vars(parent), name, f"{parent.__name__}.{name}", id(parent))

    def install(self, value: Any) -> None:
        """Make the functions that a value calls run as twins."""
        if is_of(value, FunctionType):
            if not is_library(value.__code__):
                self.enter(value)
            else:  # a wrapper, whose closure may hold the user's functions
                for cell in value.__closure__ or ():
                    self._install_cell(value, cell)
        elif is_of(value, MethodType):
            self.install(value.__func__)
        elif is_of(value, functools.partial):
            for i, part in enumerate((value.func, *value.args, *value.keywords.values())):
                self._install_kept(value, part, f"argument {i} of {self.labels.get(id(value), 'a partial')}")
            for name in ("func", "args", "keywords") if self.is_outside(value) else ():
                self.guards.watch_place(value, f".{name}", f"the {name} of a partial")
            if value.keywords and self.is_outside(value):
                self.guards.watch_items(value.keywords, "a partial", value.keywords, value.keywords.values())
        elif is_of(value, type):
            self.enter_class(value)
        elif type(value) not in ATOMS and not is_of(value, Tensor, np.ndarray, ModuleType, BuiltinFunctionType):
            wrapped = namespace_of(value).get("__wrapped__")
            if wrapped is not None:
                self._install_kept(value, wrapped, f"what {self.label(value)} wraps")
            for part in kinds.modules_in(value):
                self.enter_class(type(part))
                for function in kinds.functions_kept(part):
                    self._install_kept(value, function, f"a function that {self.label(value)} keeps")

    def _install_kept(self, value: Any, kept: Any, label: str) -> None:
        """The same for what a value keeps, which is from outside if the value is."""
        if self.is_outside(value):
            self.mark(kept, label)
        self.install(kept)

    def _install_cell(self, function: FunctionType, cell: CellType) -> None:
        try:
            content = cell.cell_contents
        except ValueError:
            return
        if callable(content) and id(content) not in self._entered:
            self._entered.update(() if isinstance(content, (FunctionType, type)) else {id(content): content})
            self._install_kept(function, content, f"what {function.__name__} wraps")

    def is_own_variable(self, code: CodeType, name: str) -> bool:
        """Whether a free variable of the code that runs belongs to a function from outside."""
        return any(function.__code__ is code and name in code.co_freevars for function, _ in self._swapped)

    # --- reads --------------------------------------------------------------------------------------------------

    def attribute(self, value: Any, name: str) -> Any:
        """An attribute, watched if the object or its class is from outside."""
        kind = type(value)
        if issubclass(kind, Tensor):
            static = recording.trace.static if name in _OF_TENSORS and recording.trace is not None else None
            if static is not None and static.is_outside(value):
                self.guards.watch_place(value, f".{name}", f"{name} of a tensor from outside")
            return getattr(value, name)
        if kind is ModuleType:
            return kinds.of_module(self, value, name)
        if kind is FunctionType and name == "__code__":  # not that of its twin
            self.install(value)
            return next((code for one, code in self._swapped if one is value), value.__code__)
        is_outside = id(value) in self.outside
        is_class = issubclass(kind, type)
        owner = value if is_class else kind
        if kind is super:
            return lookup.of_super(self, value, name)
        if not is_outside and (not owner.__flags__ & HEAP_TYPE or is_library_class(owner)):
            return getattr(value, name)
        kinds.watch_special(self, kind, kinds.LOOKED_UP)
        if not kinds.looks_up_plainly(kind):  # by the user's own `__getattribute__`
            return getattr(value, name)
        found = kinds.in_class(self, owner, name)
        if is_class and found is MISSING:
            found = kinds.in_class(self, kind, name)
        if not is_outside:
            result = getattr(value, name)
            return self.mark(result, f"{owner.__name__}.{name}") if result is found else result
        return self._of_outside(value, name, found, f"{self.label(value)}.{name}")

    def _of_outside(self, value: Any, name: str, found: Any, label: str) -> Any:
        """An attribute of an object from outside; `found` is what its class has."""
        try:
            result = getattr(value, name)
        finally:  # after the lookup, because a cached property exists now
            namespace = namespace_of(value, MISSING)
            if namespace is not MISSING and not kinds.is_data_descriptor(found):
                self.guards.watch_key(namespace, name, label)
            if not issubclass(type(value), type):
                self.guards.watch_class(value, f"the class of {self.label(value)}")
        if is_of(value, threading.local) or kinds.is_from_c(value, name, found, namespace):
            return lookup.from_c(self, value, name, result, label)
        if type(found) is property or (type(result) in (MethodType, functools.partial) and result is not found):
            return result  # made just now
        return self.mark(result, label)

    def item(self, value: Any, key: Any) -> Any:
        """An item, watched if the container is from outside."""
        if not self.is_outside(value):
            self.deep(key)
            return value[key]
        kind, label = type(value), f"{self.label(value)}[{key!r}]" if type(key) in ATOMS else self.label(value)
        if isinstance(value, dict) and type(key) in ATOMS and kinds.has_library_items(kind):
            if key in value:
                self.guards.watch_key(value, key, label)
            elif issubclass(kind, collections.defaultdict):  # which enters the key
                self.writable(value, f"[{key!r}]")
            else:
                self.guards.watch_containing(value, key, False, f"whether {key!r} is in {self.label(value)}")
        elif kind is list and type(key) is int and -len(value) <= key < len(value):
            self.guards.watch_place(value, f"[{key}]", label)
        elif kind in (list, dict):
            self.used(value)
            return value[key] if type(key) is slice else self.mark(value[key], label)
        elif kind is not tuple and kinds.has_library_items(kind):
            result = value[key]
            if isinstance(result, np.ndarray):
                return arrays.part_of_array(self, value, key, result, label)
            if type(result) not in ATOMS and value[key] is not result:  # made anew, of what the container holds
                self.used(value)
                return result
            self.guards.watch_item(value, key, result, label)
            return self.mark(result, label)
        return self.mark(value[key], label)

    def contains(self, element: Any, container: Any) -> bool:
        """`element in container`, watched if the container is from outside."""
        if id(container) in self.outside:
            if type(element) in ATOMS and kinds.has_library_items(type(container)):
                found = element in container
                self.guards.watch_containing(
                    container, element, found, f"whether {element!r} is in {self.label(container)}"
                )
                return found
            self.used(container)
        return element in container

    def used(self, value: Any) -> None:
        """Watch the contents of an outer container as a whole."""
        kinds.watch_special(self, type(value))
        if id(value) in self._used or not self.is_outside(value):
            return
        self._used[id(value)] = value
        contents.watch(self, value)

    def deep(self, value: Any) -> None:
        """Watch everything that a library may read of a value."""
        contents.watch_all(self, value)

    def returned(self, value: Any) -> None:
        """Watch the outer containers that the function returns."""
        kinds.watch_result(self, value)

    def operands(self, *values: Any) -> None:
        """Watch the contents of an operator's outer operands."""
        for value in values:
            if type(value) is Decimal:
                contents.watch_decimals(self)
            elif type(value) not in ATOMS:
                self.deep(value)

    def iterated(self, value: Any) -> None:
        """Watch a value that is iterated over; refuse an outer iterator, which would be advanced."""
        if id(value) in self.outside and kinds.is_iterator(value):
            self.refuse(f"{self.label(value)}, an outer iterator, is advanced", "Pass its items instead")
        if id(value) in self.outside and kinds.elements(value) is None and is_library_class(type(value)):
            self.deep(value)  # gone through by a library's code
        self.used(value)

    # --- changes ------------------------------------------------------------------------------------------------

    def refuse(self, what: str, instead: str) -> None:
        """Raise an error on the user's line."""
        when = f"That would happen only while {self.name} is recorded, and not when it runs again"
        raise RecordingError(f"compile: {what}. {when}. {instead}", here())

    def writable(self, value: Any, place: str) -> None:
        """Raise an error if something outside is about to be changed."""
        if is_of(value, Tensor) or not self.is_outside(value):
            return
        self.refuse(f"{self.label(value)}{place} is set, which is outside the function", INSTEAD)
