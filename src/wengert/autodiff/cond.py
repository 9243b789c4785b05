"""`cond` and `while_loop`: a branch and a loop that stay in the graph.

`cond` records both branches and computes one; `while_loop` runs until its condition fails. The number of steps is not
known while recording; its cotangents come from `while_gradient`.

A loop over lanes (`vmap` of one) keeps the graphs of a single lane and says how many there are, so that each lane may
run until it ends by itself. Every source then begins with an axis of the lanes, of one element where all lanes share
it. `lockstep` is the same loop over all lanes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from wengert.autodiff import body as bodies
from wengert.autodiff.lanes import aligned, apart, batched_loop, over_lanes
from wengert.autodiff.reverse import or_zero
from wengert.core import tree
from wengert.core.dtypes import bool_, int64
from wengert.core.errors import ArgumentError, ComputationError, ShapeError
from wengert.core.graph import Graph, Node, now, recorded_as, recording
from wengert.core.sizes import bytes_of
from wengert.ops.core import as_node, cast, literal
from wengert.ops.elementwise import less, logical_and, where
from wengert.ops.movement import broadcast_to, expand_dims, reshape
from wengert.ops.op import PACK, Op, count_lanes, each_batched, picks
from wengert.tensor import Tensor, family_of

# --- cond -----------------------------------------------------------------------------------------------------------


def cond(predicate: Any, true_function: Callable[..., Any], false_function: Callable[..., Any], *operands: Any) -> Any:
    """Call `true_function(*operands)` if the predicate (one boolean) is true, else `false_function(*operands)`.

    Both are recorded, but only one is computed. They must return results of the same structure, shapes and dtypes. An
    outer tensor that either branch assigns gets its value from the branch taken.

    >>> import wengert as wg
    >>> wg.cond(wg.tensor(2.0) > 1, lambda x: x * 2, lambda x: x / 2, wg.tensor(8.0)).item()
    16.0
    """
    choice = cast(as_node(predicate), bool_)
    if choice.shape != ():
        raise ShapeError(
            f"cond: the predicate must be one boolean, but has shape {choice.shape}. wg.where selects elementwise"
        )
    values = bodies.as_tensors(operands)
    taken = [bodies.record("cond", function, values) for function in (true_function, false_function)]
    if taken[0].structure != taken[1].structure:
        raise ArgumentError(
            f"cond: the branches return different structures: {taken[0].structure} and {taken[1].structure}"
        )
    slots = list({**taken[0].assigned, **taken[1].assigned})
    graphs = [bodies.with_slots(branch, slots) for branch in taken]
    bodies.require_same("cond", "the second branch", graphs[0].outputs, graphs[1].outputs)
    branches, constants = _close_together(graphs)
    leaves = [leaf.node for leaf in tree.flatten(values)[0]]
    results = record_cond(choice, branches, [*constants, *leaves])
    bodies.put_slots(slots, results)
    return tree.unflatten(taken[0].structure, map(taken[0].family, results[len(slots) :]))


def _close_together(graphs: Sequence[Graph]) -> tuple[list[Graph], list[Node]]:
    """Graphs over the same inputs, closed over what any of them captured."""
    constants = list(dict.fromkeys(node for graph in graphs for node in graph.captured()))
    return [bodies.close_over(graph, constants) for graph in graphs], constants


def record_cond(choice: Node, branches: Sequence[Graph], values: Sequence[Node]) -> list[Node]:
    """Record a conditional; returns the results of the branch taken."""
    if not branches[0].outputs:
        return []
    return list(picks(COND(choice, *values, branches=tuple(branches))))


def _cond_infer(choice: Node, *values: Node, branches: tuple[Graph, Graph]) -> Any:
    return tuple(n.shape for n in branches[0].outputs), tuple(n.dtype for n in branches[0].outputs)


def _cond_jvp(tangents: Sequence[Node | None], y: Node, choice: Node, *values: Node) -> list[Node | None]:
    given = [or_zero(t, v) for v, t in zip(values, tangents[1:]) if bodies.has_tangents(v)]
    results = record_cond(choice, [bodies.tangent_body(b) for b in y.attrs["branches"]], [*values, *given])
    outputs = y.attrs["branches"][0].outputs
    moved = iter(results[len(outputs) :])
    return [next(moved) if bodies.has_tangents(node) else None for node in outputs]


def _cond_vjp(g: Sequence[Node | None], y: Node) -> list[Node | None]:
    choice, *values = y.sources
    outputs = picks(y)
    seeds = [or_zero(c, o) for o, c in zip(outputs, g) if bodies.has_tangents(o)]
    found = iter(record_cond(choice, [bodies.cotangent_body(b) for b in y.attrs["branches"]], [*values, *seeds]))
    return [None, *[next(found) if bodies.has_tangents(v) else None for v in values]]


def _cond_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    choice, *values = sources
    lanes = count_lanes(sources, batched)
    every = [True] * len(y.shape)
    over = [bodies.batched_body(b, lanes, batched[1:], every)[0] for b in y.attrs["branches"]]
    if not batched[0]:
        return COND(choice, *values, branches=tuple(over))
    results = [where(aligned(choice, a), a, b) for a, b in zip(over[0].inline(*values), over[1].inline(*values))]
    return PACK(*results)


COND = Op(
    "cond",
    infer=_cond_infer,
    numpy=lambda choice, *arrays, branches: tuple(branches[0 if choice else 1](*arrays)),
    vjp=_cond_vjp,
    jvp=_cond_jvp,
    batch=_cond_batch,
    expensive=True,
    kind="function",
)

CHECKPOINTS = 64
"""Carries of a `while_loop` that a backward pass keeps: with these, 200,000 steps are computed 4 times each."""

# --- while_loop -----------------------------------------------------------------------------------------------------


def while_loop(
    condition: Callable[[Any], Any],
    function: Callable[[Any], Any],
    init: Any,
    max_steps: int | None = None,
    memory: Any = None,
) -> Any:
    """Apply `function` to the carry as long as `condition(carry)` holds; returns the final carry.

    Both are recorded once. If the loop has not ended after `max_steps` steps, reading its result raises an error.

    It is differentiable in every mode. The number of steps is known only at the end, so a backward pass stores some of
    the carries, evenly spaced, and recomputes the others: at most 64 of them, or as many as fit into `memory`, a number
    of bytes such as "10 MB".

    >>> import wengert as wg
    >>> wg.while_loop(lambda x: x < 100, lambda x: x * 2, wg.tensor(3)).item()
    192
    >>> wg.grad(lambda x: wg.while_loop(lambda y: y < 50.0, lambda y: y * y, x))(3.0).item()
    108.0
    """
    start = bodies.as_tensors(init)
    if max_steps is not None:
        return _bounded(condition, function, start, max_steps, memory)
    step, slots = bodies.record_step("while_loop", function, (start,))
    test = bodies.record("while_loop", condition, (start,), slots)
    if len(test.graph.outputs) != 1 or test.graph.outputs[0].shape != ():
        raise ShapeError("while_loop: the condition must return one boolean")
    stepped = bodies.with_slots(step, slots)
    initial = [*[slot.node for slot in slots], *[leaf.node for leaf in tree.flatten(start)[0]]]
    bodies.require_carry("while_loop", len(slots), initial, stepped.outputs)
    (test_body, step_body), constants = _close_together([test.graph, stepped])
    results = record_while(test_body, step_body, constants, initial, checkpoints_for(initial, memory))
    bodies.put_slots(slots, results)
    return tree.unflatten(step.structure, map(step.family, results[len(slots) :]))


def checkpoints_for(initial: Sequence[Node], memory: Any) -> int:
    """The number of carries that a backward pass stores."""
    if memory is None:
        return CHECKPOINTS
    carry = sum(node.size * node.dtype.itemsize for node in initial)
    return min(max(bytes_of(memory, "while_loop") // max(carry, 1), 4), 1024) // 2 * 2


def _bounded(condition: Any, function: Any, start: Any, max_steps: int, memory: Any) -> Any:
    """The loop with a step counter, and a check that the condition ended it within the limit."""
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 0:
        raise ArgumentError(f"while_loop: max_steps must be a number of steps, not {max_steps!r}")

    def goes_on(state: Any) -> Any:
        going = cast(as_node(condition(state[1])), bool_)
        if going.shape != ():
            raise ShapeError("while_loop: the condition must return one boolean")
        return logical_and(going, less(state[0].node, max_steps))

    def counted(state: Any) -> Any:
        return Tensor(state[0].node + 1), function(state[1])

    count = Tensor(literal(0, int64))
    _, end = while_loop(goes_on, counted, (count, start), memory=memory)
    leaves, structure = tree.flatten(end)
    going = cast(as_node(condition(end)), bool_)
    results = picks(STOPPED(going, *[leaf.node for leaf in leaves], steps=max_steps))
    return tree.unflatten(structure, map(family_of(leaves), results))


def _stopped(going: Any, *arrays: Any, steps: int) -> Any:
    if np.any(going):
        raise ComputationError(_still_going(steps))
    return arrays


def _still_going(steps: int) -> str:
    return (
        f"while_loop: the condition still holds after {steps} steps (max_steps={steps}); raise max_steps, or find out "
        "why the loop does not end"
    )


STOPPED: Op = Op(
    "stopped",
    infer=lambda going, *xs, steps: (tuple(x.shape for x in xs), tuple(x.dtype for x in xs)),
    numpy=_stopped,
    vjp=lambda g, y: [None, *g],
    jvp=lambda tangents, y, going, *xs: list(tangents[1:]),
    batch=lambda y, sources, batched: STOPPED(sources[0], *each_batched(sources, batched)[1:], **y.attrs),
    can_fail=True,
    failure=lambda node: _still_going(node.attrs["steps"]),
    moves=True,
)


def record_while(
    test: Graph,
    step: Graph,
    constants: Sequence[Node],
    initial: Sequence[Node],
    checkpoints: int,
    lanes: int | None = None,
) -> list[Node]:
    """The final carry of a loop, or of several loops side by side."""
    attrs = {"constants": len(constants), "checkpoints": checkpoints, "lanes": lanes}
    return list(picks(WHILE(*constants, *initial, test=test, step=step, **attrs)))


def _while_infer(
    *sources: Node, test: Graph, step: Graph, constants: int, checkpoints: int, lanes: int | None = None
) -> Any:
    carry = sources[constants:]
    return tuple(n.shape for n in carry), tuple(n.dtype for n in carry)


def _while_numpy(
    *arrays: Any, test: Graph, step: Graph, constants: int, checkpoints: int, lanes: int | None = None
) -> Any:
    if lanes is not None:
        flags = tuple(array.shape[0] == lanes for array in arrays)
        arrays = tuple(array if flag else array[0] for array, flag in zip(arrays, flags))
        test, step = _over_lanes(test, step, constants, lanes, flags)
    fixed, carry = arrays[:constants], list(arrays[constants:])
    while test(*fixed, *carry)[0]:
        carry = step(*fixed, *carry)
    return tuple(carry)


class WhileLoop(NamedTuple):
    """A loop's condition and body, and the values it runs on."""

    test: Graph
    step: Graph
    constants: Sequence[Node]
    initial: Sequence[Node]


def tangent_loop(
    test: Graph, step: Graph, n: int, sources: Sequence[Node], tangents: Sequence[Node | None]
) -> WhileLoop:
    """A loop that also carries tangents, of n constants and of the carry, after the values. Everything that can have a
    tangent has one."""
    moving = bodies.tangent_body(step)
    floating = [i for i, s in enumerate(sources) if bodies.has_tangents(s)]
    given = {i: or_zero(tangents[i], sources[i]) for i in floating}
    fixed = [*sources[:n], *[given[i] for i in floating if i < n]]
    carry = [*sources[n:], *[given[i] for i in floating if i >= n]]
    extra_fixed, extra_carry = len(fixed) - n, len(carry) - (len(sources) - n)

    def arranged(inputs: Sequence[Node]) -> list[Node]:
        """The constants with their tangents first, then the carry with its tangents."""
        own, moved = inputs[: len(sources)], inputs[len(sources) :]
        return [*own[:n], *moved[:extra_fixed], *own[n:], *moved[extra_fixed:]]

    stepped = Graph(arranged(moving.inputs), moving.outputs, bodies.beginning(moving))
    since = now()
    with recorded_as(recording.location, True):
        inputs = [bodies.placeholder_like(node) for node in stepped.inputs]
        tested = test.inline(*inputs[:n], *inputs[n + extra_fixed : len(inputs) - extra_carry])
    return WhileLoop(Graph(inputs, tested, since), stepped, fixed, carry)


def _while_jvp(tangents: Sequence[Node | None], y: Node, *sources: Node) -> list[Node | None]:
    n = y.attrs["constants"]
    loop = tangent_loop(y.attrs["test"], y.attrs["step"], n, sources, tangents)
    results = record_while(*loop, y.attrs["checkpoints"], y.attrs["lanes"])
    moved = iter(results[len(sources) - n :])
    return [next(moved) if bodies.has_tangents(s) else None for s in sources[n:]]


def _while_vjp(g: Sequence[Node | None], y: Node) -> list[Node | None]:
    from wengert.autodiff.while_gradient import record_gradient

    n = y.attrs["constants"]
    seeds = [or_zero(c, s) for c, s in zip(g, y.sources[n:]) if bodies.has_tangents(s)]
    loop = WhileLoop(y.attrs["test"], y.attrs["step"], y.sources[:n], y.sources[n:])
    found = iter(record_gradient(loop, seeds, y.attrs["checkpoints"], y.attrs["lanes"]))
    return [next(found) if bodies.has_tangents(s) else None for s in y.sources]


@lru_cache(maxsize=64)
def _over_lanes(test: Graph, step: Graph, n: int, lanes: int, flags: tuple[bool, ...]) -> tuple[Graph, Graph]:
    """A loop over lanes, kept for the next call."""
    return batched_loop(test, step, n, lanes, flags)


def lockstep(y: Node) -> list[Node]:
    """The final carry of a loop over lanes, as a loop that steps all lanes at once."""
    n, lanes = y.attrs["constants"], y.attrs["lanes"]
    flags = [source.shape[0] == lanes for source in y.sources]
    values = [one if flag else reshape(one, one.shape[1:]) for one, flag in zip(y.sources, flags)]
    test, step = batched_loop(y.attrs["test"], y.attrs["step"], n, lanes, flags)
    return record_while(test, step, values[:n], values[n:], y.attrs["checkpoints"])


def _in_common(y: Node, sources: Sequence[Node], batched: Sequence[bool], lanes: int) -> Node | None:
    """The loop over lanes in which all lanes take the same steps; None if their number differs between lanes."""
    n, test, step = y.attrs["constants"], y.attrs["test"], y.attrs["step"]
    flags = list(batched)
    while True:
        own = [before or after for before, after in zip(flags[n:], bodies.batched_body(step, lanes, flags)[1])]
        if own == flags[n:]:
            break
        flags[n:] = own
    tested, (differs,) = bodies.batched_body(test, lanes, flags)
    if differs:
        return None
    stepped, _ = bodies.batched_body(step, lanes, flags, flags[n:])
    values = [
        broadcast_to(expand_dims(s, 0), (lanes, *s.shape)) if flag and not given else s
        for s, flag, given in zip(sources, flags, batched)
    ]
    results = record_while(tested, stepped, values[:n], values[n:], y.attrs["checkpoints"])
    return PACK(
        *[r if flag else broadcast_to(expand_dims(r, 0), (lanes, *r.shape)) for r, flag in zip(results, flags[n:])]
    )


def _while_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    lanes, inner = count_lanes(sources, batched), y.attrs["lanes"]
    if inner is None:
        common = _in_common(y, sources, batched, lanes)
        if common is not None:
            return common
    values = over_lanes(sources, batched, lanes, inner, range(y.attrs["constants"]))
    every = lanes if inner is None else lanes * inner
    return apart(WHILE(*values, **{**y.attrs, "lanes": every}), lanes, inner)


WHILE = Op(
    "while_loop",
    infer=_while_infer,
    numpy=_while_numpy,
    vjp=_while_vjp,
    jvp=_while_jvp,
    batch=_while_batch,
    expensive=True,
    kind="function",
)
