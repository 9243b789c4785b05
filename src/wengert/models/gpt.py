"""GPT: a transformer that predicts the next token (Radford et al., "Language models are unsupervised multitask
learners", 2019), in GPT-2's sizes and under the parameter names of Hugging Face's GPT2LMHeadModel.

By configuration it has the parts of later models instead: rotary positions, RMSNorm, SwiGLU. How it continues a text is
in `generation`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import wengert as wg
from wengert import nn
from wengert.distributed import Split
from wengert.models.generation import KeyValueCache, check_prompt, generate

IGNORED_TARGET = -100
"""A target that counts for nothing in the loss, as in torch."""


@dataclass(frozen=True)
class GPTConfig:
    """The configuration of a GPT. The defaults are those of GPT-2 with 124 million parameters.

    `positions` is "learned" or "rotary", `norm` "layer" or "rms", `mlp` "gelu" or "swiglu".

    >>> import wengert as wg
    >>> wg.models.GPTConfig.gpt2("774M").n_layer
    36
    """

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    """Features inside the MLP: 4 * n_embd if not given; for "swiglu", which has a third matrix, 8 / 3 of n_embd."""
    positions: str = "learned"
    norm: str = "layer"
    mlp: str = "gelu"
    bias: bool = True
    dropout: float = 0.0
    norm_epsilon: float = 1e-5
    rotary_base: float = 10000.0
    initializer_range: float = 0.02
    tied: bool = True
    """Whether the scores of the tokens are products with the embedding itself."""

    @classmethod
    def gpt2(cls, size: str = "124M", **changes: Any) -> GPTConfig:
        """The configuration of GPT-2 of a size: "124M", "355M", "774M" or "1558M"."""
        if size not in _GPT2:
            raise wg.errors.ArgumentError(f"the sizes of GPT-2 are {', '.join(_GPT2)}, not {size!r}")
        n_layer, n_head, n_embd = _GPT2[size]
        return replace(cls(n_layer=n_layer, n_head=n_head, n_embd=n_embd), **changes)

    @classmethod
    def modern(cls, **changes: Any) -> GPTConfig:
        """A configuration with the components of later models: rotary positions, RMSNorm, SwiGLU and no biases."""
        return cls(**{"positions": "rotary", "norm": "rms", "mlp": "swiglu", "bias": False, **changes})

    @property
    def inner(self) -> int:
        """The number of hidden features of the MLP. Those of SwiGLU are rounded up to a multiple of 64, which suits the
        hardware."""
        if self.n_inner is not None:
            return self.n_inner
        return 4 * self.n_embd if self.mlp == "gelu" else -(-8 * self.n_embd // 3 // 64) * 64

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise wg.errors.ArgumentError(
                    f"GPTConfig: {name} must be one of {choices}, not {getattr(self, name)!r}"
                )
        if self.n_head < 1 or self.n_embd % self.n_head:
            raise wg.errors.ArgumentError(f"GPTConfig: {self.n_embd} features do not divide into {self.n_head} heads")


_GPT2 = {"124M": (12, 12, 768), "355M": (24, 16, 1024), "774M": (36, 20, 1280), "1558M": (48, 25, 1600)}
_CHOICES = {"positions": ("learned", "rotary"), "norm": ("layer", "rms"), "mlp": ("gelu", "swiglu")}


class GPT(nn.Module):
    """A GPT: maps tokens to scores for the next token at each position.

    >>> import wengert as wg
    >>> config = wg.models.GPTConfig(vocab_size=65, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    >>> model = wg.models.GPT(config)
    >>> tokens = wg.random.randint(0, 65, (4, 9))
    >>> logits, loss = model(tokens[:, :-1], targets=tokens[:, 1:])
    >>> logits.shape, loss.shape
    ((4, 8, 65), ())
    >>> model.generate(tokens[:, :3], max_new_tokens=5, top_k=10).shape
    (4, 8)
    """

    def __init__(self, config: GPTConfig | None = None, *, dtype: Any = None) -> None:
        super().__init__()
        self.config = config = GPTConfig() if config is None else config
        self.transformer = DecoderStack(config, dtype)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False, dtype=dtype)
        self.reset_parameters()
        if config.tied:
            self.lm_head.weight = self.transformer.wte.weight

    def reset_parameters(self) -> None:
        """Initialise all parameters again: normal, with projections into the residual stream scaled down by the number
        of layers."""
        std = self.config.initializer_range
        for path, layer in self.named_modules():
            if isinstance(layer, (Conv1D, nn.Linear, nn.Embedding)):
                adds = path.endswith("c_proj")
                nn.init.normal_(layer.weight, 0.0, std / math.sqrt(2 * self.config.n_layer) if adds else std)

    def forward(self, idx: wg.Tensor, targets: wg.Tensor | None = None, cache: KeyValueCache | None = None) -> Any:
        """The scores (batch, length, vocab_size) for the token after each of `idx` (batch, length).

        With `targets`, the next tokens, it also returns their mean cross-entropy: (logits, loss). A target of -100 is
        ignored. With a cache, `idx` continues after the tokens in it, and is added to it.
        """
        logits = self.lm_head(self.transformer(idx, cache))
        if targets is None:
            return logits
        if targets.shape != idx.shape:
            raise wg.errors.ShapeError(
                f"GPT: targets must have the shape of the tokens, {idx.shape}, not {targets.shape}"
            )
        scores = logits.reshape((-1, self.config.vocab_size))
        return logits, wg.cross_entropy(scores, targets.reshape((-1,)), ignore_index=IGNORED_TARGET)

    def scores_after(self, idx: wg.Tensor, cache: KeyValueCache | None = None) -> wg.Tensor:
        """The scores (batch, vocab_size) for the token after the last of `idx` alone."""
        return self.lm_head(self.transformer(idx, cache)[:, -1])

    def new_cache(self, batch: int, length: int | None = None) -> KeyValueCache:
        """An empty cache for `length` tokens (all that the model has positions for) of each sequence of a batch."""
        config = self.config
        length = config.n_positions if length is None else length
        if length > config.n_positions:
            raise wg.errors.ArgumentError(
                f"GPT: {length} tokens are more than the {config.n_positions} positions of the model"
            )
        shape = (batch, config.n_head, length, config.n_embd // config.n_head)
        weight = self.transformer.wte.weight
        return KeyValueCache(config.n_layer, shape, weight.dtype, weight.device)

    def generate(
        self,
        prompt: wg.Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        greedy: bool = False,
        *,
        use_cache: bool = True,
        cache: KeyValueCache | None = None,
        generator: wg.random.Generator | None = None,
    ) -> wg.Tensor:
        """The prompt (batch, length) followed by `max_new_tokens` tokens, each drawn from the scores before it.

        `temperature` below 1 favours likely tokens; `top_k` restricts sampling to the k most likely, `top_p` to the
        most likely with this total probability; `greedy` takes the most likely. Keys and values are stored in a new
        cache or the given one, unless caching is disabled: then all tokens so far go through the model for each new
        one.
        """
        check_prompt(prompt, max_new_tokens, self.config.n_positions)
        if not use_cache:
            cache = None
        elif cache is None:
            cache = self.new_cache(prompt.shape[0], prompt.shape[1] + max_new_tokens)
        options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "greedy": greedy}
        return generate(self, prompt, max_new_tokens, cache, generator, **options)

    @property
    def tensor_plan(self) -> dict[str, Any]:
        """How to split the parameters for tensor parallelism (`wg.distributed.place`), as in Megatron-LM.

        A rank holds some heads, some hidden features of the MLP, and a part of the vocabulary: a block needs one
        all-reduce after attention and one after the MLP, forward and backward. The weight of q, k and v consists of
        three runs, of each of which a rank holds its heads. A vocabulary that does not divide stays whole: pad it to
        one that does.
        """
        columns, rows = Split(-1, "tensor"), Split(0, "tensor")
        plan: dict[str, Any] = {
            "transformer.wte.weight": (rows, None),
            "*.attn.c_attn.*": Split(-1, "tensor", runs=3),
            "*.attn.c_proj.weight": rows,
            "*.mlp.c_fc.*": columns,
            "*.mlp.c_proj.weight": rows,
        }
        plan |= {} if self.config.tied else {"lm_head.weight": (rows, None)}
        return plan | ({"*.mlp.c_gate.*": columns} if self.config.mlp == "swiglu" else {})

    def weight_name(self, name: str) -> str | None:
        """The model's name for a tensor in a published file: GPT-2's files lack the prefix and also hold causal
        masks."""
        if re.fullmatch(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias", name):
            return None
        return f"transformer.{name}" if re.match(r"(wte|wpe|h|ln_f)\.", name) else name


class DecoderStack(nn.Module):
    """The embeddings, the blocks and the last norm."""

    def __init__(self, config: GPTConfig, dtype: Any = None) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.n_positions = config.n_positions
        self.wte = nn.Embedding(config.vocab_size, config.n_embd, dtype=dtype)
        learned = config.positions == "learned"
        self.wpe = nn.Embedding(config.n_positions, config.n_embd, dtype=dtype) if learned else None
        self.h = nn.ModuleList(Block(config, dtype) for _ in range(config.n_layer))
        self.ln_f = _norm(config, dtype)

    def forward(self, idx: wg.Tensor, cache: KeyValueCache | None = None) -> wg.Tensor:
        """(batch, length) integers to (batch, length, n_embd)."""
        if idx.ndim != 2 or idx.shape[1] > self.n_positions:
            raise wg.errors.ShapeError(
                f"GPT: tokens must be (batch, length) with a length of at most {self.n_positions}, not {idx.shape}"
            )
        positions = wg.arange(idx.shape[1], device=idx.device)
        if cache is not None:
            cache.require_room(idx)
            positions = positions + cache.position
        x = self.wte(idx)
        x = x if self.wpe is None else x + self.wpe(positions)
        x = wg.dropout(x, self.dropout, self.training)
        for layer, block in enumerate(self.h):
            x = block(x, positions, cache, layer)
        if cache is not None:
            cache.position.assign(cache.position + idx.shape[1])
        return self.ln_f(x)


def _norm(config: GPTConfig, dtype: Any) -> nn.Module:
    if config.norm == "rms":
        return nn.RMSNorm(config.n_embd, eps=config.norm_epsilon, dtype=dtype)
    return nn.LayerNorm(config.n_embd, eps=config.norm_epsilon, bias=config.bias, dtype=dtype)


class Block(nn.Module):
    """A transformer block: attention and an MLP, each with a norm before it and a residual connection."""

    def __init__(self, config: GPTConfig, dtype: Any = None) -> None:
        super().__init__()
        self.ln_1 = _norm(config, dtype)
        self.attn = Attention(config, dtype)
        self.ln_2 = _norm(config, dtype)
        self.mlp = SwiGLU(config, dtype) if config.mlp == "swiglu" else GeluMLP(config, dtype)

    def forward(self, x: wg.Tensor, positions: wg.Tensor, cache: KeyValueCache | None, layer: int) -> wg.Tensor:
        """Apply the block, which is number `layer` in the cache."""
        x = x + self.attn(self.ln_1(x), positions, cache, layer)
        return x + self.mlp(self.ln_2(x))


class Conv1D(nn.Module):
    """`x @ weight + bias`: a linear layer whose weight is (inputs, outputs), as in GPT-2's files."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, dtype: Any = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(wg.zeros((inputs, outputs), dtype=dtype))
        self.bias = nn.Parameter(wg.zeros((outputs,), dtype=dtype)) if bias else None

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """Map the last axis from inputs to outputs."""
        y = x @ self.weight
        return y if self.bias is None else y + self.bias.to(y.dtype)  # which autocast may have lowered

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """A multiplication and an addition for each weight and row."""
        return 2 * self.weight.shape[0] * output.size

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}, bias={self.bias is not None}"


class Attention(nn.Module):
    """Causal multi-head attention, over this sequence or over everything in a cache."""

    def __init__(self, config: GPTConfig, dtype: Any = None) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.dropout = config.dropout
        self.c_attn = Conv1D(config.n_embd, 3 * config.n_embd, config.bias, dtype)
        self.c_proj = Conv1D(config.n_embd, config.n_embd, config.bias, dtype)
        rotary = config.positions == "rotary"
        self.rotary = nn.RotaryEmbedding(config.n_embd // config.n_head, config.rotary_base) if rotary else None

    def forward(self, x: wg.Tensor, positions: wg.Tensor, cache: KeyValueCache | None, layer: int) -> wg.Tensor:
        """(batch, length, n_embd) of tokens at these positions."""
        batch, length, features = x.shape
        q, k, v = (self._by_head(part) for part in wg.chunk(self.c_attn(x), 3, axis=-1))
        if self.rotary is not None:
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        if cache is None:
            y = self._attend(q, k, v, None)
        else:
            k, v = cache.extend(layer, positions, k, v)
            y = self._attend(q, k, v, wg.arange(k.shape[2], device=x.device) <= wg.expand_dims(positions, 1))
        y = self.c_proj(wg.swapaxes(y, 1, 2).reshape((batch, length, features)))
        return wg.dropout(y, self.dropout, self.training)

    def _by_head(self, x: wg.Tensor) -> wg.Tensor:
        """(batch, length, features) to (batch, heads, length, features of a head)."""
        return wg.swapaxes(x.reshape((*x.shape[:2], self.n_head, -1)), 1, 2)

    def _attend(self, q: wg.Tensor, k: wg.Tensor, v: wg.Tensor, seen: wg.Tensor | None) -> wg.Tensor:
        """Attention to the keys that are `seen`, without that to those up to each query's own place."""
        if not (self.training and self.dropout):
            return wg.scaled_dot_product_attention(q, k, v, seen, is_causal=seen is None)
        seen = wg.tril(wg.ones((q.shape[2], k.shape[2]), dtype=wg.bool, device=q.device)) if seen is None else seen
        scores = (q @ k.mT) * (1 / math.sqrt(q.shape[-1]))
        return wg.dropout(wg.softmax(wg.where(seen, scores, -math.inf)), self.dropout) @ v


class GeluMLP(nn.Module):
    """GPT-2's MLP, with gelu in its tanh form."""

    def __init__(self, config: GPTConfig, dtype: Any = None) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.c_fc = Conv1D(config.n_embd, config.inner, config.bias, dtype)
        self.c_proj = Conv1D(config.inner, config.n_embd, config.bias, dtype)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """(..., n_embd) to (..., n_embd)."""
        y = self.c_proj(wg.gelu(self.c_fc(x), approximate="tanh"))
        return wg.dropout(y, self.dropout, self.training)


class SwiGLU(nn.Module):
    """An MLP with gated hidden features (Shazeer, "GLU variants improve transformer", 2020)."""

    def __init__(self, config: GPTConfig, dtype: Any = None) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.c_gate = Conv1D(config.n_embd, config.inner, config.bias, dtype)
        self.c_fc = Conv1D(config.n_embd, config.inner, config.bias, dtype)
        self.c_proj = Conv1D(config.inner, config.n_embd, config.bias, dtype)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """(..., n_embd) to (..., n_embd)."""
        y = self.c_proj(wg.silu(self.c_gate(x)) * self.c_fc(x))
        return wg.dropout(y, self.dropout, self.training)
