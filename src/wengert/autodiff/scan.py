"""`scan`: a loop with a carry that stays in the graph, differentiable in both modes, any number of times.

The op's sources are the body's constants, the initial carry and the inputs to step over; its results the final carry,
the stacked outputs and, where something is tracked, the carry each step began with, as further outputs: the walk back
steps through those, running the body's cotangents in the other direction. If they would take too much memory, the scan
is split into `segments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.autodiff import body as bodies
from wengert.autodiff import segments
from wengert.autodiff.reverse import or_zero, zero_like
from wengert.core import tree
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Graph, Node, now, recorded_as, recording
from wengert.ops.core import LITERAL, literal
from wengert.ops.elementwise import add
from wengert.ops.movement import broadcast_to, moveaxis
from wengert.ops.op import PACK, Op, count_lanes, picks
from wengert.tensor import Tensor


def scan(
    function: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    memory: Any = None,
) -> tuple[Any, Any]:
    """Apply `function(carry, x) -> (carry, y)` along the leading axis of `xs`; returns the last carry and the stacked
    ys.

    The function is recorded once, whatever the length, so it cannot read values. An outer tensor that it assigns (a
    random generator's counter, running statistics) is carried from step to step.

    A backward pass needs the carry at the start of each step. `memory` limits how many bytes of carries are stored, as
    4_000_000 or "4 MB" (by default 1 GiB); if all of them need more, some are stored and the others recomputed.

    >>> import wengert as wg
    >>> total, partial = wg.scan(lambda c, x: (c + x, c + x), wg.tensor(0.0), wg.tensor([1.0, 2.0, 3.0]))
    >>> total.item(), partial.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    start, items = bodies.as_tensors(init), bodies.as_tensors(xs)
    steps = _length(tree.flatten(items)[0], length)
    one = tree.map(lambda x: x.family(bodies.placeholder_like(_first(x.node))), items)
    step, slots = bodies.record_step("scan", lambda c, x: _checked(function(c, x), c), (start, one))
    carry_structure, y_structure = step.structure.parts
    carries, n = len(tree.flatten(start)[0]), len(slots)
    stepped = bodies.with_slots(step, slots)
    body, constants = bodies.close(stepped)
    initial = [*[slot.node for slot in slots], *[leaf.node for leaf in tree.flatten(start)[0]]]
    bodies.require_carry("scan", n, initial, body.outputs[: n + carries])
    nested = segments.lengths(steps, sum(node.size * node.dtype.itemsize for node in initial), memory)
    sources = constants, initial, [x.node for x in tree.flatten(items)[0]]
    if len(nested) > 1 and recording.grad and any(node.tracked for nodes in sources for node in nodes):
        results = segments.record_segments(body, *sources, steps, reverse, nested)
    else:
        results = record_scan(body, *sources, steps, reverse)
    counts = [_counted(step.graph.inputs[k], stepped.outputs[k]) for k in range(n)]
    bodies.put_slots(slots, [_ahead(*one, steps) for one in zip(slots, counts, results)])
    final, ys = results[n : n + carries], results[n + carries :]
    return (
        tree.unflatten(carry_structure, map(step.family, final)),
        tree.unflatten(y_structure, map(step.family, ys)),
    )


def _counted(before: Node, after: Node) -> int | None:
    """The amount by which a step increments a slot, if it does nothing else to it; else None."""
    total = 0
    while after is not before:
        numbers = [source.attrs["value"] for source in after.sources if source.op is LITERAL]
        if after.op is not add or len(numbers) != 1 or after.dtype.kind not in "iu":
            return None
        total += numbers[0]
        after = next(source for source in after.sources if source.op is not LITERAL)
    return total


def _ahead(slot: Any, count: int | None, result: Node, steps: int) -> Node:
    """The value of a slot after all steps. A counter's value is known on the host, without reading the device."""
    return result if count is None else add(slot.node, literal(count * steps, slot.node.dtype))


def _checked(result: Any, carry: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(f"scan: the function must return (carry, y), not {result!r}")
    before, after = tree.flatten(carry)[1], tree.flatten(result[0])[1]
    if before != after:
        raise ArgumentError(f"scan: the carry enters a step as {before} but leaves it as {after}")
    return result


def _first(node: Node) -> Node:
    if node.ndim == 0:
        raise ShapeError("scan: xs is 0-d and has no axis to step over")
    return Node(node.op, (), node.attrs, node.shape[1:], node.dtype, node.device, node.tracked, node.location)


def _length(leaves: Sequence[Tensor], length: int | None) -> int:
    lengths = {leaf.shape[0] for leaf in leaves if leaf.ndim} | ({length} if length is not None else set())
    if not lengths:
        raise ShapeError("scan: the number of steps is not known: pass xs or length")
    if len(lengths) > 1:
        raise ShapeError(
            f"scan: the leading axes of xs (and length) must all be the number of steps, but they differ: "
            f"{sorted(lengths)}"
        )
    return int(lengths.pop())


def record_scan(
    body: Graph, constants: Sequence[Node], initial: Sequence[Node], xs: Sequence[Node], steps: int, reverse: bool
) -> list[Node]:
    """The results of a scan: the final carries and the stacked outputs."""
    sources = (*constants, *initial, *xs)
    results = len(body.outputs)
    tracked = recording.grad and any(source.tracked for source in sources)
    saved = len(initial) if tracked else 0
    if tracked:
        carries = body.inputs[len(constants) : len(constants) + len(initial)]
        body = bodies.with_outputs(body, [*body.outputs, *carries])
    node = SCAN(
        *sources, body=body, constants=len(constants), carries=len(initial), saved=saved, steps=steps, reverse=reverse
    )
    return list(picks(node))[:results]


def _infer(*sources: Node, body: Graph, constants: int, carries: int, saved: int, steps: int, reverse: bool) -> Any:
    shapes = [n.shape if i < carries else (steps, *n.shape) for i, n in enumerate(body.outputs)]
    return tuple(shapes), tuple(n.dtype for n in body.outputs)


def _numpy(*arrays: Any, body: Graph, constants: int, carries: int, saved: int, steps: int, reverse: bool) -> Any:
    fixed, carry, xs = arrays[:constants], list(arrays[constants : constants + carries]), arrays[constants + carries :]
    stacked = [np.empty((steps, *n.shape), n.dtype) for n in body.outputs[carries:]]
    for i in reversed(range(steps)) if reverse else range(steps):
        results = body(*fixed, *carry, *[x[i, ...] for x in xs])
        carry = results[:carries]
        for column, value in zip(stacked, results[carries:]):
            column[i] = value
    return (*carry, *stacked)


def _split(node: Node) -> tuple[Sequence[Node], Sequence[Node], Sequence[Node]]:
    """A scan's sources: constants, initial carry, xs."""
    c, n = node.attrs["constants"], node.attrs["carries"]
    return node.sources[:c], node.sources[c : c + n], node.sources[c + n :]


def _jvp(tangents: Sequence[Node | None], y: Node, *sources: Node) -> list[Node | None]:
    body = y.attrs["body"]
    c, n = y.attrs["constants"], y.attrs["carries"]
    moving = bodies.tangent_body(body)
    floating = [i for i, node in enumerate(body.inputs) if bodies.has_tangents(node)]
    given = {i: or_zero(tangents[i], sources[i]) for i in floating}
    position = {i: len(body.inputs) + k for k, i in enumerate(floating)}

    def section(start: int, stop: int | None) -> tuple[list[int], list[Node]]:
        """Positions in the moving body's inputs, and values, for a section of the sources and its tangents."""
        own = range(start, len(sources) if stop is None else stop)
        moved = [i for i in own if i in given]
        return [*own, *[position[i] for i in moved]], [*[sources[i] for i in own], *[given[i] for i in moved]]

    fixed, carry, xs = section(0, c), section(c, c + n), section(c + n, None)
    outs = list(range(len(body.outputs)))
    images = {i: len(outs) + k for k, i in enumerate(i for i in outs if bodies.has_tangents(body.outputs[i]))}
    carry_out = [*outs[:n], *[images[i] for i in outs[:n] if i in images]]
    ys_out = [*outs[n:], *[images[i] for i in outs[n:] if i in images]]
    order = [*fixed[0], *carry[0], *xs[0]]
    inner = Graph(
        [moving.inputs[i] for i in order], [moving.outputs[i] for i in (*carry_out, *ys_out)], bodies.beginning(moving)
    )
    results = record_scan(inner, fixed[1], carry[1], xs[1], y.attrs["steps"], y.attrs["reverse"])
    by_output = dict(zip((*carry_out, *ys_out), results))
    return [by_output[images[i]] if i in images else None for i in outs]


def _vjp(g: Sequence[Node | None], y: Node) -> list[Node | None]:
    body = y.attrs["body"]
    constants, initial, xs = _split(y)
    n, results = len(initial), picks(y)
    own = len(body.outputs)
    # of what is stacked, nothing is stepped through that is zero: the carries kept for this are never differentiated
    seeded = [i for i in range(own) if bodies.has_tangents(body.outputs[i]) and (i < n or g[i] is not None)]
    pulled = bodies.cotangent_body(body, seeded)  # inputs: constants, carry, x, then cotangents of these outputs
    seeds = [or_zero(g[i], results[i]) for i in seeded]
    carry_seeds = [s for s, i in zip(seeds, seeded) if i < n]
    y_seeds = [s for s, i in zip(seeds, seeded) if i >= n]
    float_constants = [i for i, c in enumerate(constants) if bodies.has_tangents(c)]
    inner = _adding_up_constants(pulled, len(constants), n, len(xs), len(carry_seeds), len(float_constants))
    saved = results[own - n :]
    totals = [zero_like(constants[i]) for i in float_constants]
    out = record_scan(
        inner, constants, [*carry_seeds, *totals], [*saved, *xs, *y_seeds], y.attrs["steps"], not y.attrs["reverse"]
    )
    found = iter(out)
    by_carry = {i: next(found) for i in range(n) if bodies.has_tangents(initial[i])}
    by_constant = {i: next(found) for i in float_constants}
    by_x = {i: next(found) for i, x in enumerate(xs) if bodies.has_tangents(x)}
    return [
        *[by_constant.get(i) for i in range(len(constants))],
        *[by_carry.get(i) for i in range(n)],
        *[by_x.get(i) for i in range(len(xs))],
    ]


def _adding_up_constants(pulled: Graph, constants: int, carries: int, xs: int, carry_seeds: int, floats: int) -> Graph:
    """The body of the walk back: (constants; cotangents of the carry, sums for the constants; saved carry, x, cotangent
    of y) to (cotangents of the carry, sums for the constants; cotangents of x).
    """
    since = now()
    with recorded_as(recording.location, True):
        inputs = [bodies.placeholder_like(node) for node in pulled.inputs]
        fixed, carry_and_x = inputs[:constants], inputs[constants : constants + carries + xs]
        seeds = inputs[constants + carries + xs :]
        sums = [bodies.placeholder_like(node) for node in fixed if bodies.has_tangents(node)]
        found = pulled.inline(*inputs)
        by_constant, rest = found[:floats], found[floats:]
        by_carry, by_x = rest[:carry_seeds], rest[carry_seeds:]
        totals = [add(total, more) for total, more in zip(sums, by_constant)]
    return Graph(
        [*fixed, *seeds[:carry_seeds], *sums, *carry_and_x, *seeds[carry_seeds:]], [*by_carry, *totals, *by_x], since
    )


def _batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    body, c, n = y.attrs["body"], y.attrs["constants"], y.attrs["carries"]
    lanes = count_lanes(sources, batched)
    flags = list(batched)
    while True:  # a carry that becomes batched in a step is batched from the start
        force = [*flags[c : c + n], *[True] * (len(body.outputs) - n)]
        inner, out = bodies.batched_body(body, lanes, flags, force)
        if all(before or not after for before, after in zip(flags[c : c + n], out)):
            break
        flags[c : c + n] = [a or b for a, b in zip(flags[c : c + n], out)]
    values = [
        broadcast_to(s, (lanes, *s.shape)) if flag and not b else s for s, b, flag in zip(sources, batched, flags)
    ]
    xs = [moveaxis(v, 0, 1) if b else v for v, b in zip(values[c + n :], flags[c + n :])]
    results = record_scan(inner, values[:c], values[c : c + n], xs, y.attrs["steps"], y.attrs["reverse"])
    carries = [r if b else broadcast_to(r, (lanes, *r.shape)) for r, b in zip(results[:n], flags[c : c + n])]
    ys = [moveaxis(r, 1, 0) for r in results[n:]]
    return PACK(*carries, *ys)


SCAN = Op(
    "scan",
    infer=_infer,
    numpy=_numpy,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    expensive=True,
    kind="function",
)
