"""Attention as functions."""

from __future__ import annotations

import math
from typing import Any

import wengert as wg


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`softmax(query @ key.mT * scale + mask) @ value`: a boolean mask is true where a query may attend to a key."""
    if is_causal and attn_mask is not None:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if not dropout_p:
        return wg.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale, enable_gqa)
    if enable_gqa:
        each = query.shape[-3] // key.shape[-3]
        key, value = (wg.repeat(x, each, axis=-3) for x in (key, value))
    weights = _weights(query, key, attn_mask, is_causal, 1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    return wg.dropout(weights, dropout_p) @ value


def _weights(query: Any, key: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    """How much each query looks at each key: none at all where it may look nowhere."""
    scores = (query * scale) @ key.mT
    if is_causal:
        mask = wg.tril(wg.ones(scores.shape[-2:], dtype=bool, device=str(scores.device)))
    if mask is None:
        return wg.softmax(scores, -1)
    scores = wg.where(mask, scores, -math.inf) if wg.isdtype(mask.dtype, "bool") else scores + mask
    blind = wg.all(scores == -math.inf, axis=-1, keepdims=True)
    return wg.where(blind, 0.0, wg.softmax(wg.where(blind, 0.0, scores), -1))


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """What `nn.MultiheadAttention` computes, with its parameters as arguments; sequences come first, then the batch."""
    if static_k is not None or static_v is not None:
        raise RuntimeError("multi_head_attention_forward: static_k and static_v are not in wengert.torch")
    check_causal(is_causal, attn_mask)
    if query.shape[-1] != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {query.shape[-1]}")
    layer = wg.nn.MultiheadAttention.__new__(wg.nn.MultiheadAttention)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else (None,) * 3
    layer.__dict__.update(
        zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), separate),
        in_proj_weight=None if use_separate_proj_weight else in_proj_weight,
        in_proj_bias=in_proj_bias,
        bias_k=bias_k,
        bias_v=bias_v,
        add_zero_attn=add_zero_attn,
        embed_dim=embed_dim_to_check,
        kdim=key.shape[-1],
        vdim=value.shape[-1],
        num_heads=num_heads,
        dropout=dropout_p,
        batch_first=False,
        training=training,
        out_proj=lambda y: wg.linear(y, out_proj_weight, out_proj_bias),
    )
    return layer.forward(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)


def check_causal(is_causal: bool, attn_mask: Any) -> None:
    """Check `is_causal`, which in PyTorch is only a hint about the mask and requires one."""
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
