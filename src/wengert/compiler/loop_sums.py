"""`loop_sums`: sums over steps leave their loops as one product over all steps.

In reverse mode a scan carries the cotangent of each of its constants, and every step adds to it: `dW + x.T @ g`. Where
nothing else reads such a carry, the total is computed after the loop, from stacked operands: the sum over steps of
products over a depth is one product over the concatenated depth, which is as fast as a product gets.

An op's `factors` say whether its steps can be joined like this: cutting a summed factor into blocks gives partial
results that add up, so results that are added up equal the op on the concatenated blocks. This holds for matrix
products, sums, and weight gradients of convolutions. Ops that only move or cast a result are applied to the sum.

Operands that the loop steps over anyway, or that are stacked already, cost nothing (a bias gradient sums what the
weight gradient multiplies); others must be worth their memory, see `INTENSITY`. Neighbours: `loop_motion`, `loops`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from wengert.autodiff.scan import SCAN
from wengert.compiler.loops import (
    INTENSITY,
    OpenScan,
    Stacked,
    base_of,
    bytes_of,
    invariants,
    is_constant,
    may_be_stacked,
    moves,
    opened,
    replaced,
)
from wengert.compiler.rewrite import depending, for_ops, spend
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.dtypes import INEXACT
from wengert.core.graph import Graph, Node, recorded_as
from wengert.ops.core import CAST
from wengert.ops.elementwise import add, negative, subtract
from wengert.ops.factors import factors, is_zero, local_attributes
from wengert.ops.movement import PERMUTE, moveaxis, reshape
from wengert.ops.op import Op


@for_ops(SCAN)
def loop_sums(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with sums over the steps of scans computed after the scans.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x, y = (wg.Tensor(placeholder((9, 4, 64), wg.float32)) for _ in range(2))
    >>> with wg.no_grad():
    ...     total, _ = wg.scan(lambda c, xy: (c + xy[0].T @ xy[1], None), wg.zeros((64, 64)), (x, y))
    >>> [node.op.name for node in loop_sums(Graph([x.node, y.node], [total.node])).nodes if node.sources]
    ['reshape', 'permute_dims', 'reshape', 'matmul']
    """
    return replaced(graph, SCAN, partial(_without_sums, target))


@dataclass(frozen=True)
class _Sum:
    """A carry that accumulates: its number, what each step adds or subtracts, and the ops that compute it."""

    carry: int
    terms: tuple[tuple[Op, Node], ...]
    cores: tuple[Node, ...]

    @property
    def flops(self) -> int:
        """The floating-point operations per step."""
        return sum(core.op.flops(core) for core in self.cores)


def _without_sums(target: Target, node: Node, picked: Collection[int]) -> Sequence[Node | None] | None:
    loop = opened(node)
    same = invariants(loop.nodes, loop.fixed)
    sums = _worth_taking(loop, same, _sums(loop, same), target)
    if not sums or not loop.steps or not spend(node, lambda: f"{len(sums)} sums over the steps leave a scan"):
        return None
    count, stacked = len(loop.ys), {base: loop.stack(base) for base in _stored(loop, same, sums)}
    own = {one.carry for one in sums}
    before, kept = loop.initial, [i for i in range(len(loop.next)) if i not in own]
    loop.initial, loop.carried, loop.next = (
        [part[i] for i in kept] for part in (loop.initial, loop.carried, loop.next)
    )
    made, carries = loop.record(), len(kept)
    outside = Stacked(zip(loop.fixed, loop.constants), zip(loop.items, loop.xs))
    outside.whole |= {base: made[carries + place] for base, place in stacked.items()}
    outside.record(one for one in loop.nodes if one in same)
    results: dict[int, Node] = {i: made[k] for k, i in enumerate(kept)}
    for one in sums:
        total = before[one.carry]
        for op, term in one.terms:
            more = _total(term, outside, same, loop)
            total = more if op is add and is_zero(total) else op(total, more)
        results[one.carry] = total
    return [*[results[i] for i in range(len(before))], *made[carries : carries + count]]


# --- which carries are sums -----------------------------------------------------------------------------------------


def _sums(loop: OpenScan, same: Collection[Node]) -> Iterator[_Sum]:
    readers = Counter(source for node in loop.nodes for source in node.sources)
    readers.update([*loop.next, *loop.ys])
    for i, before in enumerate(loop.carried):
        if before.dtype in INEXACT and (terms := _terms(loop, i, readers)):
            cores = [_cores(term, same, loop.computed) for _, term in terms]
            if all(cores) and all(map(may_be_stacked, _operands(loop, same, [c for found in cores for c in found]))):
                yield _Sum(i, tuple(terms), tuple(core for found in cores for core in found))


def _terms(loop: OpenScan, i: int, readers: Mapping[Node, int]) -> list[tuple[Op, Node]]:
    """The terms added to a carry to give its next value; nothing if anything else happens to it."""
    before, node = loop.carried[i], loop.next[i]
    leading, found = depending(loop.nodes, [before]), list[tuple[Op, Node]]()
    while node is not before:
        places = [place for place, source in enumerate(node.sources) if source in leading]
        if places not in _PLACES.get(node.op, ()) or readers[node] != 1 or node.sources[places[0]].shape != node.shape:
            return []
        found.append((node.op, node.sources[1 - places[0]]))
        node = node.sources[places[0]]
    return found[::-1] if readers[before] == 1 else []


_PLACES: dict[Op, tuple[list[int], ...]] = {add: ([0], [1]), subtract: ([0],)}
"""Where a sum may stand among the operands of what goes on with it."""
_LINEAR = frozenset((CAST, negative))


def _cores(node: Node, same: Collection[Node], computed: Collection[Node]) -> list[Node]:
    """The ops, joined over all steps, whose results make up a term; nothing if another op lies in between."""
    if node not in computed or node in same or type(node.dtype) is tuple or node.dtype not in INEXACT:
        return []
    if node.op is add and all(source.shape == node.shape for source in node.sources):
        a, b = (_cores(source, same, computed) for source in node.sources)
        return a + b if a and b else []
    if _is_linear(node):
        return _cores(node.sources[0], same, computed)
    return [node] if _summed_factor(node, same) is not None and moves(node) else []


def _is_linear(node: Node) -> bool:
    """Whether an op may be applied to the sum of its operands instead."""
    if len(node.sources) != 1:
        return False
    return node.op.kind == "movement" or (node.op in _LINEAR and node.sources[0].dtype in INEXACT)


def _summed_factor(node: Node, same: Collection[Node]) -> Hashable | None:
    """The summed factor along which the operands of all steps can be joined; every varying operand must have it."""
    found = factors(node)
    for factor, how in found.reduction.items():
        axes = [labels.count(factor) for labels in found.sources]
        varies = [source not in same and not is_constant(source) for source in node.sources]
        if how == "sum" and axes == [int(v) for v in varies] and local_attributes(node, factor, 2) == node.attrs:
            return factor
    return None


# --- whether it pays ------------------------------------------------------------------------------------------------


LAUNCHED = 64 << 20
"""Bytes that a product is worth which a device would otherwise launch in every step, or which would keep the other
products of its loop from being one kernel."""


def _worth_taking(loop: OpenScan, same: Collection[Node], sums: Iterator[_Sum], target: Target) -> list[_Sum]:
    """The sums that justify what must be stacked for them, those with the most work per byte first."""
    left, taken = list(sums), list[_Sum]()
    while left:
        stored = set(_stored(loop, same, taken))
        price = {one: sum(map(bytes_of, set(_stored(loop, same, [one])) - stored - set(loop.ys))) for one in left}
        best = max(left, key=lambda one: one.flops / max(price[one], 1))
        is_launched = target.launches and any(core.op.kind == "opaque" for core in best.cores)
        if best.flops < INTENSITY * price[best] and not (is_launched and loop.steps * price[best] <= LAUNCHED):
            break
        left.remove(best)
        taken.append(best)
    return sorted(taken, key=lambda one: one.carry)


def _stored(loop: OpenScan, same: Collection[Node], sums: Sequence[_Sum]) -> list[Node]:
    """The values that must be stacked for sums."""
    return _operands(loop, same, [core for one in sums for core in one.cores])


def _operands(loop: OpenScan, same: Collection[Node], cores: Sequence[Node]) -> list[Node]:
    operands = [source for core in cores for source in core.sources if source not in same and not is_constant(source)]
    bases = [base_of(operand, loop.computed)[0] for operand in operands]
    return [base for base in dict.fromkeys(bases) if base not in loop.items]


# --- the sums -------------------------------------------------------------------------------------------------------


def _total(node: Node, outside: Stacked, same: Collection[Node], loop: OpenScan) -> Node:
    """The sum over all steps of a value of the body."""
    with recorded_as(node.location, False):
        if _is_linear(node):
            return node.op(_total(node.sources[0], outside, same, loop), **node.attrs)
        if node.op is add:
            return add(*[_total(source, outside, same, loop) for source in node.sources])
        factor = _summed_factor(node, same)
        joined = [
            outside.once.get(source, source)
            if factor not in labels
            else _joined(source, labels.index(factor), outside, loop)
            for source, labels in zip(node.sources, factors(node).sources)
        ]
        return node.op(*joined, **node.attrs)


def _joined(node: Node, axis: int, outside: Stacked, loop: OpenScan) -> Node:
    """The values of all steps, concatenated along an axis.

    What a step transposes is joined first: a product reads a transpose in place.
    """
    base, path = base_of(node, loop.computed)
    if path and all(one.op is PERMUTE for one in path):
        for one in reversed(path):
            axis = one.attrs["axes"][axis]
        joined = _joined(base, axis, outside, loop)
        for one in path:
            joined = PERMUTE(joined, **one.attrs)
        return joined
    outside.record(path)
    whole = outside.whole[node]
    n = node.shape
    return reshape(moveaxis(whole, 0, axis), (*n[:axis], whole.shape[0] * n[axis], *n[axis + 1 :]))
