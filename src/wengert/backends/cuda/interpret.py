"""The interpreting tier on a GPU: every node by a program of its own, kept for the next node like it.

A program of one node depends on its op, attributes, shapes and dtypes, so it is compiled once, and from the disk's
cache in every later process; those of a flush that are new are compiled side by side. Values that only change their
shape or name share memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.cuda.checked import Checked
from wengert.backends.cuda.driver import opened
from wengert.backends.cuda.memory import DeviceArray, download, upload
from wengert.backends.cuda.program import Program
from wengert.errors import CompilerError, CudaError
from wengert.graph import Graph, Node, now, recorded_as, recording
from wengert.ops.core import ALIAS, LITERAL, STOP_GRADIENT, VARIABLE, placeholder
from wengert.ops.movement import RESHAPE
from wengert.ops.op import pick
from wengert.reference import check_nans, is_checking_nans, watch

BOUND = 4096  # programs kept; the one not used for longest goes first
_SAME_MEMORY = frozenset((RESHAPE, ALIAS, STOP_GRADIENT, VARIABLE))

_programs: OrderedDict[Hashable, Program] = OrderedDict()


class _Later:
    """A program that is connected to its kernels when it is first called, so that many can be compiled together."""

    pieces: Any = None

    def _connect(self) -> None:
        pass

    def __call__(self, *arguments: Any, **options: Any) -> list[Any]:
        """As that of a program."""
        if self.pieces is None:
            super()._connect()  # type: ignore[misc]
        results: list[Any] = super().__call__(*arguments, **options)  # type: ignore[misc]
        return results


class _Single(_Later, Program):
    """A program of one node."""


class _CheckedSingle(_Later, Checked):
    """A program of one node that is compared with its reference."""


class Settings(NamedTuple):
    """What programs of one node depend on besides the node."""

    device: str
    tf32: bool
    check: bool


def run(order: Sequence[Node], keep: set[Node], failure: Callable[[Exception, Node], Any], settings: Settings) -> None:
    """Give each node of `order` its buffer; those not in `keep` lose it again after their last use."""
    uses: dict[Node, int] = {}
    for node in order:
        for source in node.sources:
            uses[source] = uses.get(source, 0) + 1
    computed = set(order)
    programs = _prepared(order, settings)
    for node in order:
        broken = next((s.buffer for s in node.sources if type(s.buffer) is failure), None)
        if broken is not None:
            node.buffer = broken
        elif node.op is not LITERAL or node in keep:
            watch.node = node
            try:
                node.buffer = _computed(node, programs.get(node), settings)
                if is_checking_nans():
                    check_nans(node, [_on_host(source) for source in node.sources], _on_host(node))
            except (CompilerError, CudaError) as error:  # of a program that serves many nodes: the line is this one's
                node.buffer = failure(type(error)(error.message, node.location), node)
            except Exception as error:
                node.buffer = failure(error, node)
            watch.node = None
        for source in node.sources:
            uses[source] -= 1
            if not uses[source] and source in computed and source not in keep:
                source.buffer = None


def _on_host(node: Node) -> Any:
    """The value of a node for NumPy to look at."""
    if node.op is LITERAL:
        return np.asarray(node.attrs["value"], node.dtype)
    parts = node.buffer if type(node.buffer) is tuple else (node.buffer,)
    found = tuple(download(part) if type(part) is DeviceArray else part for part in parts)
    return found if type(node.buffer) is tuple else found[0]


def _prepared(order: Sequence[Node], settings: Settings) -> dict[Node, Program]:
    """The programs of these nodes, those that are new compiled side by side.

    A node whose program cannot be made is left out: that fails again where it is computed.
    """
    found: dict[Node, Program] = {}
    with suppress(Exception):
        for node in order:
            if _is_computed(node):
                found[node] = _program(node, settings)
        new = {id(program): program for program in found.values() if program.pieces is None}
        works = [step.work for program in new.values() for step in program.steps if step.work]
        if works:
            opened(settings.device).kernels(launch for work in works for launch in work.launches)
    return found


def _is_computed(node: Node) -> bool:
    """Whether a node takes a program: it is no number, no part of a value, and no value under another name."""
    if node.op is LITERAL or node.op.name == "pick":
        return False
    return node.op not in _SAME_MEMORY or node.sources[0].op is LITERAL


def _given(node: Node) -> list[Node]:
    """The arguments of a node's program."""
    return list(dict.fromkeys(source for source in node.sources if source.op is not LITERAL))


def _computed(node: Node, program: Program | None, settings: Settings) -> Any:
    sources, device = node.sources, settings.device
    if node.op is LITERAL:
        return upload(np.asarray(node.attrs["value"], node.dtype), device)
    if node.op.name == "pick":
        return sources[0].buffer[node.attrs["index"]]
    if not _is_computed(node):
        array = sources[0].buffer
        array = array if type(array) is DeviceArray else upload(array, device)
        return array.reshape(node.shape)
    program = program or _program(node, settings)
    results = program([source.buffer for source in _given(node)])
    return tuple(results) if isinstance(node.dtype, tuple) else results[0]


def _program(node: Node, settings: Settings) -> Program:
    given = _given(node)
    key = (
        node.op,
        _attributes(node),
        settings,
        tuple((s.shape, s.dtype, repr(s.attrs["value"]) if s.op is LITERAL else given.index(s)) for s in node.sources),
    )
    program = _programs.get(key)
    if program is None:
        kind, device = _CheckedSingle if settings.check else _Single, settings.device
        graph = _alone(node, given, device)
        program = _programs[key] = kind(graph, captures=False, device=device, tf32=settings.tf32)
        if len(_programs) > BOUND:
            _programs.popitem(last=False)
    _programs.move_to_end(key)
    return program


def _attributes(node: Node) -> Hashable:
    return tuple((name, value if isinstance(value, Hashable) else repr(value)) for name, value in node.attrs.items())


def _alone(node: Node, given: Sequence[Node], device: str) -> Graph:
    """The graph of one node over placeholders."""
    since = now()
    with recorded_as(recording.location, False):
        inputs = {source: placeholder(source.shape, source.dtype, device) for source in given}
        literals = [source for source in node.sources if source.op is LITERAL]
        whole = Graph(given, [node], nodes=[*dict.fromkeys(literals), node])
        (result,) = whole.inline(*inputs.values())
        result.device = device
        if isinstance(result.dtype, tuple):
            return Graph(list(inputs.values()), [pick(result, i) for i in range(len(result.dtype))], since)
        return Graph(list(inputs.values()), [result], since)
