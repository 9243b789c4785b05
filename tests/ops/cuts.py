"""Nodes cut along their factors: what `test_factors.py` proves `ops.factors` with.

A node's sources are computed by the references, cut into blocks along a factor, and its op is applied to the blocks by
itself. The blocks of the result are joined, or its parts combined.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.graph import Node, ancestors
from wengert.ops.core import data
from wengert.ops.factors import Factors, divisor, factors, is_zero
from wengert.ops.op import PACK, Op

COMBINE = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "all": np.logical_and,
    "any": np.logical_or,
}


class Cut(NamedTuple):
    """A node whose factor is cut into n blocks."""

    node: Node
    found: Factors
    factor: Hashable
    n: int

    def __str__(self) -> str:
        shapes = ",".join(str(source.shape) for source in self.node.sources)
        return f"{self.node.op.name}({shapes}; {self.node.attrs}) over {self.factor!r} by {self.n}"


def values_of(nodes: Iterable[Node]) -> dict[Node, Any]:
    """The values of nodes by the references, without those made of what has no value."""
    found: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        for node in ancestors(list(nodes)):
            if node.buffer is not None:
                found[node] = node.buffer
            elif (node.sources or node.attrs) and all(source in found for source in node.sources):
                found[node] = node.op.run([found[source] for source in node.sources], node)
    return found


def signature(node: Node) -> Hashable:
    """What nodes have in common that are cut alike."""
    types = tuple((source.shape, str(source.dtype), is_zero(source)) for source in node.sources)
    return node.op, str(sorted(node.attrs.items())), types, node.shape


def cuts_of(node: Node, found: Factors, counts: Sequence[int] = (2, 4)) -> Iterator[Cut]:
    """The ways of cutting a node along one factor."""
    for factor in all_factors(node, found):
        size = divisor(node, found, factor)
        yield from (Cut(node, found, factor, n) for n in counts if size and size % n == 0)


def all_factors(node: Node, found: Factors) -> list[Hashable]:
    """The factors that sources or results have, each once."""
    sides = [*_labels_of_sources(node, found), *found.results]
    return list(dict.fromkeys(factor for labels in sides for factor in labels if factor is not None))


def _labels_of_sources(node: Node, found: Factors) -> Iterator[Any]:
    """The labels of each source, and of each result of one that has several."""
    for source, labels in zip(node.sources, found.sources, strict=True):
        if type(source.dtype) is tuple:
            yield from labels
        else:
            yield labels


def role(node: Node, found: Factors, factor: Hashable) -> str:
    """What a factor is, in words: the same for all nodes of an op that are cut alike."""
    name = factor if isinstance(factor, str) else "axis"
    if factor in found.reduction:
        return f"{name}: {found.reduction[factor]}"
    in_sources = any(factor in labels for labels in _labels_of_sources(node, found))
    in_results = any(factor in labels for labels in found.results)
    return name if in_sources and in_results else f"{name}: of {'sources' if in_sources else 'results'} alone"


def parts_of(cut: Cut, values: dict[Node, Any]) -> list[tuple[Any, ...]]:
    """The results of the op applied to each of the blocks alone."""
    node, found, factor, n = cut
    localized = found.localized
    attrs = node.attrs if localized is None else localized(node, factor, n)
    parts = []
    for k in range(n):
        blocks = [_block(values[s], labels, factor, n, k) for s, labels in zip(node.sources, found.sources)]
        nodes = [_as_node(block) for block in blocks]
        shape, dtype = node.op.infer(*nodes, **attrs)
        assert dtype == node.dtype
        with np.errstate(all="ignore"):
            result = node.op.run(blocks, Node(node.op, tuple(nodes), attrs, shape, dtype, node.device, False, None))
        parts.append(result if type(dtype) is tuple else (result,))
        for array, inferred in zip(parts[-1], shape if type(dtype) is tuple else (shape,)):
            assert array.shape == inferred, f"the shape of a block is {array.shape}, by its attributes {inferred}"
    return parts


def _as_node(value: Any) -> Node:
    return PACK(*map(data, value)) if isinstance(value, tuple) else data(value)


def _block(value: Any, labels: Any, factor: Hashable, n: int, k: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_block(part, own, factor, n, k) for part, own in zip(value, labels))
    for axis, label in enumerate(labels):
        if label == factor:
            value = np.split(value, n, axis)[k]
    return value


def whole_from(cut: Cut, parts: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The results of a node, of the results of its blocks."""
    found = []
    for column, labels in zip(zip(*parts), cut.found.results):
        axes = [axis for axis, label in enumerate(labels) if label == cut.factor]
        if axes:
            assert len(axes) == 1, "a factor is one axis of a result"
            found.append(np.concatenate(column, axes[0]))
        elif cut.factor in cut.found.reduction:
            found.append(functools.reduce(COMBINE[cut.found.reduction[cut.factor]], column))
        else:
            for other in column[1:]:  # what is not picked does not matter
                np.testing.assert_array_equal(other, column[0])
            found.append(column[0])
    return found


def check(cut: Cut, values: dict[Node, Any]) -> None:
    """Raise unless the blocks of a node make up the whole."""
    found = whole_from(cut, parts_of(cut, values))
    expected = values[cut.node] if type(cut.node.dtype) is tuple else (values[cut.node],)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert a.shape == b.shape, f"{cut}: shape {a.shape} instead of {b.shape}"
        if cut.node.op.moves or b.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, b, str(cut))
        else:
            rtol = 1e-11 if b.dtype in (np.float64, np.complex128) else 1e-4
            scale = _scale(b, *[values[source] for source in cut.node.sources])
            np.testing.assert_allclose(a, b, rtol, rtol * scale, err_msg=str(cut))


def _scale(*arrays: Any) -> float:
    """The size of the largest finite element: what is summed may cancel, and is as exact as its terms."""
    floating = [x for x in arrays if not isinstance(x, tuple) and x.dtype.kind in "fc"]
    return max(float(np.max(np.abs(x[np.isfinite(x)]), initial=1e-300)) for x in floating)


class Samples:
    """Nodes to be cut, one for each way in which ops are called, and the values around them."""

    def __init__(self) -> None:
        self.nodes: dict[Hashable, Node] = {}
        self.values: dict[Node, Any] = {}

    def take(self, nodes: Iterable[Node]) -> None:
        """Add what is new among these nodes."""
        new: dict[Hashable, Node] = {}
        for node in nodes:
            if (
                node.op.kind not in ("source", "function")
                and node.sources
                and (key := signature(node)) not in self.nodes
            ):
                new.setdefault(key, node)
        values = values_of(new.values())
        for key, node in new.items():
            if node in values:
                self.nodes[key] = node
                self.values |= {each: values[each] for each in (node, *node.sources)}

    def of(self, op: Op) -> list[Node]:
        """The samples of an op."""
        return [node for node in self.nodes.values() if node.op is op]


def faults(nodes: Iterable[Node], values: dict[Node, Any]) -> list[str]:
    """Which cuts of these nodes do not make up the whole, and why."""
    found = []
    for node in nodes:
        for cut in cuts_of(node, factors(node)):
            try:
                check(cut, values)
            except Exception as error:
                found.append(f"{cut}: {str(error).strip()[:200]}")
    return found
