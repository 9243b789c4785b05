"""An attention as a CUDA kernel sees it: its sizes, and the addresses of its operands and results.

Heads need not be contiguous: permutations, slices and reshapes of one value are read in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import float32, float64
from wengert.core.graph import Node
from wengert.kernels.matmul.product import FLOATS
from wengert.ops.attention import ATTENTION, ATTENTION_BACKWARD
from wengert.ops.movement import PERMUTE, RESHAPE, SLICE

_VIEWS = (PERMUTE, SLICE, RESHAPE)
_PITCH = 128  # the row pitch of per-query statistics is a multiple of this, a block's largest read


class View(NamedTuple):
    """Matrices (..., rows, columns) as a strided view of another value, `base`; elements of a row are adjacent."""

    base: Node
    offset: int
    steps: tuple[int, ...]  # along the axes in front
    row: int

    def aligned(self, count: int) -> bool:
        """Whether every row starts at a multiple of this many elements."""
        return not any(n % count for n in (self.offset, self.row, *self.steps))


class Layout(NamedTuple):
    """The layout of a result's matrices (..., rows, columns) in the memory of a node."""

    offset: int
    steps: tuple[int, ...]  # along the axes in front
    row: int


def view(node: Node) -> View:
    """A value as a view through the permutations, slices and reshapes that made it."""
    chain = [node]
    while chain[-1].op in _VIEWS:
        chain.append(chain[-1].sources[0])
    while chain:
        found = _seen(chain)
        if found is not None:
            return found
        chain.pop()
    raise AssertionError("a value lies in its own memory")


def _seen(chain: Sequence[Node]) -> View | None:
    """The first value of the chain as a view of the last; None if its rows would not be contiguous."""
    base, start = chain[-1], np.empty(1, np.int8)
    steps = [math.prod(base.shape[axis + 1 :]) for axis in range(base.ndim)]
    x = np.lib.stride_tricks.as_strided(start, base.shape, steps)  # only its strides are looked at
    for node in reversed(chain[:-1]):
        if node.op is RESHAPE:
            try:
                x = x.reshape(node.shape, copy=False)
            except ValueError:
                return None
        else:
            x = node.op.numpy(x, **node.attrs)
    if (x.shape[-1] > 1 and x.strides[-1] != 1) or any(n < 0 for n in x.strides):
        return None
    strides = [step if size > 1 else 0 for size, step in zip(x.shape, x.strides)]
    return View(base, x.ctypes.data - start.ctypes.data, tuple(strides[:-2]), strides[-2])


@dataclass(frozen=True)
class AttentionSizes:
    """An attention without its values: batches and heads, sizes, and what it computes."""

    lead: tuple[int, ...]
    queries: int
    keys: int
    features: int
    values: int
    causal: bool
    scale: float
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class AttentionForm(AttentionSizes):
    """An attention's sizes and where its operands lie."""

    views: Mapping[str, View]  # query, key, value; g backward
    results: Mapping[str, Layout]  # y; or to_query, to_key, to_value
    mask: Node | None
    totals: int = 0  # the columns of joined cotangents that backward leaves totals of, if it does

    @property
    def heads(self) -> int:
        return math.prod(self.lead)

    @property
    def padded(self) -> tuple[int, int]:
        """The features and values of a head, padded for the tensor cores."""
        e, v = (next(n for n in (32, 64, 128) if n >= size) for size in (self.features, self.values))
        return e, v

    @property
    def pitch(self) -> int:
        """The distance between the per-query statistics of consecutive heads."""
        return -(-self.queries // _PITCH) * _PITCH


def attention(node: Node) -> AttentionForm | None:
    """The form of a node of either op; None if our kernels do not support it."""
    backward = isinstance(node.dtype, tuple)
    g, (query, key, value, *masks) = (node.sources[0], node.sources[1:]) if backward else (None, node.sources)
    joined = "joined" in node.attrs
    lead = g.shape[:-2] if g is not None else (node.shape[0], node.shape[2]) if joined else node.shape[:-2]
    if query.dtype not in FLOATS or not all(source.size for source in node.sources):
        return None
    views = {"query": query, "key": key, "value": value} | ({"g": g} if g is not None else {})
    return AttentionForm(
        lead,
        query.shape[-2],
        key.shape[-2],
        query.shape[-1],
        value.shape[-1],
        node.attrs["causal"],
        node.attrs["scale"],
        query.dtype,
        {name: view(x) for name, x in views.items()},
        _results(query, key, value, lead, backward, joined),
        masks[0] if masks else None,
    )


def _results(
    query: Node, key: Node, value: Node, lead: tuple[int, ...], backward: bool, joined: bool
) -> dict[str, Layout]:
    """The layout of the result or the cotangents: head by head, or heads side by side."""
    rows, wide = query.shape[-2], value.shape[-1]
    if not backward:
        return {"y": _joined(rows, lead[1], wide) if joined else by_head(lead, rows, wide)}
    names = ("to_query", "to_key", "to_value")
    if joined:
        return {name: _joined(rows, lead[1], wide, i, 3) for i, name in enumerate(names)}
    return {name: by_head(lead, *x.shape[-2:]) for name, x in zip(names, (query, key, value))}


def by_head(lead: Sequence[int], rows: int, columns: int) -> Layout:
    return Layout(0, tuple(math.prod(lead[i + 1 :]) * rows * columns for i in range(len(lead))), columns)


def _joined(rows: int, heads: int, columns: int, number: int = 0, of: int = 1) -> Layout:
    """One of several results whose rows join all heads: (batch, rows, of, heads, columns)."""
    wide = heads * columns
    return Layout(number * wide, (rows * of * wide, columns), of * wide)


def operands(node: Node) -> list[Node]:
    """The values read from memory: those that the operands are views of, and the mask."""
    found = attention(node)
    if found is None:
        return list(node.sources)
    order = [name for name in ("g", "query", "key", "value") if name in found.views]
    return [*(found.views[name].base for name in order), *([found.mask] if found.mask is not None else [])]


def pairs(nodes: Iterable[Node]) -> list[tuple[Node, Node]]:
    """Every backward with an earlier forward of the same attention: (forward, backward)."""
    found: list[tuple[Node, Node]] = []
    forwards: dict[tuple[Any, ...], Node] = {}
    for node in nodes:
        sources = node.sources[1:] if node.op is ATTENTION_BACKWARD else node.sources
        key = (*map(id, sources), node.attrs.get("causal"), node.attrs.get("scale"))
        if node.op is ATTENTION:
            forwards.setdefault(key, node)
        elif node.op is ATTENTION_BACKWARD and key in forwards:
            found.append((forwards[key], node))
    return found


def place_for_logarithms(node: Node) -> Node:
    """A separate value for the log-sum-exp that this attention's forward stores."""
    a = attention(node)
    assert a is not None
    dtype = float64 if node.dtype == float64 else float32
    return Node(node.op, node.sources, node.attrs, (*a.lead, a.pitch), dtype, node.device, False, node.location)
