"""Continuing a text token by token: a cache of keys and values, the choice of the next token, the loop.

The cache has one size from the first token to the last, and the place to write is a tensor: every step records the
same graph, so that one program serves all of them.
"""

from __future__ import annotations

import math
from typing import Any

import wengert as wg


class KeyValueCache:
    """The keys and values of the tokens so far: for each layer two tensors (batch, heads, length, features).

    `position` is the number of tokens so far, a 0-d tensor. Anything after it in the tensors is ignored.

    >>> import wengert as wg
    >>> cache = wg.models.KeyValueCache(1, (1, 1, 4, 2), wg.float32)
    >>> keys, values = cache.extend(0, wg.tensor([0, 1]), wg.ones((1, 1, 2, 2)), wg.zeros((1, 1, 2, 2)))
    >>> keys[0, 0, :, 0].tolist()
    [1.0, 1.0, 0.0, 0.0]
    """

    def __init__(
        self, layers: int, shape: tuple[int, int, int, int], dtype: Any = None, device: str | None = None
    ) -> None:
        self.batch, _, self.length, _ = shape
        self.keys = [wg.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.values = [wg.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.position = wg.tensor(0, wg.int64, device=device)

    def extend(self, layer: int, positions: wg.Tensor, k: wg.Tensor, v: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        """Write a layer's keys and values for the tokens at these positions; returns those of all tokens."""
        keys, values = self.keys[layer], self.values[layer]
        keys[:, :, positions] = k
        values[:, :, positions] = v
        return keys, values

    def clear(self) -> None:
        """Start again at position 0."""
        self.position.assign(0)

    def require_room(self, idx: wg.Tensor) -> None:
        """Raise an error if these tokens can never fit. The number of tokens already in the cache is not read."""
        if idx.shape[0] != self.batch or idx.shape[1] > self.length:
            raise wg.errors.ShapeError(
                f"this cache is for a batch of {self.batch} with {self.length} tokens, but the tokens have shape "
                f"{idx.shape}"
            )


def generate(
    model: Any,
    prompt: wg.Tensor,
    max_new_tokens: int,
    cache: KeyValueCache | None,
    generator: wg.random.Generator | None = None,
    **options: Any,
) -> wg.Tensor:
    """The prompt followed by new tokens, from the scores of `model.scores_after(tokens, cache)`.

    `options` are those of `next_token`.
    """
    total = prompt.shape[1] + max_new_tokens
    if cache is not None and total > cache.length:
        raise wg.errors.ArgumentError(
            f"generate: the cache must hold {total} tokens, but this one holds {cache.length}"
        )
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        with wg.no_grad():
            return _extended(model, prompt, max_new_tokens, cache, generator, options)
    finally:
        for module in training:
            module.training = True


def _extended(
    model: Any, prompt: wg.Tensor, count: int, cache: KeyValueCache | None, generator: Any, options: dict[str, Any]
) -> wg.Tensor:
    if cache is not None:
        cache.clear()
    tokens = [prompt]
    for _ in range(count):
        seen = tokens[-1] if cache is not None else wg.concat(tokens, axis=1)
        chosen = next_token(model.scores_after(seen, cache), generator=generator, **options)
        tokens.append(wg.expand_dims(chosen.to(prompt.dtype), 1))
        wg.synchronize()  # a step at a time: else the graph of the whole text would be recorded before any of it runs
    return wg.concat(tokens, axis=1)


def check_prompt(prompt: wg.Tensor, max_new_tokens: int, positions: int) -> None:
    """Raise an error unless the prompt holds tokens, and the model has positions for them and the new ones."""
    if prompt.ndim != 2 or not prompt.shape[1]:
        raise wg.errors.ShapeError(
            f"generate: the prompt must be (batch, length) with at least one token; its shape is {prompt.shape}"
        )
    if not wg.isdtype(prompt.dtype, "integral"):
        raise wg.errors.DTypeError(f"generate: the prompt must hold tokens, integers, not {prompt.dtype}")
    if max_new_tokens < 0:
        raise wg.errors.ArgumentError(f"generate: max_new_tokens is {max_new_tokens}; it cannot be negative")
    if prompt.shape[1] + max_new_tokens > positions:
        raise wg.errors.ArgumentError(
            f"generate: a prompt of {prompt.shape[1]} and {max_new_tokens} new tokens are more than the {positions} "
            "positions of the model"
        )


# --- the next token -------------------------------------------------------------------------------------------------


def next_token(
    logits: wg.Tensor,
    *,
    temperature: Any = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    greedy: bool = False,
    generator: wg.random.Generator | None = None,
) -> wg.Tensor:
    """A token for each row of scores (..., vocabulary): the most likely if `greedy`, otherwise sampled.

    >>> import wengert as wg
    >>> next_token(wg.tensor([[1.0, 3.0, 2.0]]), greedy=True).tolist()
    [1]
    """
    if greedy:
        return wg.argmax(logits, axis=-1)
    if isinstance(temperature, (int, float)) and not temperature > 0:
        raise wg.errors.ArgumentError(
            f"generate: the temperature must be above 0, not {temperature}. For the most likely token pass greedy=True"
        )
    logits = logits / temperature
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    if top_p is not None:
        logits = keep_top_p(logits, top_p)
    return wg.random.categorical(logits, generator=generator)


def keep_top_k(logits: wg.Tensor, k: int) -> wg.Tensor:
    """The scores with all but the `k` highest in each row set to minus infinity. Ties with the lowest are kept.

    >>> import wengert as wg
    >>> keep_top_k(wg.tensor([1.0, 3.0, 2.0]), 2).tolist()
    [-inf, 3.0, 2.0]
    """
    if k < 1:
        raise wg.errors.ArgumentError(f"generate: top_k must be at least 1, not {k}")
    lowest = wg.topk(logits, min(k, logits.shape[-1]))[0][..., -1:]
    return wg.where(logits < lowest, -math.inf, logits)


def keep_top_p(logits: wg.Tensor, p: float) -> wg.Tensor:
    """The scores with all but the smallest set of tokens with total probability `p` set to minus infinity.

    This is nucleus sampling (Holtzman et al., 2020). The most likely token is always kept.

    >>> import wengert as wg
    >>> keep_top_p(wg.log(wg.tensor([0.5, 0.3, 0.2])), 0.6).tolist()[2]
    -inf
    """
    if not 0 < p <= 1:
        raise wg.errors.ArgumentError(f"generate: top_p must be a probability above 0 and at most 1, not {p}")
    ordered = wg.sort(logits, axis=-1, descending=True)
    probabilities = wg.softmax(ordered)
    before = wg.cumsum(probabilities, axis=-1) - probabilities
    lowest = wg.min(wg.where(before < p, ordered, math.inf), axis=-1, keepdims=True)
    return wg.where(logits < lowest, -math.inf, logits)
