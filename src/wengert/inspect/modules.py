"""Which module a node belongs to, and which forward node a gradient's node comes from.

In: what happens inside a `with` block. Nodes are numbered in the order they are recorded, so a module's nodes are those
with a number between the beginning and the end of its call. The nodes that a rule records have one location, an object
of their own, and what a pass makes of a node keeps its location. Nothing is kept on the nodes themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from wengert.core.code import Backward, Location
from wengert.core.graph import Node, now, recording
from wengert.nn.hooks import observers
from wengert.nn.module import Module

Path = tuple[str, ...]
_LOCATIONS = 200_000  # remembered at most: those of nodes long gone are of no use


class Modules:
    """The modules that were being called when nodes were recorded; holds on to no node."""

    def __init__(self) -> None:
        self._changes: list[int] = [0]  # serial numbers from which on another module was being called
        self._paths: list[Path] = [()]
        self._stack: list[tuple[Module, Path]] = []
        self._located: dict[int, tuple[Location, Path]] = {}  # by the identity of a location, which passes hand on

    def remember(self, ended: Iterable[tuple[int, int, ref[Module]]]) -> None:
        """Take over calls that have ended already, later ones than are known, as far as their modules are there."""
        later = [call for call in ended if call[0] > self._changes[-1]]
        known = sorted(later, key=lambda call: (call[0], -call[1]))
        around: list[tuple[int, Module, Path]] = []  # the calls under way: their ends, modules and paths
        for first, last, reference in known:
            self._end_calls(around, first)
            module = reference()
            if module is not None:
                path = self._path(around[-1][1:] if around else None, module)
                around.append((last, module, path))
                self._change(path, first)
        self._end_calls(around, now())

    def _end_calls(self, around: list[tuple[int, Module, Path]], number: int) -> None:
        """End the calls that ended before a node's number."""
        while around and around[-1][0] <= number:
            last, _, _ = around.pop()
            self._change(around[-1][2] if around else (), last)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look on while the block records."""
        outer, recording.observer = recording.observer, self._came_to
        observers.append(self._calling)
        try:
            yield
        finally:
            observers.remove(self._calling)
            recording.observer = outer

    @contextmanager
    def _calling(self, module: Module) -> Iterator[None]:
        path = self._path(self._stack[-1] if self._stack else None, module)
        self._stack.append((module, path))
        self._change(path, now())
        try:
            yield
        finally:
            self._stack.pop()
            self._change(self._stack[-1][1] if self._stack else (), now())

    def _path(self, around: tuple[Module, Path] | None, module: Module) -> Path:
        """The path of a module that is called by another, or by none."""
        return (type(module).__name__,) if around is None else (*around[1], *_name_within(around[0], module))

    def _change(self, path: Path, number: int) -> None:
        """From a node's number on, another module is being called."""
        self._changes.append(number)
        self._paths.append(path)

    def _came_to(self, node: Node, cotangent: Any) -> None:
        """A backward walk came to a node; what its rule records has the location that was set for it just now."""
        if len(self._located) > _LOCATIONS:
            self._located.clear()
        self._locate(recording.location, self.module_of(node))

    def _locate(self, location: Location, path: Path) -> None:
        if location is not None and path:
            self._located[id(location)] = (location, path)

    def module_of(self, node: Node) -> Path:
        """The path of the module in whose call a node, or the forward node behind it, was recorded."""
        known = self._located.get(id(node.location))
        if known is not None:
            return known[1]
        if isinstance(node.location, Backward):
            return ()
        return self._paths[bisect_right(self._changes, node.serial) - 1]

    def modules_in(self, nodes: Iterable[Node]) -> dict[Node, Path]:
        """The module of each node of a graph in order. What a pass has put in is where the first of its sources is."""
        found: dict[Node, Path] = {}
        for node in nodes:
            path = self.module_of(node)
            self._locate(node.location, path)
            if not path:
                path = next((found[source] for source in node.sources if found.get(source)), ())
            found[node] = path
        return found


class Observed(Modules):
    """The modules, and for each gradient's node the forward node whose rule recorded it; keeps the nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.cotangents: dict[Node, Any] = {}
        self.outermost: dict[Module, None] = {}  # the modules that no other called
        self._walked: dict[int, tuple[Location, Node]] = {}

    def _path(self, around: tuple[Module, Path] | None, module: Module) -> Path:
        if around is None:
            self.outermost[module] = None
        return super()._path(around, module)

    def _came_to(self, node: Node, cotangent: Any) -> None:
        super()._came_to(node, cotangent)
        self.cotangents[node] = cotangent
        self._walked[id(recording.location)] = (recording.location, node)

    def forward_of(self, node: Node) -> Node | None:
        """The forward node whose rule recorded a gradient's node; None for what is no gradient's."""
        found = None
        while id(node.location) in self._walked:
            found = node = self._walked[id(node.location)][1]
        return found


def _name_within(outer: Module, module: Module) -> Path:
    """How a module is reached from the one that calls it; by its class where it is no part of it."""
    for path, each in outer.named_modules():
        if each is module and path:
            return tuple(path.split("."))
    return (type(module).__name__,)
