"""A machine for pickles that runs nothing: it knows containers, numbers and text, and a table of names.

In: the bytes of a pickle, and what a name or a storage's number stands for. Out: the value. A pickle is a program for a
stack machine, and Python's own calls whatever functions a file names. This one calls what `find` gives for a name, and
nothing else; whoever makes `find` answers for that. A name that it does not know is refused.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.api.torch_format.storages import Problem, Refusal, shown
from wengert.core.errors import WengertError

Find = Callable[[str, str], Any]
"""What a module's name stands for; raises `Refusal` where that is nothing."""

MOST_IN_A_KEY = 100
_MARK = object()
_DICTS = (dict, OrderedDict, Counter)


class PickledFunction:
    """A function that pickles may call."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function

    def new(self, arguments: tuple[Any, ...]) -> Any:
        """A new object, where this is a class."""
        return self.function(*arguments)


class PickledClass(PickledFunction):
    """A class declared safe by the user: pickles may create objects of it and set their state."""

    def new(self, arguments: tuple[Any, ...]) -> Any:
        """A new object, which has not been initialised."""
        kind: Any = self.function
        return kind.__new__(kind, *arguments)


class Buildable:
    """An object whose state a pickle may set, through `set_state`."""

    def set_state(self, state: Any) -> None:
        """Take the state."""
        raise Refusal(f"a {type(self).__name__} takes no state")


class PickleMachine:
    """Reads pickles from bytes, one after another; `place` is where the next begins."""

    def __init__(self, content: bytes | memoryview, find: Find, storage: Callable[[Any], Any], place: int = 0) -> None:
        self._content = memoryview(content)
        self._find, self._storage = find, storage
        self.place = place
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._classes: set[Any] = set()  # those that objects were made of

    def load(self) -> Any:
        """The next value."""
        self._stack, self._memo = [], {}
        try:
            while True:
                code = self._take(1)[0]
                if code == _STOP:
                    value = self._pop()
                    if self._stack:
                        raise ValueError("more than one value is left")
                    return value
                action = _ACTIONS.get(code)
                if action is None:
                    raise Refusal(f"the pickle has the instruction {bytes([code])!r}, which is not supported")
                action(self)
        except WengertError:  # of what is made of a tensor
            raise
        except (IndexError, ValueError, KeyError, TypeError, struct.error, OverflowError, AttributeError) as error:
            raise Problem(f"its pickle is malformed: {type(error).__name__}: {str(error)[:200]}") from None

    # --- bytes and the stack ------------------------------------------------------------------------------------------

    def _take(self, count: int) -> memoryview:
        found = self._content[self.place : self.place + count]
        if len(found) != count:
            raise Problem("its pickle is truncated")
        self.place += count
        return found

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _line(self) -> str:
        end = bytes(self._content[self.place : self.place + 1000]).find(b"\n")
        if end < 0:
            raise Problem("its pickle is truncated")
        line = bytes(self._take(end + 1))[:-1]
        return line.decode("utf-8")

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self._stack.append(value)

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("a mark in place of a value")
        return value

    def _above_mark(self) -> list[Any]:
        place = len(self._stack) - 1
        while self._stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError("there is no mark")
        items = self._stack[place + 1 :]
        del self._stack[place:]
        return items

    # --- instructions -------------------------------------------------------------------------------------------------

    def text(self, form: str) -> None:
        """Push a text whose length comes first."""
        self.push(str(self._take(self._number(form)), "utf-8", "surrogatepass"))

    def data(self, form: str, kind: Callable[[memoryview], Any] = bytes) -> None:
        """Push bytes whose length comes first."""
        self.push(kind(self._take(self._number(form))))

    def old_text(self, form: str) -> None:
        """Push the text of a Python 2 program."""
        self.push(bytes(self._take(self._number(form))).decode("utf-8"))

    def integer(self, form: str) -> None:
        """Push a number."""
        self.push(self._number(form))

    def long(self, form: str) -> None:
        """Push an integer of any length."""
        self.push(int.from_bytes(self._take(self._number(form)), "little", signed=True))

    def tuple_of(self, count: int) -> None:
        """Make a tuple of the last values."""
        items = [self._pop() for _ in range(count)]
        self.push(tuple(reversed(items)))

    def name(self) -> None:
        """Push what a name stands for."""
        module = self._line()
        self.push(self._find(module, self._line()))

    def name_of_stack(self) -> None:
        """Push what a name stands for that is on the stack."""
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise TypeError("a name must be text")
        self.push(self._find(module, name))

    def call(self, is_new: bool = False) -> None:
        """Call a function of the table, or make an object of a class of it."""
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, PickledFunction):
            raise Refusal(f"it calls {shown(function)}, which is not an allowed function")
        if type(arguments) is not tuple:
            raise TypeError(f"{function.name} gets {type(arguments).__name__} as its arguments")
        if isinstance(function, PickledClass):
            self._classes.add(function.function)
        self.push(function.new(arguments) if is_new else function.function(*arguments))

    def build(self) -> None:
        """Give the last value its state."""
        state, target = self._pop(), self._stack[-1]
        if isinstance(target, Buildable):
            target.set_state(state)
        elif isinstance(target, np.ndarray):
            set_array(target, state)
        elif type(target) in self._classes:
            _give_state(target, state)
        elif type(target) is OrderedDict and type(state) is dict:
            for key, value in state.items():
                if type(key) is not str or hasattr(OrderedDict, key):
                    raise Refusal(f"it sets the attribute {shown(key)} of an OrderedDict")
                setattr(target, key, value)
        else:
            raise Refusal(f"it sets the state of a {type(target).__name__}")

    def append(self, items: list[Any]) -> None:
        """Add to a list."""
        if type(self._stack[-1]) is not list:
            raise TypeError(f"a {type(self._stack[-1]).__name__} in place of a list")
        self._stack[-1].extend(items)

    def add(self, items: list[Any]) -> None:
        """Add to a set."""
        if type(self._stack[-1]) is not set:
            raise TypeError(f"a {type(self._stack[-1]).__name__} in place of a set")
        self._stack[-1].update(checked_keys(items))

    def set_items(self, items: list[Any]) -> None:
        """Add to a dict."""
        target = self._stack[-1]
        if type(target) not in _DICTS or len(items) % 2:
            raise TypeError(f"a {type(target).__name__} in place of a dict")
        for key, value in zip(checked_keys(items[::2]), items[1::2]):
            target[key] = value

    def dict_of_items(self) -> None:
        """Make a dict of all above the mark."""
        items = self._above_mark()
        self.push({})
        self.set_items(items)

    def get(self, form: str) -> None:
        """Push what was noted before."""
        self.push(self._memo[self._number(form)])

    def put(self, place: int) -> None:
        """Note the last value."""
        if self._stack[-1] is _MARK:
            raise ValueError("a mark is memoised")
        self._memo[place] = self._stack[-1]

    def storage(self) -> None:
        """Push the storage that is described."""
        self.push(self._storage(self._pop()))


class Scanner(PickleMachine):
    """Scans a pickle for the storages that it describes, without creating objects."""

    def call(self, is_new: bool = False) -> None:
        """Call nothing."""
        self._pop()
        self._stack[-1] = None

    def build(self) -> None:
        """Take no state."""
        self._pop()

    def append(self, items: list[Any]) -> None:
        """Add nothing."""

    def add(self, items: list[Any]) -> None:
        """Add nothing."""

    def set_items(self, items: list[Any]) -> None:
        """Add nothing."""


def checked_keys(keys: list[Any]) -> list[Any]:
    """Check that no key of a dict or item of a set takes long to hash, as deeply nested tuples may."""
    for key in keys:
        count, waiting = 0, [key]
        while waiting:
            part = waiting.pop()
            count += 1
            if count > MOST_IN_A_KEY:
                raise Problem("a key of a dict has too many parts")
            if type(part) in (tuple, frozenset):
                waiting.extend(part)
    return keys


def _give_state(target: Any, state: Any) -> None:
    """Do as Python's pickle does; a function that the state names is that function."""
    if type(state) is dict:
        state = {key: value.function if isinstance(value, PickledFunction) else value for key, value in state.items()}
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    of_slots = None
    if type(state) is tuple and len(state) == 2:
        state, of_slots = state
    for name, value in {**(state or {}), **(of_slots or {})}.items():
        setattr(target, name, value)


def set_array(array: np.ndarray[Any, Any], state: Any) -> None:
    """Give a NumPy array its elements, as its own pickle has them."""
    _, shape, dtype, _, content = state
    found = getattr(dtype, "dtype", dtype)
    if not isinstance(found, np.dtype) or found.hasobject or type(content) is not bytes:
        raise Refusal("it has a NumPy array of Python objects")
    if not all(type(size) is int and size >= 0 for size in shape) or len(shape) > 64:
        raise ValueError("an array's shape is malformed")
    given: Any = (1, tuple(shape), found, bool(state[3]), content)
    array.__setstate__(given)  # which compares the sizes


_STOP = ord(".")
_ACTIONS: dict[int, Callable[[PickleMachine], Any]] = {
    ord("\x80"): lambda m: m._take(1),
    ord("\x95"): lambda m: m._take(8),
    ord("("): lambda m: m.push(_MARK),
    ord("0"): lambda m: m._stack.pop(),
    ord("1"): lambda m: m._above_mark(),
    ord("2"): lambda m: m.push(m._stack[-1]),
    ord("N"): lambda m: m.push(None),
    ord("\x88"): lambda m: m.push(True),
    ord("\x89"): lambda m: m.push(False),
    ord("J"): lambda m: m.integer("<i"),
    ord("K"): lambda m: m.integer("<B"),
    ord("M"): lambda m: m.integer("<H"),
    ord("G"): lambda m: m.integer(">d"),
    ord("\x8a"): lambda m: m.long("<B"),
    ord("\x8b"): lambda m: m.long("<I"),
    ord("X"): lambda m: m.text("<I"),
    ord("\x8c"): lambda m: m.text("<B"),
    ord("\x8d"): lambda m: m.text("<Q"),
    ord("U"): lambda m: m.old_text("<B"),
    ord("T"): lambda m: m.old_text("<I"),
    ord("B"): lambda m: m.data("<I"),
    ord("C"): lambda m: m.data("<B"),
    ord("\x8e"): lambda m: m.data("<Q"),
    ord("\x96"): lambda m: m.data("<Q", bytearray),
    ord(")"): lambda m: m.push(()),
    ord("]"): lambda m: m.push([]),
    ord("}"): lambda m: m.push({}),
    ord("\x8f"): lambda m: m.push(set()),
    ord("t"): lambda m: m.push(tuple(m._above_mark())),
    ord("l"): lambda m: m.push(m._above_mark()),
    ord("d"): lambda m: m.dict_of_items(),
    ord("\x91"): lambda m: m.push(frozenset(checked_keys(m._above_mark()))),
    ord("\x85"): lambda m: m.tuple_of(1),
    ord("\x86"): lambda m: m.tuple_of(2),
    ord("\x87"): lambda m: m.tuple_of(3),
    ord("a"): lambda m: m.append([m._pop()]),
    ord("e"): lambda m: m.append(m._above_mark()),
    ord("s"): lambda m: m.set_items([*reversed((m._pop(), m._pop()))]),
    ord("u"): lambda m: m.set_items(m._above_mark()),
    ord("\x90"): lambda m: m.add(m._above_mark()),
    ord("q"): lambda m: m.put(m._number("<B")),
    ord("r"): lambda m: m.put(m._number("<I")),
    ord("\x94"): lambda m: m.put(len(m._memo)),
    ord("h"): lambda m: m.get("<B"),
    ord("j"): lambda m: m.get("<I"),
    ord("c"): lambda m: m.name(),
    ord("\x93"): lambda m: m.name_of_stack(),
    ord("R"): lambda m: m.call(),
    ord("\x81"): lambda m: m.call(is_new=True),
    ord("b"): lambda m: m.build(),
    ord("Q"): lambda m: m.storage(),
}
