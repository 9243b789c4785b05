"""Where the values of a program on a GPU lie in its arena, and which of its steps wait for which.

In: the steps, and the slots of what lies outside of the arena: given, constant, or returned. Out: the steps, of which
some write over an operand; offsets for all other values and for temporaries, those that nobody needs at the same time
over one another; and the order that this leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wengert.backends.cuda.memset_kernels import with_own_places
from wengert.compiler.liveness import Life, lives, place
from wengert.core.graph import Node
from wengert.kernels.launch import Device
from wengert.plan.candidates import Step
from wengert.plan.in_place import in_place
from wengert.plan.waits import Place, waits

APART = 64 << 20  # bytes: up to here every value has a place of its own, so that no step waits for another's memory
FILLING = 32 << 10  # bytes for each SM: a step that moves so many leaves nothing of the device to others
ARENA = -1  # the memory that is no slot's


class Arena(NamedTuple):
    """A program's memory; a step's temporaries go by its number and their name."""

    steps: list[Step]
    offsets: dict[Any, int]
    size: int
    over: dict[Node, Node]  # by result: the value whose place it takes
    own: set[Any]  # workspaces of libraries' calls whose places nothing else uses at any time
    waits: list[list[int]]  # by step: those that it waits for


def laid_out(steps: Sequence[Step], slots: Mapping[Node, int], device: Device) -> Arena:
    """The arena of a program."""
    needs, sizes = _needs(steps, slots)
    alive = lives(needs)
    sizes.update((n, max(n.size * n.dtype.itemsize, 1)) for n in alive if isinstance(n, Node))
    sizes = {value: -(-sizes[value] // 256) * 256 for value in alive}
    always = Life(0, len(steps))
    if sum(sizes.values()) <= APART:
        alive = dict.fromkeys(alive, always)
    workspaces = {(number, "workspace") for number, step in enumerate(steps) if step.vendor is not None}
    alive.update(dict.fromkeys(with_own_places({w: sizes[w] for w in alive if w in workspaces}), always))
    own = {workspace for workspace in workspaces if alive.get(workspace) == always}
    changed, alive, over = in_place(steps, alive, sizes, device)
    offsets, size = place(alive, sizes)
    offsets.update((result, offsets[owner]) for result, owner in over.items())

    def places(nodes: Sequence[Node], inside: Sequence[Any]) -> list[Place]:
        given = [Place(slots[node], 0, 1) for node in nodes if node in slots]
        return given + [Place(ARENA, offsets[x], offsets[x] + sizes[x]) for x in inside]

    touched = (
        ((), ()) if step.does_nothing else (places(step.reads, reads), places(step.writes, writes))
        for step, (reads, writes) in zip(changed, needs)
    )
    order = waits(touched, {number for number, step in enumerate(changed) if _fills(step, device)})
    return Arena(changed, offsets, size, over, own, order)


def _needs(
    steps: Sequence[Step], slots: Mapping[Node, int]
) -> tuple[list[tuple[list[Any], list[Any]]], dict[Any, int]]:
    """What each step reads and writes in the arena, and the bytes of its temporaries."""

    def inside(nodes: Sequence[Node]) -> list[Any]:
        return [n for n in nodes if n not in slots and not isinstance(n.dtype, tuple)]

    needs, sizes = [], dict[Any, int]()
    for number, step in enumerate(steps):
        temporaries = [(number, name) for name in step.workspace]
        sizes.update((t, step.workspace[t[1]]) for t in temporaries)
        needs.append((inside(step.reads), [*inside(step.writes), *temporaries]))
    return needs, sizes


def _fills(step: Step, device: Device) -> bool:
    """Whether a step keeps all of a device busy, so that another beside it would only be in its way."""
    return step.moved_bytes >= FILLING * device.sms
