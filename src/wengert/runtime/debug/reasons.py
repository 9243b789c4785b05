"""Why a compiled function was recorded, in words: what changed since the last recording, and where two differ.

In: the keys of two calls, the graphs of two recordings. Out: text for `why()`, warnings and errors. If a function moves
Python's or NumPy's global random state while it is recorded, no two recordings would agree, and an error says so.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from wengert.core import tree
from wengert.core.canonical import canonical
from wengert.core.code import Location, describe, source_line
from wengert.core.devices import is_host
from wengert.core.errors import RecordingError
from wengert.core.graph import Graph, Node
from wengert.runtime.arguments import ARRAY, FLOAT, OBJECT, SAME, STATIC, TENSOR, VIEW, CallArguments, Specification

_MANY_SHAPES = 8  # of one argument: from then on padding would be cheaper
_MANY_RECORDINGS = 16  # for reasons other than the arguments, if that is more than every fourth call


class RecordingLog:
    """A log of why the function `name` was recorded each time; warns if that is too often."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reasons: list[str] = []
        self._shapes: dict[int, set[Any]] = {}
        self._warned: set[Any] = set()
        self._again = 0

    def note(self, reason: str, arguments: CallArguments, is_first: bool, calls: int) -> None:
        """Log a recording; `is_first` says whether it is the first for such arguments."""
        self.reasons.append(reason)
        del self.reasons[:-100]
        called = names(arguments.key[0])
        for i, (_, specification) in enumerate(zip(called, arguments.specifications)):
            if specification[0] in (TENSOR, ARRAY):
                shapes = self._shapes.setdefault(i, set())
                if len(shapes) < _MANY_SHAPES:
                    shapes.add(specification[1])
                if len(shapes) == _MANY_SHAPES:
                    shown = called[i]
                    self._warn(
                        shown,
                        f"{self.name} was recorded for {len(shapes)} different shapes of {shown}, each of which "
                        "compiles its own program. Pad it to a few fixed shapes",
                    )
        self._again += not is_first
        if self._again >= _MANY_RECORDINGS and self._again * 4 > calls:
            self._warn(
                "again",
                f"{self.name} is recorded repeatedly, the last time because {reason}. Values that change between "
                "calls should be arguments, or tensors created outside and assigned",
            )

    def _warn(self, what: Any, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(message, stacklevel=6)  # the line that called the function

    def raise_unsteady(self, before: Transcript, after: Transcript) -> None:
        """Raise an error: no single program represents the function."""
        where = difference(before, after)
        raise RecordingError(
            f"compile: three recordings of {self.name} in a row gave three different graphs, so no single program "
            f"represents it. The first node that differs is\n  {where}\n"
            "Values that change between calls must be arguments, or tensors created outside and assigned",
            where.location,
        )


# --- where two recordings part --------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """The first difference of two recordings: the lines of both, as text."""

    before: str
    after: str
    location: Location

    def __str__(self) -> str:
        return f"before: {self.before}\n     now: {self.after}"


def difference(before: Transcript, after: Transcript) -> Difference:
    """The first node in which two recordings differ."""
    for i, (a, b) in enumerate(zip(before.form, after.form)):
        if a != b:
            return Difference(before.line(i), after.line(i), after.location(i) or before.location(i))
    i = min(len(before.form), len(after.form)) - 1
    return Difference(before.line(i), after.line(i), after.location(i) or before.location(i))


class Transcript:
    """A graph's canonical form, with the data to show its nodes after the graph is gone."""

    def __init__(self, graph: Graph) -> None:
        self.form = canonical(graph)
        self._inputs = len(graph.inputs)
        reader = {source: node for node in reversed(graph.nodes) for source in node.sources}
        self._lines = [(node.location or _location(reader.get(node)), _constants(node)) for node in graph.nodes]

    def location(self, i: int) -> Location:
        """The user's line of an entry."""
        node = i - self._inputs
        return self._lines[node][0] if 0 <= node < len(self._lines) else None

    def line(self, i: int) -> str:
        """An entry as text: the op, its type and its source line."""
        node = i - self._inputs
        if node < 0:
            return f"input {i} of type {self.form[i]}"
        if node >= len(self._lines):
            return f"the end, with {len(self.form[-1])} results"
        op, attributes, sources, shape, dtype, device, _ = self.form[i]
        location, constants = self._lines[node]
        words = [f"{op.name} of {_shown(sources, constants)}"]
        words += [f"{key}={_value(value)}" for key, value in attributes]
        kind = dtype.name if isinstance(dtype, np.dtype) else ", ".join(d.name for d in dtype)
        text = source_line(location)
        kind += "" if is_host(device) else f" on {device}"
        return f"{', '.join(words)} -> {kind}{list(shape)}  at {describe(location)}{':  ' + text if text else ''}"


def _location(reader: Node | None) -> Location:
    """The line of a literal's reader: a literal has none of its own."""
    return None if reader is None else reader.location


def _constants(node: Node) -> dict[int, np.ndarray[Any, Any]]:
    """The small constants among a node's sources."""
    if all(source.buffer is None for source in node.sources):
        return {}
    return {
        i: source.buffer
        for i, source in enumerate(node.sources)
        if isinstance(source.buffer, np.ndarray) and source.size <= 6
    }


def _shown(sources: Sequence[Any], constants: dict[int, np.ndarray[Any, Any]]) -> str:
    shown = [f"v{s}" if type(s) is int else str(constants.get(i, "a constant")) for i, s in enumerate(sources)]
    return f"({', '.join(shown)})"


def _value(value: Any) -> str:
    """An attribute's frozen value as text."""
    if type(value) in (int, str):
        return str(value)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], type):
        kind, content = value
        if kind in (tuple, list):
            return f"({', '.join(_value(item) for item in content)})"
        return str(content) if kind in (bool, float, complex, type(None), np.dtype) else kind.__name__
    return "..."


# --- what is another about the arguments ----------------------------------------------------------------------------


def change(before: tuple[Any, ...], after: tuple[Any, ...]) -> str:
    """The difference between two keys, as text."""
    if before[0] != after[0]:
        return f"the arguments have the structure {after[0]}, before {before[0]}"
    for name, old, new in zip(names(after[0]), before[1], after[1]):
        if old != new:
            return f"{name} {_change_of_one(old, new)}"
    if before[2] != after[2]:
        return f"gradients are {'' if after[2] else 'not '}recorded, but before they were {'' if before[2] else 'not '}"
    if before[3] != after[3]:
        return "it is a method of another object"
    return f"autocast is {after[4] or 'off'}, before {before[4] or 'off'}"


def _change_of_one(old: Specification, new: Specification) -> str:
    if old[0] == new[0] == VIEW:
        return "is a view of another tensor, or of another part of it"
    if old[0] == new[0] and old[0] in (TENSOR, ARRAY):
        if old[1] != new[1]:
            return f"has shape {new[1]}, before {old[1]}"
        if old[2] != new[2]:
            return f"has dtype {new[2]}, before {old[2]}"
        if old[0] == ARRAY:
            return f"is {'one number' if len(new) > len(old) else 'an array'} of NumPy's"
        if old[5] != new[5]:
            return f"is on {new[5]}, before on {old[5]}"
        if old[3] != new[3]:
            return f"{'requires' if new[3] else 'does not require'} grad, before it did{' not' if new[3] else ''}"
        return f"has {'no ' if new[4] is None else 'a '}grad, before it had {'none' if old[4] is None else 'one'}"
    return f"is {_words(new)}, before {_words(old)}"


def _words(specification: Specification) -> str:
    kind = specification[0]
    if kind == STATIC:
        return repr(specification[2])
    if kind == OBJECT:
        return f"this {specification[1].__name__}"
    if kind == SAME:
        return "the same tensor as another argument"
    if kind == VIEW:
        return "a view of another tensor, or another part of it"
    return "a float" if kind == FLOAT else f"a {kind} of shape {specification[1]} and dtype {specification[2]}"


def names(structure: tree.Structure) -> list[str]:
    """The name of each leaf: `argument 0`, `argument x`, `argument 1['weights'][0]`."""
    return [f"argument {path}" for part in structure.parts for path in _paths(part, top=True)]


def _paths(structure: tree.Structure, top: bool = False) -> Iterator[str]:
    if structure.type is tree.Leaf:
        yield ""
        return
    for key, part in zip(structure.keys or range(len(structure.parts)), structure.parts):
        step = str(key) if top else f"[{key!r}]"
        for rest in _paths(part):
            yield step + rest


# --- random states ----------------------------------------------------------------------------------------------------


@contextmanager
def steady_random(name: str) -> Iterator[None]:
    """A context that raises an error if Python's or NumPy's global random state changes inside, and restores it."""
    before = _states()
    try:
        yield
    finally:
        moved = [module for module, state, is_same, put in before if not is_same(state)]
        for _, state, is_same, put in before:
            if not is_same(state):
                put(state)
    if moved:
        raise RecordingError(
            f"compile: {name} changes the state of {moved[0]}, which would happen only while it is recorded. Draw "
            "with wg.random, or outside, and pass the numbers as an argument"
        )


def _states() -> list[tuple[str, Any, Any, Any]]:
    found: list[tuple[str, Any, Any, Any]] = []
    python: Any = sys.modules.get("random")
    if python is not None:
        found.append(("random", python.getstate(), lambda state: python.getstate() == state, python.setstate))
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        found.append(("np.random", _numpy(numpy), lambda state: _numpy(numpy) == state, _put_numpy))
    return found


def _numpy(module: Any) -> tuple[Any, ...]:
    kind, keys, *rest = module.get_state()
    return (kind, keys.tobytes(), *rest)


def _put_numpy(state: tuple[Any, ...]) -> None:
    kind, keys, *rest = state
    np.random.set_state((kind, np.frombuffer(keys, np.uint32), *rest))
