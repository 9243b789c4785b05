"""Channels and pixels exchanged for one another, and channels put into another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.core import as_node
from wengert.ops.movement import permute_dims, reshape

# --- channels and pixels --------------------------------------------------------------------------------------------


def _factor(name: str, x: Node, factor: Any) -> int:
    if not isinstance(factor, int) or factor < 1:
        raise DTypeError(f"{name}: the factor is an integer of at least 1, not {factor!r}")
    if x.ndim < 3:
        raise ShapeError(f"{name}: the input is (..., C, H, W); its shape is {x.shape}")
    return factor


def _regrouped(x: Node, split: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> Node:
    """The last three axes split, put in another order and joined again."""
    lead = x.ndim - 3
    parts = reshape(x, (*x.shape[:lead], *split))
    moved = permute_dims(parts, (*range(lead), *(lead + axis for axis in order)))
    return reshape(moved, (*x.shape[:lead], *shape))


def pixel_shuffle(x: Any, upscale_factor: int) -> Node:
    """Channels become pixels: (..., C * r * r, H, W) to (..., C, H * r, W * r).

    >>> import wengert as wg
    >>> wg.pixel_shuffle(wg.ones((1, 4, 2, 2)), 2).shape
    (1, 1, 4, 4)
    """
    x = as_node(x)
    r = _factor("pixel_shuffle", x, upscale_factor)
    channels, height, width = x.shape[-3:]
    if channels % (r * r):
        raise ShapeError(f"pixel_shuffle: {channels} channels do not divide by {r} * {r}")
    c = channels // (r * r)
    return _regrouped(x, (c, r, r, height, width), (0, 3, 1, 4, 2), (c, height * r, width * r))


def pixel_unshuffle(x: Any, downscale_factor: int) -> Node:
    """Pixels become channels: (..., C, H * r, W * r) to (..., C * r * r, H, W).

    >>> import wengert as wg
    >>> wg.pixel_unshuffle(wg.ones((1, 1, 4, 4)), 2).shape
    (1, 4, 2, 2)
    """
    x = as_node(x)
    r = _factor("pixel_unshuffle", x, downscale_factor)
    channels, height, width = x.shape[-3:]
    if height % r or width % r:
        raise ShapeError(f"pixel_unshuffle: {height} x {width} pixels do not divide by {r}")
    h, w = height // r, width // r
    return _regrouped(x, (channels, h, r, w, r), (0, 2, 4, 1, 3), (channels * r * r, h, w))


def channel_shuffle(x: Any, groups: int) -> Node:
    """The channels (axis 1) of `groups` groups dealt out in turn: one of each group, then the next of each.

    >>> import wengert as wg
    >>> wg.channel_shuffle(wg.reshape(wg.arange(4), (1, 4, 1)), 2).flatten().tolist()
    [0, 2, 1, 3]
    """
    x = as_node(x)
    if x.ndim < 3:
        raise ShapeError(f"channel_shuffle: the input is (N, C, *); its shape is {x.shape}")
    channels = x.shape[1]
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise ArgumentError(f"channel_shuffle: {channels} channels do not divide into groups={groups!r}")
    parts = reshape(x, (x.shape[0], groups, channels // groups, *x.shape[2:]))
    return reshape(permute_dims(parts, (0, 2, 1, *range(3, parts.ndim))), x.shape)
