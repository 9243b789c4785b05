"""Multi-head attention as a function of its weights, with PyTorch's signature."""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.nn.attention import MultiheadAttention
from wengert.nn.module import Module


class _OfTensors(MultiheadAttention):
    """The layer with weights that it is given, which are nobody's parameters."""

    def __init__(self, query: Any, key: Any, value: Any, num_heads: int, tensors: dict[str, Any], out: Any) -> None:
        Module.__init__(self)
        self.embed_dim, self.kdim, self.vdim = query.shape[-1], key.shape[-1], value.shape[-1]
        self.num_heads = num_heads
        self.batch_first = False
        self.__dict__.update(tensors)
        self.__dict__["out_proj"] = lambda y: wg.linear(y, *out)


def multi_head_attention_forward(
    query: wg.Tensor,
    key: wg.Tensor,
    value: wg.Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: wg.Tensor | None,
    in_proj_bias: wg.Tensor | None,
    bias_k: wg.Tensor | None,
    bias_v: wg.Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: wg.Tensor,
    out_proj_bias: wg.Tensor | None,
    training: bool = True,
    key_padding_mask: wg.Tensor | None = None,
    need_weights: bool = True,
    attn_mask: wg.Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: wg.Tensor | None = None,
    k_proj_weight: wg.Tensor | None = None,
    v_proj_weight: wg.Tensor | None = None,
    static_k: wg.Tensor | None = None,
    static_v: wg.Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[wg.Tensor, wg.Tensor | None]:
    """Multi-head attention with these weights, as `nn.MultiheadAttention` computes it: (length, batch, features), or
    unbatched.

    >>> import wengert as wg
    >>> x, weights = wg.ones((3, 1, 4)), (wg.ones((12, 4)), wg.zeros(12))
    >>> y, looked = wg.multi_head_attention_forward(
    ...     x, x, x, 4, 2, *weights, None, None, False, 0.0, wg.ones((4, 4)), wg.zeros(4)
    ... )
    >>> y.shape, looked.shape
    ((3, 1, 4), (1, 3, 3))
    """
    name = "multi_head_attention_forward"
    if query.shape[-1] != embed_dim_to_check or num_heads < 1 or embed_dim_to_check % num_heads:
        raise wg.errors.ShapeError(
            f"{name}: the query must have {embed_dim_to_check} features, divisible into {num_heads} heads; its shape "
            f"is {query.shape}"
        )
    if static_k is not None or static_v is not None:
        raise wg.errors.ArgumentError(
            f"{name} projects keys and values itself; to use your own, call wg.scaled_dot_product_attention"
        )
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    missing = any(w is None for w in separate) if use_separate_proj_weight else in_proj_weight is None
    if missing:
        raise wg.errors.ArgumentError(
            f"{name}: give in_proj_weight, or q_proj_weight, k_proj_weight and v_proj_weight with "
            "use_separate_proj_weight=True"
        )
    weights = dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), separate))
    layer = _OfTensors(
        query,
        key,
        value,
        num_heads,
        {
            **weights,
            "in_proj_weight": None if use_separate_proj_weight else in_proj_weight,
            "in_proj_bias": in_proj_bias,
            "bias_k": bias_k,
            "bias_v": bias_v,
            "add_zero_attn": add_zero_attn,
            "dropout": dropout_p,
            "training": training,
        },
        (out_proj_weight, out_proj_bias),
    )
    return layer.forward(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
