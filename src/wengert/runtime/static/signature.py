"""Signatures: what a recorded graph is, apart from which objects it is made of, so that two recordings can be compared.

A signature is a tuple with an entry for each node: its op, its attributes with their types, where its sources stand,
its shape, dtype and device. Constants are compared by their bytes, Python functions by their code and what they close
over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import ReferenceType

import numpy as np

from wengert.core.devices import is_host
from wengert.core.graph import Graph, Node
from wengert.core.location import Location, describe, source_line

Entry = tuple[Any, ...]
_SHORT = 64  # bytes: a constant up to here is compared as it is, a longer one by its digest
_DEEP = 6  # how far into the attributes of a rule's object the comparison goes


def signature(graph: Graph) -> tuple[Entry, ...]:
    """The signature of a graph: types of the inputs, nodes, where the outputs stand."""
    places: dict[Node, Hashable] = {node: i for i, node in enumerate(graph.inputs)}
    entries: list[Entry] = [(node.shape, node.dtype.name, node.device) for node in graph.inputs]
    for node in graph.nodes:
        places[node] = len(entries)
        sources = tuple([_place(source, places) for source in node.sources])
        entries.append((node.op.name, _attributes(node), sources, node.shape, node.dtype, node.tracked, node.device))
    entries.append(tuple([_place(node, places) for node in graph.outputs]))
    return tuple(entries)


def _place(node: Node, places: dict[Node, Hashable]) -> Hashable:
    place = places.get(node)
    if place is None:
        place = places[node] = frozen(node.buffer) if isinstance(node.buffer, np.ndarray) else ("unknown", id(node))
    return place


def _attributes(node: Node) -> Hashable:
    if not node.attrs:
        return ()
    return tuple([(name, frozen(value)) for name, value in node.attrs.items() if name != "slot"])


def frozen(value: Any, depth: int = _DEEP) -> Hashable:
    """A value as something that can be compared and hashed, with its type: 1, 1.0 and True differ, and NaN is NaN."""
    kind = type(value)
    if value is None or kind in (int, bool, str, bytes):
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)
    if kind in (tuple, list):
        return kind, tuple([frozen(item, depth) for item in value])
    if kind is dict:
        return kind, tuple([(frozen(key, depth), frozen(item, depth)) for key, item in value.items()])
    if kind is frozenset:
        return kind, frozenset([frozen(item, depth) for item in value])
    if kind is slice:
        return slice, frozen((value.start, value.stop, value.step), depth)
    if isinstance(value, (np.ndarray, np.generic)):
        return _frozen_array(np.asarray(value))
    if isinstance(value, np.dtype):
        return np.dtype, value.name
    if kind is Graph:
        return Graph, signature(value)
    return _frozen_object(value, depth)


def _frozen_array(array: np.ndarray[Any, Any]) -> Hashable:
    content = array.tobytes()
    if len(content) > _SHORT:
        content = hashlib.blake2b(content, digest_size=16).digest()
    return "array", array.dtype.name, array.shape, content


def _frozen_object(value: Any, depth: int) -> Hashable:
    kind = type(value)
    if depth and kind is FunctionType:
        closed = [cell.cell_contents for cell in value.__closure__ or ()]
        return kind, value.__code__, frozen((closed, value.__defaults__, value.__kwdefaults__), depth - 1)
    if depth and kind is MethodType:
        return kind, frozen(value.__func__, depth - 1), id(value.__self__)
    if depth and isinstance(value, partial):
        return kind, frozen((value.func, value.args, value.keywords), depth - 1)
    if isinstance(value, ReferenceType):
        return "reference"
    if isinstance(value, tuple):
        return kind, tuple([frozen(item, depth) for item in value])
    if depth and kind.__module__.startswith("wengert.autodiff"):  # the rules of custom derivatives
        return kind, frozen(vars(value), depth - 1)
    return kind, id(value)


class Difference(NamedTuple):
    """Where two recordings part: the lines of both, in words."""

    before: str
    after: str
    location: Location

    def __str__(self) -> str:
        return f"before: {self.before}\n     now: {self.after}"


def difference(before: Recorded, after: Recorded) -> Difference:
    """The first node in which two recordings differ."""
    for i, (a, b) in enumerate(zip(before.signature, after.signature)):
        if a != b:
            return Difference(before.line(i), after.line(i), after.location(i) or before.location(i))
    i = min(len(before.signature), len(after.signature)) - 1
    return Difference(before.line(i), after.line(i), after.location(i) or before.location(i))


class Recorded:
    """A graph's signature, with what it takes to show a node of it after the graph is gone."""

    def __init__(self, graph: Graph) -> None:
        self.signature = signature(graph)
        self._inputs = len(graph.inputs)
        reader = {source: node for node in reversed(graph.nodes) for source in node.sources}
        self._lines = [(node.location or _location(reader.get(node)), _constants(node)) for node in graph.nodes]

    def location(self, i: int) -> Location:
        """The user's line of an entry."""
        node = i - self._inputs
        return self._lines[node][0] if 0 <= node < len(self._lines) else None

    def line(self, i: int) -> str:
        """An entry in words: what was recorded, of what type, on which line."""
        node = i - self._inputs
        if node < 0:
            return f"input {i} of type {self.signature[i]}"
        if node >= len(self._lines):
            return f"the end, with {len(self.signature[-1])} results"
        name, attributes, sources, shape, dtype, _, device = self.signature[i]
        location, constants = self._lines[node]
        words = [f"{name} of {_shown(sources, constants)}"]
        words += [f"{key}={_value(value)}" for key, value in attributes]
        kind = dtype.name if isinstance(dtype, np.dtype) else ", ".join(d.name for d in dtype)
        text = source_line(location)
        kind += "" if is_host(device) else f" on {device}"
        return f"{', '.join(words)} -> {kind}{list(shape)}  at {describe(location)}{':  ' + text if text else ''}"


def _location(reader: Node | None) -> Location:
    """The line of what reads a number: it has none of its own."""
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
    """A frozen attribute in words."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], type):
        kind, content = value
        if kind in (tuple, list):
            return f"({', '.join(_value(item) for item in content)})"
        return str(content) if kind in (int, bool, str, float, complex, type(None), np.dtype) else kind.__name__
    return "..."
