"""Dynamic execution: a flush computes the value that is read, and every pending Tensor that is still alive.

In: the requested nodes and this thread's pending Tensors. Out: their buffers. Nodes run one at a time by their
references, in the order of recording. A value is freed after its last use, unless
- a live Tensor names it,
- or a later backward will need it: it is the output of an expensive op with a tracked source. Cheap tracked values are
  recomputed when they are needed.

A computed node that no gradient passes through, because it or all of its sources are untracked, drops its sources. A
node that fails is poisoned: it raises when it is read, and the other nodes continue.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import numpy as np

from wengert.autodiff.reverse import raise_released
from wengert.core import devices
from wengert.core.context import Setting, mode
from wengert.core.errors import (
    AbstractValueError,
    CompilerError,
    ComputationError,
    CudaError,
    DistributedError,
    NaNError,
    OutOfMemoryError,
)
from wengert.core.evaluation import computation_error, watch
from wengert.core.forking import new_rlock
from wengert.core.graph import RELEASED, Node, Trace, has_array, recording
from wengert.core.placement import ShardedArray
from wengert.ops.core import PLACEHOLDER, VARIABLE
from wengert.ops.counting import finder
from wengert.runtime.config import config
from wengert.runtime.dynamic.parts import Part, parts
from wengert.runtime.dynamic.tiers import run_compiled
from wengert.tensor import engine

_lock = new_rlock()


_OURS = (NaNError, AbstractValueError, ComputationError, OutOfMemoryError, CompilerError, CudaError)


class Failure:
    """The content of the buffer of a node that could not be computed.

    It does not refer to the node, and our own errors are kept without their traceback, which would keep everything in
    memory at that point alive.
    """

    __slots__ = ("error", "location", "op")

    def __init__(self, error: Exception, node: Node) -> None:
        self.op, self.location = node.op.name, node.location
        self.error = type(error)(error.message, error.location) if isinstance(error, _OURS) else error


def host_value(node: Node) -> np.ndarray[Any, Any]:
    """The array of a node on the host, copied from its device if necessary."""
    array = value(node)
    return array if isinstance(array, np.ndarray) else devices.on_host(array)


def value(node: Node) -> Any:
    """The array of a node on its device; computes it, and everything else that is pending, if necessary."""
    if recording.trace is not None and recording.trace.static is not None:
        _require_constant(node, recording.trace.static)
    if node.buffer is None:
        flush([node])
    if type(node.buffer) is Failure:
        raise_failure(node.buffer)
    return node.buffer.whole(devices.on_host) if type(node.buffer) is ShardedArray else node.buffer


def raise_failure(failure: Failure) -> None:
    """Raise a failed node's error again, naming the op and the line that recorded it."""
    error = failure.error
    if isinstance(error, DistributedError):  # with all that it says of ranks; nothing goes on after it
        raise error.with_traceback(None)
    if isinstance(error, _OURS):
        raise type(error)(error.message, error.location)
    raise computation_error(failure.op, error, failure.location) from error


def places(node: Node) -> Any | None:
    """The indices of the nonzero elements, computed at once; None while something records, checks or watches."""
    if recording.trace is not None or watch.observer is not None or config.check or mode().checks_nans:
        return None
    if node.buffer is None:
        with suppress(AbstractValueError):  # reading it raises an error that says what to do
            flush([node])
    array = node.buffer
    return devices.of(node.device).places(array) if has_array(node) and type(array) is not ShardedArray else None


def flush(asked: Sequence[Node] = (), upto: int | None = None, released: Container[Node] | None = None) -> None:
    """Compute these nodes and the pending Tensors that are alive (the first `upto` of them).

    `released` are the nodes of a graph that a backward pass is about to free; none of them is kept.
    """
    pending = recording.pending
    recording.pending = pending[upto:] if upto is not None else []
    recording.cut = 0
    alive = (slot() for slot in pending[:upto])
    targets = [tensor.node for tensor in alive if tensor is not None]
    with _lock:
        compute([*asked, *targets], asked, released)


def flush_pending(released: Container[Node] | None = None) -> None:
    """Compute pending values before they exceed their bound: up to the last assignment or backward pass, if there was
    one. In `eager` the bound is 0, so everything is computed.
    """
    flush((), (recording.cut or None) if mode().limit else None, released)


def compute(targets: Sequence[Node], asked: Sequence[Node], released: Container[Node] | None = None) -> None:
    """Compute the buffer of every target."""
    order = _unrealized(targets)
    abstract = _abstract(order)
    if abstract:
        for node in asked:
            if node in abstract:
                _raise_abstract(node)
        targets = [node for node in targets if node not in abstract]
        order = _unrealized(targets)
    if ShardedArray.made:
        order = _not_named_anew(order)
    if not order:
        return
    with gathered(order) if ShardedArray.made else nullcontext():
        _compute(order, targets, released)


def _not_named_anew(order: Sequence[Node]) -> list[Node]:
    """The nodes that are more than sharded values under other names; those get the values as they lie, not gathered."""
    rest = []
    for node in order:
        held = node.sources[0].buffer if node.op.kind == "identity" else None
        if type(held) is not ShardedArray or node.device != node.sources[0].device:
            rest.append(node)
            continue
        node.buffer = held
        if not (node.tracked and node.sources[0].tracked):
            node.sources = ()
    return rest


@contextmanager
def gathered(order: Sequence[Node]) -> Iterator[None]:
    """A context in which these nodes read sharded values as whole."""
    sources = {source for node in order for source in node.sources if type(source.buffer) is ShardedArray}
    held = [(source, source.buffer) for source in sorted(sources, key=lambda source: source.serial)]
    try:
        for source, array in held:
            source.buffer = array.whole(devices.on_host)
        yield
    finally:
        for source, array in held:
            source.buffer = array


def _compute(order: list[Node], targets: Sequence[Node], released: Container[Node] | None) -> None:
    keep = set(targets)
    keep.update(node for node in _wanted_by_backward(order) if released is None or node not in released)
    keep.update(_behind_variables(order))
    if config.invariant:  # what reads several results in one would be interpreted: they are computed again instead
        keep = {node for node in keep if not isinstance(node.dtype, tuple)}
    found = parts(order, keep)
    for part in found:
        _run_part(part, is_step=released is not None)
    for part in found:  # what one part had to keep for another
        for node in part.keep - keep:
            node.buffer = None
    for node in keep:
        if node.buffer is None or node.sources is RELEASED:
            continue
        if not (node.tracked and any(source.tracked for source in node.sources)):
            node.sources = ()


def _run_part(part: Part, is_step: bool) -> None:
    """Compute the nodes of one device, or move a value."""
    if part.is_move:
        _move(part.order[0])
        return
    order = [node for node in part.order if node.buffer is None]
    if mode().checks_nans or not run_compiled(order, part.keep, is_step):
        device = devices.of(part.device)
        device.interpret(order, part.keep, Failure, tf32=config.tf32, check=config.check)


def _move(node: Node) -> None:
    """Take a value to another device."""
    array = node.sources[0].buffer
    if type(array) is not Failure:
        try:
            array = devices.moved(array, node.device)
        except Exception as error:
            array = Failure(error, node)
    node.buffer = array


def _unrealized(targets: Iterable[Node]) -> list[Node]:
    """The targets and their ancestors that have no buffer, in order."""
    found: set[Node] = set()
    stack = list(targets)
    while stack:
        node = stack.pop()
        if node.buffer is None and node not in found:
            if node.sources is RELEASED:
                raise_released(node)
            found.add(node)
            stack.extend(node.sources)
    return sorted(found, key=lambda node: node.serial)


def _abstract(order: Sequence[Node]) -> set[Node]:
    """The nodes that depend on a placeholder."""
    if not any(node.op is PLACEHOLDER for node in order):
        return set()
    abstract: set[Node] = set()
    for node in order:
        if node.op is PLACEHOLDER or not abstract.isdisjoint(node.sources):
            abstract.add(node)
    return abstract


def _raise_abstract(node: Node) -> None:
    trace = recording.trace
    if trace is None:
        raise AbstractValueError(
            "this tensor is abstract and has no value: it escaped from a function that compile, vmap, scan, cond or "
            "similar was recording. Return it from that function, or assign it to a tensor created outside: "
            "state.assign(value)",
            node.location,
        )
    raise AbstractValueError(
        f"a value was read inside a function that {trace.name} records with abstract inputs, so it is not known yet. "
        "Branch with wg.where or wg.cond, loop with wg.scan or wg.while_loop, or read it outside"
    )


def _require_constant(node: Node, trace: Trace) -> None:
    """Raise an error if a value looked at in a static recording is one that may be another when its program runs again:
    if it depends on a tensor from outside.
    """
    stack, found = [node], {node}
    while stack:
        node = stack.pop()
        if node.serial < trace.start:
            owner = None if node.owner is None else node.owner()
            if owner is not None:
                _raise_abstract(node)
            continue
        fresh = [source for source in node.sources if source not in found]
        found.update(fresh)
        stack += fresh


def _wanted_by_backward(order: Sequence[Node]) -> Iterator[Node]:
    for node in order:
        if node.op.expensive and node.tracked:
            yield node
        if node.tracked:
            for source in node.sources:
                if source.op.expensive:
                    yield source


def _behind_variables(order: Sequence[Node]) -> Iterator[Node]:
    """The values of variables. Once computed they drop their history; otherwise it would grow with every update."""
    for node in order:
        if node.op is VARIABLE and not node.sources[0].tracked:
            yield node.sources[0]


def eager() -> AbstractContextManager[None]:
    """A context in which every op is computed as it is recorded, for debugging: errors are raised on the line that
    caused them.

    >>> import wengert as wg
    >>> with wg.eager():
    ...     y = wg.exp(wg.tensor(0.0))
    >>> y.node.buffer is not None
    True
    """
    return Setting("limit", 0)


def synchronize() -> None:
    """Compute everything pending in this thread, and wait until the GPUs in use have finished their work.

    >>> import wengert as wg
    >>> y = wg.ones(3) * 2
    >>> wg.synchronize()
    >>> y.tolist()
    [2.0, 2.0, 2.0]
    """
    flush()
    devices.synchronize()


engine.value = host_value
engine.array = value
engine.flush = flush_pending
engine.changed = config.changed
finder.places = places
