"""Products that a scan computes and its backward pass would recompute: the scan stacks them instead.

In reverse mode the backward pass starts from the carry at the beginning of each step and recomputes what it needs of
that step. For an LSTM that includes the products `h @ W` of all steps, a fifth of the products of a training step.
Where `loop_inputs` would compute such a product before the backward scan, from values that another scan has stacked or
stepped over, and that scan's body already contains the same product, that scan stacks it. The stack takes memory from
the forward pass on, as much as the product would take in the backward pass.

Bodies are compared node by node: op, attributes, and matching operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from functools import partial

from wengert.autodiff.scan import SCAN
from wengert.compiler.loops import OpenScan, bytes_of, opened, placeholder_for, replaced
from wengert.compiler.rewrite import depending, spend
from wengert.core.canonical import frozen_attributes
from wengert.core.graph import Graph, Node
from wengert.ops.op import PICK

KEPT = 1 << 30
"""Bytes that a scan may stack for others in this way."""

Products = Callable[[OpenScan], Collection[Node]]
"""The products of a scan's inputs, and what follows them element by element, that would be computed before it."""


def keep_products(graph: Graph, products: Products) -> Graph:
    """The graph in which the first scan stacks products that it and a later scan would both compute."""
    scans = {node: opened(node) for node in graph.nodes if node.op is SCAN}
    wanted: dict[Graph, list[Node]] = {}  # by the body of the scan that computes them: what it should stack
    instead: dict[Graph, dict[Node, tuple[Graph, Node]]] = {}  # by the body that would compute them
    for node, loop in scans.items():
        for value, first, same in _computed_before(loop, products(loop), scans):
            body = first.attrs["body"]
            known = wanted.setdefault(body, [])
            size = sum(bytes_of(one) for one in {*known, same}) * loop.steps
            if size <= KEPT and spend(node, partial(_told, value)):
                known += [] if same in known else [same]
                instead.setdefault(node.attrs["body"], {})[value] = body, same
    return replaced(graph, SCAN, _Keeping(wanted, instead).change) if instead else graph


def _told(value: Node) -> str:
    return f"{value.op.name} of all steps is kept by the scan that computes it"


def _computed_before(
    loop: OpenScan, values: Collection[Node], scans: dict[Node, OpenScan]
) -> Iterator[tuple[Node, Node, Node]]:
    """Values of a body that an earlier scan computes in its steps, each with that scan and its value there.

    Values that are computed only from other such values are left out.
    """
    if not values:
        return
    picked = (source for source in loop.xs if source.op is PICK)
    for first in dict.fromkeys(pick.sources[0] for pick in picked if pick.sources[0] in scans):
        other = scans[first]
        if other.steps == loop.steps:
            same = _same(loop, first, other)
            varying = depending(other.nodes, other.carried) & other.computed
            found = [node for node in loop.nodes if node in values and same.get(node) in varying]
            others = {source for node in loop.nodes if node not in found for source in node.sources}
            others.update((*loop.next, *loop.ys))
            yield from ((value, first, same[value]) for value in found if value in others)


def _same(loop: OpenScan, first: Node, other: OpenScan) -> dict[Node, Node]:
    """The values of a body that equal values of another scan's body, for the same element of the sequence."""
    same: dict[Node, Node] = {}
    for source, item in zip(loop.xs, loop.items):
        if source.op is PICK and source.sources[0] is first and source.attrs["index"] >= len(other.next):
            same[item] = other.ys[source.attrs["index"] - len(other.next)]
        elif source in other.xs:
            same[item] = other.items[other.xs.index(source)]
    for source, given in zip(loop.constants, loop.fixed):
        if source in other.constants:
            same[given] = other.fixed[other.constants.index(source)]
    known = {_key(node, node.sources): node for node in other.nodes}
    for node in loop.nodes:
        sources = [same.get(source, source) for source in node.sources]
        found = known.get(_key(node, sources))
        if found is not None:
            same[node] = found
    return same


def _key(node: Node, sources: Sequence[Node]) -> Hashable:
    return node.op, tuple(sources), str(node.shape), node.dtype, frozen_attributes(node.attrs)


class _Keeping:
    """Scans as they are recorded, with what they additionally stack, and what they find already stacked."""

    def __init__(self, wanted: dict[Graph, list[Node]], instead: dict[Graph, dict[Node, tuple[Graph, Node]]]) -> None:
        self.wanted, self.instead = wanted, instead
        self.stacked: dict[tuple[Graph, Node], Node] = {}

    def change(self, node: Node, picked: Collection[int]) -> Sequence[Node] | None:
        """Record what replaces a scan."""
        body = node.attrs["body"]
        if body not in self.wanted and body not in self.instead:
            return None
        loop = opened(node)
        carries, places = len(loop.next), {value: loop.stack(value) for value in self.wanted.get(body, ())}
        found = {value: self.stacked[where] for value, where in self.instead.get(body, {}).items()}
        inside = {value: placeholder_for(value) for value in found}
        loop.xs += found.values()
        loop.items += inside.values()
        loop.replace(inside)
        made = loop.record()
        self.stacked |= {(body, value): made[carries + place] for value, place in places.items()}
        return made
