"""Fusion: which values are computed together in one kernel.

In: an optimised graph. Out: groups in execution order. Most values are never stored: elementwise and movement ops are
computed at the point of use (*inlined*). A value that must be stored, or is too expensive to compute twice, is a *root*
(`materialize`) and belongs to a group (`groups`).

Two groups merge when their iteration spaces agree, when each reads the other only at its own loop position, and when no
path leads out of the pair and back. Whether groups may merge (`may_merge`) and whether merging pays (`plan/worth`) are
separate questions; every refusal has a reason that `explain` can print.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from wengert.compiler.memory import compared_with_extremes, storage, stored_values
from wengert.compiler.rewrite import spend
from wengert.core.graph import Graph, Node, Shape
from wengert.kernels.ir.loops import IndexMap, broadcast_place, everywhere, loops_of, moved_place
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import reduced, reduced_axes, reduces_in_loops
from wengert.plan.groups import FusionGroup, Grouping, Needs, Read, common_space, fits, root_place
from wengert.plan.outputs import spoils_update
from wengert.plan.plan import Plan

MOST_ROOTS = 64  # of a kernel

NOTHING: Mapping[Node, Node] = {}


class _Fusion:
    """The state of one fusion."""

    def __init__(
        self,
        graph: Graph,
        inlines: Callable[[Node], bool],
        operands: Callable[[Node], Iterable[Node]],
        absorbs: Callable[[Node], bool],
        launches: bool,
        large: float | None,
        updates: Mapping[Node, Node],
    ) -> None:
        self.graph, self.updates = graph, updates
        self.launches = launches
        self.absorbs = absorbs
        self.inlined = {node for node in graph.nodes if inlines(node)}
        self.operands = operands
        self.outside = set(graph.inputs)
        self.refusals: dict[str, None] = {}
        self.roots = stored_values(graph, self.inlined, operands, large)
        self.compared = compared_with_extremes(graph)
        self.awaited = {storage(s) for node in graph.nodes if self._is_opaque(node) for s in operands(node)}
        self.home: dict[Node, FusionGroup] = {}
        self.groups: dict[int, FusionGroup] = {}
        self.needs = Needs(len(self.roots))
        for number, node in enumerate(node for node in graph.nodes if node in self.roots):
            self._found(number, node)

    def _is_opaque(self, node: Node) -> bool:
        return node not in self.inlined and not reduces_in_loops(node)

    def _found(self, number: int, node: Node) -> None:
        opaque = self._is_opaque(node)
        if node.op.kind == "reduction" and not opaque:
            group = FusionGroup(number, [node], node.sources[0].shape, reduced_axes(node))
        else:
            group = FusionGroup(number, [node], () if opaque else node.shape, (), opaque)
        self.home[node] = group
        self.groups[number] = group
        if opaque:
            group.reads = [Read(storage(s), IndexMap(None)) for s in self.operands(node)]
        else:
            group.reads = self.reads_of(node, group.space, group.axes)
        self.needs.add(number, [producer.number for producer in self.producers(group)])

    # --- reading ------------------------------------------------------------------------------------------------

    def reads_of(self, root: Node, space: Shape, axes: tuple[int, ...]) -> list[Read]:
        """The reads of a root's kernel, given the loops of a space."""
        found: dict[Read, None] = {}
        seen: set[tuple[Node, IndexMap]] = set()
        if root.op.kind == "reduction":
            stack = [(root.sources[0], everywhere(loops_of(space)))]
        else:
            place = root_place(root, space, axes)
            assert place is not None
            stack = self._sources(root, place)
        while stack:
            node, place = stack.pop()
            if (node, place) in seen:
                continue
            seen.add((node, place))
            if node in self.inlined and node not in self.roots:
                stack.extend(self._sources(node, place))
            else:
                found[Read(node, place)] = None
        return list(found)

    def _sources(self, node: Node, place: IndexMap) -> list[tuple[Node, IndexMap]]:
        if node.op.kind == "movement":
            return [(node.sources[0], moved_place(node, place))]
        if node.op is RANDOM_BITS:
            return [(storage(source), IndexMap(None)) for source in node.sources]
        return [(source, broadcast_place(place, node.shape, source.shape)) for source in node.sources]

    def producers(self, group: FusionGroup) -> list[FusionGroup]:
        """The other groups whose values a group reads."""
        found = {}
        for read in group.reads:
            home = self.home.get(storage(read.leaf)) or self.home.get(read.leaf)
            if home is not None and home is not group:
                found[home.number] = home
        return list(found.values())

    # --- merging ------------------------------------------------------------------------------------------------

    def may_merge(self, first: FusionGroup, second: FusionGroup) -> str | None:
        """Why two groups cannot share a kernel; None if they can."""
        if first.opaque or second.opaque:
            return "an opaque op is a kernel of its own"
        space, axes = common_space(first, second)
        if space is None:
            return f"their spaces differ: {first.space} reducing {first.axes}, {second.space} reducing {second.axes}"
        for group, other in ((first, second), (second, first)):
            for root in group.roots:
                if not fits(root, space, axes):
                    return f"{root.op.name} does not fit the space {space} reducing {axes}"
            for read in self._reads_in(group, space, axes):
                home = self.home.get(storage(read.leaf)) or self.home.get(read.leaf)
                if home is other and storage(read.leaf) in self.compared:
                    return f"{read.leaf.op.name} is compared with its maximum or minimum: both read it from memory"
                if home is other and not self._reads_own_element(read, space, axes):
                    return f"{group.roots[0].op.name} reads {read.leaf.op.name} at another element than it works on"
        if self._way_around(first, second):
            return "another kernel lies between them"
        return None

    def _reads_in(self, group: FusionGroup, space: Shape, axes: tuple[int, ...]) -> list[Read]:
        if (group.space, group.axes) == (space, axes):
            return group.reads
        return [read for root in group.roots for read in self.reads_of(root, space, axes)]

    def _reads_own_element(self, read: Read, space: Shape, axes: tuple[int, ...]) -> bool:
        leaf = read.leaf
        if read.place.guards or leaf not in self.home:
            return False
        own = root_place(leaf, space, axes)
        return own is not None and read.place.indices is not None and own.indices == read.place.indices

    def _spoils_update(self, first: FusionGroup, second: FusionGroup) -> str | None:
        return spoils_update(first, second, self.updates, self._reads_in) if self.updates else None

    def _way_around(self, first: FusionGroup, second: FusionGroup) -> bool:
        """Whether a third group depends on one of the two and the other depends on it."""
        for group, other in ((first, second), (second, first)):
            for producer in self.producers(group):
                if producer is not other and self.needs(producer.number, other.number):
                    return True
        return False

    def merge(self, first: FusionGroup, second: FusionGroup) -> FusionGroup:
        """Merge two groups; the second absorbs the first."""
        space, axes = common_space(first, second)
        assert space is not None
        second.reads = list(
            dict.fromkeys(read for group in (first, second) for read in self._reads_in(group, space, axes))
        )
        second.roots = sorted({*first.roots, *second.roots}, key=lambda node: node.serial)
        second.space, second.axes = space, axes
        for root in second.roots:
            self.home[root] = second
        self._join(first, second)
        return second

    def _join(self, first: FusionGroup, second: FusionGroup) -> None:
        """Make the first group part of the second."""
        del self.groups[first.number]
        self.needs.join(first.number, second.number)

    def run(self) -> None:
        """Merge producers into consumers, then neighbours that read the same value.

        Totals merge last. Two totals in one kernel wait for the operands of both, and their readers wait for both: the
        gradient of cross-entropy, which needs the number of counted rows, would wait for the loss of all rows.
        """
        self._merge_producers([number for number, group in self.groups.items() if not group.is_total])
        self._merge_producers(list(self.groups))
        self._merge_neighbours()
        if self.launches:
            self._merge_copies()
        self._absorb_epilogues()
        if not self.launches:
            self._absorb_totals()

    def _merge_producers(self, numbers: Iterable[int]) -> None:
        """Each of these groups absorbs its producers as far as possible."""
        for number in numbers:
            group = self.groups.get(number)
            while group is not None and not group.opaque:
                partner = next((p for p in self.producers(group) if self._merges(p, group)), None)
                if partner is None:
                    break
                group = self.merge(partner, group)

    def _absorb_epilogues(self) -> None:
        """A matrix product absorbs the elementwise group that reads it: bias, activation, an update of its weight."""
        readers: dict[Node, dict[FusionGroup, None]] = {}
        for reader in self.groups.values():
            for read in reader.reads:
                readers.setdefault(read.leaf, {})[reader] = None
        for group in [group for group in self.groups.values() if group.opaque and self.absorbs(group.roots[0])]:
            found = readers.get(group.roots[0], {})
            taken = next((g for g in found if self._is_epilogue(group, g)), None)
            if taken is not None and _spends(group, taken):
                self._absorb(group, taken)

    def _is_epilogue(self, group: FusionGroup, reader: FusionGroup) -> bool:
        node = group.roots[0]
        if reader.opaque or reader.reduces or reader.space != node.shape or self._way_around(group, reader):
            return False
        own = everywhere(loops_of(reader.space))
        return all(read.place == own for read in reader.reads if storage(read.leaf) is node)

    def _absorb(self, group: FusionGroup, reader: FusionGroup) -> None:
        """Make an elementwise group the epilogue of an opaque one; the merged group keeps the position."""
        reader.epilogue, reader.opaque = list(reader.roots), True
        reader.roots = [group.roots[0], *reader.roots]
        reader.reads = list(dict.fromkeys([*group.reads, *reader.reads]))
        for root in reader.roots:
            self.home[root] = reader
        self._join(group, reader)

    def _absorb_totals(self) -> None:
        """A group of row scalars absorbs the total over them, such as the loss of a batch."""
        for total in [group for group in self.groups.values() if group.is_total and group.reduces]:
            rows = next((g for g in self.producers(total) if self._is_of_rows(total, g)), None)
            if rows is not None and _spends(rows, total):
                rows.final_reduction = total
                rows.roots = sorted([*rows.roots, *total.roots], key=lambda node: node.serial)
                rows.reads = list(dict.fromkeys([*rows.reads, *total.reads]))
                for root in total.roots:
                    self.home[root] = rows
                self._join(total, rows)

    def _is_of_rows(self, total: FusionGroup, rows: FusionGroup) -> bool:
        if rows.opaque or rows.final_reduction is not None or not rows.reduces or rows.is_total:
            return False
        return total.space == reduced(rows.space, rows.axes, False) and not self._way_around(rows, total)

    def _belongs_to_product(self, group: FusionGroup, reader: FusionGroup) -> str | None:
        """Why an elementwise group belongs to the product before it rather than the reduction after it.

        The group's value is stored in either case, the product's own result then is not, and readers need not wait for
        the sum.
        """
        if group.opaque or group.reduces or not reader.reduces or self.awaited.isdisjoint(group.roots):
            return None
        for producer in self.producers(group):
            if producer.opaque and self.absorbs(producer.roots[0]) and self._is_epilogue(producer, group):
                return f"{producer.roots[0].op.name} takes {group.roots[0].op.name} in"
        return None

    def _merges(self, first: FusionGroup, second: FusionGroup) -> bool:
        reason = self.may_merge(first, second) or worth_merging(first, second, self.awaited)
        reason = reason or self._belongs_to_product(first, second) or self._spoils_update(first, second)
        if reason is not None and not (first.opaque or second.opaque):
            self.refusals[f"{first} and {second}: {reason}"] = None
        return reason is None and _spends(first, second)

    def _merge_neighbours(self) -> None:
        """Merge groups over the same space that read the same value, so that it is read once."""
        peers: dict[tuple[Shape, tuple[int, ...], Node], dict[FusionGroup, None]] = {}  # by space and by what they read
        for group in list(self.groups.values()):
            if group.opaque:
                continue
            space = (group.space, group.axes)
            around = {peer: None for leaf in group.large_reads() for peer in peers.get((*space, leaf), ())}
            partner = next((peer for peer in around if self._is_apart(peer, group)), None)
            if partner is not None and _spends(partner, group):
                for leaf in partner.large_reads():
                    del peers[(*space, leaf)][partner]
                self.merge(partner, group)
            for leaf in group.large_reads():
                peers.setdefault((*space, leaf), {})[group] = None

    def _merge_copies(self) -> None:
        """Merge a group that recomputes a value into later loops that read all its operands anyway."""
        for group in [group for group in self.groups.values() if group.is_copy]:
            partner = next((peer for peer in self.groups.values() if self._takes_along(peer, group)), None)
            if partner is not None and _spends(group, partner):
                self.merge(group, partner)

    def _takes_along(self, peer: FusionGroup, group: FusionGroup) -> bool:
        """Whether a later group reads every large operand of another and may merge with it."""
        if peer.number <= group.number or peer.opaque or peer.space != group.space:
            return False
        needed = {storage(leaf) for leaf in group.wide_reads()}
        read = {storage(leaf) for leaf in peer.wide_reads()}
        return needed <= read & self.home.keys() and self._is_apart(peer, group)

    def _is_apart(self, peer: FusionGroup, group: FusionGroup) -> bool:
        """Whether two independent groups may merge."""
        needed = self.needs(group.number, peer.number) or self.needs(peer.number, group.number)
        return not needed and (self.may_merge(peer, group) or self._spoils_update(peer, group)) is None

    def ordered(self) -> list[FusionGroup]:
        """The groups, each after its dependencies, otherwise in the order of the user's program."""
        producers = {number: [p.number for p in self.producers(group)] for number, group in self.groups.items()}
        order: list[FusionGroup] = []
        done: set[int] = set()
        waiting = sorted(producers)
        while waiting:
            later = []
            for number in waiting:
                if done.issuperset(producers[number]):
                    done.add(number)
                    order.append(self.groups[number])
                else:
                    later.append(number)
            if len(later) == len(waiting):
                raise AssertionError("the groups need each other in a circle")
            waiting = later
        return order

    def settle_stores(self) -> None:
        """Store a root if it is an output or another group reads it; store a product also for its epilogue."""
        needed = {storage(node) for node in self.graph.outputs}
        for group in self.groups.values():
            needed.update(leaf for leaf in self._leaves(group) if self.home.get(leaf) is not group)
        for group in self.groups.values():
            inside = set(group.roots[:1] if group.epilogue and not self.launches else [])
            if group.final_reduction is not None:  # and totals the rows
                inside.update(self._leaves(group.final_reduction))
            group.stored = [root for root in group.roots if root in needed or root in inside]

    def _leaves(self, group: FusionGroup) -> list[Node]:
        """The roots or outside values that a group reads; for a barrier, the value behind it."""
        return [read.leaf if read.leaf in self.home else storage(read.leaf) for read in group.reads]


def worth_merging(first: FusionGroup, second: FusionGroup, awaited: Container[Node] = ()) -> str | None:
    """Why merging a group into its reader would not pay; None if it would. Opaque ops read `awaited`.

    A row scalar that an opaque op reads is computed before the rows, which may in turn need that op's result.
    """
    if len(first.roots) + len(second.roots) > MOST_ROOTS:
        return "the kernel would grow too large to compile well"
    if not first.reduces and first.space != second.space and any(root in awaited for root in first.roots):
        return "an opaque op waits for a number a row"
    return None


def _spends(first: FusionGroup, second: FusionGroup) -> bool:
    return spend(first.roots[0], lambda: f"{first} and {second} are one kernel")


def grouped(
    graph: Graph,
    inlines: Callable[[Node], bool],
    operands: Callable[[Node], Iterable[Node]],
    absorbs: Callable[[Node], bool] = lambda node: False,
    launches: bool = False,
    large: float | None = None,
    updates: Mapping[Node, Node] = NOTHING,
) -> Grouping:
    """The groups of a graph.

    `inlines` says which ops are expressions in a loop, `operands` what an opaque op reads, `absorbs` whether it takes
    an elementwise epilogue. With `launches` every kernel is a device launch: epilogues then read results from
    registers, and totals of rows are separate kernels, so that nothing else waits for them. `large` is the number of
    elements from which a value may be stored to save reading its operands. `updates` maps inputs that may be
    overwritten by outputs to where the output is stored.
    """
    fusion = _Fusion(graph, inlines, operands, absorbs, launches, large, updates)
    fusion.run()
    fusion.settle_stores()
    return Grouping(fusion.ordered(), fusion.roots, fusion.inlined - fusion.roots, list(fusion.refusals))


def fuse(plan: Plan) -> Plan:
    """The plan with the groups of its graph. Without fuel every root is its own group."""
    codegen, epilogues = plan.codegen, plan.epilogues

    def operands(node: Node) -> Sequence[Node]:
        return (*codegen.reads(node), *epilogues[node].operands) if node in epilogues else codegen.reads(node)

    def absorbs(node: Node) -> bool:
        return node in epilogues or codegen.absorbs(node)

    large = math.inf if plan.target.invariant else None  # how a batch is cut into kernels must not depend on its size
    updates = {storage(plan.graph.outputs[k]): plan.graph.inputs[i] for i, k in plan.pairs}
    launches = plan.target.launches
    return replace(plan, grouping=grouped(plan.graph, codegen.inlines, operands, absorbs, launches, large, updates))
