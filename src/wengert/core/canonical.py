"""The canonical form of a graph: what it computes, independent of the objects it consists of.

In: nodes in order. Out: hashable entries, equal if the nodes compute the same from sources at the same positions. It is
used to compare the recordings of a compiled function, the flushes of dynamic execution (`runtime/dynamic/tiers`),
groups of a program that are lowered once (`plan/lowering`), and equal nodes (`compiler/cleanup`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from types import FunctionType, MethodType
from typing import Any
from weakref import ReferenceType

import numpy as np

from wengert.core.graph import Graph, Node

Entry = tuple[Any, ...]
ACROSS_RECORDINGS = 7
"""A depth at which what two recordings of one function have in their attributes is compared by what it is made of."""

_SHORT = 64  # bytes: an array up to here is compared as it is, a longer one by its digest


def canonical(graph: Graph, depth: int = ACROSS_RECORDINGS) -> tuple[Entry, ...]:
    """The canonical form of a closed graph: types of the inputs, nodes, positions of the outputs.

    Constants are compared by their bytes, Python functions by their code and closures (by identity without a depth).
    """
    places: dict[Node, Hashable] = {node: i for i, node in enumerate(graph.inputs)}
    types = [(node.shape, node.dtype.name, node.device) for node in graph.inputs]
    leaf = _constant if depth else _held_constant
    nodes = entries(graph.nodes, places, leaf, len(types), depth)
    found = [(*entry, node.tracked) for entry, node in zip(nodes, graph.nodes)]
    outputs = tuple([places[node] if node in places else leaf(node) for node in graph.outputs])
    return (*types, *found, outputs)


def entries(
    order: Iterable[Node], places: dict[Node, Any], leaf: Callable[[Node], Any], first: int = 0, depth: int = 0
) -> list[Entry]:
    """An entry for each node, numbered from `first`. `leaf` returns the position of a source that is not in `places`.

    Slots are ignored: the reader of the graph knows where a variable comes from.
    """
    found: list[Entry] = []
    for node in order:
        sources = []
        for source in node.sources:
            place = places.get(source)
            if place is None:
                place = places[source] = leaf(source)
            sources.append(place)
        places[node] = first + len(found)
        attributes = frozen_attributes(node.attrs, depth, without="slot") if node.attrs else ()
        found.append((node.op, attributes, tuple(sources), node.shape, node.dtype, node.device))
    return found


def _constant(node: Node) -> Hashable:
    return frozen(node.buffer) if isinstance(node.buffer, np.ndarray) else ("unknown", id(node))


def _held_constant(node: Node) -> Hashable:
    return frozen(node.buffer) if isinstance(node.buffer, np.ndarray) else ("unknown", node)


def frozen_attributes(attrs: dict[str, Any], depth: int = 0, without: str = "") -> Hashable:
    """The attributes of a node except one, as a hashable key."""
    if len(attrs) == 1:  # most have one
        [(name, value)] = attrs.items()
        return () if name == without else ((name, frozen(value, depth)),)
    return tuple([(name, frozen(attrs[name], depth)) for name in sorted(attrs) if name != without])


def frozen(value: Any, depth: int = 0) -> Hashable:
    """A key that is equal for two values if and only if they are the same value of the same type. NaN is NaN.

    Objects are compared by identity, and held by the key. With a depth, functions, graphs and rules are compared by
    their contents, that many levels deep, and other objects are not held, so a compiled function keeps no model alive.

    >>> frozen(1) == frozen(1.0), frozen((1, 2)) == frozen((True, 2)), frozen(0.0) == frozen(-0.0)
    (False, False, False)
    """
    kind = type(value)
    if kind is int or kind is str:
        return value  # the only ones that stand for themselves: every other key is a tuple
    if kind is tuple or kind is list:
        return kind, tuple([frozen(item, depth) for item in value])
    if kind is float or kind is complex:
        return kind, repr(value)
    if kind is bool or value is None or kind is bytes:
        return kind, value
    if isinstance(value, np.dtype):
        return np.dtype, value.name
    if isinstance(value, (np.ndarray, np.generic)):
        return kind, value.dtype.name, value.shape, _digest(value.tobytes())
    if kind is dict:
        return kind, tuple([(frozen(key, depth), frozen(item, depth)) for key, item in value.items()])
    if kind is frozenset:
        return kind, frozenset([frozen(item, depth) for item in value])
    if kind is slice:
        return kind, frozen((value.start, value.stop, value.step), depth)
    if isinstance(value, tuple):
        return kind, tuple([frozen(item, depth) for item in value])
    return _taken_apart(value, depth) if depth else _itself(value)


def hashable(value: Any) -> Hashable:
    """Nested lists and tuples as tuples, with weak references compared by the identity of their referents."""
    if type(value) in (list, tuple):
        return tuple([hashable(item) for item in value])
    return id(value()) if type(value) is ReferenceType else value


def _digest(content: bytes) -> bytes:
    return content if len(content) <= _SHORT else hashlib.blake2b(content, digest_size=16).digest()


def _itself(value: Any) -> Hashable:
    """An object by its identity, a graph by what it computes. A key that holds an object keeps its identity from coming
    again.
    """
    kind = type(value)
    if kind is Graph:
        return kind, canonical(value, depth=0)
    return kind, value if kind.__hash__ is object.__hash__ else id(value)


def _taken_apart(value: Any, depth: int) -> Hashable:
    """An object by its components, if these determine its behaviour and are not nested too deeply."""
    kind = type(value)
    if kind is Graph:
        return kind, canonical(value)
    if isinstance(value, ReferenceType):
        return kind, "a reference"
    if depth == 1:
        return kind, id(value)
    inside = depth - 1
    if kind is FunctionType:
        closed = [cell.cell_contents for cell in value.__closure__ or ()]
        return kind, value.__code__, frozen((closed, value.__defaults__, value.__kwdefaults__), inside)
    if kind is MethodType:
        return kind, frozen(value.__func__, inside), id(value.__self__)
    if isinstance(value, partial):
        return kind, frozen((value.func, value.args, value.keywords), inside)
    if kind.__module__.startswith("wengert.autodiff"):  # the rules of custom derivatives
        return kind, frozen(vars(value), inside)
    return kind, id(value)
