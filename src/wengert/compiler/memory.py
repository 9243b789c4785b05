"""Memory, as passes and plan stages see it: storage, lifetimes, placement, and which values are materialised.

- `storage`: the node whose memory a value uses.
- `live` and `best_fit`: the values that each step reads and writes give lifetimes, and lifetimes give offsets in one
  arena. Values with overlapping lifetimes do not share memory; the largest are placed first, each into the smallest gap
  that holds it.
- `materialize`: the *roots* of an optimised graph, the values that a kernel writes to memory or computes on the way:
  outputs, reductions, operands of opaque ops (matmul, convolution, ...), and values too expensive to recompute for
  every reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np

from wengert.core.devices import is_host
from wengert.core.dtypes import HALF, bool_
from wengert.core.graph import Graph, Node
from wengert.ops.core import CAST, RECOMPUTE_BARRIER
from wengert.ops.elementwise import multiply
from wengert.ops.movement import RESHAPE
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import MAX, MIN, reduces_in_loops


def storage(node: Node) -> Node:
    """The node whose memory a value uses: a reshape uses its source's, and so does a barrier."""
    while node.op.aliases:
        node = node.sources[0]
    return node


def outputs_sharing(graph: Graph, inputs: Sequence[Node]) -> list[int]:
    """The outputs that may be views of these inputs: reached only through ops that move elements."""
    if not inputs:
        return []
    reached = set(inputs)
    for node in graph.nodes:
        if (node.op.moves or node.op.kind == "function") and not reached.isdisjoint(node.sources):
            reached.add(node)
    return [k for k, node in enumerate(graph.outputs) if node in reached]


# --- liveness -------------------------------------------------------------------------------------------------------


ALIGNMENT = 64  # bytes: a cache line, and the widest vector there is

Value = TypeVar("Value", bound=Hashable)
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Life(NamedTuple):
    """The first and last step that need a value."""

    first: int
    last: int


def lives(steps: Sequence[tuple[Sequence[Value], Sequence[Value]]]) -> dict[Value, Life]:
    """The lifetime of each value, from the (reads, writes) of every step."""
    found: dict[Value, Life] = {}
    for number, (reads, writes) in enumerate(steps):
        for value in (*reads, *writes):
            found[value] = Life(found[value].first if value in found else number, number)
    return found


def live(alive: Mapping[Value, Life], sizes: Mapping[Value, int]) -> list[int]:
    """The bytes that are live at every step."""
    changes = [0] * (max([life.last for life in alive.values()], default=-1) + 2)
    for value, life in alive.items():
        changes[life.first] += sizes[value]
        changes[life.last + 1] -= sizes[value]
    return list(accumulate(changes))[:-1]


def best_fit(alive: Mapping[Value, Life], sizes: Mapping[Value, int]) -> tuple[dict[Value, int], int]:
    """An offset for each value, and the size of the arena."""
    offsets: dict[Value, int] = {}
    placed = np.zeros((4, len(alive)), np.int64)  # of the values so far: first and last step, start and end in memory
    for count, value in enumerate(sorted(alive, key=lambda v: (-sizes[v], alive[v].first))):
        life, size = alive[value], _rounded(sizes[value])
        firsts, lasts, starts, ends = placed[:, :count]
        beside = (firsts <= life.last) & (life.first <= lasts)
        offset = offsets[value] = _best_gap(starts[beside], ends[beside], size)
        placed[:, count] = life.first, life.last, offset, offset + size
    return offsets, int(placed[3].max(initial=0))


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _best_gap(starts: Numbers, ends: Numbers, size: int) -> int:
    """The start of the smallest sufficient gap between allocated ranges, or their end."""
    if not starts.size:
        return 0
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(ends[order])
    openings = np.concatenate([[0], reached[:-1]])
    gaps = starts[order] - openings
    fits = np.flatnonzero(gaps >= size)
    return int(openings[fits[gaps[fits].argmin()]]) if fits.size else int(reached[-1])


# --- materialize ----------------------------------------------------------------------------------------------------


RECOMPUTE_UP_TO = 12  # the cost (an addition is 1) up to which several readers each recompute a value
DIVISIONS = 8  # the cost from which a function of a column's total is stored too
LARGE = 1 << 18  # elements from which the operands' traffic counts


def times(source: Node, node: Node) -> float:
    """How often a source is computed per element of a node: once a row for a row scalar, else once."""
    is_a_number_a_row = source.shape[-1:] in ((), (1,)) and node.shape[-1:] not in ((), (1,))
    return source.size / node.size if is_a_number_a_row and node.size else 1.0


def stored_values(
    graph: Graph, inlined: Container[Node], operands: Callable[[Node], Iterable[Node]], large: float | None = None
) -> set[Node]:
    """The values that get a group: those that must be stored, reductions, and those too expensive to recompute.

    From `large` elements on, the bytes read from memory count as well.
    """
    large = LARGE if large is None else large
    uses: dict[Node, int] = {}
    roots = compared_with_extremes(graph)
    for node in graph.nodes:
        for source in node.sources:
            uses[source] = uses.get(source, 0) + 1
        if node not in inlined and node.op is not RECOMPUTE_BARRIER:
            roots.add(node)
        if node.op is RANDOM_BITS or (node not in inlined and not reduces_in_loops(node)):
            roots.update(storage(source) for source in operands(node))
    roots.update(storage(node) for node in graph.outputs)
    effort: dict[Node, float] = {}
    leaves: dict[Node, tuple[Node, ...]] = {}
    for node in graph.nodes:
        if node in roots or node.op is RECOMPUTE_BARRIER:
            continue
        factors = [factor for factor in _factors(node, large) if effort.get(factor, 0) > 1]
        for few in (*factors, *_statistics(node, effort, large)):
            roots.add(storage(_narrowest(few)))
            effort[few] = 0
        effort[node] = node.op.cost + sum(effort.get(s, 0) * times(s, node) for s in node.sources)
        if not is_host(node.device):
            leaves[node] = _large_leaves(node, leaves)
        if uses.get(node, 0) < 2 or node.op.kind == "movement":
            continue
        if effort[node] > RECOMPUTE_UP_TO or reads_too_much(node, leaves.get(node, ()), uses[node], large):
            roots.add(_narrowest(node))
            effort[node] = 0
            leaves.pop(node, None)
    return roots & set(graph.nodes)


def compared_with_extremes(graph: Graph) -> set[Node]:
    """The values that are compared with their own maximum or minimum, as in the derivatives of these.

    Both must see the same bits. If the value is computed twice, the copies may differ in the last place (the compiler
    may contract a product and a sum, and half precision rounds when stored), and then no element equals the maximum.
    """
    found: set[Node] = set()
    for node in graph.nodes:
        if node.dtype is bool_ and node.op.kind == "elementwise" and len(node.sources) == 2:
            sides = [_moved_from(source) for source in node.sources]
            for one, other in (sides, sides[::-1]):
                if other.op in (MAX, MIN) and one.sources and one is _moved_from(other.sources[0]):
                    found.add(storage(one))
    return found


def _moved_from(node: Node) -> Node:
    """The value below casts and movement ops."""
    while node.op.kind in ("movement", "identity") or node.op is CAST:
        node = node.sources[0]
    return node


def _factors(node: Node, large: float) -> list[Node]:
    """The factors that every row of a large weight matrix is multiplied by, on a GPU: computed once, not per row."""
    if node.op is not multiply or is_host(node.device) or node.size < large:
        return []
    first, second = node.sources
    pairs = ((first, second), (second, first))
    return [few for few, many in pairs if _is_few(few, many) and _is_given(many)]


def _statistics(node: Node, effort: Mapping[Node, float], large: float) -> list[Node]:
    """What a large value on a GPU derives from its column totals, with divisions: finished once, not per element."""
    if is_host(node.device) or node.size < large:
        return []
    expensive = [source for source in node.sources if effort.get(source, 0) * times(source, node) > DIVISIONS]
    return [source for source in expensive if _is_few(source, node) and _is_of_totals(source)]


def _is_of_totals(node: Node) -> bool:
    """Whether a value is computed from reductions and numbers alone."""
    while len(given := [source for source in node.sources if source.sources]) == 1:
        if given[0].op.kind == "reduction":
            return True
        node = given[0]
    return False


def _is_few(node: Node, many: Node) -> bool:
    return 64 <= node.size <= many.size // 64


def _is_given(node: Node) -> bool:
    """Whether a value is an input, up to its dtype and shape."""
    while node.op is CAST or node.op is RESHAPE:
        node = node.sources[0]
    return not node.sources


def _narrowest(node: Node) -> Node:
    """The narrower value that this one widens: it takes less memory, and widening is free."""
    while node.op is CAST and node.sources[0].dtype.itemsize < node.dtype.itemsize and node.sources[0].sources:
        node = node.sources[0]
    return node


def _large_leaves(node: Node, leaves: Mapping[Node, tuple[Node, ...]]) -> tuple[Node, ...]:
    """The stored values of about the same size that are read to compute a value; stops after a few."""
    large = [source for source in node.sources if source.size * 4 > node.size]
    return tuple(dict.fromkeys(leaf for source in large for leaf in leaves.get(source, (source,))))[:8]


def reads_too_much(node: Node, leaves: Collection[Node], uses: int, large: float | None = None) -> bool:
    """Whether recomputing a large value at each use would read more GPU memory than storing it would move.

    In a tie it is stored if half precision takes part: in the two passes of a normalisation, and in a residual stream,
    where reading the sum is cheaper than reading all the terms that were added.
    """
    if node.size < (LARGE if large is None else large) or len(leaves) < 2:
        return False
    together = sum(min(leaf.size, node.size) * leaf.dtype.itemsize for leaf in leaves)  # of a larger one, a slice
    again, stored = together * (uses - 1), node.size * node.dtype.itemsize * uses
    return again > stored or (again == stored and any(x.dtype in HALF for x in (node, *leaves)))
