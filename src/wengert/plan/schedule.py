"""Schedule: the order in which groups run, so that memory is free early.

In: groups in an order that is right, each after those it needs. Out: the same groups in another. It is that of the
user's program, each group right after what it still needs, so that what is computed again for a later part of a
backward pass waits until then; but a group that frees more memory than it takes runs as soon as it can: the product
that gives a weight's gradient, with the update that uses it up, is the last to read an activation. So does one that
makes numbers, such as the count of an optimizer's steps: they take no room, and what needs them can be put anywhere. A
program of small values keeps its order.

An update that is to be written over its old value waits for all that read that, and for whatever may fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from wengert.compiler.fuel import spend
from wengert.compiler.storage import storage
from wengert.core.graph import Graph, Node
from wengert.plan.groups import Group
from wengert.plan.plan import Plan

LARGE = 1 << 22  # bytes of a value from which it counts when it is freed


def ordered(
    graph: Graph,
    groups: Sequence[Group],
    pairs: Iterable[tuple[Node, Node]] = (),
    fallible: Collection[int] = (),
) -> list[Group]:
    """The groups in the order to run them.

    `pairs` are inputs and the outputs that may be written over them; `fallible` the numbers, in the order given, of the
    groups that may fail.
    """
    needs = _needs(groups)
    for group, others in _waits(groups, needs, pairs, fallible):
        needs[group] |= others
    order = _Order(graph, groups, needs).found()
    return [groups[number] for number in order] if order is not None else list(groups)


def schedule(plan: Plan) -> Plan:
    """The plan with its groups in the order to run them. Without fuel they stay in the order of the user's program."""
    if not spend(None, lambda: "groups run in an order that frees memory early"):
        return plan
    nodes = [(plan.graph.inputs[i], plan.graph.outputs[k]) for i, k in plan.pairs]
    order = ordered(plan.graph, plan.grouping.groups, nodes, plan.codegen.fallible(plan.grouping))
    return replace(plan, grouping=plan.grouping._replace(groups=order))


def _needs(groups: Sequence[Group]) -> list[set[int]]:
    """For each group the numbers of those whose values it reads."""
    home = {root: number for number, group in enumerate(groups) for root in group.roots}
    needs = []
    for number, group in enumerate(groups):
        leaves = (read.leaf if read.leaf in home else storage(read.leaf) for read in group.reads)
        needs.append({home[leaf] for leaf in leaves if home.get(leaf, number) != number})
    return needs


def _waits(
    groups: Sequence[Group],
    needs: Sequence[set[int]],
    pairs: Iterable[tuple[Node, Node]],
    fallible: Collection[int],
) -> list[tuple[int, set[int]]]:
    """Groups that write over an input, with what they wait for: its readers and what may fail, unless those need it."""
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

    def __init__(self, graph: Graph, groups: Sequence[Group], needs: Sequence[set[int]]) -> None:
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
        """The order, or None if the groups wait for each other in a circle."""
        self._consider(*range(len(self.done)))
        self._run_eager()
        for number in sorted(range(len(self.done)), key=self.rank.__getitem__):
            if not self._run_with_needs(number):
                return None
        return self.order

    def _run_with_needs(self, target: int) -> bool:
        """Run a group after what it still needs; whether that was possible."""
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
        """Note groups that can run and free more than they take, or make numbers: these not before all others."""
        for number in numbers:
            if not self.missing[number] and not self.done[number]:
                freed = sum(_bytes(value) for value in self.reads[number] if len(self.readers[value]) == 1)
                if freed > self.takes[number] or (self.makes_numbers[number] and self.order):
                    heappush(self.eager, (self.rank[number], number))


def _is_number(node: Node) -> bool:
    return not isinstance(node.dtype, tuple) and node.size == 1


def _bytes(node: Node) -> int:
    return 0 if isinstance(node.dtype, tuple) else node.size * node.dtype.itemsize
