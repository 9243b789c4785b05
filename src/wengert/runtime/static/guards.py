"""Guards: whether what a recorded function reads from outside is still what it was.

`reads/log` finds out what that is while the function is recorded, and has it watched here; `changed` compares, in about
a microsecond, and says what is another. Each link of a path is compared by identity on the object that it was read
from, numbers by type and value. Objects are held weakly where they can be: a compiled function keeps nobody's model
alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import partial
from itertools import chain
from operator import attrgetter, call, is_, itemgetter
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from wengert.core import code

_VALUES = (int, float, complex, str, bytes, bool, type(None))
_KEPT = (CodeType, ModuleType)  # what may be held: it keeps nothing alive that would go
_SEVERAL = 10  # places of one kind: from then on they are read at once
_OF_FUNCTIONS = {"__code__": "the code", "__defaults__": "a default argument", "__kwdefaults__": "a default argument"}
_HEAP_TYPE = 1 << 9  # the flag of a class made by Python code
MISSING = object()
_NONE: dict[str, Any] = {}


class _Held(ref):  # type: ignore[type-arg]
    """By which a guard knows an object; weak references of the user's are objects like others."""

    __slots__ = ()


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
            before = held() if type(held) is _Held else held
            is_gone = before is None and held is not None  # and None in its place would pass for it
            if before is value and not is_gone:
                continue
            if is_gone or not _is_same(value, before):
                was = "an object that is gone" if is_gone else _shown(before)
                return f"{self._label(i)} is {_shown(value)}, before {was}"
            self.held[i] = value
        return None

    def _label(self, i: int) -> str:
        return self.labels[i] if i < len(self.labels) else f"an item of {self.labels[0]}"


def _is_same(value: Any, before: Any) -> bool:
    """Whether two values, which are two objects, are the same number, string or the like."""
    if type(before) is not type(value):
        return False
    if isinstance(value, np.generic):
        return bool(value.tobytes() == before.tobytes())
    if type(value) is tuple and len(value) == len(before):
        return all(a is b or _is_same(a, b) for a, b in zip(value, before))
    return type(value) in _VALUES and repr(before) == repr(value)


def _hold(value: Any, forget: Callable[[], None]) -> Any:
    """A reference by which to know an object, weak where that is possible; `forget` is called when it goes."""
    return _Held(value, lambda _: forget()) if _can_go(type(value)) else value


def _can_go(kind: type) -> bool:
    """Whether objects of a class are held weakly. NumPy's scalars are not: one is made at each look."""
    return kind.__weakrefoffset__ != 0 and kind not in _KEPT and not issubclass(kind, np.generic)


def _shown(value: Any) -> str:
    return repr(value) if type(value) in _VALUES else f"another {type(value).__name__}"


class Guards:
    """The places that a function reads from outside."""

    def __init__(self) -> None:
        self.places = 0
        self._watches: list[_Watch] = []
        self._known = [True]  # empty when something that is watched has gone: None would pass for it
        self._named: dict[str, Any] = {"known": self._known, "is_": is_, "call": call}  # what the conditions name
        self._conditions = ["known"]
        self._stands: Callable[[], bool]  # whether all conditions hold
        self._mappings: dict[int, tuple[Mapping[str, Any], dict[Any, tuple[str, Any]]]] = {}
        self._cells: dict[int, tuple[CellType, str, Any]] = {}
        self._functions: list[FunctionType] = []
        self._classes: list[tuple[Callable[[], Any], str, type]] = []
        self._seen: dict[Any, Any] = {}  # what is watched already; keeps it from giving its identity to something else
        self._learning: list[tuple[str, Callable[[], Iterable[Any]]]] = []  # what is compared by identity, all at once
        self._of: dict[int, list[_Watch]] = {}  # by container: what watches its items

    # --- what is watched ----------------------------------------------------------------------------------------

    def watch_key(self, mapping: Mapping[str, Any], key: Any, label: str, identity: int | None = None) -> None:
        """Watch what a dictionary has under a key, or that it has nothing."""
        found = self._mappings.setdefault(identity or id(mapping), (mapping, {}))[1]
        if key not in found:
            found[key] = label, _hold(mapping.get(key), self._known.clear)
            self.places += 1

    def watch_cell(self, cell: CellType, label: str) -> None:
        """Watch a closure variable."""
        self._cells.setdefault(id(cell), (cell, label, cell.cell_contents))

    def watch_function(self, function: FunctionType) -> None:
        """Watch a function's code and its default arguments."""
        self._functions.append(function)
        keywords = function.__kwdefaults__ or {}
        for name in keywords:
            self.watch_key(keywords, name, f"a default argument of {function.__name__}")

    def watch_items(self, owner: Any, label: str, *containers: Iterable[Any], what: str = "items") -> None:
        """Watch all items of containers, which belong to `owner`."""
        if self._is_new((what, id(owner)), owner):
            watch = _Watch(partial(chain, *containers), [label], self._known.clear)
            sizes = [f"len({self._name(one)})" for one in containers if isinstance(one, Sized)]
            text = f"{self._name(watch.read)}()"
            if len(sizes) == len(containers) and not any(type(held) is _Held for held in watch.held):
                same = f"{' + '.join(sizes)} == {len(watch.held)} and all(map(is_, {text}, all_{len(self._watches)}))"
            else:
                same = f"[*map(id, {text})] == ids_{len(self._watches)}"
            self._conditions.append(same)
            self._add(watch, owner, len(watch.held))

    def watch_place(self, owner: Any, place: str, label: str) -> None:
        """Watch an attribute or an item of an object, given as text: `.name` or `[0]`."""
        if self._is_new((place, id(owner)), owner):
            held, call = (ref(owner), "()") if _can_go(type(owner)) else (owner, "")
            watch = _Watch(code.function([], f"(owner{call}{place},)", {"owner": held}), [label], self._known.clear)
            self._single(watch, f"{self._name(held)}{call}{place}", owner)

    def watch_item(self, owner: Any, key: Any, value: Any, label: str) -> None:
        """Watch an item under a key of any kind."""
        if self._is_new((id(owner), "item", repr(key)), owner):
            watch = _Watch(code.function([], "(owner[key],)", {"owner": owner, "key": key}), [label], self._known.clear)
            self._conditions.append(f"{self._name(watch)}.changed() is None")
            self._add(watch, owner, 1)

    def watch_containing(self, owner: Any, key: Any, found: bool, label: str) -> None:
        """Watch whether something is in a container."""
        if self._is_new((id(owner), "contains", repr(key)), owner):
            watch = _Watch(
                code.function([], "(key in owner,)", {"owner": owner, "key": key}), [label], self._known.clear
            )
            self._single(watch, f"({self._name(key)} in {self._name(owner)})", owner)

    def watch_class(self, value: Any, label: str) -> None:
        """Watch the class of an object, if that can be another."""
        if type(value).__flags__ & _HEAP_TYPE and self._is_new(("class", id(value)), value):
            thing = ref(value) if _can_go(type(value)) else (lambda: value)
            self._classes.append((thing, label, type(value)))
            self.places += 1

    def watch_value(self, owner: Any, read: Callable[[], Any], label: str) -> None:
        """Watch what a call gives, compared by `==`: the bytes of an array, the elements of a set."""
        if self._is_new(("value", id(owner)), owner):
            watch = _ValueWatch(read, label)
            self._conditions.append(f"{self._name(read)}() == {self._name(watch.before)}")
            self._add(watch, owner, 1)

    def _is_new(self, key: Any, owner: Any) -> bool:
        if key in self._seen:
            return False
        self._seen[key] = owner
        return True

    def _single(self, watch: _Watch, place: str, owner: Any) -> None:
        held = watch.held[0]
        self._conditions.append(f"{place} is held_{len(self._watches)}_0{'()' if type(held) is _Held else ''}")
        self._add(watch, owner, 1)

    def _add(self, watch: Any, owner: Any, places: int) -> None:
        self._watches.append(watch)
        self.places += places
        if owner is not None:
            self._of.setdefault(id(owner), []).append(watch)

    def has_changed(self, owner: Any) -> bool:
        """Whether what is watched of an object is another already."""
        return any(watch.changed() is not None for watch in self._of.get(id(owner), ()))

    # --- comparing ----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Make watches of what was found, and the one expression that compares all of it."""
        for mapping, found in self._mappings.values():
            absent = [key for key in found if key not in mapping]
            present = [key for key in found if key in mapping]
            if absent:
                self._conditions.append(f"{self._name(mapping.keys())}.isdisjoint({self._name(tuple(absent))})")
            watch = self._found(partial(map, mapping.get, [*present, *absent]), [found[k] for k in (*present, *absent)])
            name = self._name(mapping)
            if len(present) < _SEVERAL:
                self._compare_each([f"{name}[{self._name(key)}]" for key in present], watch)
            else:
                self._compare_all(f"{self._name(itemgetter(*present))}({name})", watch)
        if self._classes:
            things = [thing for thing, _, _ in self._classes]
            kinds = [(label, kind) for _, label, kind in self._classes]
            watch = self._found(lambda: [type(thing()) for thing in things], kinds)
            if len(things) < _SEVERAL:
                self._compare_each([f"type({self._name(thing)}())" for thing in things], watch)
            else:
                self._compare_all(f"map(type, map(call, {self._name(things)}))", watch)
        self._watch_attributes("cell_contents", self._cells.values())
        for attribute, what in _OF_FUNCTIONS.items():
            held = [(f, f"{what} of {f.__name__}", getattr(f, attribute)) for f in self._functions]
            self._watch_attributes(attribute, held)
        self._stands = code.function([], " and ".join(self._conditions), self._named)
        self._learn()
        self._conditions, self._mappings, self._cells, self._seen, self._of = [], {}, {}, {}, {}

    def _found(self, read: Callable[[], Iterable[Any]], found: Sequence[tuple[str, Any]]) -> _Watch:
        """A watch of places whose labels and contents are known."""
        watch = _Watch(lambda: (), [label for label, _ in found], self._known.clear)
        watch.read, watch.held = read, [held for _, held in found]
        self._watches.append(watch)
        return watch

    def _compare_each(self, places: Sequence[str], watch: _Watch) -> None:
        for i, (place, held) in enumerate(zip(places, watch.held)):
            number = len(self._watches) - 1
            self._conditions.append(f"{place} is held_{number}_{i}{'()' if type(held) is _Held else ''}")

    def _compare_all(self, text: str, watch: _Watch) -> None:
        """Compare many places at once, by identity: those of objects that are gone are not known any more."""
        if not any(type(held) is _Held for held in watch.held):
            self._conditions.append(f"all(map(is_, {text}, all_{len(self._watches) - 1}))")
            return
        name = self._name(None)
        self._conditions.append(f"[*map(id, {text})] == {name}")
        self._learning.append((name, watch.read))

    def _watch_attributes(self, attribute: str, found: Iterable[tuple[Any, str, Any]]) -> None:
        """Watch an attribute of some things, which are labelled."""
        found = list(found)
        if found:
            read = partial(map, attrgetter(attribute), [thing for thing, _, _ in found])
            watch = self._found(read, [(label, _hold(value, self._known.clear)) for _, label, value in found])
            if len(found) < _SEVERAL:
                self._compare_each([f"{self._name(thing)}.{attribute}" for thing, _, _ in found], watch)
            else:
                self._compare_all(f"{self._name(read)}()", watch)

    def _name(self, thing: Any) -> str:
        name = f"_{len(self._named)}"
        self._named[name] = thing
        return name

    def _learn(self) -> None:
        """Have the test know what is there now."""
        self._known[:] = [True]
        self._named.update((name, [*map(id, read())]) for name, read in self._learning)
        for number, watch in enumerate(self._watches):
            if type(watch) is _Watch:
                self._named[f"ids_{number}"] = [*map(id, watch.read())]
                self._named[f"all_{number}"] = watch.held
                self._named.update((f"held_{number}_{i}", held) for i, held in enumerate(watch.held))

    def changed(self) -> str | None:
        """What is no longer as it was, in words, or None."""
        try:
            if self._stands():
                return None
        except Exception:  # what was read is not there any more, or not of its kind
            pass
        try:
            for watch in self._watches:  # one by one
                reason = watch.changed()
                if reason is not None:
                    return reason
            self._learn()
        except ValueError:
            return "a closure variable has no value any more"
        except Exception as error:
            return f"what was read before cannot be read any more ({type(error).__name__}: {error})"
        return None


class _ValueWatch(_Watch):
    """What a call gives, compared by value."""

    __slots__ = ("before",)

    def __init__(self, read: Callable[[], Any], label: str) -> None:
        self.read, self.labels, self.held, self.before = read, [label], [], read()

    def changed(self) -> str | None:
        """What is another, in words."""
        return None if self.read() == self.before else f"what {self.labels[0]} holds is another"


def namespace_of(value: Any, default: Any = _NONE) -> Any:
    """The attributes that an object stores itself; the default if it cannot."""
    if issubclass(type(value), type) or not type(value).__dictoffset__:
        return default
    try:
        namespace = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return default
    return namespace if isinstance(namespace, dict) else default
