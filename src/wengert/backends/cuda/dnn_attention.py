"""Attention by cuDNN: a candidate beside our own kernels, for half precision without a mask.

Operands are described by strides, so heads need not be contiguous. The backward pass uses the forward's result and the
log-sum-exp of each query, which the forward keeps if requested; otherwise it runs the forward again, into the
workspace. Of the backward's algorithms, one whose sums have a fixed order is chosen.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from wengert.backends.cuda.dnn import NAMES, handle, library
from wengert.core.graph import Node
from wengert.kernels.attention.form import AttentionSizes, Layout, View, attention
from wengert.kernels.matmul.product import HALVES
from wengert.ops.attention import ATTENTION, ATTENTION_BACKWARD

ATTENTIONS = (ATTENTION, ATTENTION_BACKWARD)
_OPERANDS = ("query", "key", "value", "g")
_RESULT, _STATISTICS, _COTANGENTS = 5, 6, (7, 8, 9)  # numbers of the values; operands are 1 to 4


@dataclass(frozen=True)
class AttentionShape(AttentionSizes):
    """An attention's batches and heads, and the layouts of its operands and results."""

    strides: tuple[tuple[int, ...], ...]  # of query, key, value and, backward, g
    offsets: tuple[int, ...]  # in bytes
    results: tuple[tuple[int, ...], ...]  # strides of the result, or of the three cotangents
    result_offsets: tuple[int, ...]  # in bytes
    kept: tuple[int, ...]  # strides of the forward's result where it and the logarithms are kept for backward

    def sizes(self, name: str) -> list[int]:
        """The shape of an operand or of its cotangent."""
        rows = self.keys if name in ("key", "value") else self.queries
        return [*self.lead, rows, self.values if name in ("value", "g") else self.features]


def shape_of(node: Node, keeper: Node | None) -> AttentionShape | None:
    """The shape of an attention's node, or None if unsupported.

    `keeper` is the forward that keeps values for its backward: the node itself, or the forward of a backward.
    """
    a = attention(node)
    if a is None or a.dtype not in HALVES or a.mask is not None or len(a.lead) > 2:
        return None
    if any(source.shape[:-2] != a.lead for source in node.sources):
        return None  # broadcast over heads
    widths, places = (a.features, a.values), list(a.views.values())
    if max(widths) > 128 or any(n % 8 for n in widths) or not all(place.aligned(8) for place in places):
        return None
    sizes = {field.name: getattr(a, field.name) for field in fields(AttentionSizes)} | {"lead": (1, 1, *a.lead)[-2:]}
    size, results = a.dtype.itemsize, list(a.results.values())
    kept = attention(keeper) if keeper is not None else None
    return AttentionShape(
        **sizes,
        strides=tuple(_strides(place, max(widths)) for place in places),
        offsets=tuple(place.offset * size for place in places),
        results=tuple(_strides(place, max(widths)) for place in results),
        result_offsets=tuple(place.offset * size for place in results),
        kept=() if kept is None else _strides(kept.results["y"], max(widths)),
    )


def operands(node: Node) -> list[Node]:
    """The values that contain the operands, in the order of a candidate's pointers."""
    a = attention(node)
    return [] if a is None else [place.base for place in a.views.values()]


def _strides(place: View | Layout, width: int) -> tuple[int, ...]:
    """The strides of batch, heads, rows and features; an axis of size 1 may have any."""
    batch, heads = (0, 0, *place.steps)[-2:]
    return (batch or width, heads or width, place.row or width, 1)


class CudnnPlan:
    """A built cuDNN graph; its values are bound by number."""

    def __init__(self, graph: Any, device: str) -> None:
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([library().heur_mode.A])
        graph.check_support()
        graph.build_plans()
        self.graph, self.handle, self.workspace = graph, handle(device), int(graph.get_workspace_size())

    def enqueue(self, pointers: dict[int, int], workspace: int) -> None:
        """Enqueue it on the handle's stream."""
        self.graph.execute(pointers, workspace, self.handle)


class AttentionCandidate:
    """Forward, backward, or both in sequence, of one attention."""

    name = "cuDNN"
    works = True

    def __init__(self, shape: AttentionShape, plans: Sequence[CudnnPlan]) -> None:
        self.shape, self.plans = shape, plans
        lead = math.prod(shape.lead)
        self.statistics = _rounded(lead * shape.queries * 4)
        self.made_here = self.statistics + _rounded(lead * shape.queries * shape.values * 2) if len(plans) > 1 else 0
        self.workspace = self.made_here + max(plan.workspace for plan in plans)

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Enqueue it on the stream.

        Pointers: query, key, value, the result and, if kept, the log-sum-exp. For the backward, after the first three:
        g, the cotangents (one pointer if they are joined) and, if kept, the result and the log-sum-exp.
        """
        shape = self.shape
        count, backward = len(shape.offsets), len(shape.results) > 1
        kept = (_RESULT, _STATISTICS)[not backward :] if shape.kept else ()
        operands, made, last = pointers[:count], pointers[count : len(pointers) - len(kept)], pointers[-len(kept) :]
        made = [made[0]] * 3 if backward and len(made) == 1 else made
        table = {i: x + offset for i, (x, offset) in enumerate(zip(operands, shape.offsets), 1)}
        numbers = _COTANGENTS if backward else (_RESULT,)
        table |= {n: x + offset for n, x, offset in zip(numbers, made, shape.result_offsets)}
        table |= dict(zip(kept, last))
        if self.made_here:
            table |= {_STATISTICS: workspace, _RESULT: workspace + self.statistics}
        for plan in self.plans:
            plan.enqueue(table, workspace + self.made_here)


def _rounded(size: int) -> int:
    return -(-size // 256) * 256


@functools.lru_cache(maxsize=256)
def candidates(shape: AttentionShape, device: str) -> list[AttentionCandidate]:
    """The cuDNN candidates for an attention; empty if unsupported or not installed."""
    dnn = library()
    if dnn is None:
        return []
    backward = len(shape.strides) > 3
    try:
        graphs = [] if backward and shape.kept else [_forward(dnn, shape, backward or bool(shape.kept), device)]
        graphs += [_backward(dnn, shape, device)] if backward else []
        plans = [CudnnPlan(graph, device) for graph in graphs]
    except dnn.cudnnGraphNotSupportedError:
        return []
    return [AttentionCandidate(shape, plans)]


def _graph(dnn: Any, shape: AttentionShape, device: str, names: Sequence[str]) -> tuple[Any, list[Any], dict[str, Any]]:
    """A graph with the operands, and the options of both passes."""
    kinds = dnn.data_type
    kind = getattr(kinds, NAMES[shape.dtype])
    graph = dnn.pygraph(
        handle=handle(device), io_data_type=kind, intermediate_data_type=kinds.FLOAT, compute_data_type=kinds.FLOAT
    )
    numbers = [_OPERANDS.index(name) for name in names]
    given = [
        graph.tensor(dim=shape.sizes(name), stride=list(shape.strides[i]), data_type=kind, uid=i + 1)
        for name, i in zip(names, numbers)
    ]
    settings: dict[str, Any] = {"attn_scale": shape.scale}
    if shape.causal:
        settings |= {"diagonal_alignment": dnn.diagonal_alignment.TOP_LEFT, "diagonal_band_right_bound": 0}
    return graph, given, settings


def _contiguous(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _give(value: Any, number: int, sizes: list[int], strides: Sequence[int], kind: Any) -> None:
    """Mark a value as an output."""
    value.set_uid(number).set_output(True).set_dim(sizes).set_stride(list(strides)).set_data_type(kind)


def _forward(dnn: Any, shape: AttentionShape, with_statistics: bool, device: str) -> Any:
    graph, given, settings = _graph(dnn, shape, device, _OPERANDS[:3])
    result, statistics = graph.sdpa(*given, generate_stats=with_statistics, **settings)
    kinds = dnn.data_type
    sizes, rows = shape.sizes("g"), [*shape.lead, shape.queries, 1]
    strides = shape.results[0] if len(shape.results) == 1 else _contiguous(sizes)  # backward's own has a workspace
    _give(result, _RESULT, sizes, strides, getattr(kinds, NAMES[shape.dtype]))
    if with_statistics:
        _give(statistics, _STATISTICS, rows, _contiguous(rows), kinds.FLOAT)
    return graph


def _backward(dnn: Any, shape: AttentionShape, device: str) -> Any:
    graph, (query, key, value, g), settings = _graph(dnn, shape, device, _OPERANDS)
    kinds = dnn.data_type
    kind = getattr(kinds, NAMES[shape.dtype])
    sizes, rows = shape.sizes("g"), [*shape.lead, shape.queries, 1]
    result = graph.tensor(dim=sizes, stride=list(shape.kept or _contiguous(sizes)), data_type=kind, uid=_RESULT)
    statistics = graph.tensor(dim=rows, stride=_contiguous(rows), data_type=kinds.FLOAT, uid=_STATISTICS)
    settings["use_deterministic_algorithm"] = True
    cotangents = graph.sdpa_backward(query, key, value, result, g, statistics, **settings)
    for number, name, cotangent, strides in zip(_COTANGENTS, _OPERANDS, cotangents, shape.results):
        _give(cotangent, number, shape.sizes(name), strides, kind)
    return graph
