"""Guards: checks that the outer values which a recorded function reads are unchanged.

`reads/log` collects these values during recording and registers them here; `changed` compares them in about a
microsecond and says what has changed. Each link of a path is compared by identity on the object it was read from,
numbers by type and value. Objects are referenced weakly where possible, so that a compiled function keeps no model
alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from wengert.core import code

_VALUES = (int, float, complex, str, bytes, bool, type(None))
_KEPT = (CodeType, ModuleType)  # what may be held: it keeps nothing alive that would go
_MANY = 1_000  # items of one container: more are compared by their identities, at 48 ns each where an `is` takes 15
_OF_FUNCTIONS = {"__code__": "the code", "__defaults__": "a default argument", "__kwdefaults__": "a default argument"}
_HEAP_TYPE = 1 << 9  # the flag of a class made by Python code


class _Held(ref):  # type: ignore[type-arg]
    """How a guard identifies an object; the user's own weak references count as plain objects."""

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
    """Whether two distinct objects are the same number, string or the like."""
    if type(before) is not type(value):
        return False
    if isinstance(value, np.generic):
        return bool(value.tobytes() == before.tobytes())
    if isinstance(value, tuple) and not type(value).__dictoffset__ and len(value) == len(before):  # or a torch.Size
        return all(a is b or _is_same(a, b) for a, b in zip(value, before))
    return type(value) in _VALUES and repr(before) == repr(value)


def _hold(value: Any, forget: Callable[[], None]) -> Any:
    """A reference by which to know an object, weak where that is possible; `forget` is called when it goes."""
    return _Held(value, lambda _: forget()) if _can_go(type(value)) else value


def _can_go(kind: type) -> bool:
    """Whether objects of a class are held weakly. NumPy's scalars are not, since each read makes a new one."""
    return kind.__weakrefoffset__ != 0 and kind not in _KEPT and not issubclass(kind, np.generic)


def _shown(value: Any) -> str:
    return repr(value) if type(value) in _VALUES else f"another {type(value).__name__}"


class _Object:
    """The watched facts of one object, its class and places in it, compared together."""

    __slots__ = ("name", "parts")

    def __init__(self, name: str) -> None:
        self.name = name  # text that gives the object
        self.parts: list[tuple[str, str]] = []  # conditions, in two halves: the object stands between them

    def text(self, compared: str | None = None) -> str:
        """The conditions; `compared`, one that gives the name `o` to the object, comes first where there is one."""
        if compared is not None:
            return " and ".join([compared, *(f"{before}o{after}" for before, after in self.parts)])
        (before, after), *rest = self.parts
        by = f"(o := {self.name})" if rest else self.name
        return " and ".join([f"{before}{by}{after}", *(f"{before}o{after}" for before, after in rest)])


class Guards:
    """The outer values that a function reads, and their guards."""

    def __init__(self) -> None:
        self.places = 0
        self._watches: list[_Watch] = []
        self._known = [True]  # empty when something that is watched has gone: None would pass for it
        self._named: dict[str, Any] = {"known": self._known}  # what the conditions name
        self._conditions: list[str | _Object | Callable[[], str]] = ["known"]  # made text when all are found
        self._objects: dict[int, _Object] = {}
        self._stands: Callable[[], bool]  # whether all conditions hold
        self._mappings: dict[int, tuple[Mapping[str, Any], dict[Any, tuple[str, Any]]]] = {}
        self._cells: dict[int, tuple[CellType, str, Any]] = {}
        self._functions: list[FunctionType] = []
        self._classes: list[tuple[Callable[[], Any], str, type]] = []
        self._seen: dict[Any, Any] = {}  # objects already watched; a reference keeps their ids from being reused
        self._learning: list[tuple[str, Callable[[], Iterable[Any]]]] = []  # objects compared by identity, all at once
        self._of: dict[int, list[_Watch]] = {}  # by container: what watches its items

    # --- what is watched ----------------------------------------------------------------------------------------

    def watch_key(self, mapping: Mapping[str, Any], key: Any, label: str, identity: int | None = None) -> None:
        """Watch the value of a dictionary's key, or its absence."""
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
            plain = containers[0] if len(containers) == 1 and type(containers[0]) in (list, tuple) else None
            self._conditions.append(partial(self._items, watch, len(self._watches), plain))
            self._add(watch, owner, len(watch.held))

    def watch_place(self, owner: Any, place: str, label: str) -> None:
        """Watch an attribute or item of an object, given as text: `.name` or `[0]`."""
        if self._is_new((place, id(owner)), owner):
            held, call = (ref(owner), "()") if _can_go(type(owner)) else (owner, "")
            watch = _Watch(code.function([], f"(owner{call}{place},)", {"owner": held}), [label], self._known.clear)
            self._object(owner).parts.append(("", f"{place} is {self._held(watch, 0, len(self._watches))}"))
            self._add(watch, owner, 1)

    def watch_item(self, owner: Any, key: Any, value: Any, label: str) -> None:
        """Watch an item under a key of any kind."""
        if self._is_new((id(owner), "item", repr(key)), owner):
            watch = _Watch(code.function([], "(owner[key],)", {"owner": owner, "key": key}), [label], self._known.clear)
            self._conditions.append(f"{self._name(watch)}.changed() is None")
            self._add(watch, owner, 1)

    def watch_containing(self, owner: Any, key: Any, found: bool, label: str) -> None:
        """Watch whether something is in a container."""
        if self._is_new((id(owner), "contains", repr(key)), owner):
            read = code.function([], "(key in owner,)", {"owner": owner, "key": key})
            self._conditions.append(f"({self._name(key)} in {self._name(owner)}) is {found}")
            self._add(_Watch(read, [label], self._known.clear), owner, 1)

    def watch_class(self, value: Any, label: str) -> None:
        """Watch the class of an object, if it can change."""
        if type(value).__flags__ & _HEAP_TYPE and self._is_new(("class", id(value)), value):
            thing = ref(value) if _can_go(type(value)) else (lambda: value)
            self._classes.append((thing, label, type(value)))
            self._object(value).parts.insert(0, ("type(", f") is {self._name(type(value))}"))
            self.places += 1

    def watch_value(self, owner: Any, read: Callable[[], Any], label: str) -> None:
        """Watch the result of a call, compared by `==`: the bytes of an array, the elements of a set."""
        if self._is_new(("value", id(owner)), owner):
            watch = _ValueWatch(read, label)
            self._conditions.append(f"{self._name(read)}() == {self._name(watch.before)}")
            self._add(watch, owner, 1)

    def _is_new(self, key: Any, owner: Any) -> bool:
        if key in self._seen:
            return False
        self._seen[key] = owner
        return True

    def _object(self, owner: Any) -> _Object:
        """The watched facts of an object; its conditions are placed where it was first watched."""
        found = self._objects.get(id(owner))
        if found is None:
            can_go = _can_go(type(owner))
            name = f"{self._name(_Held(owner))}()" if can_go else self._name(owner)
            found = self._objects[id(owner)] = _Object(name)
            self._conditions.append(found)
        return found

    def _add(self, watch: Any, owner: Any, places: int) -> None:
        self._watches.append(watch)
        self.places += places
        if owner is not None:
            self._of.setdefault(id(owner), []).append(watch)

    def has_changed(self, owner: Any) -> bool:
        """Whether a watched part of an object has already changed."""
        return any(watch.changed() is not None for watch in self._of.get(id(owner), ()))

    # --- comparing ----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Make watches from what was found, and the single expression that compares all of it."""
        conditions = self._in_order()
        for identity, (mapping, found) in self._mappings.items():
            absent = [key for key in found if key not in mapping]
            present = [key for key in found if key in mapping]
            name = self._name(mapping)
            if absent:
                conditions.append(f"{self._name(mapping.keys())}.isdisjoint({self._name(frozenset(absent))})")
            watch = self._found(partial(map, mapping.get, [*present, *absent]), [found[k] for k in (*present, *absent)])
            if ("items", identity) not in self._seen:  # else they are compared with the others
                conditions += self._compared([f"{name}[{self._literal(key)}]" for key in present], watch)
        if self._classes:
            things = [thing for thing, _, _ in self._classes]
            kinds = [(label, kind) for _, label, kind in self._classes]
            self._found(lambda: [type(thing()) for thing in things], kinds)
        conditions += self._attributes("cell_contents", self._cells.values())
        for attribute, what in _OF_FUNCTIONS.items():
            held = [(f, f"{what} of {f.__name__}", getattr(f, attribute)) for f in self._functions]
            conditions += self._attributes(attribute, held)
        self._stands = code.function([], " and ".join(conditions), self._named)
        self._learn()
        self._conditions, self._mappings, self._cells, self._seen, self._of = [], {}, {}, {}, {}
        self._objects = {}

    def _in_order(self) -> list[str]:
        """The conditions found so far; an object that is among the items of a list is compared there."""
        parts = [part() if callable(part) else part for part in self._conditions]
        alone = set(map(id, self._objects.values()))
        kept = [part for part in parts if type(part) is str or id(part) in alone]
        return [part if isinstance(part, str) else part.text() for part in kept]

    def _items(self, watch: _Watch, number: int, plain: Any) -> str:
        """The condition that items are what they were, those of a list or a tuple, or of what is gone through."""
        count = len(watch.held)
        if count > _MANY:
            self._learning.append((self._name(None), watch.read))
            return f"[*map(id, {self._name(watch.read)}())] == {self._learning[-1][0]}"
        size = self._name(plain) if plain is not None else f"t := (*{self._name(watch.read)}(),)"
        by = "t" if plain is None else size
        conditions = [f"len({size}) == {count}"]
        for i, held in enumerate(watch.held):
            value, same = held() if type(held) is _Held else None, f"is {self._held(watch, i, number)}"
            inner = self._objects.pop(id(value), None) if value is not None else None
            conditions.append(f"{by}[{i}] {same}" if inner is None else inner.text(f"(o := {by}[{i}]) {same}"))
        return " and ".join(conditions)

    def _found(self, read: Callable[[], Iterable[Any]], found: Sequence[tuple[str, Any]]) -> _Watch:
        """A watch of places whose labels and contents are known."""
        watch = _Watch(lambda: (), [label for label, _ in found], self._known.clear)
        watch.read, watch.held = read, [held for _, held in found]
        self._watches.append(watch)
        return watch

    def _compared(self, places: Sequence[str], watch: _Watch) -> list[str]:
        """The conditions that the places of the newest watch hold what they held."""
        return [f"{place} is {self._held(watch, i, len(self._watches) - 1)}" for i, place in enumerate(places)]

    def _held(self, watch: _Watch, i: int, number: int) -> str:
        """The text that gives what a watch holds."""
        return f"held_{number}_{i}{'()' if type(watch.held[i]) is _Held else ''}"

    def _attributes(self, attribute: str, found: Iterable[tuple[Any, str, Any]]) -> list[str]:
        """The conditions on an attribute of some things, which are labelled."""
        found = list(found)
        if not found:
            return []
        read = partial(map, attrgetter(attribute), [thing for thing, _, _ in found])
        watch = self._found(read, [(label, _hold(value, self._known.clear)) for _, label, value in found])
        return self._compared([f"{self._name(thing)}.{attribute}" for thing, _, _ in found], watch)

    def _literal(self, key: Any) -> str:
        return repr(key) if type(key) in (str, int, bool) else self._name(key)

    def _name(self, thing: Any) -> str:
        name = f"_{len(self._named)}"
        self._named[name] = thing
        return name

    def _learn(self) -> None:
        """Let the test adopt the current values."""
        self._known[:] = [True]
        self._named.update((name, [*map(id, read())]) for name, read in self._learning)
        for number, watch in enumerate(self._watches):
            if type(watch) is _Watch:
                self._named.update((f"held_{number}_{i}", held) for i, held in enumerate(watch.held))

    def changed(self) -> str | None:
        """What has changed, as text, or None."""
        try:
            if self._stands():
                return None
        except Exception:  # the value read no longer exists, or has another kind
            pass
        try:
            for watch in self._watches:  # one by one
                if (reason := watch.changed()) is not None:
                    return reason
            self._learn()
        except ValueError:
            return "a closure variable no longer has a value"
        except Exception as error:
            return f"a value that was read before can no longer be read ({type(error).__name__}: {error})"
        return None


class _ValueWatch(_Watch):
    """The result of a call, compared by value."""

    __slots__ = ("before",)

    def __init__(self, read: Callable[[], Any], label: str) -> None:
        self.read, self.labels, self.held, self.before = read, [label], [], read()

    def changed(self) -> str | None:
        """What is another, in words."""
        return None if self.read() == self.before else f"the contents of {self.labels[0]} changed"
