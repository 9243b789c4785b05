"""`torch.distributed.tensor`: the names that libraries ask for. `wg.distributed` spreads tensors; none is a DTensor."""

from __future__ import annotations

from typing import Any, NoReturn

from wengert.torch.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from wengert.torch.missing import missing_attribute as _missing_attribute


class DTensor:
    """A tensor spread over a mesh in PyTorch. There is none here: `isinstance` says no of every tensor."""


def distribute_tensor(*args: Any, **kwargs: Any) -> NoReturn:
    """Say that it is not there."""
    raise RuntimeError("torch.distributed.tensor is not in wengert.torch: wg.distributed.shard spreads a tensor")


distribute_module = distribute_tensor


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.distributed.tensor", name)
