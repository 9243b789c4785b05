"""Groups: values that one kernel computes together, and the loops that compute them.

A loop group has an iteration space: the full extent of its operands, and the axes it reduces. Its *roots* are the
values it makes; each has one element per iteration, or one per reduced row. An opaque group is a single op without
elementwise loops (matmul, convolution, ...), perhaps with an epilogue. `fuse` builds the groups of a graph and uses
`Needs` for reachability between them: one row of bits per group, maintained while groups merge.

`schedule` orders the groups so that memory is freed early. It follows the user's program, each group as soon as its
dependencies are done, so that recomputation for a later part of the backward pass is delayed until then. A group that
frees more memory than it allocates runs as soon as possible: the product for a weight's gradient, together with the
update that consumes it, is the last reader of an activation. So does a group that makes scalars, such as an optimizer's
step count: they take no memory, and their readers can then go anywhere. A program of small values keeps its order. An
update that is written over its old value waits for all readers of that value, and for everything that may fail.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wengert.compiler.memory import storage
from wengert.compiler.rewrite import spend
from wengert.core.graph import Graph, Node, Shape
from wengert.kernels.ir.index import ZERO, variable
from wengert.kernels.ir.loops import IndexMap, everywhere, loops_of
from wengert.ops.core import RECOMPUTE_BARRIER
from wengert.ops.reduce import reduced, reduced_axes

if TYPE_CHECKING:
    from wengert.plan.plan import Plan


class Read(NamedTuple):
    """A value that a group reads from memory, and at which index."""

    leaf: Node
    place: IndexMap


@dataclass(eq=False)
class FusionGroup:
    """Values computed together. An opaque group is one node without elementwise loops."""

    number: int
    roots: list[Node]
    space: Shape
    axes: tuple[int, ...]  # the reduced ones
    opaque: bool = False
    reads: list[Read] = field(default_factory=list)
    stored: list[Node] = field(default_factory=list)  # the roots with readers outside
    epilogue: list[Node] = field(default_factory=list)  # of an opaque op: the elementwise roots on its result
    final_reduction: FusionGroup | None = None  # those roots that are totals of its rows, made after all of them

    @property
    def reduces(self) -> bool:
        """Whether it has reductions among its roots."""
        return any(root.op.kind == "reduction" for root in self.roots)

    @property
    def is_total(self) -> bool:
        """Whether it reduces everything to scalars."""
        return not self.opaque and len(self.axes) == len(self.space)

    def large_reads(self) -> list[Node]:
        """The values of more than one element that it reads."""
        return list(dict.fromkeys(read.leaf for read in self.reads if read.leaf.size > 1))

    def wide_reads(self) -> list[Node]:
        """The operands that are about as large as its iteration space."""
        return [leaf for leaf in self.large_reads() if leaf.size * 4 > math.prod(self.space)]

    @property
    def is_copy(self) -> bool:
        """Whether it is elementwise and recomputes a value."""
        found = [] if self.opaque or self.axes else self.wide_reads()
        return bool(found) and all(leaf.op is RECOMPUTE_BARRIER for leaf in found)

    def parts(self) -> list[FusionGroup]:
        """The group as consecutive loops: its rows, then the totals over them."""
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
    """The groups in execution order, the values that belong to groups, and those computed at the point of use."""

    groups: list[FusionGroup]
    roots: set[Node]
    inlined: set[Node]
    refusals: list[str]


def common_space(first: FusionGroup, second: FusionGroup) -> tuple[Shape | None, tuple[int, ...]]:
    """The iteration space in which both groups can be computed."""
    if first.reduces and second.reduces:
        same = (first.space, first.axes) == (second.space, second.axes)
        return (first.space, first.axes) if same else (None, ())
    if first.reduces or second.reduces:
        group = first if first.reduces else second
        return group.space, group.axes
    return (first.space, ()) if first.space == second.space else (None, ())


def fits(root: Node, space: Shape, axes: tuple[int, ...]) -> bool:
    """Whether a root has one element per iteration of a space, or one per row."""
    if root.op.kind == "reduction":
        return root.sources[0].shape == space and reduced_axes(root) == axes
    kept = (reduced(space, axes, False), reduced(space, axes, True)) if axes else ()
    return root.shape == space or root.shape in kept


def root_place(root: Node, space: Shape, axes: tuple[int, ...]) -> IndexMap | None:
    """The index of a root's element in the loops of a space: per iteration, or per row."""
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
    """The groups, by number, that each group depends on."""

    def __init__(self, count: int) -> None:
        self.rows: Bits = np.zeros((count, -(-count // 64)), np.uint64, order="F")  # a merge reads two columns of all

    def __call__(self, group: int, other: int) -> bool:
        """Whether a group depends on another."""
        return bool(int(self.rows[group, other >> 6]) >> (other & 63) & 1)

    def add(self, group: int, producers: Iterable[int]) -> None:
        """Add a group that reads these, each of which was added before it."""
        row = self.rows[group]
        for producer in producers:
            row |= self.rows[producer]
            self._set(row, producer)

    def join(self, first: int, second: int) -> None:
        """Merge the first group into the second: dependencies and dependents are united."""
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


# --- schedule -------------------------------------------------------------------------------------------------------


LARGE = 1 << 22  # bytes from which freeing a value counts


def ordered(
    graph: Graph,
    groups: Sequence[FusionGroup],
    pairs: Iterable[tuple[Node, Node]] = (),
    fallible: Collection[int] = (),
    overlaps: bool = False,
) -> list[FusionGroup]:
    """The groups in execution order.

    `pairs` are inputs and the outputs that may overwrite them; `fallible` are the numbers, in the given order, of
    groups that may fail; `overlaps` says whether collectives run concurrently with kernels.
    """
    needs = _needs(groups)
    for group, others in _waits(groups, needs, pairs, fallible):
        needs[group] |= others
    _keep_collectives_in_order(groups, needs, overlaps)
    order = _Order(graph, groups, needs).found()
    return [groups[number] for number in order] if order is not None else list(groups)


def _keep_collectives_in_order(groups: Sequence[FusionGroup], needs: Sequence[set[int]], overlaps: bool) -> None:
    """Make each collective wait for the previous one: all ranks run them in the same order."""
    found = [k for k, group in enumerate(groups) if group.opaque and group.roots[0].op.collective]
    found.sort(key=lambda k: groups[k].roots[0].attrs.get("number", k))
    if overlaps:
        _compute_late(groups, needs, found)
    for before, after in pairwise(found):
        needs[after].add(before)


def _compute_late(groups: Sequence[FusionGroup], needs: Sequence[set[int]], collectives: Sequence[int]) -> None:
    """Delay work that only late collectives need until after what the large collective before them needs.

    The large collective then overlaps with these kernels. This creates no cycle: it never needs what is delayed.
    """
    late = [k for k in collectives if groups[k].roots[0].attrs.get("late")]
    if not late:
        return
    first = collectives.index(late[0])
    makers = set(needs[collectives[first - 1]])
    early = _all_needed(needs, collectives[:first])
    for number in _all_needed(needs, late) - early - {*collectives}:
        needs[number].update(makers)


def _all_needed(needs: Sequence[set[int]], numbers: Iterable[int]) -> set[int]:
    """These groups and all groups that they depend on."""
    found, agenda = set[int](), list(numbers)
    while agenda:
        number = agenda.pop()
        if number not in found:
            found.add(number)
            agenda += needs[number]
    return found


def schedule(plan: Plan) -> Plan:
    """The plan with its groups in execution order. Without fuel they stay in the order of the user's program."""
    if not spend(None, lambda: "groups run in an order that frees memory early"):
        return plan
    nodes = [(plan.graph.inputs[i], plan.graph.outputs[k]) for i, k in plan.pairs]
    order = ordered(plan.graph, plan.grouping.groups, nodes, plan.codegen.fallible(plan.grouping), plan.target.overlaps)
    return replace(plan, grouping=plan.grouping._replace(groups=order))


def _needs(groups: Sequence[FusionGroup]) -> list[set[int]]:
    """For each group, the numbers of the groups whose values it reads."""
    home = {root: number for number, group in enumerate(groups) for root in group.roots}
    needs = []
    for number, group in enumerate(groups):
        leaves = (read.leaf if read.leaf in home else storage(read.leaf) for read in group.reads)
        needs.append({home[leaf] for leaf in leaves if home.get(leaf, number) != number})
    return needs


def _waits(
    groups: Sequence[FusionGroup],
    needs: Sequence[set[int]],
    pairs: Iterable[tuple[Node, Node]],
    fallible: Collection[int],
) -> list[tuple[int, set[int]]]:
    """Groups that overwrite an input, with what they wait for: its readers and fallible groups, unless dependent."""
    ancestors: list[int] = []  # as bits
    for own in needs:
        bits = 0
        for number in own:
            bits |= ancestors[number] | 1 << number
        ancestors.append(bits)
    writers = {root: number for number, group in enumerate(groups) for root in group.stored}
    readers: dict[Node, set[int]] = {}
    for number, group in enumerate(groups):
        for read in group.reads:
            readers.setdefault(storage(read.leaf), set()).add(number)
    found = []
    for source, output in pairs:
        writer = writers.get(storage(output))
        if writer is not None:
            before = {*readers.get(source, ()), *fallible} - {writer}
            found.append((writer, {number for number in before if not ancestors[number] >> writer & 1}))
    return found


class _Order:
    """The search for an order."""

    def __init__(self, graph: Graph, groups: Sequence[FusionGroup], needs: Sequence[set[int]]) -> None:
        self.needs = needs
        self.rank = [group.number for group in groups]  # the order of the user's program
        self.missing = [len(own) for own in needs]
        self.needed_by: list[list[int]] = [[] for _ in groups]
        for number, own in enumerate(needs):
            for other in own:
                self.needed_by[other].append(number)
        outputs = {storage(node) for node in graph.outputs}
        made = {root for group in groups for root in group.stored} - outputs
        self.takes = [sum(_bytes(root) for root in group.stored if root in made) for group in groups]
        is_large = max(map(_bytes, made), default=0) >= LARGE
        self.makes_numbers = [
            is_large and bool(group.stored) and all(map(_is_number, group.stored)) for group in groups
        ]
        self.reads = [{storage(read.leaf) for read in group.reads} & made for group in groups]
        self.readers: dict[Node, set[int]] = {}
        for number, values in enumerate(self.reads):
            for value in values:
                self.readers.setdefault(value, set()).add(number)
        self.order: list[int] = []
        self.done = [False] * len(groups)
        self.eager: list[tuple[int, int]] = []  # rank and number of those that can run and free more than they take

    def found(self) -> list[int] | None:
        """The order, or None if the dependencies form a cycle."""
        self._consider(*range(len(self.done)))
        self._run_eager()
        for number in sorted(range(len(self.done)), key=self.rank.__getitem__):
            if not self._run_with_needs(number):
                return None
        return self.order

    def _run_with_needs(self, target: int) -> bool:
        """Run a group after its remaining dependencies; returns whether that was possible."""
        agenda, entered = [target], set[int]()
        while agenda:
            number = agenda[-1]
            missing = [other for other in self.needs[number] if not self.done[other]]
            missing.sort(key=self.rank.__getitem__, reverse=True)
            if missing and not self.done[number]:
                entered.add(number)
                if not entered.isdisjoint(missing):
                    return False
                agenda += missing
                continue
            agenda.pop()
            if not self.done[number]:
                self._run(number)
                self._run_eager()
        return True

    def _run_eager(self) -> None:
        while self.eager:
            _, number = heappop(self.eager)
            if not self.done[number]:
                self._run(number)

    def _run(self, number: int) -> None:
        self.order.append(number)
        self.done[number] = True
        for value in self.reads[number]:
            readers = self.readers[value]
            readers.discard(number)
            if len(readers) == 1:
                self._consider(*readers)
        for other in self.needed_by[number]:
            self.missing[other] -= 1
            self._consider(other)
        if len(self.order) == 1:
            self._consider(*range(len(self.done)))

    def _consider(self, *numbers: int) -> None:
        """Queue ready groups that free more than they allocate, or that make scalars (these without priority)."""
        for number in numbers:
            if not self.missing[number] and not self.done[number]:
                freed = sum(_bytes(value) for value in self.reads[number] if len(self.readers[value]) == 1)
                if freed > self.takes[number] or (self.makes_numbers[number] and self.order):
                    heappush(self.eager, (self.rank[number], number))


def _is_number(node: Node) -> bool:
    return not isinstance(node.dtype, tuple) and node.size == 1


def _bytes(node: Node) -> int:
    return 0 if isinstance(node.dtype, tuple) else node.size * node.dtype.itemsize
