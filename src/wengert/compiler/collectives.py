"""Passes over collectives: `algebra` removes some, `bucket` merges independent ones.

They run on the graph that all ranks share, before anything specific to a rank is inserted. All ranks make the same
decisions, so collectives stay in the same order on all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from wengert.compiler.rewrite import made_by, rewrite, spend
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.graph import Graph, Node, recorded_as, recording
from wengert.ops.collective import ALL_GATHER, ALL_REDUCE, ALL_REDUCE_MANY, BLOCK, REDUCE_SCATTER
from wengert.ops.op import pick

BUCKET_BYTES = 25 << 20
"""Up to which values are summed over the ranks in one collective."""
SUMS = frozenset((ALL_REDUCE, ALL_REDUCE_MANY, REDUCE_SCATTER))


def algebra(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with reduce-scatters for blocks of sums, and without values that are split only to be joined again."""
    read = _readers(graph)

    def rule(node: Node) -> Node | None:
        source = node.sources[0] if node.sources else node
        if node.op is BLOCK and made_by(source, ALL_REDUCE) and read.get(source, 0) == 1:
            return REDUCE_SCATTER(source.sources[0], **node.attrs) if _same_group(node, source) else None
        if node.op is ALL_GATHER and made_by(source, BLOCK) and source.attrs == node.attrs:
            return source.sources[0]
        if node.op is BLOCK and made_by(source, ALL_GATHER) and source.attrs == node.attrs:
            return source.sources[0]
        return None

    return rewrite(graph, rule)


def _readers(graph: Graph) -> dict[Node, int]:
    """The number of nodes and outputs that read each value."""
    counts: dict[Node, int] = {}
    for value in (*(source for node in graph.nodes for source in node.sources), *graph.outputs):
        counts[value] = counts.get(value, 0) + 1
    return counts


def _same_group(node: Node, other: Node) -> bool:
    return bool(node.attrs["group"] == other.attrs["group"])


# --- buckets --------------------------------------------------------------------------------------------------------


class _Bucket:
    """All-reduces of one group and dtype that do not depend on one another."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.members: list[Node] = []
        self.bytes = 0


class _Buckets:
    """Which sums share a bucket. The buckets that a node depends on are a bit set."""

    def __init__(self) -> None:
        self.all: list[_Bucket] = []
        self.open: dict[Hashable, _Bucket] = {}
        self.needs: dict[Node, int] = {}  # the buckets that a node depends on
        self.bucket_needs: list[int] = []  # the buckets that a bucket's members depend on

    def visit(self, node: Node) -> None:
        """Record a node's dependencies, and put it into a bucket if it is a sum."""
        needs = 0
        for source in node.sources:
            needs |= self.needs.get(source, 0)
        if node.op is ALL_REDUCE:
            bucket = self._bucket_for(node, needs)
            bucket.members.append(node)
            bucket.bytes += node.size * int(node.dtype.itemsize)
            self.bucket_needs[bucket.number] |= needs
            needs |= 1 << bucket.number
        self.needs[node] = needs

    def _bucket_for(self, node: Node, needs: int) -> _Bucket:
        key = (node.attrs["group"], node.dtype, node.device)
        size = node.size * int(node.dtype.itemsize)
        held = self.open.get(key)
        if held is None or held.bytes + size > BUCKET_BYTES or self._reach(needs) >> held.number & 1:
            held = self.open[key] = _Bucket(len(self.all))
            self.all.append(held)
            self.bucket_needs.append(0)
        return held

    def _reach(self, needs: int) -> int:
        """All buckets that must run before these."""
        while True:
            found = needs
            for number, own in enumerate(self.bucket_needs):
                if needs >> number & 1:
                    found |= own
            if found == needs:
                return needs
            needs = found


def bucket(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with independent sums over the ranks merged into collectives of up to 25 MiB."""
    buckets = _Buckets()
    order = when_ready(graph)
    for node in order:
        buckets.visit(node)
    together = {node: b for b in buckets.all if len(b.members) > 1 for node in b.members}
    if not together:
        return graph
    return _Joined(graph, order, together).graph


def when_ready(graph: Graph) -> list[Node]:
    """The nodes in an order in which every collective directly follows what it needs.

    A recorded graph sums a gradient where the optimizer reads it, in the order of the parameters, while the backward
    pass produces gradients in about the reverse order.
    """
    place = {node: number for number, node in enumerate(graph.nodes)}
    ready: dict[Node, tuple[int, int]] = {}
    for number, node in enumerate(graph.nodes):
        needed = max((ready[source] for source in node.sources if source in place), default=(-1, 0))
        ready[node] = (needed[0], needed[1] + 1) if node.op.collective else (number, 0)
    return sorted(graph.nodes, key=lambda node: (ready[node], place[node]))


class _Joined:
    """A graph in which the members of a bucket are results of one node, placed where all of them are ready."""

    def __init__(self, graph: Graph, order: Sequence[Node], together: dict[Node, _Bucket]) -> None:
        self.together = together
        self.known = set(graph.nodes)
        self.made: dict[Node, Node] = {}
        with recorded_as(recording.location, recording.grad) as inside:
            self.inside = inside
            for node in order:
                if (
                    node not in together or node is together[node].members[-1]
                ):  # a bucket takes the position of its last member
                    self._require(node)
        self.graph = Graph(graph.inputs, [self.made.get(node, node) for node in graph.outputs])

    def _require(self, target: Node) -> None:
        """Record a node after everything it needs; a bucket member needs what any member needs."""
        agenda = [target]
        while agenda:
            node = agenda[-1]
            if node in self.made:
                agenda.pop()
                continue
            needed = self.together[node].members if node in self.together else [node]
            missing = [s for n in needed for s in n.sources if s in self.known and s not in self.made]
            if missing:
                agenda += missing
                continue
            agenda.pop()
            self._record(node)

    def _record(self, node: Node) -> None:
        recording.location, self.inside.grad = node.location, node.tracked
        held = self.together.get(node)
        if held is None:
            made = node.op(*self._sources(node), **node.attrs)
            if not node.sources:
                made.device = node.device
            self.made[node] = made
            return
        spend(node, lambda: f"{len(held.members)} sums in one collective")
        whole = ALL_REDUCE_MANY(*[s for member in held.members for s in self._sources(member)], **node.attrs)
        for i, member in enumerate(held.members):
            self.made[member] = pick(whole, i)

    def _sources(self, node: Node) -> list[Node]:
        return [self.made.get(source, source) for source in node.sources]


def collectives(graph: Graph) -> list[Node]:
    """The collectives of a graph, in the order in which every rank runs them."""
    return [node for node in graph.nodes if node.op.collective]


def numbered(graph: Graph) -> Graph:
    """The graph with its collectives numbered, so that their order is fixed whatever a rank does to its graph.

    The last sum that is larger than a bucket moves ahead of those just before it, up to a bucket's worth, which become
    `late`. Where collectives overlap with kernels, work that depends only on the late sums then runs after work that
    needs the large one. The gradient of an embedding is such a sum: it comes at the end of the backward pass, and
    otherwise nothing would overlap with it.
    """
    found = [node for node in when_ready(graph) if node.op.collective]
    late = _put_behind_the_largest(found)
    for number, node in enumerate(found):
        node.attrs = {**node.attrs, "number": number, **({"late": True} if node in late else {})}
    return graph


def _put_behind_the_largest(order: list[Node]) -> set[Node]:
    """Move the last sum that is larger than a bucket forward; returns the sums that then follow it."""
    place = max((k for k, node in enumerate(order) if node.op in SUMS and _put_in(node) > BUCKET_BYTES), default=None)
    if place is None:
        return set()
    large, needed = order[place], _needed(order[place])
    first, left = place, BUCKET_BYTES - sum(map(_put_in, order[place + 1 :]))
    while first and order[first - 1].op in SUMS and order[first - 1] not in needed:
        left -= _put_in(order[first - 1])
        if left < 0:
            break
        first -= 1
    order[first : place + 1] = [large, *order[first:place]]
    return {node for node in order[first + 1 :] if node.op in SUMS and large not in _needed(node)}


def _put_in(node: Node) -> int:
    return sum(source.size * int(source.dtype.itemsize) for source in node.sources)


def _needed(node: Node) -> set[Node]:
    """Everything that a node is computed from."""
    found, agenda = set[Node](), list(node.sources)
    while agenda:
        source = agenda.pop()
        if source not in found:
            found.add(source)
            agenda += source.sources
    return found
