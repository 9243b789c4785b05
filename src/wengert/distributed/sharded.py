"""Sharded tensors: made from the block that this rank holds."""

from __future__ import annotations

from typing import Any

from wengert.core import devices
from wengert.core.placement import Placement, ShardedArray
from wengert.ops.core import data
from wengert.tensor import Tensor


def sharded_tensor(block: Any, shape: tuple[int, ...], placement: Placement, device: str) -> Tensor:
    """A tensor of which this rank holds a block, a host array; plain where the placement cuts nothing."""
    array: Any = devices.of(device).upload(block)
    if not placement.is_replicated:
        array = ShardedArray(array, shape, placement)
    return Tensor(data(array, device))
