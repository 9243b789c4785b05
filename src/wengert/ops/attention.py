"""Attention as one primitive, and embedding.

    query (..., T, E), key (..., S, E), value (..., S, V), mask (..., T, S)
        ->  softmax(query key^T * scale + mask) value, (..., T, V)

The axes in front broadcast, which is also how several query heads share a key head. A boolean mask is true where a
query may attend, a floating-point one is added to the scores. A query with no visible key gets zeros and has no
derivative. The backward op, also a primitive, recomputes the probabilities instead of storing them: they are larger
than everything else, and kernels hold a block of them at a time.

`joined` is the compiler's (see `compiler.heads`): the result of (batch, heads, T, V) comes as (batch, T, heads, V), as
the product after it reads it, and the cotangents of query, key and value as one value (batch, T, 3, heads, E).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import INTEGER, bool_, result_dtype
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.core import as_node, cast, data, operands, require_floating, stop_gradient, widened
from wengert.ops.elementwise import equal, exp, greater_equal, isfinite, where
from wengert.ops.factors import Factors, Labels, aligned, whole
from wengert.ops.linalg import matmul, over_lanes
from wengert.ops.movement import matrix_transpose, reshape
from wengert.ops.op import Op, picks
from wengert.ops.recorders import broadcast_shapes
from wengert.ops.reduce import MAX, SUM


def _infer(
    query: Node, key: Node, value: Node, *mask: Node, causal: bool, scale: float, joined: bool = False
) -> tuple[Any, Any]:
    lead = broadcast_shapes(
        "scaled_dot_product_attention", *[x.shape[:-2] for x in (query, key, value)], *[m.shape[:-2] for m in mask]
    )
    if joined:
        return (lead[0], query.shape[-2], lead[1], value.shape[-1]), query.dtype
    return (*lead, query.shape[-2], value.shape[-1]), query.dtype


def _weights(query: Any, key: Any, mask: tuple[Any, ...], causal: bool, scale: float) -> Any:
    scores = np.matmul(query * scale, np.swapaxes(key, -1, -2))
    for m in mask:
        scores = np.where(m, scores, -np.inf) if m.dtype == bool else scores + m
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def _attention(query: Any, key: Any, value: Any, *mask: Any, causal: bool, scale: float, joined: bool = False) -> Any:
    y = np.matmul(_weights(query, key, mask, causal, scale), value)
    return np.swapaxes(y, 1, 2) if joined else y


def _positions(count: int, device: str) -> Node:
    return data(np.arange(count), device)


def probabilities(query: Node, key: Node, mask: Node | None, causal: bool, scale: float) -> Node:
    """The attention weights of each query over the keys, recorded."""
    scores = matmul(query, matrix_transpose(key)) * scale
    if mask is not None:
        scores = where(mask, scores, -math.inf) if mask.dtype is bool_ else scores + mask
    if causal:
        rows, columns = (_positions(n, query.device) for n in (query.shape[-2], key.shape[-2]))
        scores = where(greater_equal(reshape(rows, (query.shape[-2], 1)), columns), scores, -math.inf)
    if scores.size == 0:
        return scores
    axis = (scores.ndim - 1,)
    top = stop_gradient(MAX(scores, axes=axis, keepdims=True))
    weights = exp(scores - where(isfinite(top), top, 0))
    total = SUM(weights, axes=axis, keepdims=True)
    return weights / where(equal(total, 0), 1, total)


def _composed(
    g: Node, query: Node, key: Node, value: Node, mask: Node | None, causal: bool, scale: float
) -> list[Node]:
    """The cotangents of query, key, value and scores: with P the probabilities and D = g value^T, the scores' is
    P * (D - row sums of P * D)."""
    p = probabilities(query, key, mask, causal, scale)
    d = matmul(g, matrix_transpose(value))
    scores = p * (d - SUM(p * d, axes=(d.ndim - 1,), keepdims=True))
    by_query, by_key = matmul(scores, key) * scale, matmul(matrix_transpose(scores), query) * scale
    return [by_query, by_key, matmul(matrix_transpose(p), g), scores]


def _vjp(g: Node, y: Node) -> list[Node | None]:
    """By one primitive, unless a mask that was added wants its cotangent too: that is as large as the scores."""
    query, key, value = y.sources[:3]
    mask = y.sources[3] if len(y.sources) > 3 else None
    cotangents: Sequence[Node]
    if mask is None or mask.dtype is bool_:
        masks = () if mask is None else (mask,)
        cotangents = picks(ATTENTION_BACKWARD(cast(g, query.dtype), query, key, value, *masks, **y.attrs))
    else:
        wide, query, key, value = (widened(x) for x in (g, query, key, value))
        cotangents = _composed(wide, query, key, value, widened(mask), **y.attrs)
    found: list[Node | None] = [cast(cotangent, source.dtype) for cotangent, source in zip(cotangents, y.sources)]
    return [*found, *[None] * (len(y.sources) - len(found))]


# --- backward -------------------------------------------------------------------------------------------------------


def _backward_infer(
    g: Node, query: Node, key: Node, value: Node, *mask: Node, causal: bool, scale: float, joined: bool = False
) -> tuple[Any, Any]:
    if joined:
        batch, heads, length, features = query.shape
        return ((batch, length, 3, heads, features),), (query.dtype,)
    return tuple((*g.shape[:-2], *x.shape[-2:]) for x in (query, key, value)), (query.dtype, key.dtype, value.dtype)


def _backward(
    g: Any, query: Any, key: Any, value: Any, *mask: Any, causal: bool, scale: float, joined: bool = False
) -> tuple[Any, ...]:
    p = _weights(query, key, mask, causal, scale)
    d = np.matmul(g, np.swapaxes(value, -1, -2))
    scores = p * (d - (p * d).sum(-1, keepdims=True))
    by_key = np.matmul(np.swapaxes(scores, -1, -2), query) * scale
    found = np.matmul(scores, key) * scale, by_key, np.matmul(np.swapaxes(p, -1, -2), g)
    return (np.stack([np.swapaxes(x, 1, 2) for x in found], axis=2),) if joined else found


def _backward_composed(
    g: Node, query: Node, key: Node, value: Node, *mask: Node, causal: bool, scale: float
) -> Sequence[Node]:
    return _composed(g, query, key, value, mask[0] if mask else None, causal, scale)[:3]


def _factors(node: Node) -> Factors:
    """The axes in front; the queries, unless they count which key they are beside; the features of the values."""
    if node.attrs.get("joined"):
        return whole(node)
    query, key, value, *masks = node.sources
    row = None if node.attrs["causal"] else "row"
    sources: list[Labels] = [_laid(query, node.shape, (row, None)), _laid(key, node.shape, (None, None))]
    sources.append(_laid(value, node.shape, (None, "feature")))
    sources += [_laid(mask, node.shape, (row if mask.shape[-2] == query.shape[-2] else None, None)) for mask in masks]
    return Factors(tuple(sources), ((*range(node.ndim - 2), row, "feature"),))


def _backward_factors(node: Node) -> Factors:
    """The axes in front. A cut of the queries would give blocks of one result and parts of the others."""
    if node.attrs.get("joined"):
        return whole(node)
    g, last = node.sources[0], (None, None)
    results = tuple((*range(g.ndim - 2), *last) for _ in node.shape)
    return Factors(tuple(_laid(source, g.shape, last) for source in node.sources), results)


def _laid(x: Node, full: Shape, last: Labels) -> Labels:
    """The labels of an operand: of its axes in front, and these for the last two."""
    lead = full[:-2]
    return (*aligned(x.shape[:-2], lead, tuple(range(len(lead)))), *last)


def _product_flops(node: Node, query: Node, key: Node) -> int:
    """Of one product of queries by keys; forward has two (scores and their use), backward those and three gradients."""
    product = 2 * query.size * key.shape[-2]
    return product // 2 if node.attrs["causal"] else product


ATTENTION_BACKWARD = Op(
    "attention_backward",
    infer=_backward_infer,
    numpy=_backward,
    composition=_backward_composed,
    batch=over_lanes,
    expensive=True,
    can_fail=False,
    factors=_backward_factors,
    flops=lambda node: 5 * _product_flops(node, *node.sources[1:3]),
)
ATTENTION = Op(
    "attention",
    infer=_infer,
    numpy=_attention,
    vjp=_vjp,
    batch=over_lanes,
    expensive=True,
    precision="low",
    can_fail=False,
    factors=_factors,
    flops=lambda node: 2 * _product_flops(node, *node.sources[:2]),
)


def _check_shapes(query: Node, key: Node, value: Node) -> None:
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
    name = "scaled_dot_product_attention"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(f"{name}: each operand must be (..., length, features): {shapes}")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"{name}: queries and keys must have the same number of features: {shapes}")
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"{name}: there must be one value for each key: {shapes}")


def _mask_node(mask: Any, dtype: Any, scores: Shape) -> Node:
    mask = as_node(mask)
    if mask.dtype is not bool_:
        if mask.dtype in INTEGER:
            raise DTypeError(
                f"scaled_dot_product_attention: attn_mask is {mask.dtype}; it must be boolean, true where a query may "
                "attend, or floating-point and added to the scores"
            )
        mask = cast(mask, dtype)
    short = mask.ndim < 2
    aligned = reshape(mask, (*(1,) * (2 - mask.ndim), *mask.shape)) if short else mask
    if any(m not in (1, n) for m, n in zip(aligned.shape[::-1], scores[::-1])) or aligned.ndim > len(scores):
        raise ShapeError(
            f"scaled_dot_product_attention: attn_mask of shape {mask.shape} does not broadcast to the scores' {scores}"
        )
    return aligned


def _grouped(x: Node, heads: int, each: int) -> Node:
    """(..., heads * each, L, E) as (..., heads, each, L, E)."""
    return reshape(x, (*x.shape[:-3], heads, each, *x.shape[-2:]))


def _share_heads(query: Node, key: Node, value: Node, mask: Node | None) -> list[Node | None]:
    """Operands in which neighbouring query heads broadcast against the one key and value head they share."""
    if min(query.ndim, key.ndim, value.ndim) < 3:
        raise ShapeError("scaled_dot_product_attention: enable_gqa takes (..., heads, length, features)")
    many, heads, value_heads = query.shape[-3], key.shape[-3], value.shape[-3]
    if heads != value_heads or not heads or many % heads:
        raise ShapeError(
            f"scaled_dot_product_attention: {many} query heads cannot share {heads} key and {value_heads} value heads"
        )
    parts: list[Node | None] = [
        _grouped(query, heads, many // heads),
        _grouped(key, heads, 1),
        _grouped(value, heads, 1),
    ]
    if mask is not None and mask.ndim > 2:
        mask = _grouped(mask, *((1, 1) if mask.shape[-3] == 1 else (heads, many // heads)))
    return [*parts, mask]


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Node:
    """Scaled dot-product attention: for each query, the mean of the values weighted by the softmax of the scores.

    `query` is (..., T, E), `key` (..., S, E), `value` (..., S, V). `attn_mask` broadcasts to (..., T, S): boolean, true
    where a query may attend, or floating-point, added to the scores. With `is_causal`, query i attends to keys 0 to i
    only; with both, only where both allow it. A query with no visible key gets zeros. `scale` defaults to 1 / sqrt(E).
    With `enable_gqa`, groups of neighbouring query heads share a key and value head.

    >>> import wengert as wg
    >>> q = wg.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> wg.scaled_dot_product_attention(q, q, wg.tensor([[1.0], [2.0]]), is_causal=True).shape
    (2, 1)
    """
    query, key, value = operands(query, key, value)
    require_floating("scaled_dot_product_attention", query, key, value)
    if dropout_p:
        raise ArgumentError(
            "scaled_dot_product_attention: dropout_p must be 0.0; apply wg.dropout to the result instead"
        )
    _check_shapes(query, key, value)
    dtype = result_dtype(query.dtype, key.dtype, value.dtype)
    query, key, value = cast(query, dtype), cast(key, dtype), cast(value, dtype)
    heads = key.shape[:-3] + query.shape[-3:-2] if enable_gqa else key.shape[:-2]
    lead = broadcast_shapes("scaled_dot_product_attention", query.shape[:-2], heads)
    mask = None if attn_mask is None else _mask_node(attn_mask, dtype, (*lead, query.shape[-2], key.shape[-2]))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None and query.shape[-1] else 1.0 if scale is None else scale
    sources = _share_heads(query, key, value, mask) if enable_gqa else [query, key, value, mask]
    y = ATTENTION(*[s for s in sources if s is not None], causal=is_causal, scale=float(factor))
    return reshape(y, (*y.shape[:-4], y.shape[-4] * y.shape[-3], *y.shape[-2:])) if enable_gqa else y


# --- embedding ------------------------------------------------------------------------------------------------------
