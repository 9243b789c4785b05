"""`torch.distributed.fsdp.fully_sharded_data_parallel`: the names of `torch.distributed.fsdp`, from where they are."""

from __future__ import annotations

from typing import Any

from wengert.torch.distributed import fsdp as _fsdp
from wengert.torch.distributed.fsdp import CPUOffload as CPUOffload
from wengert.torch.distributed.fsdp import FullyShardedDataParallel as FullyShardedDataParallel
from wengert.torch.distributed.fsdp import MixedPrecision as MixedPrecision
from wengert.torch.distributed.fsdp import ShardingStrategy as ShardingStrategy
from wengert.torch.missing import missing_attribute as _missing_attribute


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not hasattr(_fsdp, name):
        return _missing_attribute("torch.distributed.fsdp.fully_sharded_data_parallel", name)
    return getattr(_fsdp, name)
