"""Node and Graph: what was recorded, how to walk it, and how it reads as Python.

A Node is a value: one op applied to source nodes. Nodes are made in order and never changed, so a node's serial number
is a topological order: whatever a node depends on has a smaller one. There is no other tape; every transform, pass and
backend is a function of these nodes. Neighbours: `ops` makes nodes, `tensor` holds them, `autodiff` walks them.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.core.code import Location, describe, source_line
from wengert.core.context import Mode, enter, leave, mode
from wengert.core.evaluation import apply_here

if TYPE_CHECKING:
    from wengert.core.mesh import Mesh
    from wengert.ops.op import Op

NO_ATTRS: dict[str, Any] = {}
Shape = tuple[int, ...]


class Recording(threading.local):
    """What this thread is recording. `mode()` says how (see `core.context`); the attributes here are for code that is
    not on every op's path.
    """

    def __init__(self) -> None:
        self.location: Location = None  # given to new nodes in place of the caller's line, in a backward walk
        self.pending: list[weakref.ref[Any]] = []  # the Tensors made since the last flush
        self.cut = 0  # how many of them stood there at the last assignment or backward
        self.trace: Trace | None = None  # the innermost recording with abstract inputs
        self.lane: Node | None = None  # under vmap: the index of the lane, which random draws fold in
        self.ranks: Mesh | None = None  # while lanes are batched: the mesh whose ranks they are
        self.simulated: Mesh | None = None  # inside `simulate`: the mesh whose ranks run the function
        self.transforms: list[tuple[str, Sequence[Node]]] = []  # those that run a function, by name, and its variables
        self.converts = False  # whether values that are tracked may become constants all the same
        self.observer: Callable[[Node, Any], None] | None = None  # called with each cotangent in a backward walk

    @property
    def grad(self) -> bool:
        """Whether new nodes are tracked for gradients."""
        return mode().grad

    @property
    def autocast(self) -> np.dtype[Any] | None:
        """The dtype that ops of low precision are recorded in, if any."""
        return mode().autocast


recording = Recording()
now = count(1).__next__
"""A serial number: nodes recorded from here on have larger ones.

One is also drawn where a value leaves its slot, or a slot is given another, without a new node. Who draws a number and
then the next one knows that nothing of the kind has happened between.
"""


class Node:
    """A value: one op applied to source nodes. Its operators record further nodes."""

    __slots__ = (
        "__weakref__",
        "attrs",
        "buffer",
        "device",
        "dtype",
        "location",
        "op",
        "owner",
        "serial",
        "shape",
        "sources",
        "tracked",
    )
    __array_ufunc__ = None  # so that `array + node` asks the node

    def __init__(
        self,
        op: Op,
        sources: tuple[Node, ...],
        attrs: dict[str, Any],
        shape: Any,
        dtype: Any,
        device: str,
        tracked: bool,
        location: Location,
        buffer: Any = None,
    ) -> None:
        self.op = op
        self.sources = sources
        self.attrs = attrs
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.tracked = tracked
        self.location = location
        self.buffer = buffer
        self.owner: weakref.ref[Any] | None = None  # the Tensor that names it; no two name one node
        self.serial = now()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    def __repr__(self) -> str:
        return f"<{self.op.name} {describe_type(self)} at {describe(self.location)}>"

    if TYPE_CHECKING:  # given to the class by wengert.ops, where the operators' ops are

        def __add__(self, other: Any) -> Node: ...
        def __radd__(self, other: Any) -> Node: ...
        def __sub__(self, other: Any) -> Node: ...
        def __rsub__(self, other: Any) -> Node: ...
        def __mul__(self, other: Any) -> Node: ...
        def __rmul__(self, other: Any) -> Node: ...
        def __truediv__(self, other: Any) -> Node: ...
        def __rtruediv__(self, other: Any) -> Node: ...
        def __pow__(self, other: Any) -> Node: ...
        def __matmul__(self, other: Any) -> Node: ...
        def __neg__(self) -> Node: ...
        def __lt__(self, other: Any) -> Node: ...
        def __le__(self, other: Any) -> Node: ...
        def __gt__(self, other: Any) -> Node: ...
        def __ge__(self, other: Any) -> Node: ...


class _Released(tuple[Node, ...]):
    """The sources of a node whose graph a backward pass has freed."""


RELEASED: tuple[Node, ...] = _Released()


_seers: list[tuple[int, Callable[[Node], None]]] = []  # the observers of new nodes, and their threads
_made = Node.__init__


def _made_and_seen(self: Node, *args: Any, **kwargs: Any) -> None:
    _made(self, *args, **kwargs)
    thread = threading.get_ident()
    for watched, see in _seers:
        if watched == thread:
            see(self)


@contextmanager
def seeing_nodes(see: Callable[[Node], None]) -> Iterator[None]:
    """Call `see` with every node that this thread makes inside the block.

    Node's constructor is replaced meanwhile, so that a node costs nothing more when nobody looks.
    """
    entry = (threading.get_ident(), see)
    _seers.append(entry)
    Node.__init__ = _made_and_seen  # type: ignore[method-assign]
    try:
        yield
    finally:
        _seers.remove(entry)
        if not _seers:
            Node.__init__ = _made  # type: ignore[method-assign]


def describe_type(node: Node) -> str:
    """`float32[2, 3]`, or a parenthesised list of these for a node with several results."""
    if isinstance(node.dtype, tuple):
        return "(" + ", ".join(f"{d.name}{list(s)}" for s, d in zip(node.shape, node.dtype)) + ")"
    return f"{node.dtype.name}{list(node.shape)}"


def ancestors(outputs: Iterable[Node], since: int = 0, stop: Container[Node] = ()) -> list[Node]:
    """The outputs and everything they depend on, in topological order.

    Nodes older than serial `since` are left out, and so are the ancestors of nodes in `stop`.
    """
    found: set[Node] = set()
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node.serial >= since and node not in found:
            found.add(node)
            if node not in stop:
                stack.extend(node.sources)
    return sorted(found, key=_serial_of)


def dependents(outputs: Iterable[Node], inputs: Iterable[Node]) -> list[Node]:
    """The nodes on a path from the inputs to the outputs (without the inputs themselves), in topological order."""
    reached = set(inputs)
    if not reached:
        return []
    order = []
    for node in ancestors(outputs, since=min(map(_serial_of, reached)), stop=frozenset(reached)):
        if node not in reached and not reached.isdisjoint(node.sources):
            reached.add(node)
            order.append(node)
    return order


def _serial_of(node: Node) -> int:
    return node.serial


def record_again(nodes: Iterable[Node], replacing: dict[Node, Node]) -> None:
    """Record these nodes again with their sources mapped by `replacing`, keeping their lines and tracking.

    The new nodes are added to `replacing`.
    """
    with recorded_as(recording.location, recording.grad) as inside:
        for node in nodes:
            recording.location, inside.grad = node.location, node.tracked
            sources = [replacing.get(source, source) for source in node.sources]
            made = replacing[node] = node.op(*sources, **node.attrs)
            if not sources:
                made.device = node.device


@contextmanager
def recorded_as(location: Location, grad: bool, autocast: np.dtype[Any] | None = None) -> Iterator[Mode]:
    """Nodes recorded inside get this location (None: their caller's line), are tracked or not, and autocast to a dtype.

    Nodes recorded from existing nodes (derivatives, batching, replays) are not cast: their casts are nodes already.
    `recording.autocast` is passed on only if a user's function runs inside.
    """
    kept, recording.location = recording.location, location
    around = mode()
    inside = enter(Mode(grad, autocast, around.limit, around.checks_nans, around))
    try:
        yield inside
    finally:
        leave(inside)
        recording.location = kept


class Trace:
    """A recording with abstract inputs in progress. It remembers the outer slots that are assigned in it, to restore
    them; a slot created inside belongs to the function.

    A static one belongs to `compile`, whose program runs again on other values: values of outer slots are as unknown in
    it as its inputs, and their `grad` is restored too.
    """

    def __init__(self, name: str, outer: Trace | None = None, static: bool = False) -> None:
        self.name = name
        self.start = now()
        self.before: dict[Any, Node] = {}
        self._is_static = static
        self._around = None if outer is None else outer.static
        self.grads: dict[Any, tuple[Any, bool]] = {}  # what `grad` of a slot was, and whether it was read at first
        self.let_go: set[Node] = set()  # the graphs of backward passes, which dynamically would be gone
        self.array_of: Callable[[Any], Node | None] | None = None  # the input that an array from outside is, if it is
        self.stages: list[tuple[int, int | None]] = []  # of a pipeline: from which serial number on which is recorded

    @property
    def static(self) -> Trace | None:
        """The recording of `compile` that this one is, or is part of. (As an attribute it would be a cycle, and the
        slots' former values would live until garbage collection.)
        """
        return self if self._is_static else self._around

    def note(self, slot: Any) -> None:
        """Called before a slot is assigned: its first value here is the one to restore."""
        if slot.node.serial < self.start:
            self.before.setdefault(slot, slot.node)

    def note_grad(self, slot: Any, reads: bool) -> None:
        """Called before `grad` of a slot is read or set."""
        static = self.static
        if static is not None and static.is_outside(slot):
            static.grads.setdefault(slot, (slot._grad, reads))

    def is_outside(self, slot: Any) -> bool:
        """Whether a slot existed before this recording began."""
        born = slot.born
        return (slot.node.serial if born is None else born) < self.start or slot in self.before

    def assigned(self) -> dict[Any, Node]:
        """The slots assigned so far, with their current values."""
        return {slot: slot.node for slot, node in self.before.items() if slot.node is not node}

    def rollback(self) -> None:
        """Restore the former value of every slot."""
        for slot, node in self.before.items():
            slot.node = node
        for slot, (grad, _) in self.grads.items():
            slot._grad = grad


@contextmanager
def tracing(name: str, static: bool = False) -> Iterator[Trace]:
    """A context that records with abstract inputs; slots assigned inside are restored afterwards, however it ends."""
    outer = recording.trace
    recording.trace = trace = Trace(name, outer, static)
    inside = enter(mode().changed("limit", 1 << 62))  # abstract values are never computed, however many are pending
    try:
        yield trace
    finally:
        leave(inside)
        recording.trace = outer
        trace.rollback()


def has_array(node: Node) -> bool:
    """Whether a node's value is available, as an array on the host or on a device."""
    return hasattr(node.buffer, "dtype")


class Graph:
    """The nodes between some inputs and some outputs; transforms and passes take and return graphs.

    Nodes recorded since `since` belong to it, whether they depend on an input or not (literals, random bits); older
    ones that it reads are captured.
    """

    def __init__(
        self,
        inputs: Sequence[Node],
        outputs: Sequence[Node],
        since: int | None = None,
        nodes: list[Node] | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        if nodes is not None:  # a pass knows them, in topological order
            self.nodes = nodes
            return
        if since is None:
            since = min(map(_serial_of, self.inputs), default=0)
        own = frozenset(self.inputs)
        order = ancestors(self.outputs, since, stop=own)
        self.nodes = [node for node in order if node not in own and not has_array(node)]

    def captured(self) -> list[Node]:
        """The outer nodes that the graph reads, in order of first use."""
        own = {*self.inputs, *self.nodes}
        read = dict.fromkeys(chain.from_iterable([node.sources for node in self.nodes]))
        read.update(dict.fromkeys(self.outputs))
        return [node for node in read if node not in own]

    def inline(self, *values: Node, captured: Sequence[tuple[Node, Node]] = ()) -> list[Node]:
        """The outputs recorded again with other values for the inputs (and for some captured nodes)."""
        replacing = {**dict(zip(self.inputs, values)), **dict(captured)}
        record_again(self.nodes, replacing)
        return [replacing.get(node, node) for node in self.outputs]

    def __call__(self, *arrays: Any) -> list[Any]:
        """The outputs computed from arrays for the inputs, op by op, by the references.

        What is captured must be constant: it has its array already.
        """
        values: dict[Node, Any] = dict(zip(self.inputs, arrays))
        for node in self.nodes:
            values[node] = apply_here(node, [values.get(s, s.buffer) for s in node.sources])
        return [values.get(node, node.buffer) for node in self.outputs]

    def __str__(self) -> str:
        return as_python(self)


def as_python(graph: Graph, name: str = "graph", notes: Mapping[Node, str] | None = None) -> str:
    """The graph as a Python function, with the user's lines as comments, after `notes`.

    The text runs with `ops` as `wengert.ops.registry`: every line is one op applied to earlier values.
    """
    notes = {} if notes is None else notes
    names: dict[Node, str] = {node: f"x{i}" for i, node in enumerate(graph.inputs)}
    names.update((node, f"c{i}") for i, node in enumerate(graph.captured()))
    parameters = ", ".join(names.values())
    lines = [f"def {name}({parameters}):"]
    for i, node in enumerate(graph.nodes):
        names[node] = f"v{i}"
        arguments = [names[source] for source in node.sources]
        arguments += [f"{key}={_as_literal(value)}" for key, value in node.attrs.items() if key != "slot"]
        call = f"    v{i} = ops[{node.op.name!r}]({', '.join(arguments)})"
        comments = [notes.get(node, ""), describe_type(node), _where(node)]
        lines.append(f"{call:<60}  # {'  '.join(filter(None, comments))}")
    lines.append(f"    return {', '.join(names[node] for node in graph.outputs)}")
    return "\n".join(lines)


def _where(node: Node) -> str:
    """The user's line, with its text; empty for nodes without one, such as folded constants."""
    if node.location is None:
        return ""
    text = source_line(node.location)
    return describe(node.location) + (f": {text}" if text else "")


def _as_literal(value: Any) -> str:
    """An attribute's value as a Python expression that reproduces it."""
    if isinstance(value, np.dtype):
        return f"wg.{value.name}"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return f"({', '.join(map(_as_literal, value))}{',' * (len(value) == 1)})"
    return f"float({str(value)!r})" if isinstance(value, float) and not math.isfinite(value) else repr(value)


watchers: weakref.WeakKeyDictionary[Node, list[Callable[[Node], Node | None]]] = weakref.WeakKeyDictionary()


def watch(node: Node, callback: Callable[[Node], Node | None]) -> Callable[[], None]:
    """Call `callback` with the node's cotangent in every backward pass; what it returns replaces it.

    The result removes the callback.
    """
    callbacks = watchers.setdefault(node, [])
    callbacks.append(callback)
    return lambda: callbacks.remove(callback) if callback in callbacks else None
