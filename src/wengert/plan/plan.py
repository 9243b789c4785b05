"""Plan: a program as data, from an optimised graph to steps over planned memory.

The result is `steps`, `buffers`, `arena` and `waits`: a backend carries out the steps, each after those it waits for,
over memory that is laid out already. What else a plan holds is what its stages (`pipeline`) decided on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wengert.compiler.liveness import Life
from wengert.compiler.target import Target
from wengert.core.graph import Graph, Node
from wengert.plan.codegen import Codegen, LibraryEpilogue
from wengert.plan.groups import Grouping
from wengert.plan.steps import Step


class Buffers(NamedTuple):
    """The values that lie outside of the arena: given, constant, or made to be returned; and their slots in that order.

    An output that is written over an input has that input's slot.
    """

    external: list[Node]
    constants: list[Node]
    made: list[Node]
    slots: Mapping[Node, int]


class Arena(NamedTuple):
    """Where values and temporaries lie in a program's memory; a step's temporaries go by its number and their name."""

    offsets: Mapping[Any, int]
    size: int
    sizes: Mapping[Any, int]  # bytes of what has an offset
    scratch: int = 0  # where the memory begins that every step may work in


class HostOutputs(NamedTuple):
    """Outputs that the host computes from what it has, such as a random counter, while the device works."""

    numbers: list[int]  # of the other outputs, which the plan computes
    hosted: list[int]
    graph: Graph | None  # of the hosted ones
    replaces: Mapping[int, int]  # by hosted output: the input whose place it takes


NO_BUFFERS, NO_ARENA = Buffers([], [], [], {}), Arena({}, 0, {})
NOTHING_HOSTED, NO_GROUPS = HostOutputs([], [], None, {}), Grouping([], set(), set(), [])


@dataclass(frozen=True)
class Plan:
    """A program: what it computes, for what, and what its stages decided so far."""

    graph: Graph
    target: Target
    codegen: Codegen
    pairs: tuple[tuple[int, int], ...] = ()  # inputs and the outputs that take their place, by number
    steps: tuple[Step, ...] = ()
    buffers: Buffers = NO_BUFFERS
    arena: Arena = NO_ARENA
    waits: tuple[tuple[int, ...], ...] = ()  # by step: those that it waits for

    host: HostOutputs = NOTHING_HOSTED
    epilogues: Mapping[Node, LibraryEpilogue] = field(default_factory=dict)  # by product: what a library does after it
    grouping: Grouping = NO_GROUPS
    donated: Mapping[Node, Node] = field(default_factory=dict)  # by output: the input that it is written over
    regions: tuple[tuple[int, ...], ...] = ()  # steps that share one parallel region, by number
    lives: Mapping[Any, Life] = field(default_factory=dict)  # of what has a place of its own in the arena
    sizes: Mapping[Any, int] = field(default_factory=dict)  # bytes of that
    aliases: Mapping[Node, Node] = field(default_factory=dict)  # by result: the operand whose place it takes
    private: frozenset[Any] = frozenset()  # workspaces whose places nothing else uses at any time
    tuned: Any = None  # what timing candidates came to
    reports: tuple[Any, ...] = ()  # of the passes and stages so far

    @property
    def overwriting(self) -> set[Node]:
        """The outputs that are written after all that may fail, over an input or into memory that a caller gives."""
        last = max(self.codegen.fallible(self.grouping), default=-1)
        late = {root for group in self.grouping.groups[last + 1 :] for root in group.stored}
        return {*self.donated, *[node for node in self.buffers.made if node in late]}

    def place(self, value: Any) -> tuple[int, int, int] | None:
        """The memory (a slot, or ARENA), start and end of a value or temporary; None for what has no memory."""
        if value in self.buffers.slots:
            return self.buffers.slots[value], 0, 1
        if value in self.arena.offsets:
            start = self.arena.offsets[value]
            return ARENA, start, start + self.arena.sizes[value]
        return None


ARENA = -1
"""The memory that is no slot's."""
