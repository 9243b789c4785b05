"""Probes of collectives: the transfers and sums of a small mesh, computed for all ranks in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wengert.autodiff.ranks import over_ranks
from wengert.core.dtypes import bfloat16, float32, int16, int32
from wengert.core.graph import Graph, Node, Shape
from wengert.core.mesh import Mesh
from wengert.ops.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_REDUCE_MANY,
    ALL_REDUCE_MAX,
    ALL_TO_ALL,
    REDUCE_SCATTER,
    REPLICATE,
)
from wengert.ops.core import placeholder
from wengert.ops.op import PICK
from wengert.runtime.certificate.cases import Case, Cases, recorded
from wengert.runtime.certificate.values import Dtype, numbered

_MESH = Mesh(ranks=3)
_GROUP = _MESH.whole


def of_all_ranks(graph: Graph) -> Graph:
    """The graph of one rank as a graph of all ranks, with the inputs and outputs of each; other graphs are returned
    unchanged."""
    if not any(node.attrs.get("group") == _GROUP for node in graph.nodes):
        return graph
    lanes = {node: placeholder((_MESH.size, *node.shape), node.dtype, node.device) for node in graph.inputs}
    first = min(node.serial for node in (*graph.inputs, *graph.nodes))
    return Graph([*lanes.values()], over_ranks(graph.outputs, lanes, _MESH), first)


def _on_ranks(record: Callable[[Node], Any], shape: Shape, *dtypes: Dtype) -> Cases:
    """A collective of values that differ from rank to rank, element by element."""

    def cases(device: str) -> Iterator[Case]:
        for dtype in dtypes:
            arrays = [numbered((_MESH.size, *shape), dtype)]
            yield Case(recorded(record, [(shape, dtype)], device), arrays)

    return cases


def _many(x: Node) -> list[Node]:
    both = ALL_REDUCE_MANY(x, x * x, group=_GROUP)
    return [PICK(both, index=i) for i in (0, 1)]


COLLECTIVES: list[Cases] = [
    _on_ranks(lambda x: ALL_GATHER(x, axis=1, group=_GROUP), (2, 3), float32),
    _on_ranks(lambda x: REDUCE_SCATTER(x, axis=1, group=_GROUP), (2, 6), float32, bfloat16, int16),
    _on_ranks(lambda x: REDUCE_SCATTER(x, axis=0, group=_GROUP), (6, 2), float32, int16),
    _on_ranks(lambda x: ALL_TO_ALL(x, split=1, join=0, group=_GROUP), (2, 6), float32),
    _on_ranks(lambda x: ALL_TO_ALL(x, split=0, join=1, group=_GROUP), (6, 2), float32),
    *[_on_ranks(lambda x: ALL_REDUCE(x, group=_GROUP), shape, float32, int16) for shape in ((2, 5), (151, 151))],
    _on_ranks(_many, (2, 5), float32, int16),
    _on_ranks(lambda x: ALL_REDUCE_MAX(x, group=_GROUP), (2, 5), float32, int32, int16),
    _on_ranks(lambda x: REPLICATE(x, group=_GROUP) + x, (2, 5), float32),
]
"""Those of `contiguous_collectives`. Which block is a rank's own is no matter of values, and is tested by ranks."""
