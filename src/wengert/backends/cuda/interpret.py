"""The interpreting tier on a GPU: one node at a time, by kernels that exist already.

Most ops have kernels that take sizes as arguments (`kernels.prebuilt`): one text per op and dtypes, compiled once per
machine, so that a new shape or a new expression compiles nothing. Other ops, such as products, run as programs of a
single node, which are cached for equal nodes. Values that only change their shape or name share memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.checked import difference, reference_of, wrong
from wengert.backends.cuda.checked import CheckedCudaProgram
from wengert.backends.cuda.memory import DeviceArray, download, opened, upload
from wengert.backends.cuda.program import CudaProgram, codegen_with, target_of
from wengert.backends.cuda.single_op import SingleOpKernel
from wengert.compiler.rewrite import bodies_of
from wengert.core.canonical import frozen_attributes
from wengert.core.communication import current
from wengert.core.context import mode
from wengert.core.errors import CompilerError, CudaError
from wengert.core.evaluation import check_nans, watch
from wengert.core.graph import Graph, Node, describe_type, now, recorded_as, recording
from wengert.kernels import prebuilt
from wengert.kernels.launch import Launch
from wengert.ops.core import ALIAS, LITERAL, STOP_GRADIENT, VARIABLE, placeholder
from wengert.ops.movement import RESHAPE
from wengert.ops.op import PICK, pick
from wengert.plan.pipeline import compiled_plan, planned
from wengert.plan.plan import nested

BOUND = 4096  # of what carries out nodes, kept for the next; the one not used for longest goes first
_SAME_MEMORY = frozenset((RESHAPE, ALIAS, STOP_GRADIENT, VARIABLE))


class _Later:
    """A program that loads its kernels on its first call, so that many can be compiled together."""

    pieces: Any = None

    def _connect(self) -> None:
        pass

    def stands_for(self, node: Node) -> None:
        """Load its kernels if necessary, and attribute failures to this node."""
        if self.pieces is None:
            super()._connect()  # type: ignore[misc]
        super().stands_for(node)  # type: ignore[misc]

    def __call__(self, *arguments: Any, **options: Any) -> list[Any]:
        """Call the program."""
        results: list[Any] = super().__call__(*arguments, **options)  # type: ignore[misc]
        return results


class _Single(_Later, CudaProgram):
    """A program of one node."""


class _CheckedSingle(_Later, CheckedCudaProgram):
    """A program of one node that is compared with its reference."""


Carrier = SingleOpKernel | _Single | _CheckedSingle
_carriers: OrderedDict[Hashable, Carrier | None] = OrderedDict()  # None: a program is needed, which numbers are part of


class Settings(NamedTuple):
    """What the implementation of a node depends on besides the node."""

    device: str
    tf32: bool
    check: bool


def run(order: Sequence[Node], keep: set[Node], failure: Callable[[Exception, Node], Any], settings: Settings) -> None:
    """Give each node of `order` its buffer; nodes not in `keep` are freed after their last use."""
    uses: dict[Node, int] = {}
    for node in order:
        for source in node.sources:
            uses[source] = uses.get(source, 0) + 1
    computed = set(order)
    carriers = _prepared(order, settings)
    for node in order:
        broken = next((s.buffer for s in node.sources if type(s.buffer) is failure), None)
        if broken is not None:
            node.buffer = broken
        elif node.op is not LITERAL or node in keep:
            watch.node = node
            try:
                node.buffer = _computed(node, carriers.get(node), settings)
                if mode().checks_nans:
                    check_nans(node, [_on_host(source) for source in node.sources], _on_host(node))
            except (CompilerError, CudaError) as error:  # of what serves many nodes: the line is this one's
                node.buffer = failure(type(error)(error.message, node.location), node)
            except Exception as error:
                node.buffer = failure(error, node)
            watch.node = None
        for source in node.sources:
            uses[source] -= 1
            if not uses[source] and source in computed and source not in keep:
                source.buffer = None


def _on_host(node: Node) -> Any:
    """The value of a node as a NumPy array."""
    if node.op is LITERAL:
        return np.asarray(node.attrs["value"], node.dtype)
    parts = node.buffer if type(node.buffer) is tuple else (node.buffer,)
    found = tuple(download(part) if type(part) is DeviceArray else part for part in parts)
    return found if type(node.buffer) is tuple else found[0]


def _prepared(order: Sequence[Node], settings: Settings) -> dict[Node, Carrier]:
    """The implementations of these nodes; new kernels are compiled in parallel.

    A node without an implementation is left out: it fails again, with its error, when it is computed.
    """
    found: dict[Node, Carrier] = {}
    with suppress(Exception):
        for node in order:
            if _is_computed(node):
                found[node] = _carrier(node, settings)
        launches = [launch for carrier in dict.fromkeys(found.values()) for launch in _unconnected(carrier)]
        if launches:
            opened(settings.device).kernels(launches)
    return found


def _unconnected(carrier: Carrier) -> Iterable[Launch]:
    """The launches of programs that were never called."""
    if isinstance(carrier, SingleOpKernel):
        return carrier.launches if carrier.calls is None else ()
    plans = nested(carrier.plan) if carrier.pieces is None else ()
    return [launch for plan in plans for step in plan.steps for launch in step.launches]


def _is_computed(node: Node) -> bool:
    """Whether a node needs kernels: it is not a number, a part of a value, or a renamed value."""
    if node.op is LITERAL or node.op is PICK:
        return False
    return node.op not in _SAME_MEMORY or node.sources[0].op is LITERAL


def _given(node: Node) -> list[Node]:
    """The arguments of a node's program."""
    return list(dict.fromkeys(source for source in node.sources if source.op is not LITERAL))


def _computed(node: Node, carrier: Carrier | None, settings: Settings) -> Any:
    sources, device = node.sources, settings.device
    if node.op is LITERAL:
        return upload(np.asarray(node.attrs["value"], node.dtype), device)
    if node.op is PICK:
        return sources[0].buffer[node.attrs["index"]]
    if not _is_computed(node):
        array = sources[0].buffer
        array = array if type(array) is DeviceArray else upload(array, device)
        return array.reshape(node.shape)
    carrier = carrier or _carrier(node, settings)
    if isinstance(carrier, SingleOpKernel):
        return _by_prebuilt(node, carrier, settings.check)
    carrier.stands_for(node)
    results = carrier([source.buffer for source in _given(node)])
    return tuple(results) if isinstance(node.dtype, tuple) else results[0]


def _by_prebuilt(node: Node, carrier: SingleOpKernel, check: bool) -> DeviceArray:
    """Compute a node by kernels that take sizes as arguments, compared with its reference if requested."""
    arrays = [_number(source) if source.op is LITERAL else source.buffer for source in node.sources]
    result = carrier(arrays, node)
    if check:
        _check(node, result, ", ".join(dict.fromkeys(launch.entry for launch in carrier.launches)))
    return result


def _check(node: Node, result: DeviceArray, kernels: str) -> None:
    """Raise an error if a result differs from the node's reference or the device failed; waits for the device."""
    try:
        found = download(result)
    except CudaError as error:
        stored = f"{node.op.name} {describe_type(node)}"
        raise CudaError(f"check: {kernels}, which computes {stored}: {error.message}", node.location) from None
    problem = difference(found, reference_of(node, [_on_host(source) for source in node.sources]))
    if problem:
        raise wrong(f"{kernels},", node, problem)


def _number(literal: Node) -> np.ndarray[Any, Any]:
    return np.asarray(literal.attrs["value"], literal.dtype)


def _carrier(node: Node, settings: Settings) -> Carrier:
    """The implementation of a node: prebuilt kernels for its shapes, or a program of one node."""
    types = tuple([(source.shape, source.dtype) for source in node.sources])
    key = (node.op, _attributes(node), settings, types)
    carrier = _kept(key, lambda: _prebuilt(node, settings))
    if carrier is not None:
        return carrier
    given = _given(node)
    sources = tuple([repr(s.attrs["value"]) if s.op is LITERAL else given.index(s) for s in node.sources])
    program = _kept((key, sources), lambda: _program(node, given, settings))
    assert program is not None
    return program


def _kept(key: Hashable, make: Callable[[], Carrier | None]) -> Carrier | None:
    if key not in _carriers:
        _carriers[key] = make()
        if len(_carriers) > BOUND:
            _carriers.popitem(last=False)
    _carriers.move_to_end(key)
    return _carriers[key]


def _prebuilt(node: Node, settings: Settings) -> SingleOpKernel | None:
    sources = tuple([placeholder(source.shape, source.dtype) for source in node.sources])
    single = Node(node.op, sources, node.attrs, node.shape, node.dtype, node.device, False, None)
    work = prebuilt.work(single, opened(settings.device).properties)
    return None if work is None else SingleOpKernel(single, work, settings.device)


def _program(node: Node, given: Sequence[Node], settings: Settings) -> Carrier:
    kind = _CheckedSingle if settings.check else _Single
    graph = _graph_of(node, given, settings.device)
    target = target_of(settings.device, settings.tf32)
    if node.op.collective:  # which passes prepare; sums are added in the order that every engine on the host has
        target = replace(target.with_invariance(True), overlaps=current.on_device is not None)
    plan = compiled_plan if node.op.collective or bodies_of(node) else planned  # the passes go through bodies, too
    return kind(plan(graph, target, codegen_with()), captures=False)


def _attributes(node: Node) -> Hashable:
    """The attributes of a node as part of a cache key, with bodies represented by what they compute."""
    if bodies_of(node):
        return frozen_attributes(node.attrs)
    return tuple((name, value if isinstance(value, Hashable) else repr(value)) for name, value in node.attrs.items())


def _graph_of(node: Node, given: Sequence[Node], device: str) -> Graph:
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
