"""`torch.nn.attention.flex_attention`: attention whose scores and mask are functions of the positions.

In: query, key and value of `(batch, heads, length, features)`, a function that changes a score, a `BlockMask`. Out: the
attention, computed from all scores: the mask decides which of them count, not which are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from wengert.torch.dtypes import bool_
from wengert.torch.func import vmap
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.registry import functions

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """Which further results `flex_attention` gives: the logarithms of the sums, the largest scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The further results that were asked for."""

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Every query sees every key."""
    return batch.new_ones((), dtype=bool_)


def _everywhere(function: Callable[..., Any], B: int, H: int, q_len: int, kv_len: int, scores: Any, device: Any) -> Any:
    """A function of one position's indices (and of its score, if there are scores), at all positions."""
    first = (scores,) if scores is not None else ()
    lanes = (0,) * len(first)
    for place in (3, 2, 1, 0):
        axes = tuple(0 if index == place else None for index in range(4))
        function = vmap(function, in_dims=(*lanes, *axes))
    return function(*first, *[functions["arange"](n, device=device) for n in (B, H, q_len, kv_len)])


class BlockMask:
    """Which keys a query sees, as a function of batch, head and both positions."""

    def __init__(self, shape: tuple[int, int, int, int], mask_mod: Callable[..., Any], device: Any, block: Any) -> None:
        self.shape, self.mask_mod, self.BLOCK_SIZE, self._device = shape, mask_mod, block, device
        self.seq_lengths = shape[2:]

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)})"

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        return BlockMask(self.shape, self.mask_mod, device, self.BLOCK_SIZE)

    def to_dense(self) -> Any:
        """For each block of queries and of keys, 1 if one of its pairs is seen."""
        mask, (rows, columns) = create_mask(self.mask_mod, *self.shape, device=self._device), self.BLOCK_SIZE
        for axis, block in ((-2, rows), (-1, columns)):
            mask = functions["stack"]([part.any(axis) for part in mask.split(block, axis)], axis)
        return mask.int()

    def sparsity(self) -> float:
        """Which per cent of the pairs lie in blocks of which none is seen."""
        computed = self.to_dense().sum().item() * math.prod(self.BLOCK_SIZE)
        return float(100 * (1 - computed / math.prod(self.shape)))


def create_mask(
    mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Any:
    """The mask as a tensor of bools: `mod_fn` of all positions."""
    return _everywhere(mod_fn, B or 1, H or 1, Q_LEN, KV_LEN, None, device)


def create_block_mask(
    mask_mod: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:
    """The mask in which a query sees a key if `mask_mod(batch, head, query, key)` is true."""
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask((B or 1, H or 1, Q_LEN, KV_LEN), mask_mod, device, block)


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """Pairs that all masks let through."""
    return _combined(lambda a, b: a & b, mask_mods)


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """Pairs that one of the masks lets through."""
    return _combined(lambda a, b: a | b, mask_mods)


def _combined(join: Callable[[Any, Any], Any], masks: Any) -> Callable[..., Any]:
    if not all(callable(mask) for mask in masks):
        raise RuntimeError(f"All inputs should be callable mask_mods: {masks}")

    def combined(*indices: Any) -> Any:
        found = masks[0](*indices)
        for mask in masks[1:]:
            found = join(found, mask(*indices))
        return found

    return combined


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with `score_mod(score, batch, head, query, key)` and a mask; a query that sees no key gives 0."""
    B, H, q_len, features = query.shape
    heads, kv_len = key.shape[1], key.shape[2]
    if heads != H:
        if not enable_gqa or H % heads:
            raise ValueError(
                f"Expect query and key/value to have the same number of heads but got Hq={H} and Hkv={heads}. Try "
                "setting enable_gqa=True for GQA."
            )
        key, value = (x.repeat_interleave(H // heads, 1) for x in (key, value))
    scores = (query @ key.transpose(-2, -1)) * (1 / math.sqrt(features) if scale is None else scale)
    if score_mod is not None:
        scores = _everywhere(score_mod, B, H, q_len, kv_len, scores, query.device).to(query.dtype)
    if block_mask is not None:
        mask = create_mask(block_mask.mask_mod, *block_mask.shape[:2], q_len, kv_len, device=query.device)
        scores = scores.masked_fill(~mask, -math.inf)
    empty = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    result = weights @ value
    if return_aux is not None:
        lse = scores.logsumexp(-1) if return_aux.lse else None
        return result, AuxOutput(lse, scores.amax(-1) if return_aux.max_scores else None)
    return (result, scores.logsumexp(-1)) if return_lse else result


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.nn.attention.flex_attention", name)
