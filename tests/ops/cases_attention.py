"""Cases for attention and embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch.nn.functional as F
except ImportError:
    F = None  # type: ignore[assignment]


def _torch(name: str) -> Callable[..., Any] | None:
    return getattr(F, name) if F is not None else None


def _plain(q: Any, k: Any, v: Any, attn_mask: Any = None, is_causal: bool = False, scale: float | None = None) -> Any:
    """Attention by its definition, where every query may look somewhere."""
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores + np.triu(np.full(scores.shape[-2:], -np.inf), 1)
    if attn_mask is not None:
        scores = scores + (np.where(attn_mask, 0, -np.inf) if attn_mask.dtype == bool else attn_mask)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def _attend(*args: Any, numpy: bool = True, **kwargs: Any) -> Case:
    name = "scaled_dot_product_attention"
    return Case(name, args, kwargs, numpy=_plain if numpy else None, torch=_torch(name))


_q, _k, _v, _bias = arrays(1, (2, 3, 4), (2, 5, 4), (2, 5, 3), (3, 5))
_heads, _few_keys, _few_values, _per_head = arrays(2, (1, 4, 3, 2), (1, 2, 4, 2), (1, 2, 4, 3), (1, 4, 3, 4))
_looks = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1]], bool)
_blind = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool)
_table = arrays(3, (5, 3))[0]


def _embed(indices: Any, weight: Any = _table) -> Case:
    return Case("embedding", (indices, weight), numpy=lambda x, w: w[x], torch=_torch("embedding"))


CASES = [
    _attend(_q, _k, _v),
    _attend(_q, _k, _v, is_causal=True),
    _attend(_k, _q, _q, is_causal=True),
    _attend(_q, _k, _v, _bias),
    _attend(_q, _k, _v, attn_mask=_looks),
    _attend(_q, _k, _v, attn_mask=_blind, numpy=False),
    _attend(_q, _k, _v, scale=0.3),
    _attend(_q[0], _k[0], _v[0], _bias, scale=1.0),
    _attend(_q, _k[:1], _v[:1], _bias[None, :1]),
    _attend(_q.transpose(0, 2, 1)[:, :, ::-1], _q[:, ::-1, :3], _v[:, :3]),
    _attend(_q[:, :1], _k[:, :1], _v[:, :1]),
    _attend(_q[:0], _k[:0], _v[:0]),
    _attend(_q[:, :0], _k, _v),
    _attend(_heads, _few_keys, _few_values, enable_gqa=True, numpy=False),
    _attend(_heads, _few_keys, _few_values, is_causal=True, enable_gqa=True, numpy=False),
    _attend(_heads, _few_keys, _few_values, _per_head, enable_gqa=True, numpy=False),
    _attend(_heads, _few_keys, _few_values, _per_head[:, :1], enable_gqa=True, numpy=False),
    _attend(_heads, _few_keys, _few_values, _per_head[0, 0], enable_gqa=True, numpy=False),
    _embed(np.array([3, 0, 3, 1])),
    _embed(np.array([[4, 2], [2, 2]])),
    _embed(np.array(2)),
    _embed(np.zeros((0, 2), np.int64)),
    _embed(np.array([[0, 2, 1]]).T, _table.T),
    _embed(np.array([1, 0], np.int32), _table[::2]),
]
