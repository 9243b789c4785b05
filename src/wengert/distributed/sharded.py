"""Sharded tensors, made from the block that this rank holds."""

from __future__ import annotations

from typing import Any

from wengert.core.placement import Placement, ShardedArray
from wengert.ops.core import data
from wengert.tensor import Tensor


def sharded_tensor(block: Any, shape: tuple[int, ...], placement: Placement) -> Tensor:
    """A tensor of which this rank holds a block, an array on some device."""
    array: Any = ShardedArray(block, shape, placement)
    return Tensor(data(array, array.device))
