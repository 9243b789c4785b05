"""Attention with several heads, in PyTorch's layout, and rotary positions."""

from __future__ import annotations

import math
from typing import Any

import wengert as wg
from wengert.nn import init
from wengert.nn.linear import Linear, new_parameter
from wengert.nn.module import Module


def _hidden_by(mask: wg.Tensor, dtype: Any) -> wg.Tensor:
    """A mask as numbers to add to scores: minus infinity where a boolean one is true."""
    if wg.isdtype(mask.dtype, "bool"):
        hidden = wg.tensor(-math.inf, dtype, device=mask.device)
        return wg.where(mask, hidden, wg.zeros_like(hidden))
    return mask.to(dtype)


def _joined(masks: list[wg.Tensor], dtype: Any) -> wg.Tensor | None:
    """Several masks as one for `scaled_dot_product_attention`: there, true is where a query may look."""
    if not masks:
        return None
    if all(wg.isdtype(mask.dtype, "bool") for mask in masks):
        hidden = masks[0]
        for mask in masks[1:]:
            hidden = hidden | mask
        return ~hidden
    total = _hidden_by(masks[0], dtype)
    for mask in masks[1:]:
        total = total + _hidden_by(mask, dtype)
    return total


class MultiheadAttention(Module):
    """Multi-head attention over projections of queries, keys and values.

    Inputs are (length, batch, features), with `batch_first` (batch, length, features), or (length, features). In a
    boolean mask, true masks a key out; a floating-point mask is added to the scores. A query with no visible key gets
    zeros. The input projections share one weight, `in_proj_weight`, unless keys or values have their own sizes `kdim`,
    `vdim`.

    >>> import wengert as wg
    >>> attention = wg.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = wg.zeros((3, 5, 8))
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise wg.errors.ArgumentError(
                f"MultiheadAttention: {embed_dim} features do not divide into {num_heads} heads"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.add_zero_attn = add_zero_attn
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.batch_first = batch_first
        together = self.kdim == embed_dim == self.vdim

        def weight(rows: int, columns: int, present: bool) -> Any:
            return new_parameter((rows, columns), dtype, device) if present else None

        self.in_proj_weight = weight(3 * embed_dim, embed_dim, together)
        self.q_proj_weight = weight(embed_dim, embed_dim, not together)
        self.k_proj_weight = weight(embed_dim, self.kdim, not together)
        self.v_proj_weight = weight(embed_dim, self.vdim, not together)
        self.register_parameter("in_proj_bias", new_parameter((3 * embed_dim,), dtype, device) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.register_parameter("bias_k", new_parameter((1, 1, embed_dim), dtype, device) if add_bias_kv else None)
        self.register_parameter("bias_v", new_parameter((1, 1, embed_dim), dtype, device) if add_bias_kv else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the projections again: Xavier uniform weights and zero biases."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: wg.Tensor,
        key: wg.Tensor,
        value: wg.Tensor,
        key_padding_mask: wg.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: wg.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[wg.Tensor, wg.Tensor | None]:
        """The attention output, and with `need_weights` the attention weights of each query over the keys.

        `key_padding_mask` is (batch, keys), `attn_mask` (queries, keys) or (batch * heads, queries, keys). With
        `is_causal`, query i attends to keys 0 to i only, even without a mask.
        """
        if query.ndim == 2:
            axis = 0 if self.batch_first else 1
            q, k, v = (wg.expand_dims(x, axis) for x in (query, key, value))
            padding = None if key_padding_mask is None else wg.expand_dims(key_padding_mask, 0)
            y, weights = self.forward(q, k, v, padding, need_weights, attn_mask, average_attn_weights, is_causal)
            return wg.squeeze(y, axis), None if weights is None else wg.squeeze(weights, 0)
        if not self.batch_first:
            swapped = {id(x): wg.swapaxes(x, 0, 1) for x in (query, key, value)}  # so that equal ones stay one
            query, key, value = swapped[id(query)], swapped[id(key)], swapped[id(value)]
        y, weights = self._attend(query, key, value, key_padding_mask, need_weights, attn_mask, is_causal)
        if weights is not None and average_attn_weights:
            weights = wg.mean(weights, axis=1)
        return (y if self.batch_first else wg.swapaxes(y, 0, 1)), weights

    def _attend(
        self,
        query: wg.Tensor,
        key: wg.Tensor,
        value: wg.Tensor,
        key_padding_mask: wg.Tensor | None,
        need_weights: bool,
        attn_mask: wg.Tensor | None,
        is_causal: bool,
    ) -> tuple[wg.Tensor, wg.Tensor | None]:
        """Attention of (batch, length, features)."""
        self._check(query, key, value)
        batch, queries, keys = query.shape[0], query.shape[1], key.shape[1]
        q, k, v = self._projected(query, key, value)
        q, k, v = self._by_head(q), *self._with_extra_keys(k, v)
        added = k.shape[2] - keys
        masks = self._masks(key_padding_mask, attn_mask, batch, queries, keys)
        masks += [_later(queries, keys, query.device)] if is_causal else []
        mask = _joined([wg.pad(m, (0, added), value=False) if added else m for m in masks], q.dtype)
        dropping = self.training and self.dropout > 0
        if need_weights or dropping:
            weights = wg.dropout(_looked(q, k, mask), self.dropout, training=dropping)
            y = weights @ v
        else:
            y = wg.scaled_dot_product_attention(q, k, v, mask)
        y = wg.swapaxes(y, 1, 2).reshape((batch, queries, self.embed_dim))
        return self.out_proj(y), weights if need_weights else None

    def _check(self, query: wg.Tensor, key: wg.Tensor, value: wg.Tensor) -> None:
        wanted = (self.embed_dim, self.kdim, self.vdim)
        inputs = (query, key, value)
        if (
            tuple(x.shape[-1] for x in inputs) != wanted
            or key.shape[:2] != value.shape[:2]
            or any(x.ndim != 3 or x.shape[0] != query.shape[0] for x in inputs)
        ):
            shapes = ", ".join(str(x.shape) for x in inputs)
            raise wg.errors.ShapeError(
                f"MultiheadAttention: query, key and value must have {wanted} features, one batch size, and as many "
                f"keys as values; as (batch, length, features) their shapes are {shapes}"
            )

    def _projected(self, query: wg.Tensor, key: wg.Tensor, value: wg.Tensor) -> list[wg.Tensor]:
        sizes = [self.embed_dim] * 3
        biases = [None] * 3 if self.in_proj_bias is None else wg.split(self.in_proj_bias, sizes)
        if self.in_proj_weight is None:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        elif query is key is value:
            return list(wg.chunk(wg.linear(query, self.in_proj_weight, self.in_proj_bias), 3, axis=-1))
        else:
            weights = wg.split(self.in_proj_weight, sizes)
        return [wg.linear(*arguments) for arguments in zip((query, key, value), weights, biases)]

    def _with_extra_keys(self, k: wg.Tensor, v: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        """Keys and values by head, with the learned and the zero ones that were asked for at their end."""
        if self.bias_k is not None and self.bias_v is not None:
            shape = (k.shape[0], 1, self.embed_dim)
            k = wg.concat([k, wg.broadcast_to(self.bias_k, shape)], axis=1)
            v = wg.concat([v, wg.broadcast_to(self.bias_v, shape)], axis=1)
        k, v = self._by_head(k), self._by_head(v)
        if self.add_zero_attn:
            k, v = (wg.pad(x, (0, 0, 0, 1)) for x in (k, v))
        return k, v

    def _by_head(self, x: wg.Tensor) -> wg.Tensor:
        """(batch, length, features) to (batch, heads, length, features of a head)."""
        heads = x.reshape((*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads))
        return wg.swapaxes(heads, 1, 2)

    def _masks(self, key_padding_mask: Any, attn_mask: Any, batch: int, queries: int, keys: int) -> list[wg.Tensor]:
        """The masks, laid out to broadcast against (batch, heads, queries, keys)."""
        masks = []
        if key_padding_mask is not None:
            if key_padding_mask.shape != (batch, keys):
                raise wg.errors.ShapeError(
                    f"MultiheadAttention: key_padding_mask must have shape {(batch, keys)}; its shape is "
                    f"{key_padding_mask.shape}"
                )
            masks.append(key_padding_mask.reshape((batch, 1, 1, keys)))
        if attn_mask is not None:
            by_head = (batch * self.num_heads, queries, keys)
            if attn_mask.shape not in ((queries, keys), by_head):
                raise wg.errors.ShapeError(
                    f"MultiheadAttention: attn_mask must have shape {(queries, keys)} or {by_head}; its shape is "
                    f"{attn_mask.shape}"
                )
            lead = (1, 1) if attn_mask.ndim == 2 else (batch, self.num_heads)
            masks.append(attn_mask.reshape((*lead, queries, keys)))
        return masks

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """Counts the input projections, the scores and the weighted sums; the output projection is a layer of its
        own."""
        query, key = inputs[0], inputs[1]
        axis = 1 if self.batch_first and query.ndim == 3 else 0
        rows, columns = query.size // self.embed_dim, key.size // self.kdim
        projections = rows * self.embed_dim + columns * (self.kdim + self.vdim)
        return 2 * projections * self.embed_dim + 4 * rows * key.shape[axis] * self.embed_dim

    def extra_repr(self) -> str:
        """The sizes."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"


def _later(queries: int, keys: int, device: str) -> wg.Tensor:
    """A boolean mask, true where a key comes after its query."""
    return wg.expand_dims(wg.arange(queries, device=device), 1) < wg.arange(keys, device=device)


def _looked(q: wg.Tensor, k: wg.Tensor, mask: wg.Tensor | None) -> wg.Tensor:
    """How much each query looks at each key: the softmax of its products with them, 0 where it may look nowhere."""
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.mT
    if mask is None:
        return wg.softmax(scores)
    scores = wg.where(mask, scores, -math.inf) if wg.isdtype(mask.dtype, "bool") else scores + mask
    blind = wg.all(scores == -math.inf, axis=-1, keepdims=True)
    return wg.where(blind, 0, wg.softmax(wg.where(blind, 0, scores)))


class RotaryEmbedding(Module):
    """Rotary position embedding: rotates pairs of features by angles that grow with the position (Su et al.,
    "RoFormer", 2021).

    Pair j of `dim` / 2 is rotated by `position * base ** (-2 * j / dim)`. The pairs are feature j with feature j + dim
    / 2 ("half split", as in Llama and GPT-NeoX), or neighbours 2j and 2j + 1 if `interleaved` (as in the paper and
    GPT-J).

    >>> import wengert as wg
    >>> rotary = wg.nn.RotaryEmbedding(4)
    >>> q = wg.random.normal((2, 3, 5, 4))  # (batch, heads, length, dim)
    >>> rotary(q).shape, bool(wg.all(rotary(q)[:, :, 0] == q[:, :, 0]))
    ((2, 3, 5, 4), True)
    """

    def __init__(self, dim: int, base: float = 10000.0, interleaved: bool = False) -> None:
        super().__init__()
        if dim < 2 or dim % 2:
            raise wg.errors.ArgumentError(
                f"RotaryEmbedding: dim must be even, because features are rotated in pairs, not {dim}"
            )
        self.dim = dim
        self.base = base
        self.interleaved = interleaved

    def forward(self, x: wg.Tensor, positions: Any = None) -> wg.Tensor:
        """Rotate `x` (..., length, dim). `positions` (length,), or any shape that broadcasts to (..., length), may be a
        tensor.

        The default positions are 0, 1, 2, ... Angles are computed in at least float32, whatever the dtype of `x`.
        """
        if x.ndim < 2 or x.shape[-1] != self.dim:
            raise wg.errors.ShapeError(
                f"RotaryEmbedding: the input must be (..., length, {self.dim}); its shape is {x.shape}"
            )
        dtype = wg.result_type(x.dtype, wg.float32)
        positions = wg.arange(x.shape[-2], device=x.device) if positions is None else wg.asarray(positions)
        rates = wg.pow(self.base, wg.arange(0, self.dim, 2, dtype=dtype, device=x.device) / -float(self.dim))
        angles = wg.expand_dims(positions.to(dtype), -1) * rates
        cos, sin = wg.cos(angles), wg.sin(angles)
        wide = x.to(dtype)
        if self.interleaved:
            pairs = wide.reshape((*x.shape[:-1], self.dim // 2, 2))
            a, b = pairs[..., 0], pairs[..., 1]
            turned = wg.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)
        else:
            a, b = wg.chunk(wide, 2, axis=-1)
            turned = wg.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)
        return turned.to(x.dtype)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.dim}, base={self.base}, interleaved={self.interleaved}"
