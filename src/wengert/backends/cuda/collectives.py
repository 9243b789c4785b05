"""Collectives on a GPU in a plan: calls of the world's engine, enqueued on the stream like library calls.

A CUDA graph captures them after their dependencies and beside kernels. The communicator of a group is created when a
call is first made, which all ranks do in the same order, because connecting is itself collective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from wengert.compiler.contiguous_collectives import ENGINE_SUMS, is_first
from wengert.core.code import Location
from wengert.core.communication import DeviceCommunicator, current, device_communicator
from wengert.core.devices import is_host
from wengert.core.dtypes import INEXACT
from wengert.core.graph import Node
from wengert.ops.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_REDUCE_MANY,
    ALL_REDUCE_MAX,
    ALL_TO_ALL,
    PPERMUTE,
    REDUCE_SCATTER,
)
from wengert.ops.op import Op
from wengert.plan.collectives import starts_collective
from wengert.plan.plan import Step

Enqueue = Callable[[DeviceCommunicator, Node, Sequence[int], int], None]


class CollectiveCalls:
    """Runs the collectives of a world that has an engine for GPUs."""

    def call(self, node: Node) -> CollectiveCall | None:
        """The engine call for a collective; None if the host has to permute blocks, add, or look for NaN."""
        found = _CALLS.get(node.op)
        if found is None or is_host(node.device) or node.attrs["group"].size == 1 or not _is_possible(node):
            return None
        return CollectiveCall(node, found)


class CollectiveCall:
    """One collective, as the only candidate for its step."""

    works = True
    workspace = 0

    def __init__(self, node: Node, put: Enqueue) -> None:
        self.node, self.put = node, put
        self.name = f"NCCL {node.op.name}"

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Enqueue it on a stream."""
        self.put(device_communicator(self.node.attrs["group"]), self.node, pointers, stream)


def _is_possible(node: Node) -> bool:
    """Whether an engine runs it directly, in the form that `contiguous_collectives` leaves."""
    x = node.sources[0]
    sums = x.dtype in ENGINE_SUMS or x.dtype.kind == "b"
    if node.op is ALL_GATHER:
        return is_first(x.shape, node.attrs["axis"])
    if node.op is REDUCE_SCATTER:
        return sums and is_first(x.shape, node.attrs["axis"])
    if node.op is ALL_TO_ALL:
        return is_first(x.shape, node.attrs["split"]) and is_first(node.shape, node.attrs["join"])
    if node.op is ALL_REDUCE_MAX:
        return sums and x.dtype not in INEXACT
    return sums or node.op is PPERMUTE


# --- calls ------------------------------------------------------------------------------------------------------------


def _bytes(node: Node) -> int:
    return node.size * int(node.dtype.itemsize)


def _all_reduce(to: DeviceCommunicator, node: Node, at: Sequence[int], stream: int) -> None:
    count = len(node.sources)
    to.all_reduce(at[:count], at[count:], [x.size for x in node.sources], node.sources[0].dtype, stream)


def _all_reduce_max(to: DeviceCommunicator, node: Node, at: Sequence[int], stream: int) -> None:
    to.all_reduce_max(at[0], at[1], node.size, node.dtype, stream)


def _all_gather(to: DeviceCommunicator, node: Node, at: Sequence[int], stream: int) -> None:
    to.all_gather(at[0], at[1], _bytes(node.sources[0]), stream)


def _reduce_scatter(to: DeviceCommunicator, node: Node, at: Sequence[int], stream: int) -> None:
    to.reduce_scatter(at[0], at[1], node.size, node.dtype, stream)


def _ppermute(to: DeviceCommunicator, node: Node, at: Sequence[int], stream: int) -> None:
    to.ppermute(at[0], at[1], _bytes(node), node.attrs["shift"], stream)


def _all_to_all(to: DeviceCommunicator, node: Node, at: Sequence[int], stream: int) -> None:
    to.all_to_all(at[0], at[1], _bytes(node) // to.size, stream)


_CALLS: dict[Op, Enqueue] = {
    ALL_REDUCE: _all_reduce,
    ALL_REDUCE_MANY: _all_reduce,
    ALL_REDUCE_MAX: _all_reduce_max,
    ALL_GATHER: _all_gather,
    REDUCE_SCATTER: _reduce_scatter,
    PPERMUTE: _ppermute,
    ALL_TO_ALL: _all_to_all,
}

# --- what a program launches ------------------------------------------------------------------------------------------


class ProgramCollectives(NamedTuple):
    """The collectives that a program enqueues on every call, for reporting to the world's engine."""

    name: str
    calls: int
    bytes: int  # that a rank puts in
    location: Location

    def tell(self, driver: Any) -> None:
        """Report that they were enqueued."""
        if current.on_device is not None:
            current.on_device.launched(driver, *self)


def launched_by(steps: Iterable[Step]) -> ProgramCollectives | None:
    """The collectives that steps launch; None if there are none."""
    nodes = [_node_of(step) for step in steps if starts_collective(step)]
    if not nodes:
        return None
    size = sum(_bytes(source) for node in nodes for source in node.sources)
    name = nodes[0].op.name if len(nodes) == 1 else f"a program with {len(nodes)} collectives"
    return ProgramCollectives(name, len(nodes), size, nodes[0].location)


def _node_of(step: Step) -> Node:
    assert step.library is not None and isinstance(step.library.candidate, CollectiveCall)
    return step.library.candidate.node
