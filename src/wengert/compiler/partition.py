"""Partition: turns a graph with global shapes into the graph of one rank, along one axis of a mesh.

In: a graph, a group (one axis of a mesh), and the state of each input over its ranks. Out: the graph of any of the
ranks with the collectives it needs, and the states of the outputs. The graph is the same on all ranks: a rank's own
block of a value is an op, `block`, until `localize`.

Every value has one or more states (`states`), each a node of the new graph. Of the ways to compute a node from blocks
(`cuts`), the one that moves the fewest bytes is chosen, the first in a tie, so that every rank decides alike. If none
fits, the node's sources are gathered and it is computed whole, which is always correct; `explain("partition")` reports
the bytes that this moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wengert.compiler.cuts import NodeCut, factor_cuts, lookup_cuts, movement_cuts, written_block
from wengert.compiler.gathered import Gathered, reason
from wengert.compiler.linear import COMBINED, is_linear
from wengert.compiler.rewrite import spend
from wengert.compiler.states import (
    PARTIAL,
    WHOLE,
    Like,
    Sharded,
    State,
    Stored,
    block,
    block_shape,
    bytes_of,
    exchanged,
    gathered,
    scattered,
)
from wengert.compiler.wishes import wishes
from wengert.core.graph import Graph, Node, recorded_as, recording
from wengert.core.mesh import Group
from wengert.ops.collective import ALL_REDUCE
from wengert.ops.core import placeholder
from wengert.ops.movement import BROADCAST, broadcast_to
from wengert.ops.op import PACK, PICK


class Option(NamedTuple):
    """A way to compute a node, and the bytes it moves."""

    moved: float
    cut: NodeCut
    home: Sharded | None = None  # the sources' states before an exchange for this node
    place: int = 0  # in a tie, the option whose sources had the state first wins


@dataclass
class Partitioned:
    """The graph of a rank, the states of its outputs, and the nodes for which distributed values are gathered."""

    graph: Graph
    outputs: list[State]
    gathered: list[Gathered] = field(default_factory=list)


def partition(
    graph: Graph,
    group: Group,
    inputs: Sequence[State],
    outputs: Mapping[int, State],
    store: Group | None = None,
    exact: bool = False,
) -> Partitioned:
    """The graph of a rank of a group.

    `inputs` are the states of the graph's inputs, `outputs` the required states of some outputs. Stored blocks belong
    to the ranks of `store`, if that is another group (see `parts`). If `exact`, a stored value is never summed block by
    block, because the order of additions would depend on the number of blocks.
    """
    walk = _States(graph, group, store or group, exact)
    placed = walk.take(inputs)
    with recorded_as(recording.location, recording.grad) as inside:
        for node in graph.nodes:
            recording.location, inside.grad = node.location, node.tracked
            walk.visit(node)
        results: list[Node] = []
        states: list[State] = []
        for k, node in enumerate(graph.outputs):
            state = outputs.get(k) or walk.resting(node)
            state = states[state.output] if isinstance(state, Like) else state
            recording.location = node.location
            results.append(walk.in_state(node, state))
            states.append(state)
    return Partitioned(Graph(placed, results), states, walk.gathered)


class _States:
    """The states of each value, recorded node by node."""

    def __init__(self, graph: Graph, group: Group, store: Group, exact: bool) -> None:
        self.graph, self.group, self.store, self.exact = graph, group, store, exact
        self.n = group.size
        self.states: dict[Node, dict[State, Node]] = {}
        self.gathered: list[Gathered] = []
        self.wishes: dict[Node, Stored] = {}
        self.readers = _readers(graph)
        self.homes: dict[Node, Sharded] = {}  # the results' states that `exchanged` would restore

    # --- inputs and outputs -------------------------------------------------------------------------------------

    def take(self, inputs: Sequence[State]) -> list[Node]:
        """Create placeholders for the inputs in these states."""
        placed = []
        for node, state in zip(self.graph.inputs, inputs):
            if node in self.states:
                placed.append(self.states[node][state])
                continue
            count = {Sharded: self.n, Stored: self.store.size}.get(type(state), 1)
            shape = block_shape(node.shape, state.axis, count) if count > 1 else node.shape
            local = placeholder(shape, node.dtype, node.device, node.tracked)
            self.states[node] = {state: local}
            placed.append(local)
        for node in self.graph.captured():
            self.states.setdefault(node, {WHOLE: node})
        self.wishes = wishes(self.graph, self.states)
        return placed

    def resting(self, node: Node) -> State:
        """The state in which to return a value when no particular state is requested."""
        states = self.states[node]
        for state in states:
            if isinstance(state, (Sharded, Stored)):
                return WHOLE if WHOLE in states else state
        return WHOLE

    # --- conversions --------------------------------------------------------------------------------------------

    def in_state(self, node: Node, state: State) -> Node:
        """A value in a given state, converted from the cheapest state available."""
        states = self.states[node]
        if state not in states:
            states[state] = self._converted(node, state)
        return states[state]

    def _converted(self, node: Node, state: State) -> Node:
        states = self.states[node]
        spend(node, lambda: f"{node.op.name} becomes {state}")
        if WHOLE in states:
            return self._of_whole(node, states[WHOLE], state)
        if isinstance(state, Stored) and PARTIAL in states:
            if self.store == self.group:
                return scattered(states[PARTIAL], state, self.group)
            return block(ALL_REDUCE(states[PARTIAL], group=self.group), state, self.store)
        if isinstance(state, Sharded):
            held = next((s for s in states if isinstance(s, Sharded) and s.axis != state.axis), None)
            if held is not None:
                return exchanged(states[held], held, state, self.group)
            if PARTIAL in states:
                return scattered(states[PARTIAL], state, self.group)
        return self._of_whole(node, self._whole(node), state)

    def _whole(self, node: Node) -> Node:
        states = self.states[node]
        for kind, group in ((Stored, self.store), (Sharded, self.group)):
            for held, local in states.items():
                if isinstance(held, kind):
                    states[WHOLE] = gathered(local, held, group)
                    return states[WHOLE]
        states[WHOLE] = ALL_REDUCE(states[PARTIAL], group=self.group)
        return states[WHOLE]

    def _of_whole(self, node: Node, whole: Node, state: State) -> Node:
        if state is WHOLE:
            return whole
        if not isinstance(state, Sharded):
            return block(whole, state, self.store)
        if whole.op is BROADCAST and _is_repeated(whole, state.axis):
            return broadcast_to(whole.sources[0], block_shape(whole.shape, state.axis, self.n))
        written = None
        if whole.op is node.op and self.store == self.group:
            written = written_block(node, state, whole.sources, self.group)
        return block(whole, state, self.group) if written is None else written

    def _cost(self, node: Node, state: State) -> float:
        """The bytes that a rank sends to bring a value into a state."""
        states = self.states[node]
        if state in states or WHOLE in states:
            return 0.0
        size, share = bytes_of(node), (self.n - 1) / self.n
        if any(isinstance(held, Stored) for held in states):
            return 0.0  # stored values are gathered for use, whatever the cost
        axes = [held.axis for held in states if isinstance(held, Sharded)]
        if axes:
            is_exchanged = isinstance(state, Sharded) and any(axis != state.axis for axis in axes)
            return size * share * (1 / self.n if is_exchanged else 1)
        return size * share * (1 if isinstance(state, (Sharded, Stored)) else 2)

    # --- nodes --------------------------------------------------------------------------------------------------

    def visit(self, node: Node) -> None:
        """Compute a node in the cheapest way."""
        sources = node.sources
        if node.op is PICK:
            self._pick(node)
        elif node.op is PACK:
            held = [self._any(source) for source in sources]
            self.states[node] = {tuple(s for s, _ in held): PACK(*[local for _, local in held])}
        elif all(WHOLE in self.states[source] for source in sources) and not self._is_worked_on(sources):
            self.states[node] = self._made(node, self._option_whole(node))
        else:
            states: dict[State, Node] = {}
            for option in self._options(node):
                for state, made in self._made(node, option).items():
                    states.setdefault(state, made)
            self.states[node] = states

    def _is_worked_on(self, sources: Iterable[Node]) -> bool:
        return any(isinstance(s, (Sharded, Stored)) for source in sources for s in self.states[source])

    def _any(self, node: Node) -> tuple[State, Node]:
        state = self.resting(node)
        return state, self.in_state(node, state)

    def _pick(self, node: Node) -> None:
        index = node.attrs["index"]
        ((states, local),) = self.states[node.sources[0]].items()
        self.states[node] = {states[index]: PICK(local, index=index)}
        home = self.homes.get(node.sources[0])
        if home is not None:
            self.states[node] = self._with_home(self.states[node], home)

    def _options(self, node: Node) -> list[Option]:
        """The best way to compute a node; for movement ops, which are free, also all others that send nothing."""
        found = [*self._cuts(node), *self._partial(node), self._option_whole(node)]
        best = min(found, key=lambda option: (option.moved, option.place))  # the first of the cheapest
        whole = [i for i, (s, w) in enumerate(zip(node.sources, best.cut.wanted)) if w is WHOLE and self._is_cut(s)]
        if whole:
            moved = int(sum(self._cost(node.sources[i], WHOLE) for i in whole))
            known = any(isinstance(option.cut.wanted[whole[0]], Sharded) for option in found)
            held = [state for state in self.states[node.sources[whole[0]]] if isinstance(state, Sharded)]
            self.gathered.append(Gathered(node, moved, reason(node, whole[0], held, known, self.group)))
        if node.op.kind not in ("movement", "identity") or best.moved:
            return [best]
        return [best, *[one for one in found if self._is_held(node, one.cut) and one is not best]]

    def _is_held(self, node: Node, cut: NodeCut) -> bool:
        return all(isinstance(w, Sharded) and w in self.states[s] for s, w in zip(node.sources, cut.wanted))

    def _is_cut(self, node: Node) -> bool:
        return WHOLE not in self.states[node] and any(isinstance(state, Sharded) for state in self.states[node])

    def _option_whole(self, node: Node) -> Option:
        wanted = (WHOLE,) * len(node.sources)
        moved = sum(self._cost(source, WHOLE) for source in node.sources)
        return Option(moved, NodeCut(wanted, (WHOLE,) * _results(node), lambda xs: node.op(*xs, **node.attrs)))

    def _partial(self, node: Node) -> Iterable[Option]:
        """A linear op defers the sum over the ranks if that does not increase the bytes summed."""
        summed = [i for i, source in enumerate(node.sources) if self._is_partial(source)]
        if not summed or _results(node) != 1 or not is_linear(node, summed):
            return
        if bytes_of(node) > max(bytes_of(node.sources[i]) for i in summed):
            return
        if not all(self._may_wait(node.sources[i]) for i in summed):
            return
        wanted = tuple(PARTIAL if i in summed else WHOLE for i in range(len(node.sources)))
        moved = sum(self._cost(source, w) for source, w in zip(node.sources, wanted) if w is WHOLE)
        yield Option(moved, NodeCut(wanted, (PARTIAL,), lambda xs: node.op(*xs, **node.attrs)))

    def _may_wait(self, source: Node) -> bool:
        """Whether summing everything computed from a partial sum moves no more bytes than the sum itself."""
        readers = self.readers[source]
        if len(readers) == 1:
            return True
        if not all(r is not None and is_linear(r, [r.sources.index(source)]) for r in readers):
            return False
        return sum(bytes_of(r) for r in readers if r is not None) <= bytes_of(source)

    def _is_partial(self, node: Node) -> bool:
        return self.states[node].keys() == {PARTIAL}

    def _cuts(self, node: Node) -> Iterable[Option]:
        """The ways to compute a node from blocks, those that match a source's current state first."""
        held = [[s for s in self.states[source] if isinstance(s, Sharded)] for source in node.sources]

        def runs(source: int, axis: int) -> set[int]:
            return {state.runs for state in held[source] if state.axis == axis}

        along = list(factor_cuts(node, Sharded, self.n, runs))
        found = [*movement_cuts(node, held, self.n), *[one for one in along if self._is_native(node, one)]]
        if self.store == self.group:
            found += lookup_cuts(node, held, self.group)
        if any(self._is_cut(source) for source in node.sources):
            # The last axis first: attention exchanges the sequence for heads; the batch belongs to data parallelism.
            found += [one for one in reversed(along) if not self._is_native(node, one) and not one.reduction]
        home = self._home(node)
        for one in found:
            moved, place = self._moved(node, one), self._place(node, one)
            if home is None or not _is_away(one, home):
                yield Option(moved, one, None, place)
            else:
                yield Option(moved + bytes_of(node) * (self.n - 1) / self.n**2, one, home, place)
        for one in factor_cuts(node, Stored, self.store.size, lambda source, axis: {1}):
            if self._may_store(node, one):
                yield Option(self._moved(node, one), one)

    def _is_native(self, node: Node, cut: NodeCut) -> bool:
        """Whether a source already has the state that a cut needs."""
        return any(w is not WHOLE and w in self.states[s] for s, w in zip(node.sources, cut.wanted))

    def _place(self, node: Node, cut: NodeCut) -> int:
        """The position, among a source's states, of those that a cut needs."""
        return sum(list(self.states[s]).index(w) for s, w in zip(node.sources, cut.wanted) if w in self.states[s])

    def _home(self, node: Node) -> Sharded | None:
        """The common original state of a node's distributed sources, if its results could be in that state too."""
        cut = [list(self.states[x]) for x in node.sources if self._is_cut(x)]
        held = {next(state for state in states if isinstance(state, Sharded)) for states in cut}
        if len(held) != 1:
            return None
        (home,) = held
        sizes = {x.shape[home.axis] for x in node.sources if home in self.states[x]}
        shapes = node.shape if isinstance(node.dtype, tuple) else (node.shape,)
        return home if all(len(s) > home.axis and {s[home.axis]} == sizes for s in shapes) else None

    def _with_home(self, states: dict[State, Node], home: Sharded) -> dict[State, Node]:
        """Add, for a value made from exchanged blocks, its sources' original state, which other nodes will want."""
        ((held, made),) = states.items()
        return {home: exchanged(made, held, home, self.group), **states}

    def _moved(self, node: Node, cut: NodeCut) -> float:
        """The bytes that a rank sends for a cut."""
        moved = sum(self._cost(source, wanted) for source, wanted in zip(node.sources, cut.wanted))
        if cut.reduction is None:
            return moved
        if cut.reduction != "sum":
            return moved + 2 * bytes_of(node)
        # Where all sources lie along what is summed over, as in a gradient, there is no better way. Where some are cut
        # for it, as whole weights beside a cut row, another cut of the row may move less than the sum.
        native = all(w is WHOLE or w in self.states[s] for s, w in zip(node.sources, cut.wanted))
        return moved if native else moved + bytes_of(node) * (self.n - 1) / self.n

    def _may_store(self, node: Node, cut: NodeCut) -> bool:
        """Whether stored blocks may be used directly: one by one or moved, and not together with distributed values."""
        if self.exact and cut.reduction == "sum":
            return False
        if node.op.kind not in ("elementwise", "movement", "identity", "reduction"):
            return False
        if any(isinstance(s, Sharded) for source in node.sources for s in self.states[source]):
            return False
        return any(w is not WHOLE and self._is_stored(s, w) for s, w in zip(node.sources, cut.wanted))

    def _is_stored(self, source: Node, state: State) -> bool:
        return state in self.states[source] or (self._is_partial(source) and self.wishes.get(source) == state)

    def _made(self, node: Node, option: Option) -> dict[State, Node]:
        """The node that an option makes, with its state."""
        cut = option.cut
        locals_ = [self.in_state(source, wanted) for source, wanted in zip(node.sources, cut.wanted)]
        is_stored = any(isinstance(wanted, Stored) for wanted in cut.wanted)
        group = self.store if is_stored else self.group
        made = cut.make(locals_)
        if not locals_:
            made.device = node.device
        if isinstance(node.dtype, tuple):
            if option.home is not None:
                self.homes[node] = option.home
            return {cut.results: made}
        (state,) = cut.results
        if cut.reduction is not None and cut.reduction != "sum":
            made = COMBINED[cut.reduction](made, group)
        elif cut.reduction is not None and is_stored and group != self.group:
            made, state = ALL_REDUCE(made, group=group), WHOLE  # not a sum over the parts
        return {state: made} if option.home is None else self._with_home({state: made}, option.home)


def _is_away(cut: NodeCut, home: Sharded) -> bool:
    """Whether a cut exchanges blocks and its results can be exchanged back."""
    return home not in cut.wanted and all(isinstance(s, Sharded) and s.axis != home.axis for s in cut.results)


def _readers(graph: Graph) -> dict[Node, list[Node | None]]:
    """The nodes that read each value, None for an output."""
    found: dict[Node, list[Node | None]] = {}
    for node in graph.nodes:
        for source in dict.fromkeys(node.sources):
            found.setdefault(source, []).append(node)
    for node in graph.outputs:
        found.setdefault(node, []).append(None)
    return found


def _results(node: Node) -> int:
    return len(node.dtype) if isinstance(node.dtype, tuple) else 1


def _is_repeated(node: Node, axis: int) -> bool:
    """Whether a broadcast value is constant along an axis."""
    source = node.sources[0]
    at = axis - (node.ndim - source.ndim)
    return at < 0 or source.shape[at] == 1
