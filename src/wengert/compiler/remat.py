"""Rematerialisation: cheap values are recomputed for late readers instead of being kept.

In: a graph. Out: the graph with copies of some pointwise values, recorded over `recompute_barrier(x)` of their
operands, for readers that come after the memory peak: in a training step, the turn from the forward to the backward
pass.

Memory is modelled over the graph's order: a value that fusion would store occupies its bytes from its definition to its
last read. A value that is live across the peak may be recomputed if it comes, through elementwise and movement ops
alone, from values that are live there anyway (or are small in comparison), and if a separate kernel (a matrix product,
a convolution) lies between it and the peak; what is read immediately is not stored anyway.

Without a budget, recomputation is limited to almost free cases: up to `CHEAP` additions per element, for readers that
are loops and compute the value as they go. A large program on a GPU goes a little further, until a `SHARE` of the peak
is saved: there a value may be stored again for a late product, if a loop that reads its operands anyway can write it in
passing, as when the loop that needs gelu's slope also writes gelu. With a budget in bytes all other candidates follow,
cheapest first (on a GPU largest first), until the model meets the budget. More expensive values are never recomputed:
use `checkpoint` for those.

Before all that, relu: its result is 0 exactly where its argument is at most 0. If the result is kept for a later
product and the argument only for its sign, late readers test the result instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from wengert.compiler.memory import RECOMPUTE_UP_TO, Life, compared_with_extremes, live, storage, stored_values, times
from wengert.compiler.rewrite import over, spend
from wengert.core.devices import HOST_TARGET, Target, is_host
from wengert.core.graph import Graph, Node, Shape, recorded_as
from wengert.ops.core import LITERAL, RECOMPUTE_BARRIER, recompute_barrier
from wengert.ops.creation import IOTA
from wengert.ops.elementwise import less_equal, where
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import PERMUTE

CHEAP = 32  # additions per element: about the cost of storing a value and reading it back
SMALL = 1 << 16  # bytes; smaller values are not worth it
PLENTY = 1 << 30  # peak bytes from which a GPU stores recomputed values
SHARE = 16  # the peak is reduced by this fraction (1 / SHARE)
ROUNDS = 4  # how often the peak is located again: it moves as memory is saved


def remat(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with cheap values recomputed after its memory peak.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x, w = placeholder((256, 256), wg.float32), placeholder((256, 256), wg.float32)
    >>> h = wg.sigmoid(wg.Tensor(x) * 2)
    >>> y = wg.tanh(h @ wg.Tensor(w)) @ wg.Tensor(w) + h
    >>> [node.op.name for node in remat(Graph([x, w], [y.node])).nodes if node.sources]
    ['multiply', 'sigmoid', 'matmul', 'tanh', 'matmul', 'recompute_barrier', 'multiply', 'sigmoid', 'add']
    """
    model = _MemoryModel(graph)
    graph = _signs_of_results(graph, model)
    aim = target.budget if target.budget is not None else model.most - model.most // SHARE
    for _ in range(ROUNDS):
        model = model if model.graph is graph else _MemoryModel(graph)
        chosen = [value for value in model.chosen(aim, target.budget is not None) if _spends(value)]
        if not chosen:
            break
        graph = _recomputed(graph, model, chosen)
    return graph


def _spends(node: Node) -> bool:
    return spend(node, lambda: f"{node.op.name} is computed again")


def _bytes(node: Node) -> int:
    return 0 if isinstance(node.dtype, tuple) else node.size * node.dtype.itemsize


def _price(node: Node, additions: float) -> float:
    """The order in which values are chosen: by additions on a CPU; on a GPU, bound by memory, the largest first."""
    return additions if is_host(node.device) else 0


def _is_pointwise(node: Node) -> bool:
    if node.op.kind in ("elementwise", "movement"):
        return not node.op.can_fail
    return node.op in (LITERAL, IOTA, RECOMPUTE_BARRIER)


def _is_call(node: Node) -> bool:
    """Whether an op is a separate kernel."""
    return not _is_pointwise(node) and node.op.kind not in ("reduction", "tuple")


def is_relu(node: Node) -> bool:
    """Whether a node is 0 where its argument is at most 0, and its argument elsewhere."""
    if node.op is not where or node.sources[0].op is not less_equal:
        return False
    sign, zero, argument = node.sources
    return sign.sources[0] is argument and _is_zero(sign.sources[1]) and _is_zero(zero)


def _is_zero(node: Node) -> bool:
    return node.op is LITERAL and bool(node.attrs["value"] == 0)


def _operands(node: Node) -> Sequence[Node]:
    """What a call reads from memory: a matrix product reads a transpose in place."""
    if node.op is MATMUL:
        return [s.sources[0] if s.op is PERMUTE else s for s in node.sources]
    return node.sources


class _MemoryModel:
    """The lifetimes of a graph's values, if its nodes run in order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.at = {node: position for position, node in enumerate(graph.nodes)}
        inlined = {node for node in graph.nodes if _is_pointwise(node)}
        self.stored = stored_values(graph, inlined, _operands)
        self.once = compared_with_extremes(graph)  # values that must not be recomputed
        self.kept = {storage(node) for node in graph.outputs}
        self.ends = self._ends()
        self.peak = self._fullest()

    def _ends(self, early: Collection[Node] = ()) -> dict[Node, int]:
        """The last read of each value; a value that is not stored passes its reads on to its operands.

        `early` are values that are not recomputed for their readers.
        """
        ends: dict[Node, int] = {}
        for node in reversed(self.graph.nodes):
            own = self.at[node]
            end = own if node in self.stored or node in early else ends.get(node, own)
            for source in node.sources:
                ends[source] = max(ends.get(source, 0), end)
        return ends

    def _lives(self) -> list[tuple[Node, int, int]]:
        """The program's own values in memory, each with its definition and last read."""
        return [(n, self.at[n], self.ends.get(n, self.at[n])) for n in self.stored if n not in self.kept]

    def _fullest(self) -> int:
        alive = {node: Life(start, end) for node, start, end in self._lives()}
        self.held = live(alive, {node: _bytes(node) for node in alive})
        peak = self.held.index(max(self.held)) if self.held else 0
        self.most = self.held[peak] - self._written_over(alive, peak) if self.held else 0
        return peak

    def _written_over(self, alive: Mapping[Node, Life], peak: int) -> int:
        """The bytes saved at the peak because a GPU writes the result over its last-read operand."""
        result = self.graph.nodes[peak]
        if is_host(result.device) or result not in alive or not _is_pointwise(result):
            return 0
        dying = [node for node, life in alive.items() if life.last == peak and node is not result]
        alike = any(node.dtype == result.dtype and node.size == result.size for node in dying)
        return _bytes(result) if alike else 0

    # --- choosing -----------------------------------------------------------------------------------------------

    def chosen(self, aim: int, at_any_cost: bool) -> list[Node]:
        """The values to recompute, in graph order, to save this many bytes.

        Almost free values are always included, more expensive ones only with `at_any_cost`.
        """
        calls = [self.at[node] for node in self.graph.nodes if _is_call(node) and self.at[node] <= self.peak]
        turn = max(calls, default=-1)
        across = [node for node, start, end in self._lives() if start < turn and self.peak < end]
        values = [node for node in across if _is_pointwise(node) and _bytes(node) >= SMALL and self._saves(node)]
        values = [node for node in values if node not in self.once]
        costs = {value: self._costs(value) for value in values}
        found = self._free(costs)
        excess = self.most - aim - sum(map(_bytes, found))
        payable = self._made_on_the_way(costs) if at_any_cost else self._written_in_passing(costs, aim)
        for value in sorted(payable - found, key=lambda n: (_price(n, costs[n]), -_bytes(n), self.at[n])):
            if excess > 0:
                found.add(value)
                excess -= _bytes(value)
        return sorted(found, key=self.at.__getitem__)

    def _free(self, costs: Mapping[Node, float]) -> set[Node]:
        """Those of the values that cost next to nothing to recompute."""
        stored_again = self._operands_after_peak()
        cheap = [node for node in costs if costs[node] <= CHEAP and node not in stored_again]
        return {node for node in cheap if not self._reads_more(node)}

    def _operands_after_peak(self) -> set[Node]:
        """Operands of calls after the peak: their copies are stored, though for a shorter time."""
        calls = [node for node in self.graph.nodes[self.peak + 1 :] if _is_call(node)]
        return {storage(source) for node in calls for source in _operands(node)}

    def _made_on_the_way(self, values: Collection[Node]) -> set[Node]:
        """The values except those a GPU computes from inputs alone: it casts all weights early, in one launch."""
        own = self.at.keys()
        return {v for v in values if is_host(v.device) or not own.isdisjoint(self._expression(v)[1])}

    def _written_in_passing(self, costs: Mapping[Node, float], aim: int) -> set[Node]:
        """Those of the values that a late loop on a GPU can write as it goes, in a large program.

        The loop reads all their operands, and runs when memory is available.
        """
        if self.most < PLENTY:
            return set()
        late = [
            n for n in costs if not is_host(n.device) and costs[n] <= RECOMPUTE_UP_TO and self.held[self.ends[n]] <= aim
        ]
        loops = self._late_loops({value.shape for value in late})
        found = set()
        for value in late:
            leaves = {leaf for leaf in self._expression(value)[1] if leaf.size * 4 > value.size}
            if leaves and leaves <= self.at.keys() and any(leaves <= read for read in loops.get(value.shape, ())):
                found.add(value)
        return found

    def _late_loops(self, spaces: Collection[Shape]) -> dict[Shape, list[set[Node]]]:
        """By iteration space, the values that loops after the peak read."""
        found: dict[Shape, list[set[Node]]] = {}
        for node in self.graph.nodes[self.peak + 1 :]:
            if node in self.stored and not _is_call(node) and node.sources:
                space = node.sources[0].shape if node.op.kind == "reduction" else node.shape
                if space in spaces:
                    found.setdefault(space, []).append(set(self._expression(node)[1]))
        return found

    def kept_relus(self) -> list[Node]:
        """The relus whose results are kept while something else is kept only for the signs of their arguments."""
        early = self.graph.nodes[: self.peak + 1]
        relus = {node.sources[0]: node for node in early if is_relu(node) and self._is_late(node)}
        for sign in {s for node in early for s in node.sources if s in relus and relus[s] is not node} | self.kept:
            relus.pop(sign, None)
        ends = self._ends(relus)
        return [relu for sign, relu in relus.items() if self._frees(sign, ends)]

    def _frees(self, sign: Node, ends: dict[Node, int]) -> bool:
        """Whether something large is kept only for late readers of a sign; without them, reads end as given."""
        if sign in self.stored:
            return self._is_late(sign) and _bytes(sign) >= SMALL
        leaves = [leaf for leaf in self._expression(sign)[1] if self._is_late(leaf) and leaf not in self.kept]
        return any(_bytes(leaf) >= SMALL and ends.get(leaf, 0) <= self.peak for leaf in leaves)

    def _is_late(self, node: Node) -> bool:
        """Whether a value is stored and read after the peak."""
        return node in self.stored and self.ends.get(node, 0) > self.peak

    def _expression(self, value: Node) -> tuple[list[Node], list[Node]]:
        """The nodes that compute a value from stored values, and those values."""
        nodes, leaves, agenda, seen = [value], [], list(value.sources), {value}
        while agenda:
            node = agenda.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in self.at and node not in self.stored and _is_pointwise(node):
                nodes.append(node)
                agenda += node.sources
            else:
                leaves.append(node)
        return nodes, leaves

    def _costs(self, value: Node) -> float:
        """The cost per element, in additions."""
        efforts: dict[Node, float] = {}
        for node in sorted(self._expression(value)[0], key=self.at.__getitem__):
            efforts[node] = node.op.cost + sum(efforts.get(s, 0) * times(s, node) for s in node.sources)
        return efforts[value]

    def _reads_more(self, value: Node) -> bool:
        """Whether recomputing a value reads more GPU memory than reading the value itself."""
        read = sum(_bytes(leaf) for leaf in self._expression(value)[1])
        return not is_host(value.device) and read > 1.5 * _bytes(value)

    def _saves(self, value: Node) -> bool:
        """Whether keeping a value's operands alive costs only a small part of the value's own bytes."""
        leaves = [leaf for leaf in self._expression(value)[1] if leaf in self.at]
        more = sum(_bytes(leaf) for leaf in leaves if self.ends[leaf] <= self.peak and leaf not in self.kept)
        return more * 4 <= _bytes(value)


def _signs_of_results(graph: Graph, model: _MemoryModel) -> Graph:
    """The graph whose late readers of the sign of a relu's argument test its result, where that is kept."""
    results = {relu.sources[0]: relu for relu in model.kept_relus() if _spends(relu.sources[0])}
    if not results:
        return graph
    replacing: dict[Node, Node] = {}
    nodes: list[Node] = []
    for position, node in enumerate(graph.nodes):
        if position > model.peak:
            for sign in [source for source in node.sources if source in results and source not in replacing]:
                with recorded_as(sign.location, sign.tracked):
                    kept = recompute_barrier(results[sign])
                replacing[sign] = over(sign, {sign.sources[0]: kept})
                nodes += [kept, replacing[sign]]
            current = over(node, replacing)
            if current is not node:
                replacing[node] = current
            node = current
        nodes.append(node)
    return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes)


def _recomputed(graph: Graph, model: _MemoryModel, chosen: Collection[Node]) -> Graph:
    """The graph in which nodes after the peak read copies of the chosen values."""
    late = _Copies(model, chosen)
    replacing: dict[Node, Node] = {}
    nodes: list[Node] = []
    for position, node in enumerate(graph.nodes):
        current = node
        if position > model.peak:
            sources = [late.copy(s, nodes) if s in late.touched else replacing.get(s, s) for s in node.sources]
            current = over(node, dict(zip(node.sources, sources)))
        if current is not node:
            replacing[node] = current
        nodes.append(current)
    return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes)


class _Copies:
    """Copies of the chosen values, and of values computed from them at the point of use, for late readers."""

    def __init__(self, model: _MemoryModel, chosen: Collection[Node]) -> None:
        self.model = model
        self.touched = set(chosen)  # values recomputed for late readers
        for node in model.graph.nodes[: model.peak + 1]:
            inlined = node not in model.stored and _is_pointwise(node)
            if inlined and not self.touched.isdisjoint(node.sources):
                self.touched.add(node)
        self.copies: dict[Node, Node] = {}

    def copy(self, value: Node, nodes: list[Node]) -> Node:
        """The copy of a value; nodes created for it are appended."""
        agenda = [value]
        while agenda:
            node = agenda[-1]
            missing = [s for s in node.sources if s not in self.copies] if self._is_copied(node) else []
            if missing:
                agenda += missing
                continue
            agenda.pop()
            if node not in self.copies:
                self.copies[node] = self._made(node)
                if self.copies[node] is not node:
                    nodes.append(self.copies[node])
        return self.copies[value]

    def _is_copied(self, node: Node) -> bool:
        model = self.model
        inlined = node in model.at and node not in model.stored and _is_pointwise(node)
        return node in self.touched or (inlined and bool(node.sources))

    def _made(self, node: Node) -> Node:
        if node.op is LITERAL or (node in self.model.at and not node.sources):
            return node
        with recorded_as(node.location, node.tracked):
            return over(node, self.copies) if self._is_copied(node) else recompute_barrier(node)
