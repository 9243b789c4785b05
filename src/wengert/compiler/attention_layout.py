"""Attention layout: attention on a GPU reads its heads out of one value and writes them side by side.

In: a graph. Out: the graph without the copies that only split or join heads. A model computes queries, keys and values
in one product, (batch, length, 3 * heads * features), then slices and permutes it. It joins the heads of the result
into such rows again, and the backward pass does the same with the three cotangents. The attention kernels accept
operands with any strides and can write rows of all heads (`joined`):

    cast(permute(slice(x)))             permute(slice(cast(x))): one cast, read three times
    permute(attention(...))             attention(..., joined=True)
    the three cotangents, permuted,     attention_backward(..., joined=True), one value
    placed into zeros and added
"""

from __future__ import annotations

from wengert.compiler.rewrite import for_ops, over, spend
from wengert.core.devices import HOST_TARGET, Target, is_host
from wengert.core.graph import Graph, Node, recorded_as
from wengert.ops.attention import ATTENTION, ATTENTION_BACKWARD
from wengert.ops.core import CAST, cast
from wengert.ops.elementwise import add
from wengert.ops.movement import PERMUTE, PLACE, RESHAPE, SLICE, reshape
from wengert.ops.op import PICK, pick

_SWAP = (0, 2, 1, 3)  # heads and rows
_MOVES = (PERMUTE, RESHAPE, SLICE)


@for_ops(ATTENTION, ATTENTION_BACKWARD)
def attention_layout(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with attention reading and writing heads in place; the same graph when not on a GPU."""
    found = [node for node in graph.nodes if _is_chosen(node)]
    return _Heads(graph, found).graph() if found else graph


def _is_chosen(node: Node) -> bool:
    return node.op in (ATTENTION, ATTENTION_BACKWARD) and not is_host(node.device)


class _Heads:
    def __init__(self, graph: Graph, attentions: list[Node]) -> None:
        self.before, self.inside, self.outputs = graph, set(graph.nodes), set(graph.outputs)
        self.readers: dict[Node, list[Node]] = {}
        for node in graph.nodes:
            for source in dict.fromkeys(node.sources):
                self.readers.setdefault(source, []).append(node)
        self.bases = {node: base for node in attentions if (base := self._base(node)) is not None and _spends(node)}
        self.rows = {permute: node for node in attentions for permute in self._joining(node)}
        self.totals: dict[Node, Node] = {}  # by the sum of three cotangents: their backward
        self.gone: set[Node] = set()  # the nodes between the two
        for node in graph.nodes:
            if node.op is add and not is_host(node.device) and node.ndim == 3:
                self._find_total(node)
        self.joined = {*self.rows.values(), *self.totals.values()}
        self.replacing: dict[Node, Node] = {}
        self.nodes: dict[Node, None] = {}
        self.made: dict[Node, Node] = {}  # casts by base, views by operand, results by attention

    # --- what there is to do ----------------------------------------------------------------------------------------

    def _only_reader(self, node: Node) -> Node | None:
        readers = self.readers.get(node, ())
        return readers[0] if len(readers) == 1 and node not in self.outputs else None

    def _base(self, node: Node) -> Node | None:
        """The value that queries, keys and values are all slices of, if each is cast separately."""
        operands = node.sources[node.op is ATTENTION_BACKWARD :][:3]
        if not all(x.op is CAST and x in self.inside and x.sources[0].op in _MOVES for x in operands):
            return None
        bases = {self._moved(x.sources[0])[-1] for x in operands}
        (base, *others) = bases
        return base if not others and sum(x.size for x in operands) == base.size else None

    def _moved(self, x: Node) -> list[Node]:
        """A value, the value it moves, and so on down the chain of movement ops."""
        chain = [x]
        while chain[-1].op in _MOVES and chain[-1] in self.inside:
            chain.append(chain[-1].sources[0])
        return chain

    def _joining(self, node: Node) -> list[Node]:
        """The permutations that join the heads of a result, if nothing else reads it."""
        readers = self.readers.get(node, ())
        if node.op is not ATTENTION or node.ndim != 4 or node in self.outputs or not readers:
            return []
        swaps = all(reader.op is PERMUTE and reader.attrs["axes"] == _SWAP for reader in readers)
        return list(readers) if swaps and _spends(node) else []

    def _find_total(self, total: Node) -> None:
        """Record a sum that consists exactly of one attention's three cotangents side by side."""
        inner = [x for x in total.sources if x.op is add and self._only_reader(x) is total]
        laid = [x for one in (total, *inner) for x in one.sources if x not in inner]
        ways = [self._way(x) for x in laid]
        backwards = {way[-1].sources[0] for way in ways if way}
        if len(inner) != 1 or not all(ways) or len(backwards) != 1:
            return
        (backward,) = backwards
        shapes = {x.shape for x in backward.sources[:4]}
        if len(shapes) > 1 or len(self.readers[backward]) != 3:
            return
        batch, heads, rows, features = shapes.pop()
        wide = heads * features
        places = {way[-1].attrs["index"]: way[0].attrs["starts"] for way in ways}
        in_order = places == {i: (0, 0, i * wide) for i in range(3)}
        if in_order and total.shape == (batch, rows, 3 * wide) and _spends(total):
            self.totals[total] = backward
            self.gone.update(inner, *ways)

    def _way(self, laid: Node) -> list[Node]:
        """The path from a placed value back to the cotangent it holds, heads joined; empty if it is anything else."""
        way = [laid]
        while way[-1].op in (PLACE, RESHAPE, PERMUTE, CAST) and way[-1] in self.inside:
            way.append(way[-1].sources[0])
        moves = [x for x in way if x.op is not CAST]
        if [x.op for x in moves] != [PLACE, RESHAPE, PERMUTE, PICK] or moves[2].attrs["axes"] != _SWAP:
            return []
        if len(way) > len(moves) + 1:  # two casts may round in between
            return []
        cotangent, shape = moves[3], laid.sources[0].shape
        heads_joined = (*moves[2].shape[:2], moves[2].shape[2] * moves[2].shape[3])
        fits = cotangent.sources[0].op is ATTENTION_BACKWARD and shape == heads_joined
        return way if fits and all(self._only_reader(x) for x in way) else []

    # --- doing it ---------------------------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The rewritten graph."""
        for node in self.before.nodes:
            if node in self.rows:
                self.replacing[node] = self.made[self.rows[node]]
            elif node in self.totals or node in self.joined or node in self.bases:
                with recorded_as(node.location, node.tracked):
                    self._make(node)
            elif node not in self.gone:
                self._add(over(node, self.replacing), node)
        if not self.replacing:
            return self.before
        outputs = [self.replacing.get(node, node) for node in self.before.outputs]
        return Graph(self.before.inputs, outputs, nodes=list(self.nodes))

    def _add(self, node: Node, instead_of: Node | None = None) -> Node:
        self.nodes[node] = None
        if instead_of is not None and node is not instead_of:
            self.replacing[instead_of] = node
        return node

    def _make(self, node: Node) -> None:
        """Record an attention, or the sum of its cotangents, in the new form."""
        if node not in self.totals:
            self._attention(node)
            return
        whole = self._add(reshape(self.made[self.totals[node]], node.shape))
        self.replacing[node] = self._add(cast(whole, node.dtype))

    def _attention(self, node: Node) -> None:
        views = {x: self._view(x, self.bases[node]) for x in node.sources if node in self.bases and x.op is CAST}
        sources = [views[x] if x in views else self.replacing.get(x, x) for x in node.sources]
        if node not in self.joined:
            self._add(node.op(*sources, **node.attrs), node)
            return
        found = self._add(node.op(*sources, **node.attrs, joined=True))
        self.made[node] = found if node.op is ATTENTION else self._add(pick(found, 0))

    def _view(self, operand: Node, base: Node) -> Node:
        """An operand as a view of the shared cast that all three operands come from."""
        chain = self._moved(operand.sources[0])
        if chain[-1] is not base:
            return self.replacing.get(operand, operand)
        if operand not in self.made:
            if base not in self.made:
                self.made[base] = self._add(cast(self.replacing.get(base, base), operand.dtype))
            found = self.made[base]
            for move in reversed(chain[:-1]):
                found = self._add(move.op(found, **move.attrs))
            self.made[operand] = found
        return self.made[operand]


def _spends(node: Node) -> bool:
    return spend(node, lambda: f"the heads of {node.op.name} stay where they lie")
