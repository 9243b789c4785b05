"""The arena: when the values of a program are needed, and where they lie in one piece of memory.

In: the steps, and the slots of what lies outside of the arena: given, constant, or returned. Out: the life of every
other value and temporary (`liveness`), and an offset for each (`arena`): those that nobody needs at the same time lie
over one another.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from wengert.compiler.fuel import spend
from wengert.compiler.liveness import Life, lives, place
from wengert.core.graph import Node
from wengert.plan.plan import Arena, Plan
from wengert.plan.steps import Step

APART = 64 << 20  # bytes: up to here every value on a GPU has a place of its own: no step waits for another's memory
PRIVATE = 1 << 20  # bytes of a workspace with a place of its own: partial sums, which take more, share theirs
ALL_PRIVATE = 64 << 20  # bytes of all those places together: little, beside what a program with many products needs

Workspace = TypeVar("Workspace", bound=Hashable)


def liveness(plan: Plan) -> Plan:
    """The plan with the lives and sizes of what lies in the arena. Without fuel all is needed all the time."""
    needed, sizes = _needed(plan)
    alive = lives(needed)
    sizes.update((n, max(n.size * n.dtype.itemsize, 1)) for n in alive if isinstance(n, Node))
    if plan.target.launches:
        sizes = {value: -(-sizes[value] // 256) * 256 for value in alive}
    always = Life(0, len(needed))
    few = plan.target.launches and sum(sizes.values()) <= APART
    if few or not spend(None, lambda: "values that are not needed at the same time share memory"):
        alive = dict.fromkeys(alive, always)
    called = {(number, "workspace") for number, step in enumerate(plan.steps) if step.library is not None}
    alive.update(dict.fromkeys(with_own_places({w: sizes[w] for w in alive if w in called}), always))
    private = frozenset(workspace for workspace in called if alive.get(workspace) == always)
    return replace(plan, lives=alive, sizes=sizes, private=private)


def with_own_places(sizes: Mapping[Workspace, int]) -> list[Workspace]:
    """The workspaces of libraries, of these bytes each, whose places nothing else is to use at any time: the smallest.

    What a library clears there can be cleared at the beginning of a CUDA graph then (`backends/cuda/memset_kernels`).

    >>> with_own_places({"partial sums": 32 << 20, "counters": 512})
    ['counters']
    """
    found, total = [], 0
    for workspace, size in sorted(sizes.items(), key=lambda item: item[1]):
        total += size
        if size > PRIVATE or total > ALL_PRIVATE:
            break
        found.append(workspace)
    return found


def arena(plan: Plan) -> Plan:
    """The plan with an offset for each value of the arena. Without fuel no place is used twice."""
    if spend(None, lambda: "values are placed into gaps of the arena"):
        offsets, size = place(plan.lives, plan.sizes)
    else:
        offsets, size = place(dict.fromkeys(plan.lives, Life(0, 0)), plan.sizes)
    offsets.update((result, offsets[owner]) for result, owner in plan.aliases.items())
    scratch = max((step.workspace.get("scratch", 0) for step in plan.steps), default=0) if _has_scratch(plan) else 0
    sizes = {value: plan.sizes[value] for value in offsets}
    return replace(plan, arena=Arena(offsets, size + scratch, sizes, scratch=size))


def _has_scratch(plan: Plan) -> bool:
    """Whether steps work in memory at the end of the arena: on the CPU, where they run one after the other."""
    return not plan.target.launches


def _needed(plan: Plan) -> tuple[list[tuple[list[Any], list[Any]]], dict[Any, int]]:
    """What each step or parallel region reads and writes in the arena, and the bytes of temporaries."""
    slots, sizes = plan.buffers.slots, dict[Any, int]()

    def inside(nodes: Sequence[Node]) -> list[Any]:
        return [n for n in nodes if n not in slots and not isinstance(n.dtype, tuple)]

    def touched(number: int, step: Step) -> tuple[list[Any], list[Any]]:
        temporaries = [] if _has_scratch(plan) else [(number, name) for name in step.workspace]
        sizes.update((temporary, step.workspace[temporary[1]]) for temporary in temporaries)
        return inside(step.reads), [*inside(step.writes), *temporaries]

    each = [touched(number, step) for number, step in enumerate(plan.steps)]
    if not plan.regions:
        return each, sizes
    regions = [[each[number] for number in region] for region in plan.regions]
    return [([n for reads, _ in r for n in reads], [n for _, writes in r for n in writes]) for r in regions], sizes
