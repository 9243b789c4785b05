"""Forward mode: the same walk the other way, carrying tangents.

In: outputs, the nodes to move along and their tangents. Out: the outputs' tangents, or None where nothing moves. A
linear op's tangent is itself; an op that only has a cotangent rule gets its tangent by transposing that rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wengert.autodiff.reverse import differentiable_path, or_zero, pull_back, require_real, reverse
from wengert.core.graph import Node, recorded_as, recording
from wengert.ops.core import cast, placeholder
from wengert.ops.elementwise import add
from wengert.ops.movement import broadcast_to

Tangent = Any  # a Node; for a node with several results a list of Nodes and Nones


def forward(outputs: Sequence[Node], inputs: Sequence[Node], tangents: Sequence[Node | None]) -> list[Tangent | None]:
    """The tangents of the outputs, given those of the inputs."""
    moved: dict[Node, Tangent] = {node: t for node, t in zip(inputs, tangents) if t is not None}
    own = set(inputs)
    with recorded_as(recording.location, recording.grad):
        path = differentiable_path(outputs, inputs)
        needed = _leading_to(outputs, path)
        for node in path:
            if node in own or node not in needed:
                continue
            sources = [moved.get(source) for source in node.sources]
            if any(tangent is not None for tangent in sources):
                recording.location = node.location
                tangent = push_forward(node, sources)
                if tangent is not None:
                    moved[node] = _fit(tangent, node)
    return [moved.get(node) for node in outputs]


def _leading_to(outputs: Sequence[Node], path: Sequence[Node]) -> set[Node]:
    """The nodes of a path whose tangents reach the outputs: not those that only a stop_gradient reads."""
    needed = set(outputs)
    for node in reversed(path):
        if node in needed:
            needed.update(node.sources)
    return needed


def _fit(tangent: Tangent, node: Node) -> Tangent:
    """A tangent has its node's shape and dtype."""
    if isinstance(tangent, (list, tuple)):
        return list(tangent)
    return cast(broadcast_to(tangent, node.shape), node.dtype)


def push_forward(node: Node, tangents: Sequence[Tangent | None]) -> Tangent | None:
    """The tangent of a node, given its sources'."""
    op, sources = node.op, node.sources
    if not op.complex:
        require_real(node)
    if op.linear:
        moved = [or_zero(t, s) if i in op.linear else s for i, (t, s) in enumerate(zip(tangents, sources))]
        return op(*moved, **node.attrs)
    if op.multilinear:
        return _multilinear_tangent(node, tangents)
    if op.jvp is not None:
        return op.jvp(tangents, node, *sources)
    return _transposed_vjp(node, tangents)


def _multilinear_tangent(node: Node, tangents: Sequence[Tangent | None]) -> Tangent | None:
    total = None
    for i in node.op.multilinear:
        tangent = tangents[i]
        if tangent is not None:
            term = node.op(*(*node.sources[:i], tangent, *node.sources[i + 1 :]), **node.attrs)
            total = term if total is None else add(total, term)
    return total


def _transposed_vjp(node: Node, tangents: Sequence[Tangent | None]) -> Tangent | None:
    """The tangent from the cotangent rule: it is linear in the cotangent, and walking back through it transposes it."""
    several = isinstance(node.dtype, tuple)
    with recorded_as(recording.location, True):
        if several:
            seed: Any = [placeholder(s, d, node.device) for s, d in zip(node.shape, node.dtype)]
        else:
            seed = placeholder(node.shape, node.dtype, node.device)
        moving = {s for s, t in zip(node.sources, tangents) if t is not None}
        images = pull_back(node, seed, moving)
    # a cotangent that the walk would still sum over broadcast axes: the transpose of that is to broadcast the tangent
    pairs = [(i, broadcast_to(t, i.shape)) for i, t in zip(images, tangents) if i is not None and t is not None]
    seeds = seed if several else [seed]
    results = reverse([i for i, _ in pairs], [t for _, t in pairs], seeds)
    return results if several else results[0]
