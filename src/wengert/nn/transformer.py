"""The Transformer of Vaswani et al. (2017): encoder and decoder layers, stacks of them, and the whole.

As in PyTorch: sequences are (length, batch, features) unless `batch_first`, a stack begins as copies of the layer it is
given, and masks are as in MultiheadAttention (true hides; floating is added).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.nn import init
from wengert.nn.attention import MultiheadAttention
from wengert.nn.container import ModuleList
from wengert.nn.dropout import Dropout
from wengert.nn.linear import Linear
from wengert.nn.module import Module
from wengert.nn.normalization import LayerNorm

Activation = str | Callable[[wg.Tensor], wg.Tensor]


def _activation(activation: Activation) -> Callable[[wg.Tensor], wg.Tensor]:
    known = {"relu": wg.relu, "gelu": wg.gelu}
    if isinstance(activation, str):
        if activation not in known:
            raise wg.errors.ArgumentError(f'activation is "relu", "gelu" or a function, not {activation!r}')
        return known[activation]
    return activation


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers, each with dropout, a residual connection and a layer norm.

    The norms come after each part, or before it with `norm_first`.

    >>> import wengert as wg
    >>> wg.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(wg.ones((1, 3, 8))).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **made)
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **made)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: wg.Tensor,
        src_mask: wg.Tensor | None = None,
        src_key_padding_mask: wg.Tensor | None = None,
        is_causal: bool = False,
    ) -> wg.Tensor:
        """The sequence after one layer."""
        masks = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            x = src + self._attend(self.norm1(src), *masks)
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(src + self._attend(src, *masks))
        return self.norm2(x + self._feed_forward(x))

    def _attend(self, x: wg.Tensor, mask: Any, padding: Any, is_causal: bool) -> wg.Tensor:
        y, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False
        )
        return self.dropout1(y)

    def _feed_forward(self, x: wg.Tensor) -> wg.Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Self-attention, attention to an encoder's output (`memory`), and two linear layers, with residuals and norms.

    >>> import wengert as wg
    >>> layer = wg.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> layer(wg.ones((1, 3, 8)), wg.ones((1, 5, 8))).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **made)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **made)
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **made)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **made)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: wg.Tensor,
        memory: wg.Tensor,
        tgt_mask: wg.Tensor | None = None,
        memory_mask: wg.Tensor | None = None,
        tgt_key_padding_mask: wg.Tensor | None = None,
        memory_key_padding_mask: wg.Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> wg.Tensor:
        """The target sequence after one layer."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = tgt + self._attend(self.norm1(tgt), *own)
            x = x + self._attend_to(memory, self.norm2(x), *other)
            return x + self._feed_forward(self.norm3(x))
        x = self.norm1(tgt + self._attend(tgt, *own))
        x = self.norm2(x + self._attend_to(memory, x, *other))
        return self.norm3(x + self._feed_forward(x))

    def _attend(self, x: wg.Tensor, mask: Any, padding: Any, is_causal: bool) -> wg.Tensor:
        y, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False
        )
        return self.dropout1(y)

    def _attend_to(self, memory: wg.Tensor, x: wg.Tensor, mask: Any, padding: Any, is_causal: bool) -> wg.Tensor:
        y, _ = self.multihead_attn(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False
        )
        return self.dropout2(y)

    def _feed_forward(self, x: wg.Tensor) -> wg.Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, and a norm at the end if one is given.

    >>> import wengert as wg
    >>> layer = wg.nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> wg.nn.TransformerEncoder(layer, num_layers=2)(wg.zeros((3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,  # PyTorch's short cuts, which have no meaning here
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: wg.Tensor,
        mask: wg.Tensor | None = None,
        src_key_padding_mask: wg.Tensor | None = None,
        is_causal: bool | None = None,
    ) -> wg.Tensor:
        """The sequence after all layers."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, and a norm at the end if one is given.

    >>> import wengert as wg
    >>> layer = wg.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> wg.nn.TransformerDecoder(layer, 2)(wg.ones((1, 3, 8)), wg.ones((1, 5, 8))).shape
    (1, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: wg.Tensor,
        memory: wg.Tensor,
        tgt_mask: wg.Tensor | None = None,
        memory_mask: wg.Tensor | None = None,
        tgt_key_padding_mask: wg.Tensor | None = None,
        memory_key_padding_mask: wg.Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> wg.Tensor:
        """The target sequence after all layers."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask,
                memory_mask,
                tgt_key_padding_mask,
                memory_key_padding_mask,
                bool(tgt_is_causal),
                memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder over a source sequence and a decoder over a target sequence that attends to it.

    >>> import wengert as wg
    >>> model = wg.nn.Transformer(8, 2, 1, 1, dim_feedforward=16, batch_first=True)
    >>> model(wg.zeros((3, 6, 8)), wg.zeros((3, 4, 8)), tgt_is_causal=True).shape
    (3, 4, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        settings = (dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(d_model, nhead, *settings), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(d_model, nhead, *settings), num_decoder_layers, norm()
        )
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, Xavier uniform."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: wg.Tensor,
        tgt: wg.Tensor,
        src_mask: wg.Tensor | None = None,
        tgt_mask: wg.Tensor | None = None,
        memory_mask: wg.Tensor | None = None,
        src_key_padding_mask: wg.Tensor | None = None,
        tgt_key_padding_mask: wg.Tensor | None = None,
        memory_key_padding_mask: wg.Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> wg.Tensor:
        """The decoder's output for a source and a target sequence."""
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise wg.errors.ShapeError(
                f"Transformer: source and target have {self.d_model} features; shapes are {src.shape} and {tgt.shape}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, dtype: Any = None) -> wg.Tensor:
        """A mask to add: minus infinity where a key comes after its query, 0 elsewhere.

        >>> wg.nn.Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        return wg.triu(wg.full((sz, sz), -math.inf, dtype=dtype or wg.float32), k=1)
