"""Calls of the C attention: the shape as a C struct, and a block of scores for each thread."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wengert.core.dtypes import bool_, float32, float64
from wengert.core.graph import Node
from wengert.kernels.c_ops import CCall, Pointer, braces, called
from wengert.kernels.threads import thread_count
from wengert.kernels.writer import suffix

_SCORES = 1 << 18  # bytes of a block's scores: a quarter of the second-level cache


def _steps(x: Node, lead: Sequence[int]) -> list[int]:
    """The strides between an operand's matrices along each leading axis; 0 where it is broadcast."""
    steps, step = [], x.shape[-1] * x.shape[-2]
    for size in reversed(x.shape[:-2]):
        steps.append(0 if size == 1 else step)
        step *= size
    return [0] * (len(lead) - len(steps)) + steps[::-1]


def _shape(query: Node, key: Node, value: Node, mask: Node | None, lead: Sequence[int], node: Node) -> tuple[str, int]:
    """The struct, and the bytes of scratch."""
    queries, features, keys, values = query.shape[-2], query.shape[-1], key.shape[-2], value.shape[-1]
    itemsize = query.dtype.itemsize
    most = 32 if node.attrs["causal"] else 64  # a causal block works out scores up to its last query's for all
    block = min(queries, max(8, min(most, _SCORES // (keys * itemsize))))
    fields: dict[str, object] = {
        "heads": math.prod(lead),
        "queries": queries,
        "keys": keys,
        "features": features,
        "values": values,
        "rank": len(lead),
        "lead": braces(lead or [1]),
        "query_step": braces(_steps(query, lead) or [0]),
        "key_step": braces(_steps(key, lead) or [0]),
        "value_step": braces(_steps(value, lead) or [0]),
        "causal": int(node.attrs["causal"]),
        "block": block,
        "scale": repr(float(node.attrs["scale"])),
    }
    if mask is not None:
        fields["mask_step"] = braces(_steps(mask, lead) or [0])
        fields["mask_kind"] = 1 if mask.dtype == bool_ else 2
        fields["mask_row"] = 0 if mask.shape[-2] == 1 else mask.shape[-1]
        fields["mask_column"] = 0 if mask.shape[-1] == 1 else 1
    scores = _lines(keys * block, itemsize)
    transposed = _lines(keys, itemsize) * (features + values)
    plain = (_lines(features, itemsize) + _lines(values, itemsize)) * (keys + block)
    scratch = 2 * scores + transposed + plain
    fields |= {"scores": scores // itemsize, "each": scratch}
    text = ", ".join(f".{name} = {value}" for name, value in fields.items())
    return f"&(wg_attention){{{text}}}", scratch * thread_count()


def _lines(elements: int, itemsize: int) -> int:
    """The bytes of this many elements, rounded up to a cache line."""
    return -(-elements * itemsize // 64) * 64


def _fits(x: Node, lead: Sequence[int], *sources: Node) -> bool:
    known = x.dtype in (float32, float64) and len(lead) <= 8
    return known and all(source.size for source in sources)


def attention(node: Node, pointer: Pointer) -> CCall | None:
    """The forward pass."""
    query, key, value, *masks = node.sources
    lead = node.shape[:-2]
    if not _fits(query, lead, *node.sources):
        return None
    mask = masks[0] if masks else None
    shape, scratch = _shape(query, key, value, mask, lead, node)
    arguments = ", ".join(pointer(x) for x in (query, key, value, mask, node))
    return called("attention_forward", suffix(node.dtype), f"{arguments}, arena + scratch, {shape}", scratch)


def attention_backward(node: Node, pointer: Pointer, results: Sequence[Node | None]) -> CCall | None:
    """The cotangents of query, key and value."""
    g, query, key, value, *masks = node.sources
    lead = g.shape[:-2]
    if not _fits(query, lead, *node.sources) or len(results) < 3 or None in results:
        return None
    mask = masks[0] if masks else None
    shape, scratch = _shape(query, key, value, mask, lead, node)
    arguments = ", ".join(pointer(x) for x in (g, query, key, value, mask, *results))
    return called("attention_backward", suffix(query.dtype), f"{arguments}, arena + scratch, {shape}", scratch)
