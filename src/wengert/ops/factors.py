"""Factors: the axes along which an op may be split over ranks, written as in einsum, and rules shared by many ops.

Each axis of the sources and of the results is given a factor, or None where it must be whole:

    matmul   (row, depth), (depth, column) -> (row, column)      depth: "sum"

A factor that a result has is *parallel*: where all source axes with it are cut into n equal blocks (the other sources
stay whole), the op applied to the blocks gives the blocks of the results. A factor in `reduction` is in the sources
only: the op applied to the blocks gives parts, and the parts combine to the whole results. A source axis of size 1 that
broadcasts has no factor: it is never cut. Any other factor of a source alone does not touch the result (what `pick`
does not pick).

An op states its rule as the fact `factors`, a function of a node; without one its kind decides. An op along which
nothing can be cut has None everywhere. Neighbours: `facts`, which lists all facts; the pass that cuts programs up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from wengert.core.graph import Node, Shape

Labels = tuple[Hashable | None, ...]
"""The factor of each axis. For a source with several results: the labels of each of them."""
Combination = Literal["sum", "prod", "max", "min", "all", "any"]
Localized = Callable[["Node", Hashable, int], dict[str, Any]]

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Factors(NamedTuple):
    """The factors of a node's axes; see the module docstring."""

    sources: tuple[Labels, ...]
    results: tuple[Labels, ...]
    reduction: Mapping[Hashable, Combination] = _NOTHING
    localized: Localized | None = None  # (node, factor, n) -> all attributes for one of n blocks; None: as they are
    divisors: Mapping[Hashable, int] = _NOTHING  # what n must divide beside the sizes of the axes
    ordered: bool = False  # whether a rank's elements must be neighbours; of most ops they may be any, if all agree


Rule = Callable[["Node"], Factors]


def factors(node: Node) -> Factors:
    """The axes along which a node may be cut.

    >>> import wengert as wg
    >>> factors((wg.zeros((2, 3)) + wg.zeros(3)).node)[:2]
    (((0, 1), (1,)), ((0, 1),))
    """
    rule: Rule = node.op.factors or _OF_KIND.get(node.op.kind, whole)
    return rule(node)


def divisor(node: Node, found: Factors, factor: Hashable) -> int:
    """The number that n must divide for a factor to be cut into n blocks: from the sizes of its axes, and from the
    op."""
    sizes = [found.divisors.get(factor, 0)]
    for shapes, sides in (([source.shape for source in node.sources], found.sources), (_results(node), found.results)):
        for shape, labels in zip(shapes, sides):
            sizes += _sizes_of(factor, shape, labels)
    return math.gcd(*sizes)


def _sizes_of(factor: Hashable, shape: Any, labels: Any) -> list[int]:
    if shape and type(shape[0]) is tuple:  # of a source with several results
        return [n for part, own in zip(shape, labels) for n in _sizes_of(factor, part, own)]
    return [n for n, label in zip(shape, labels) if label == factor]


def local_attributes(node: Node, factor: Hashable, n: int) -> dict[str, Any]:
    """The attributes of a node where a factor is cut into n blocks."""
    localized = factors(node).localized
    return node.attrs if localized is None else localized(node, factor, n)


# --- what rules are made of -----------------------------------------------------------------------------------------


def _results(node: Node) -> tuple[Shape, ...]:
    return node.shape if type(node.dtype) is tuple else (node.shape,)


def nowhere(node: Node) -> Any:
    """The labels of a value that must not be cut."""
    if type(node.dtype) is tuple:
        return tuple((None,) * len(shape) for shape in node.shape)
    return (None,) * len(node.shape)


def aligned(shape: Shape, full: Shape, labels: Labels) -> Labels:
    """The labels of a shape that broadcasts to a shape with these labels."""
    front = len(full) - len(shape)
    return tuple(label if n == m else None for n, m, label in zip(shape, full[front:], labels[front:]))


def without(labels: Labels, dropped: Collection[Hashable]) -> Labels:
    """The labels with some of them set to None."""
    return tuple(None if label in dropped else label for label in labels)


def sized(**attributes: Labels) -> Localized:
    """How attributes that are sizes change, one for each of these labels: a block has 1/n of each."""

    def localized(node: Node, factor: Hashable, n: int) -> dict[str, Any]:
        sizes = {
            name: tuple(size // n if label == factor else size for size, label in zip(node.attrs[name], labels))
            for name, labels in attributes.items()
        }
        return {**node.attrs, **sizes}

    return localized


def is_zero(node: Node) -> bool:
    """Whether a value is known to be zeros from its recording: a literal 0, moved and broadcast."""
    while node.sources and node.op.kind in ("movement", "identity"):  # a value that was computed lets its sources go
        (node,) = node.sources
    return node.op.kind == "source" and "value" in node.attrs and not node.attrs["value"]


# --- rules that many ops share --------------------------------------------------------------------------------------


def whole(node: Node) -> Factors:
    """Nothing can be cut."""
    return Factors(tuple(map(nowhere, node.sources)), tuple((None,) * len(shape) for shape in _results(node)))


def broadcasting(node: Node) -> Factors:
    """Every axis of the result, and the axes of the sources that are as long: of ops element by element."""
    labels = tuple(range(len(node.shape)))
    return Factors(tuple(aligned(source.shape, node.shape, labels) for source in node.sources), (labels,))


def other_axes(node: Node) -> Factors:
    """All axes except those in the attributes: `axis` or `axes`, or those a collective splits and joins."""
    attrs = node.attrs
    named = attrs.get("axes", [attrs[key] for key in ("axis", "split", "join") if key in attrs])
    sources = tuple(without(tuple(range(len(source.shape))), named) for source in node.sources)
    kept = sources[0] if len(node.shape) == len(sources[0]) else tuple(f for f in sources[0] if f is not None)
    return Factors(sources, (kept,))


def reducing(combination: Combination) -> Rule:
    """All axes: cutting a reduced axis gives partial results, which combine."""

    def rule(node: Node) -> Factors:
        parallel = other_axes(node)
        labels = tuple(range(len(node.sources[0].shape)))
        return Factors((labels,), parallel.results, dict.fromkeys(node.attrs["axes"], combination))

    return rule


def batch_axes(node: Node) -> Factors:
    """For ops that map over matrices: the axes before the last two of each source, which broadcast."""
    lead = np.broadcast_shapes(*[source.shape[:-2] for source in node.sources])
    labels = tuple(range(len(lead)))
    sources = [(*aligned(s.shape[:-2], lead, labels), *(None,) * len(s.shape[-2:])) for s in node.sources]
    results = [(*labels, *(None,) * (len(shape) - len(lead))) for shape in _results(node)]
    return Factors(tuple(sources), tuple(results))


def first_axes(last: Callable[[Node], int]) -> Rule:
    """For windows over planes: the axes of the only source except the last `last(node)`."""

    def rule(node: Node) -> Factors:
        rank = len(node.sources[0].shape)
        labels = tuple(range(rank - last(node)))
        source = (*labels, *(None,) * (rank - len(labels)))
        return Factors((source,), tuple((*labels, *(None,) * (len(s) - len(labels))) for s in _results(node)))

    return rule


# --- movement -------------------------------------------------------------------------------------------------------


def reshaping(node: Node) -> Factors:
    """The first axis of each group of axes that reshape into each other: (2, 6, 5) to (4, 3, 5) has {2, 6} and {4, 3},
    {5}.

    A block of the first axis is a contiguous run of the group's elements, so it is a block of the other side's first
    axis too.
    """
    before, after = node.sources[0].shape, node.shape
    source: list[Hashable | None] = [None] * len(before)
    result: list[Hashable | None] = [None] * len(after)
    if 0 not in before:
        for number, (i, j) in enumerate(_groups(before, after)):
            source[i] = result[j] = number
    labels = tuple(result)
    return Factors((tuple(source),), (labels,), localized=sized(shape=labels), ordered=True)


def _groups(before: Shape, after: Shape) -> list[tuple[int, int]]:
    """The first axes, in both shapes, of groups of neighbouring axes that have as many elements."""
    left = [(i, n) for i, n in enumerate(before) if n > 1]
    right = [(j, n) for j, n in enumerate(after) if n > 1]
    found, a, b = [], 1, 1
    while left or right:
        if a == b:
            found.append((left[0][0], right[0][0]))
        if a <= b:
            a *= left.pop(0)[1]
        else:
            b *= right.pop(0)[1]
    return found


def permuting(node: Node) -> Factors:
    """Every axis, at its new position."""
    return Factors((tuple(range(len(node.shape))),), (tuple(node.attrs["axes"]),))


def repeating(node: Node) -> Factors:
    """Every axis of the result; the source has no factor where it is repeated."""
    found = broadcasting(node)
    return found._replace(localized=sized(shape=found.results[0]))


def _evenly(short: Shape, starts: Shape, steps: Shape, long: Shape) -> Labels:
    """The axes whose elements lie evenly over the whole of a longer axis: so many in each block."""
    each = zip(short, starts, steps, long)
    return tuple(axis if m * step == n and start < step else None for axis, (m, start, step, n) in enumerate(each))


def slicing(node: Node) -> Factors:
    """The axes that are taken whole, or with a stride over the whole."""
    labels = _evenly(node.shape, node.attrs["starts"], node.attrs["steps"], node.sources[0].shape)
    return Factors((labels,), (labels,), localized=sized(sizes=labels), ordered=True)


def placing(node: Node) -> Factors:
    """The axes that are filled whole, or with a stride."""
    labels = _evenly(node.sources[0].shape, node.attrs["starts"], node.attrs["steps"], node.shape)
    return Factors((labels,), (labels,), localized=sized(shape=labels), ordered=True)


def putting(node: Node) -> Factors:
    """The axes along which all elements are replaced, or elements at a stride."""
    x, values = node.sources
    labels = _evenly(values.shape, node.attrs["starts"], node.attrs["steps"], x.shape)
    return Factors((labels, labels), (labels,), ordered=True)


# --- several results ------------------------------------------------------------------------------------------------


def picking(node: Node) -> Factors:
    """Every axis of the result that is picked; the others may be cut in any way."""
    parts = tuple(tuple((i, axis) for axis in range(len(s))) for i, s in enumerate(node.sources[0].shape))
    return Factors((parts,), (parts[node.attrs["index"]],))


def packing(node: Node) -> Factors:
    """Every axis of each source."""
    parts = tuple(tuple((i, axis) for axis in range(len(s.shape))) for i, s in enumerate(node.sources))
    return Factors(parts, parts)


_OF_KIND: Mapping[str, Rule] = {"elementwise": broadcasting, "identity": broadcasting, "reduction": other_axes}
