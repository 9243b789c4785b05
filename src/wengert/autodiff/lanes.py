"""Loops over lanes: their sources, and graphs in which all lanes step together.

In: what a loop reads, with an axis of the lanes first, or without; the graphs of one lane. Out: sources that all begin
with an axis of the lanes, and graphs over all lanes, in which those that have ended stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from wengert.autodiff import body as bodies
from wengert.core.graph import Graph, Node, now, recorded_as, recording
from wengert.ops.core import data
from wengert.ops.elementwise import where
from wengert.ops.gather import take
from wengert.ops.movement import broadcast_to, expand_dims, reshape
from wengert.ops.op import PACK, picks
from wengert.ops.reduce import any as any_of
from wengert.ops.reduce import max as max_of


def over_lanes(
    sources: Sequence[Node], batched: Sequence[bool], lanes: int, inner: int | None, shared: Collection[int]
) -> list[Node]:
    """The sources of a loop over `lanes` lanes, where each lane may itself be a loop over `inner` lanes.

    `shared` has the indices of the sources that all lanes may share.
    """
    found = []
    for i, (source, flag) in enumerate(zip(sources, batched)):
        value = source if flag else expand_dims(source, 0)
        if not flag and i in shared and (inner is None or source.shape[0] != inner):
            found.append(value if inner is None else source)
        elif inner is None:
            found.append(broadcast_to(value, (lanes, *value.shape[1:])))
        else:
            own = value.shape[2:]
            found.append(reshape(broadcast_to(value, (lanes, inner, *own)), (lanes * inner, *own)))
    return found


def apart(whole: Node, lanes: int, inner: int | None) -> Node:
    """The results of a loop over lanes, with inner lanes split off as an axis of their own."""
    if inner is None:
        return whole
    return PACK(*[reshape(one, (lanes, inner, *one.shape[1:])) for one in picks(whole)])


def batched_loop(test: Graph, step: Graph, n: int, lanes: int, flags: Sequence[bool]) -> tuple[Graph, Graph]:
    """A loop over lanes that runs while any lane does, and leaves finished lanes unchanged."""
    every = [True] * len(step.outputs)
    stepped, _ = bodies.batched_body(step, lanes, flags, every)
    tested, _ = bodies.batched_body(test, lanes, flags, [True])
    since = now()
    with recorded_as(recording.location, True):
        inputs = [bodies.placeholder_like(node) for node in tested.inputs]
        going = any_of(tested.inline(*inputs)[0])
    outer = Graph(inputs, [going], since)
    since = now()
    with recorded_as(recording.location, True):
        inputs = [bodies.placeholder_like(node) for node in stepped.inputs]
        alive = tested.inline(*inputs)[0]
        given = _of_living(alive, inputs, flags) if _can_fail(step) else inputs
        moved = [where(aligned(alive, a), a, b) for a, b in zip(stepped.inline(*given), inputs[n:])]
    return outer, Graph(inputs, moved, since)


def _can_fail(body: Graph) -> bool:
    """Whether some op may raise an error that depends on the values passed to a body."""
    for node in body.nodes:
        values = [one for value in node.attrs.values() for one in (value if type(value) is tuple else (value,))]
        inside = [one for one in values if isinstance(one, Graph)]
        if any(map(_can_fail, inside)) or (not inside and (node.op.can_fail or node.op.checks(node))):
            return True
    return False


def _of_living(alive: Node, values: Sequence[Node], flags: Sequence[bool]) -> list[Node]:
    """The values of all lanes, with those of an active lane in place of the values of ended ones."""
    every = data(np.arange(alive.size))
    chosen = where(alive, every, max_of(where(alive, every, 0)))
    return [take(value, chosen, axis=0) if flag else value for value, flag in zip(values, flags)]


def aligned(flags: Node, value: Node) -> Node:
    """Flags for lanes, with trailing axes added so that they broadcast against a value over lanes."""
    return reshape(flags, (*flags.shape, *(1,) * (value.ndim - flags.ndim)))
