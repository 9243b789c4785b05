"""Ownership: whether anything else refers to an object, or its memory may be overwritten.

This is the only module that counts references. In: a list of objects. Out: the number of other references to each,
besides that list. An interpreter may change what counts: since 3.14 CPython's calls borrow references, so that
`getrefcount(x)` gives 1 where it gave 2. So objects are asked about only while they lie in a list, and what a count
means there is measured when this module is imported. If counts are not consistent in all situations that are tested
(another interpreter, or one without the global lock), every object counts as shared, and is copied instead of
overwritten. `WENGERT_OWNERSHIP=copy` forces this.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import ref

VARIABLE = "WENGERT_OWNERSHIP"
Counter = Callable[[Any], int]
COUNTER: Counter | None = getattr(sys, "getrefcount", None)  # which other interpreters may not have
UNKNOWN = 1 << 30
"""How many others refer to an object where nobody can tell: more than anything expects."""


class Ownership:
    """The meaning of a counter's counts; `reason` says why they cannot be used, if so.

    >>> thing = [object()]
    >>> Ownership().others(thing), Ownership().others([thing[0]]), Ownership(None).others(thing) == [UNKNOWN]
    ([0], [1], True)
    """

    def __init__(self, count: Counter | None = COUNTER) -> None:
        self._count: Counter = count or (lambda thing: UNKNOWN)
        self._alone = 0
        self.reason = _mistrust(count)
        if self.reason is None:
            self._alone = next(map(self._count, [_Thing()]))

    @property
    def copies(self) -> bool:
        """Whether nothing is overwritten, because references cannot be counted."""
        return self.reason is not None

    def others(self, things: Sequence[Any]) -> list[int]:
        """The number of references to each item of a list besides the list. A name counts like the list."""
        if self.reason is not None:
            return [UNKNOWN] * len(things)
        alone = self._alone
        return [count - alone for count in map(self._count, things)]

    def total(self, things: Sequence[Any]) -> int:
        """The sum of `others`, in a third of its time."""
        if self.reason is None:
            return sum(map(self._count, things)) - self._alone * len(things)
        return UNKNOWN * len(things)

    def asking(self, things: Sequence[Any], others: int) -> Callable[[], bool]:
        """A function that tells whether `total` of a list equals a number, for repeated checks of one list."""
        if self.reason is not None:
            return lambda: False
        count, expected = self._count, others + self._alone * len(things)
        return lambda: sum(map(count, things)) == expected

    def unused(self, things: Sequence[Any]) -> int | None:
        """The index of the first item that only the list refers to."""
        if self.reason is not None:
            return None
        counts = [*map(self._count, things)]
        return counts.index(self._alone) if self._alone in counts else None


def of_this_process() -> Ownership:
    """The ownership that the environment selects."""
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", "copy"):
        raise ValueError(f"{VARIABLE} is {asked!r}; it may be 'copy', or not be set")
    found = Ownership(None if asked else COUNTER)
    if asked:
        found.reason = f"{VARIABLE}={asked} asks for copies"
    return found


# --- what counts mean here ------------------------------------------------------------------------------------------


def _mistrust(count: Counter | None) -> str | None:
    """Why reference counts are unreliable here, in words; None if they are reliable."""
    if count is None:
        return "references are not counted"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "without the global lock another thread may refer to an object at any time"
    alone = next(map(count, [_Thing()]))
    for what, expected, found in situations(count):
        if found != alone + expected:
            return f"{what}: {found} references were counted, where {alone + expected} were expected"
    return None


class _Thing:
    __slots__ = ("__weakref__", "held")
    held: Any


class _OpenThing:
    held: Any


def situations(count: Counter) -> Iterator[tuple[str, int, int]]:
    """The situations in which the code relies on counts: a description, the other references expected, the count."""
    for _ in range(3):  # the interpreter may rewrite these functions after they ran once
        yield from _held_by_containers(count)
        yield from _held_by_names(count)
        yield from _held_by_arrays(count)


def _held_by_containers(count: Counter) -> Iterator[tuple[str, int, int]]:
    things: list[Any] = [_Thing()]
    yield "in the list alone", 0, _asked(count, things)
    slot, attribute = _Thing(), _OpenThing()
    holders: list[tuple[str, Any]] = [("in another list", [*things]), ("in a tuple", (*things,))]
    holders += [("a dictionary's", {"held": things[0]}), ("by its identity", {things[0]: 1})]
    for number in range(len(holders), 0, -1):
        yield f"in the list, and {', '.join(what for what, _ in holders)}", number, _asked(count, things)
        holders.pop()
    slot.held = attribute.held = things[0]
    yield "in the list and two attributes", 2, _asked(count, things)
    slot.held = None
    yield "in the list and an attribute", 1, _asked(count, things)
    attribute.held = None
    yield "in the list alone, after all others", 0, _asked(count, things)
    chained: list[Any] = [_Thing()]
    chained[0].held = _Thing()
    yield "an attribute of an object in a list, put into a list", 1, _asked(count, [chained[0].held])


def _held_by_names(count: Counter) -> Iterator[tuple[str, int, int]]:
    name = _Thing()
    yield "a name of a caller", 1, _asked(count, [name])
    things = [name]
    yield "a name of a caller, and the list", 1, _asked(count, things)
    same = name
    yield "two names of a caller", 2, _asked(count, things)
    del name
    yield "the other of two names", 1, _asked(count, things)
    yield "a name, and a function that closes over it", 3, _asked(count, [*things, _closing_over(things[0])])
    del same
    yield "a name that is gone", 0, _asked(count, things)
    yield "made on the way into the list", 0, _asked(count, [_Thing()])
    weak = [ref(thing) for thing in things]
    yield "found by weak references", 1, _asked(count, [reference() for reference in weak])
    yield "referred to weakly", 0, _asked(count, things)


def _held_by_arrays(count: Counter) -> Iterator[tuple[str, int, int]]:
    """NumPy's views refer to the array whose memory they show."""
    try:
        import numpy as np
    except ImportError:
        return
    arrays: list[Any] = [np.zeros(4)]
    yield "an array in a list", 0, _asked(count, arrays)
    views = [arrays[0][1:]]
    yield "an array with a view", 1, _asked(count, arrays)
    views.append(views[0].reshape(3, 1))
    yield "an array with a view, and a view of that", 2, _asked(count, arrays)
    yield "a view's array, put into a list", 3, _asked(count, [views[0].base])
    views.clear()
    yield "an array after its views", 0, _asked(count, arrays)
    alone = np.zeros(4).reshape(2, 2)
    yield "an array that a view alone refers to", 1, _asked(count, [alone.base])


def _asked(count: Counter, things: list[Any]) -> int:
    return next(map(count, things))


def _closing_over(thing: Any) -> Callable[[], Any]:
    return lambda: thing


ownership = of_this_process()
"""What the counts of this interpreter mean."""
