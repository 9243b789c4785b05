"""Groups: values that one kernel computes together, and the loops it computes them in.

A loop group has an iteration space: the full extent of what it works on, and the axes it reduces. Its *roots* are the
values it makes; each has an element for every step of the loops, or one for every row of what is reduced. An opaque
group is one op that is no loops over elements (matmul, convolution, ...), perhaps with an epilogue. `fuse` makes the
groups of a graph, and asks `Needs` which groups need which: one row of bits a group, kept right while groups merge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from wengert.core.graph import Node, Shape
from wengert.kernels.ir.index import ZERO, variable
from wengert.kernels.ir.index_map import IndexMap, everywhere, loops_of
from wengert.ops.reduce import reduced, reduced_axes


class Read(NamedTuple):
    """A value read from memory by a group, and where."""

    leaf: Node
    place: IndexMap


@dataclass(eq=False)
class Group:
    """Values computed together. An opaque group is one node that is no loops over elements."""

    number: int
    roots: list[Node]
    space: Shape
    axes: tuple[int, ...]  # the reduced ones
    opaque: bool = False
    reads: list[Read] = field(default_factory=list)
    stored: list[Node] = field(default_factory=list)  # the roots that somebody outside reads
    epilogue: list[Node] = field(default_factory=list)  # of an opaque op: the elementwise roots on its result
    final_reduction: Group | None = None  # those roots that are totals of its rows, made after all of them

    @property
    def reduces(self) -> bool:
        """Whether it has reductions among its roots."""
        return any(root.op.kind == "reduction" for root in self.roots)

    @property
    def is_total(self) -> bool:
        """Whether it makes single numbers, from everything it works on."""
        return not self.opaque and len(self.axes) == len(self.space)

    def parts(self) -> list[Group]:
        """The group as loops that follow each other: its rows, and the totals of these."""
        if self.final_reduction is None:
            return [self]
        stored = [root for root in self.stored if root in self.final_reduction.roots]
        rows = [root for root in self.roots if root not in self.final_reduction.roots]
        kept = [root for root in self.stored if root in rows]
        return [
            replace(self, roots=rows, stored=kept, final_reduction=None),
            replace(self.final_reduction, stored=stored),
        ]

    def __repr__(self) -> str:
        names = ", ".join(root.op.name for root in self.roots)
        return f"<group {self.number}: {names} over {self.space} reducing {self.axes}>"


class Grouping(NamedTuple):
    """The groups in the order to run them, the values that belong to one, and those that are computed where read."""

    groups: list[Group]
    roots: set[Node]
    inlined: set[Node]
    refusals: list[str]


def common_space(first: Group, second: Group) -> tuple[Shape | None, tuple[int, ...]]:
    """The iteration space in which both groups can be computed."""
    if first.reduces and second.reduces:
        same = (first.space, first.axes) == (second.space, second.axes)
        return (first.space, first.axes) if same else (None, ())
    if first.reduces or second.reduces:
        group = first if first.reduces else second
        return group.space, group.axes
    return (first.space, ()) if first.space == second.space else (None, ())


def fits(root: Node, space: Shape, axes: tuple[int, ...]) -> bool:
    """Whether a root has an element for each step of the loops of a space, or one for each row."""
    if root.op.kind == "reduction":
        return root.sources[0].shape == space and reduced_axes(root) == axes
    kept = (reduced(space, axes, False), reduced(space, axes, True)) if axes else ()
    return root.shape == space or root.shape in kept


def root_place(root: Node, space: Shape, axes: tuple[int, ...]) -> IndexMap | None:
    """Which element of a root the loops of a space are at: an element for each step, or one for each row."""
    if not fits(root, space, axes):
        return None
    loops = loops_of(space)
    if root.shape == space and root.op.kind != "reduction":
        return everywhere(loops)
    if root.shape == reduced(space, axes, False):
        return everywhere([loop for axis, loop in enumerate(loops) if axis not in axes])
    return IndexMap(tuple(ZERO if axis in axes else variable(loop) for axis, loop in enumerate(loops)))


# --- reachability ---------------------------------------------------------------------------------------------------


Bits = np.ndarray[Any, np.dtype[np.uint64]]


class Needs:
    """The groups, by number, that each group needs."""

    def __init__(self, count: int) -> None:
        self.rows: Bits = np.zeros((count, -(-count // 64)), np.uint64, order="F")  # a merge reads two columns of all

    def __call__(self, group: int, other: int) -> bool:
        """Whether a group needs another."""
        return bool(int(self.rows[group, other >> 6]) >> (other & 63) & 1)

    def add(self, group: int, producers: Iterable[int]) -> None:
        """A group reads what these make, each of which was added before it."""
        row = self.rows[group]
        for producer in producers:
            row |= self.rows[producer]
            self._set(row, producer)

    def join(self, first: int, second: int) -> None:
        """What needed the first group now needs the second, which needs what both did."""
        one = self._column(first) ^ self._column(second)
        one[[first, second]] = False
        needs = self.rows[first] | self.rows[second]
        self._clear(needs, first)
        self._clear(needs, second)
        self.rows[second] = needs
        affected = np.flatnonzero(one)
        if affected.size:
            bits = needs.copy()
            self._set(bits, first)
            self._set(bits, second)
            self.rows[affected] |= bits

    def _column(self, group: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.asarray((self.rows[:, group >> 6] & np.uint64(1 << (group & 63))) != 0)

    @staticmethod
    def _set(row: Bits, group: int) -> None:
        row[group >> 6] |= np.uint64(1 << (group & 63))

    @staticmethod
    def _clear(row: Bits, group: int) -> None:
        row[group >> 6] &= ~np.uint64(1 << (group & 63))
