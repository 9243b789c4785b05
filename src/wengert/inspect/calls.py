"""Finds the call of a module or public function that recorded a node, and the forward node behind a gradient's node.

In: whatever is recorded inside a `with` block. Serial numbers follow the order of recording, so a module's nodes are
those numbered between the beginning and the end of its call. The public function is found on the stack while a node is
created. All nodes that a derivative rule records share one location object, and passes preserve locations, so calls are
found by location as well. The nodes themselves store nothing.
"""

from __future__ import annotations

import functools
import sys
from bisect import bisect_right
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from types import FrameType
from typing import Any, cast
from weakref import ref

from wengert.autodiff import reverse
from wengert.core.code import Backward, Location
from wengert.core.graph import Node, now, recording, seeing_nodes
from wengert.inspect.public_functions import STEP, PublicFunctions
from wengert.nn.hooks import observers
from wengert.nn.module import Module
from wengert.optim.optimizer import Optimizer

Path = tuple[str, ...]
_LOCATIONS = 200_000  # remembered at most: those of nodes long gone are of no use
_ACCUMULATE = reverse._accumulate.__code__

_functions = functools.cache(PublicFunctions)


class WatchedCall:
    """A call of a module, or of a public function; a function has the path of the module that called it."""

    __slots__ = ("around", "function", "is_step", "location", "module", "path")

    def __init__(self, around: WatchedCall | None, path: Path, module: ref[Module] | None, function: str = "") -> None:
        self.around = around
        self.path = path
        self.module = module  # none of a function's call
        self.function = function  # its public name; none of a module's call
        self.is_step = False  # of an optimizer
        self.location: Location = None  # of the first node recorded in it

    def __repr__(self) -> str:
        return f"<call of {self.function or '.'.join(self.path)}>"


class WatchedCalls:
    """The calls that were active when nodes were recorded. It keeps no reference to a node."""

    def __init__(self) -> None:
        self._changes: list[int] = [0]  # serial numbers from which on another call was the innermost
        self._calls: list[WatchedCall | None] = [None]
        self._stack: list[tuple[Module, WatchedCall]] = []  # modules being called
        # by the identity of a location, which passes hand on
        self._located: dict[int, tuple[Location, WatchedCall | None]] = {}

    def remember(self, ended: Iterable[tuple[int, int, ref[Module]]]) -> None:
        """Add module calls that have already ended, if their modules still exist."""
        later = [call for call in ended if call[0] > self._changes[-1]]
        known = sorted(later, key=lambda call: (call[0], -call[1]))
        around: list[tuple[int, Module, WatchedCall]] = []  # the calls under way, with their ends
        for first, last, reference in known:
            self._end_calls(around, first)
            module = reference()
            if module is not None:
                call = self._module_call(around[-1][1:] if around else None, module)
                around.append((last, module, call))
                self._change(call, first)
        self._end_calls(around, now())

    def _end_calls(self, around: list[tuple[int, Module, WatchedCall]], number: int) -> None:
        """Close the calls that ended before this serial number."""
        while around and around[-1][0] <= number:
            last, _, _ = around.pop()
            self._change(around[-1][2] if around else None, last)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what the block records."""
        outer, recording.observer = recording.observer, self._came_to
        observers.append(self._calling)
        _functions().refresh()
        try:
            with seeing_nodes(self._made):
                yield
        finally:
            observers.remove(self._calling)
            recording.observer = outer

    @contextmanager
    def _calling(self, module: Module) -> Iterator[None]:
        call = self._module_call(self._stack[-1] if self._stack else None, module)
        self._stack.append((module, call))
        self._change(call, now())
        try:
            yield
        finally:
            self._stack.pop()
            self._change(self._stack[-1][1] if self._stack else None, now())

    def _module_call(self, around: tuple[Module, WatchedCall] | None, module: Module) -> WatchedCall:
        """The call of a module, by another module or from outside."""
        if around is None:
            return WatchedCall(None, (type(module).__name__,), ref(module))
        return WatchedCall(around[1], (*around[1].path, *_name_within(around[0], module)), ref(module))

    def _change(self, call: WatchedCall | None, number: int) -> None:
        """Note that another call is the innermost one, from this serial number on."""
        self._changes.append(number)
        self._calls.append(call)

    def _made(self, node: Node) -> None:
        """Note which public function's call created a node, unless its location is known already."""
        location = node.location
        if isinstance(location, Backward) or id(location) in self._located:
            return
        call = self._stack[-1][1] if self._stack else None
        for frame in _functions().frames(sys._getframe(3)):
            own = self._function_call(frame, call)
            if own is not None:
                call = own
                break
        if self._calls[-1] is not call:
            self._change(call, node.serial)
        if call is not None and call.location is None:
            call.location = location
        self._locate(location, call)

    def _function_call(self, frame: FrameType, around: WatchedCall | None) -> WatchedCall | None:
        """The call that a frame stands for; None if its function is not public."""
        marks = _marks_of(frame)
        if id(self) not in marks:
            name = _functions().name_of(frame)
            if name is None:
                return None
            made = marks[id(self)] = WatchedCall(around, around.path if around else (), None, name)
            made.is_step = frame.f_code is STEP
            self._entered(frame)
        return marks[id(self)]

    def _entered(self, frame: FrameType) -> None:
        """Called when a public function records its first node."""

    def _came_to(self, node: Node, cotangent: Any) -> None:
        """Called when a backward pass reaches a node; its rule records nodes with the location that was just set."""
        self._locate(recording.location, self.call_of(node))

    def _locate(self, location: Location, call: WatchedCall | None) -> None:
        if location is None:
            return
        if len(self._located) > _LOCATIONS:
            for key in list(islice(self._located, _LOCATIONS // 2)):
                del self._located[key]
        self._located[id(location)] = (location, call)

    def call_of(self, node: Node) -> WatchedCall | None:
        """The innermost call in which a node, or the forward node behind it, was recorded."""
        location = node.location
        while True:
            known = self._located.get(id(location))
            if known is not None:
                return known[1]
            if not isinstance(location, Backward):
                return self._calls[bisect_right(self._changes, node.serial) - 1] if location is node.location else None
            location = location.forward  # recorded before: the forward node's own is known

    def module_of(self, node: Node) -> Path:
        """The path of the module in whose call a node was recorded."""
        call = self.call_of(node)
        return call.path if call is not None else ()

    def calls_in(
        self, nodes: Iterable[Node], after_pass: bool = False, known: Mapping[Node, WatchedCall | None] | None = None
    ) -> dict[Node, WatchedCall | None]:
        """The call of each node of a graph, in order; `known` has those of other nodes.

        A node that a pass created with a new location inherits the call of its first source. A recorded node never
        does: what a user computes outside of modules belongs to no module.
        """
        found: dict[Node, WatchedCall | None] = {}
        around = found if known is None else ChainMap(found, cast(dict[Node, "WatchedCall | None"], known))
        for node in nodes:
            is_known = id(node.location) in self._located
            if node.sources and (node.location is None or (after_pass and not is_known)):
                found[node] = next((around[source] for source in node.sources if around.get(source)), None)
                continue
            found[node] = self.call_of(node)
            if not is_known:
                self._locate(node.location, found[node])
        return found


class Observed(WatchedCalls):
    """The calls, and for each node of a gradient the forward node whose rule recorded it. It keeps the nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.cotangents: dict[Node, Any] = {}
        self.outermost: dict[Module, None] = {}  # the modules that no other called
        self.optimizers: dict[Optimizer, None] = {}  # those that took a step
        self.sums: dict[Node, Node] = {}  # by the node of an accumulation, the forward node whose adjoint it is
        self._walked: dict[int, tuple[Location, Node]] = {}

    def _module_call(self, around: tuple[Module, WatchedCall] | None, module: Module) -> WatchedCall:
        if around is None:
            self.outermost[module] = None
        return super()._module_call(around, module)

    def _entered(self, frame: FrameType) -> None:
        if frame.f_code is STEP:
            self.optimizers[frame.f_locals["self"]] = None

    def _made(self, node: Node) -> None:
        super()._made(node)
        if isinstance(node.location, Backward) and node.op is reverse.add:
            frame = sys._getframe(3)
            while frame.f_code.co_name in ("record", "__call__") and frame.f_back is not None:
                frame = frame.f_back
            if frame.f_code is _ACCUMULATE:
                self.sums[node] = frame.f_locals["node"]

    def _came_to(self, node: Node, cotangent: Any) -> None:
        super()._came_to(node, cotangent)
        self.cotangents[node] = cotangent
        self._walked[id(recording.location)] = (recording.location, node)

    def forward_of(self, node: Node) -> Node | None:
        """The forward node whose rule recorded a node of the gradient; None for other nodes."""
        found = None
        while id(node.location) in self._walked:
            found = node = self._walked[id(node.location)][1]
        return found

    def adjoint_nodes(self) -> set[Node]:
        """The nodes that are the adjoint of a forward node."""
        parts = [g if isinstance(g, list) else [g] for g in self.cotangents.values()]
        return {node for part in parts for node in part if node is not None}

    def take_over(self, inputs: Mapping[Node, Node]) -> None:
        """Transfer what is known of outside nodes to the graph inputs that replace them."""
        for outside, own in inputs.items():
            if outside in self.cotangents:
                self.cotangents[own] = self.cotangents.pop(outside)
        self.sums = {total: inputs.get(at, at) for total, at in self.sums.items()}

    def is_of_optimizer(self, node: Node) -> bool:
        """Whether a node was recorded in the step of an optimizer."""
        call = self.call_of(node)
        return call is not None and call.is_step

    def terms_of(self, node: Node) -> list[Node]:
        """The terms that an accumulation adds, in the order of the backward pass; of another node, the node itself."""
        at = self.sums.get(node)
        if at is None:
            return [node]
        first, last = node.sources
        return [*(self.terms_of(first) if self.sums.get(first) is at else [first]), last]


class _Marks(dict[int, WatchedCall]):
    """The call that a frame stands for, by watcher."""

    def __call__(self, *event: Any) -> None:
        """Do nothing. Debuggers store their trace function in the same place, so this may be called as one."""


_held: tuple[FrameType, _Marks] | None = None  # under a debugger: the last frame that could not be marked


def _marks_of(frame: FrameType) -> _Marks:
    """The marks of a frame, which live as long as the frame. Keeping the frame instead would keep its variables alive,
    and which tensors are alive decides what is computed.
    """
    global _held
    marks = frame.f_trace
    if isinstance(marks, _Marks):
        return marks
    if marks is None:
        frame.f_trace = marks = _Marks()
        return marks
    if _held is None or _held[0] is not frame:  # a debugger has its function there
        _held = frame, _Marks()
    return _held[1]


def _name_within(outer: Module, module: Module) -> Path:
    """The path from the calling module to a module; the class name if it is not a submodule."""
    for path, each in outer.named_modules():
        if each is module and path:
            return tuple(path.split("."))
    return (type(module).__name__,)
