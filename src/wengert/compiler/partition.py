"""Partition: the graph of one process, with global shapes, becomes the graph of a rank, along one axis of a mesh.

In: a graph, a group (one axis of a mesh), and how each input lies over its ranks. Out: the graph of any of the ranks,
with the collectives it needs, and how each output lies. It is the same on all ranks: what is particular to one (its
block of a value) is an op, `block`, until `localize`.

Every value has a state, or several, each a node of the new graph:

    WHOLE       every rank has it all
    PARTIAL     the value is the sum over the ranks
    Sharded(i)  every rank has its block along axis i, and works on it
    Stored(i)   every rank keeps its block along axis i: a parameter or a moment of ZeRO. It is gathered to be worked
                with, and updated block by block

Ops are cut along their factors (`ops.factors`). Of the ways to compute a node the one that moves the fewest bytes is
taken, the first of equals, so that every rank decides alike. What has no factor that fits is gathered and computed
whole, which is always right; `explain("partition")` says what that moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wengert.compiler.rewrite import spend
from wengert.core.graph import Graph, Node, recorded_as, recording
from wengert.core.mesh import Group
from wengert.ops import elementwise as e
from wengert.ops.collective import ALL_GATHER, ALL_REDUCE, ALL_REDUCE_MAX, ALL_TO_ALL, BLOCK, REDUCE_SCATTER
from wengert.ops.core import placeholder
from wengert.ops.factors import Factors, divisor, factors, local_attributes
from wengert.ops.movement import BROADCAST, broadcast_to, reshape
from wengert.ops.op import PACK, PICK, Op
from wengert.ops.reduce import ALL, ANY, PROD


class Sharded(NamedTuple):
    """Every rank has its block along an axis."""

    axis: int


class Stored(NamedTuple):
    """Every rank keeps its block along an axis, and gathers it to work with it."""

    axis: int
    kept: bool = True  # so that it differs from `Sharded`


class Like(NamedTuple):
    """The state of an output that is to lie as an earlier one does."""

    output: int


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


WHOLE, PARTIAL = _Named("whole"), _Named("partial")
State = Any  # WHOLE, PARTIAL, Sharded, Stored; a tuple of them for a node with several results


class Option(NamedTuple):
    """A way to compute a node: what its sources must be, what its results are, and the bytes that it moves."""

    moved: float
    wanted: tuple[State, ...]
    results: tuple[State, ...]
    factor: Any = None


@dataclass
class Partitioned:
    """The graph of a rank, how its outputs lie, and which nodes are computed whole though their sources are cut."""

    graph: Graph
    outputs: list[State]
    gathered: list[tuple[Node, int]] = field(default_factory=list)  # the node as it was, and the bytes moved for it


def partition(
    graph: Graph,
    group: Group,
    inputs: Sequence[State],
    outputs: Mapping[int, State],
    store: Group | None = None,
    exact: bool = False,
) -> Partitioned:
    """The graph of a rank of a group.

    `inputs` are the states of the graph's inputs, `outputs` those that some outputs must have. Blocks that are stored
    are those of the ranks of `store`, where that is another group (see `parts`). If `exact`, what is stored is never
    summed block by block: the order of additions would depend on how many there are.
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
    """The states that values have come to, node by node."""

    def __init__(self, graph: Graph, group: Group, store: Group, exact: bool) -> None:
        self.graph, self.group, self.store, self.exact = graph, group, store, exact
        self.n = group.size
        self.states: dict[Node, dict[State, Node]] = {}
        self.gathered: list[tuple[Node, int]] = []
        self.wishes: dict[Node, Stored] = {}

    # --- inputs and outputs -------------------------------------------------------------------------------------

    def take(self, inputs: Sequence[State]) -> list[Node]:
        """Placeholders for the inputs in these states."""
        placed = []
        for node, state in zip(self.graph.inputs, inputs):
            if node in self.states:
                placed.append(self.states[node][state])
                continue
            count = {Sharded: self.n, Stored: self.store.size}.get(type(state), 1)
            shape = _cut(node.shape, state.axis, count) if count > 1 else node.shape
            local = placeholder(shape, node.dtype, node.device, node.tracked)
            self.states[node] = {state: local}
            placed.append(local)
        for node in self.graph.captured():
            self.states.setdefault(node, {WHOLE: node})
        self.wishes = _wishes(self.graph, self.states)
        return placed

    def resting(self, node: Node) -> State:
        """The state in which a value that nobody asks for in particular is given back."""
        states = self.states[node]
        for state in states:
            if isinstance(state, (Sharded, Stored)):
                return WHOLE if WHOLE in states else state
        return WHOLE

    # --- conversions --------------------------------------------------------------------------------------------

    def in_state(self, node: Node, state: State) -> Node:
        """A value in a state, converted from the cheapest one that it is in."""
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
                return REDUCE_SCATTER(states[PARTIAL], axis=state.axis, group=self.group)
            return BLOCK(ALL_REDUCE(states[PARTIAL], group=self.group), axis=state.axis, group=self.store)
        if isinstance(state, Sharded):
            held = next((s for s in states if isinstance(s, Sharded)), None)
            if held is not None:
                return ALL_TO_ALL(states[held], split=state.axis, join=held.axis, group=self.group)
            if PARTIAL in states:
                return REDUCE_SCATTER(states[PARTIAL], axis=state.axis, group=self.group)
        return self._of_whole(node, self._whole(node), state)

    def _whole(self, node: Node) -> Node:
        states = self.states[node]
        for held, local in states.items():
            if isinstance(held, Stored):
                states[WHOLE] = ALL_GATHER(local, axis=held.axis, group=self.store)
                return states[WHOLE]
        for held, local in states.items():
            if isinstance(held, Sharded):
                states[WHOLE] = ALL_GATHER(local, axis=held.axis, group=self.group)
                return states[WHOLE]
        states[WHOLE] = ALL_REDUCE(states[PARTIAL], group=self.group)
        return states[WHOLE]

    def _of_whole(self, node: Node, whole: Node, state: State) -> Node:
        if state is WHOLE:
            return whole
        group = self.group if isinstance(state, Sharded) else self.store
        if whole.op is BROADCAST and isinstance(state, Sharded) and _is_repeated(whole, state.axis):
            return broadcast_to(whole.sources[0], _cut(whole.shape, state.axis, self.n))
        return BLOCK(whole, axis=state.axis, group=group)

    def _cost(self, node: Node, state: State) -> float:
        """The bytes that a rank sends to have a value in a state."""
        states = self.states[node]
        if state in states or WHOLE in states:
            return 0.0
        size, share = _bytes(node), (self.n - 1) / self.n
        if any(isinstance(held, Stored) for held in states):
            return 0.0  # what is stored is gathered to be worked with, whatever that moves
        if any(isinstance(held, Sharded) for held in states):
            return size * share * (1 / self.n if isinstance(state, Sharded) else 1)
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
            self._put(node, self._option_whole(node))
        else:
            self._put(node, self._best(node))

    def _is_worked_on(self, sources: Iterable[Node]) -> bool:
        return any(isinstance(s, (Sharded, Stored)) for source in sources for s in self.states[source])

    def _any(self, node: Node) -> tuple[State, Node]:
        state = self.resting(node)
        return state, self.in_state(node, state)

    def _pick(self, node: Node) -> None:
        index = node.attrs["index"]
        ((states, local),) = self.states[node.sources[0]].items()
        self.states[node] = {states[index]: PICK(local, index=index)}

    def _best(self, node: Node) -> Option:
        options = [*self._cuts(node), *self._partial(node), self._option_whole(node)]
        best = min(options, key=lambda option: option.moved)  # the first of the cheapest
        cut = [s for s, w in zip(node.sources, best.wanted) if w is WHOLE and self._is_cut(s)]
        if cut:
            self.gathered.append((node, int(sum(self._cost(source, WHOLE) for source in cut))))
        return best

    def _is_cut(self, node: Node) -> bool:
        return WHOLE not in self.states[node] and any(isinstance(state, Sharded) for state in self.states[node])

    def _option_whole(self, node: Node) -> Option:
        wanted = (WHOLE,) * len(node.sources)
        moved = sum(self._cost(source, WHOLE) for source in node.sources)
        return Option(moved, wanted, (WHOLE,) * _results(node))

    def _partial(self, node: Node) -> Iterable[Option]:
        """Linear ops leave the sum over the ranks for later, where that sums no more bytes."""
        summed = [i for i, source in enumerate(node.sources) if self._is_partial(source)]
        if not summed or _results(node) != 1 or not _is_linear(node, summed):
            return
        if _bytes(node) > max(_bytes(node.sources[i]) for i in summed):
            return
        wanted = tuple(PARTIAL if i in summed else WHOLE for i in range(len(node.sources)))
        moved = sum(self._cost(source, w) for source, w in zip(node.sources, wanted) if w is WHOLE)
        yield Option(moved, wanted, (PARTIAL,))

    def _is_partial(self, node: Node) -> bool:
        return self.states[node].keys() == {PARTIAL}

    def _cuts(self, node: Node) -> Iterable[Option]:
        """The ways to cut a node along one of its factors, along which a source is cut already."""
        found = factors(node)
        for factor in _all(found):
            for kind, count in ((Sharded, self.n), (Stored, self.store.size)):
                option = self._cut(node, found, factor, kind, count)
                if option is not None:
                    yield option

    def _cut(self, node: Node, found: Factors, factor: Any, kind: Any, count: int) -> Option | None:
        if not _divides(node, found, factor, count):
            return None
        wanted = tuple([_state(axes, factor, kind) for axes in found.sources])
        if not any(w is not WHOLE and self._has(s, w, kind) for s, w in zip(node.sources, wanted)):
            return None
        if kind is Stored and not self._may_store(node, found.reduction.get(factor)):
            return None
        results = tuple([_state(axes, factor, kind) for axes in found.results])
        moved = sum(self._cost(source, w) for source, w in zip(node.sources, wanted))
        reduction = found.reduction.get(factor)
        if reduction == "sum":
            results = (PARTIAL,) * len(results)
        elif reduction is not None:
            results = (WHOLE,) * len(results)
            moved += 2 * _bytes(node)
        return Option(moved, wanted, results, factor)

    def _has(self, source: Node, state: State, kind: Any) -> bool:
        if state in self.states[source]:
            return True
        return kind is Stored and self._is_partial(source) and self.wishes.get(source) == state

    def _may_store(self, node: Node, reduction: str | None) -> bool:
        """Whether what is stored may be worked on as it is: one by one, or moved, beside nothing that is cut."""
        if self.exact and reduction == "sum":
            return False
        if node.op.kind not in ("elementwise", "movement", "identity", "reduction"):
            return False
        return not any(isinstance(s, Sharded) for source in node.sources for s in self.states[source])

    def _put(self, node: Node, option: Option) -> None:
        locals_ = [self.in_state(source, wanted) for source, wanted in zip(node.sources, option.wanted)]
        is_stored = any(isinstance(wanted, Stored) for wanted in option.wanted)
        group = self.store if is_stored else self.group
        attrs = node.attrs if option.factor is None else local_attributes(node, option.factor, group.size)
        made = node.op(*locals_, **attrs)
        if not locals_:
            made.device = node.device
        if isinstance(node.dtype, tuple):
            self.states[node] = {option.results: made}
            return
        (state,) = option.results
        reduction = None if option.factor is None else factors(node).reduction.get(option.factor)
        if reduction is not None and reduction != "sum":
            made = _COMBINED[reduction](made, group)
        elif reduction is not None and is_stored and group != self.group:
            made, state = ALL_REDUCE(made, group=group), WHOLE  # not a sum over the parts
        self.states[node] = {state: made}


def _all(found: Factors) -> list[Any]:
    """The factors, in the order in which results and then the reduction name them."""
    names = [factor for labels in found.results for factor in labels if factor is not None]
    return list(dict.fromkeys([*names, *found.reduction]))


def _divides(node: Node, found: Factors, factor: Any, count: int) -> bool:
    if len(found.results) > 1 and not all(factor in axes for axes in found.results):
        return False
    return divisor(node, found, factor) % count == 0


def _state(axes: Sequence[Any], factor: Any, kind: Any) -> State:
    return kind(axes.index(factor)) if factor in axes else WHOLE


def _results(node: Node) -> int:
    return len(node.dtype) if isinstance(node.dtype, tuple) else 1


def _bytes(node: Node) -> int:
    if isinstance(node.dtype, tuple):
        return sum(_size(shape) * dtype.itemsize for shape, dtype in zip(node.shape, node.dtype))
    return node.size * int(node.dtype.itemsize)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def _cut(shape: Sequence[int], axis: int, count: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] // count, *shape[axis + 1 :])


def _is_repeated(node: Node, axis: int) -> bool:
    """Whether a broadcast value is the same all along an axis."""
    source = node.sources[0]
    at = axis - (node.ndim - source.ndim)
    return at < 0 or source.shape[at] == 1


def _is_linear(node: Node, summed: Sequence[int]) -> bool:
    """Whether a node is linear in these sources together, the others being fixed."""
    jointly = _JOINTLY.get(node.op) or node.op.linear or ((0,) if node.op.kind == "identity" else ())
    if jointly and all(i in jointly for i in summed):
        return all(i in summed or i not in jointly for i in range(len(node.sources)))
    return len(summed) == 1 and summed[0] in (_EACH.get(node.op) or node.op.multilinear)


_JOINTLY: dict[Op, tuple[int, ...]] = {
    e.add: (0, 1),
    e.subtract: (0, 1),
    e.negative: (0,),
    e.positive: (0,),
    e.where: (1, 2),
}
_EACH: dict[Op, tuple[int, ...]] = {e.multiply: (0, 1), e.divide: (0,)}
"""Elementwise ops that are linear in some sources together, or in each alone."""


# --- reductions that are no sums ------------------------------------------------------------------------------------


def _least(x: Node, group: Group) -> Node:
    return -ALL_REDUCE_MAX(-x, group=group)


def _over_gathered(op: Op) -> Callable[[Node, Group], Node]:
    """The reduction, by an op, of the parts of all ranks."""

    def combined(x: Node, group: Group) -> Node:
        return op(ALL_GATHER(reshape(x, (1, *x.shape)), axis=0, group=group), axes=(0,), keepdims=False)

    return combined


_COMBINED: dict[str, Callable[[Node, Group], Node]] = {
    "max": lambda x, group: ALL_REDUCE_MAX(x, group=group),
    "min": _least,
    "prod": _over_gathered(PROD),
    "all": _over_gathered(ALL),
    "any": _over_gathered(ANY),
}

# --- wishes ---------------------------------------------------------------------------------------------------------


def _wishes(graph: Graph, states: Mapping[Node, Mapping[State, Node]]) -> dict[Node, Stored]:
    """Values that will meet stored ones element by element: if they are sums over the ranks, blocks of them will do.

    Such are the gradients of ZeRO's updates, wherever else (in a norm, say) they are read first.
    """
    stored = {node: state for node, held in states.items() for state in held if isinstance(state, Stored)}
    for node in graph.nodes:  # forwards: what is computed from stored values one by one lies as they do
        if node.op.kind == "elementwise" and node not in stored:
            found = {stored[s] for s in node.sources if s in stored and s.shape == node.shape}
            if len(found) == 1:
                stored[node] = found.pop()
    wishes: dict[Node, Stored] = {}
    for node in reversed(graph.nodes):
        wish = wishes.get(node) or stored.get(node)
        if wish is not None and node.op.kind == "elementwise":
            for source in node.sources:
                if source not in stored and source.shape == node.shape:
                    wishes.setdefault(source, wish)
    return wishes
