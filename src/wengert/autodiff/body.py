"""Bodies: functions recorded into closed graphs, for the ops that carry a graph (control flow, checkpoint).

A body's inputs are placeholders, first those for what it captured from outside (its constants). Its transforms are
bodies again: the rules of those ops are built from `tangent_body`, `cotangent_body` and `batched_body`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from wengert.autodiff.batching import batch
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import or_zero, reverse
from wengert.core import tree
from wengert.core.dtypes import INEXACT
from wengert.core.errors import ArgumentError, DTypeError, GradientError, ShapeError, WengertError
from wengert.core.graph import Graph, Node, describe_type, now, recorded_as, recording, tracing
from wengert.ops.core import as_node, placeholder, to_device
from wengert.ops.movement import broadcast_to
from wengert.tensor import Tensor, family_of


class RecordedBody(NamedTuple):
    """A function recorded on abstract inputs: its graph, the structure of its result, and the slots it assigned."""

    graph: Graph
    structure: tree.Structure
    assigned: dict[Any, Node]
    family: type[Tensor]  # of the result's leaves


def record(name: str, function: Callable[..., Any], inputs: Sequence[Any], slots: Sequence[Any] = ()) -> RecordedBody:
    """Record `function` on placeholders for the leaves of `inputs` and for the slots it is known to assign.

    The graph's inputs are those placeholders, and its outputs are the leaves of the result.
    """
    since = now()
    leaves, structure = tree.flatten(inputs)
    with recorded_as(recording.location, True, recording.autocast), tracing(name) as trace:
        abstract = [placeholder_like(as_node(leaf)) for leaf in leaves]
        state = [placeholder_like(slot.node) for slot in slots]
        for slot, node in zip(slots, state):
            slot._put(node)
        seen = [family_of((leaf,))(node) for leaf, node in zip(leaves, abstract)]
        result = function(*tree.unflatten(structure, seen))
        outputs, shape = tree.flatten(result)
        nodes = [as_node(leaf) for leaf in outputs]
        graph = Graph([*state, *abstract], nodes, since)
        assigned = trace.assigned()
    return RecordedBody(graph, shape, assigned, family_of(outputs))


def record_step(name: str, function: Callable[..., Any], inputs: Sequence[Any]) -> tuple[RecordedBody, list[Any]]:
    """Record one step of a loop. The slots that it assigns are carried from step to step, as inputs."""
    slots: list[Any] = []
    while True:  # a slot that is an input may have the step assign others
        step = record(name, function, inputs, slots)
        new = [slot for slot in step.assigned if slot not in set(slots)]
        if not new:
            return step, slots
        slots += new


def with_slots(recorded: RecordedBody, slots: Sequence[Any]) -> Graph:
    """The graph whose outputs are the final values of the slots, followed by the function's result."""
    graph = recorded.graph
    values = [recorded.assigned.get(slot, slot.node) for slot in slots]
    return Graph(graph.inputs, [*values, *graph.outputs], beginning(graph))


def put_slots(slots: Sequence[Any], results: Sequence[Node]) -> None:
    """Assign the slots their values after a loop or branch."""
    for slot, node in zip(slots, results):
        slot._put(node if node.device == slot.node.device else to_device(node, slot.node.device))


def as_tensors(values: Any) -> Any:
    """A nested container with its numbers and arrays as Tensors too."""
    return tree.map(lambda leaf: leaf if isinstance(leaf, Tensor) else Tensor(as_node(leaf)), values)


def placeholder_like(node: Node) -> Node:
    """A placeholder with a node's shape, dtype and device."""
    return placeholder(node.shape, node.dtype, node.device)


def beginning(graph: Graph) -> int:
    """The serial number of the oldest node that belongs to a graph."""
    return min((node.serial for node in (*graph.inputs, *graph.nodes)), default=now())


def close(graph: Graph) -> tuple[Graph, list[Node]]:
    """The graph with its captured nodes prepended to its inputs, and those captured nodes."""
    constants = graph.captured()
    return close_over(graph, constants), constants


def close_over(graph: Graph, constants: Sequence[Node]) -> Graph:
    """The graph with these captured nodes prepended to its inputs."""
    since = now()
    fresh = [placeholder(c.shape, c.dtype, c.device, tracked=c.tracked) for c in constants]
    inputs = [placeholder_like(node) for node in graph.inputs]
    outputs = graph.inline(*inputs, captured=list(zip(constants, fresh)))
    return Graph([*fresh, *inputs], outputs, since)


def with_outputs(graph: Graph, outputs: Sequence[Node]) -> Graph:
    """The graph with other outputs."""
    return Graph(graph.inputs, outputs, min((node.serial for node in graph.inputs), default=0))


def has_tangents(node: Node) -> bool:
    """Whether a node has tangents."""
    return node.dtype in INEXACT


def tangent_body(body: Graph) -> Graph:
    """A graph from the inputs and their tangents to the outputs and theirs, for those inputs and outputs that have
    tangents."""
    since = now()
    with recorded_as(recording.location, True):
        inputs = [placeholder_like(node) for node in body.inputs]
        moving = [node for node in inputs if has_tangents(node)]
        tangents = [placeholder_like(node) for node in moving]
        outputs = body.inline(*inputs)
        moved = forward(outputs, moving, tangents)
        images = [or_zero(t, o) for o, t in zip(outputs, moved) if has_tangents(o)]
    return Graph([*inputs, *tangents], [*outputs, *images], since)


def cotangent_body(body: Graph, seeded: Collection[int] | None = None) -> Graph:
    """A graph from the inputs and the outputs' cotangents to the inputs' cotangents, where they have some.

    `seeded` has the indices of the outputs whose cotangents are not known to be zero; the default is all.
    """
    since = now()
    with recorded_as(recording.location, True):
        inputs = [placeholder_like(node) for node in body.inputs]
        outputs = body.inline(*inputs)
        floating = [node for i, node in enumerate(outputs) if has_tangents(node) and (seeded is None or i in seeded)]
        seeds = [placeholder_like(node) for node in floating]
        wanted = [node for node in inputs if has_tangents(node)]
        found = reverse(floating, seeds, wanted)
        images = [or_zero(c, node) for node, c in zip(wanted, found)]
    return Graph([*inputs, *seeds], images, since)


def batched_body(
    body: Graph, lanes: int, batched: Sequence[bool], force: Sequence[bool] | None = None
) -> tuple[Graph, list[bool]]:
    """The body over lanes, given which inputs are batched; also returns which outputs then are.

    Outputs in `force` are broadcast over the lanes if they are not batched.
    """
    since = now()
    with recorded_as(recording.location, True):
        inputs = [
            placeholder((lanes, *n.shape) if b else n.shape, n.dtype, n.device) for n, b in zip(body.inputs, batched)
        ]
        replaced = [i if not b else placeholder_like(n) for i, n, b in zip(inputs, body.inputs, batched)]
        outputs = body.inline(*replaced)
        over = batch(outputs, {r: i for r, i, b in zip(replaced, inputs, batched) if b})
        results, flags = [], []
        for k, (node, whole) in enumerate(zip(outputs, over)):
            if whole is None and force is not None and force[k]:
                whole = broadcast_to(node, (lanes, *node.shape))
            results.append(node if whole is None else whole)
            flags.append(whole is not None)
    return Graph(inputs, results, since), flags


def require_carry(name: str, slots: int, before: Sequence[Node], after: Sequence[Node]) -> None:
    """Raise an error unless a loop's step returns a carry of the same type; assigned slots come first."""
    if len(before) != len(after):
        raise ArgumentError(f"{name}: a step takes {len(before) - slots} values but returns {len(after) - slots}")
    for i, (a, b) in enumerate(zip(before, after)):
        if a.shape == b.shape and a.dtype == b.dtype:
            continue
        what = (
            "a tensor that a step assigns"
            if i < slots
            else f"carry {i - slots}"
            if len(after) - slots > 1
            else "the carry"
        )
        if a.shape != b.shape:
            error: type[WengertError] = ShapeError
            hint = "Give it one shape from the start, e.g. with wg.broadcast_to or wg.zeros"
        else:
            error = DTypeError
            hint = f"Start with {b.dtype}, or cast in the step: .to(wg.{a.dtype})"
        raise error(
            f"{name}: {what} enters a step as {describe_type(a)} but leaves it as {describe_type(b)}. {hint}",
            b.location,
        )


def require_same(name: str, what: str, expected: Sequence[Node], found: Sequence[Node]) -> None:
    """Raise an error unless two lists of nodes agree in length, shapes and dtypes."""
    if len(expected) != len(found):
        raise GradientError(f"{name}: {what}: got {len(found)} values, expected {len(expected)}")
    for a, b in zip(expected, found):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise GradientError(
                f"{name}: {what}: got {b.dtype}{list(b.shape)}, expected {a.dtype}{list(a.shape)}", b.location
            )
