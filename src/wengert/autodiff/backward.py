"""`backward()`: reverse mode from one value to all leaves behind it, into their `grad` slots; and grad modes.

It is the step's flush: gradients, pending updates and every live value are computed together, and the graph is let go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wengert.autodiff.forward import or_zero
from wengert.autodiff.reverse import leaves_of, raise_released, walk
from wengert.core.errors import GradientError, ShapeError
from wengert.core.graph import RELEASED, Node, recorded_as, recording
from wengert.ops.core import as_node, cast, literal
from wengert.ops.movement import broadcast_to
from wengert.tensor import Tensor, engine


def backward(tensor: Tensor, gradient: Any, *, retain_graph: bool, create_graph: bool) -> None:
    """Add the gradient of a value to `grad` of every leaf it was computed from, and compute all of them."""
    root = tensor.node
    order = _tracked_history(root)
    leaves = leaves_of(order)
    with recorded_as(recording.location, create_graph):
        seed = _seed(root, gradient)
        cotangents = walk(order, [(root, seed)], leaves)
        for leaf, cotangent in zip(leaves, cotangents):
            slot = leaf.attrs["slot"]()
            if slot is not None:
                accumulate_grad(slot, or_zero(cotangent, leaf))
    recording.cut = len(recording.pending)
    if recording.trace is None:  # abstract values cannot be computed, and what records them lets go of them
        engine.flush(frozenset() if retain_graph else frozenset(order))
        if not retain_graph:
            release(order)
    elif recording.trace.static is not None and not retain_graph:
        recording.trace.static.let_go.update(order)


def accumulate_grad(slot: Tensor, cotangent: Node) -> None:
    """Add a cotangent to a slot's `grad`."""
    if slot.grad is None:
        slot.grad = Tensor(cotangent)
    else:
        slot.grad.assign(Tensor(slot.grad.node + cotangent))


def _tracked_history(root: Node) -> list[Node]:
    """The tracked nodes that a value was made from, in topological order."""
    if not root.tracked:
        raise GradientError(
            "backward: this value was not computed from any tensor that requires grad (or it was under no_grad). "
            "Make one with wg.tensor(..., requires_grad=True), or set x.requires_grad = True before computing"
        )
    found: set[Node] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node.tracked and node not in found:
            if node.sources is RELEASED:
                raise_released(node)
            found.add(node)
            stack.extend(node.sources)
    return sorted(found, key=lambda node: node.serial)


def _seed(root: Node, gradient: Any) -> Node:
    if gradient is None:
        if root.size != 1:
            raise ShapeError(
                f"backward: the value has shape {root.shape}; a gradient starts from one number. "
                "Reduce it with sum() or mean(), or pass backward(gradient) of that shape"
            )
        return broadcast_to(literal(1, root.dtype, root.device), root.shape)
    seed = cast(as_node(gradient), root.dtype)
    if seed.shape != root.shape:
        raise ShapeError(f"backward: the gradient has shape {seed.shape}, the value {root.shape}")
    return seed


def release(order: Sequence[Node]) -> None:
    """Let go of a graph: what is held elsewhere keeps its value and loses its history."""
    kept = set(leaves_of(order))
    for node in order:
        if node not in kept:
            node.sources = RELEASED


@contextmanager
def no_grad() -> Iterator[None]:
    """Inside, nothing is tracked for gradients.

    >>> import wengert as wg
    >>> x = wg.tensor(2.0, requires_grad=True)
    >>> with wg.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """
    with recorded_as(recording.location, False, recording.autocast):
        yield


@contextmanager
def enable_grad() -> Iterator[None]:
    """Inside, values are tracked for gradients again, also within `no_grad`."""
    with recorded_as(recording.location, True, recording.autocast):
        yield


engine.backward = backward
