"""`torch.distributed.fsdp`: a world of one holds everything; of more ranks, `wg.distributed.shard` keeps blocks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from wengert.torch import distributed
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.module import Module


class ShardingStrategy(Enum):
    """What is sharded."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()


@dataclass(frozen=True)
class MixedPrecision:
    """In which dtypes PyTorch keeps, adds and computes; one rank keeps the module's."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """As `MixedPrecision`, for `fully_shard`."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass(frozen=True)
class CPUOffload:
    """Whether PyTorch keeps parameters on the host; one rank keeps them where they are."""

    offload_params: bool = False


@dataclass(frozen=True)
class CPUOffloadPolicy:
    """As `CPUOffload`, for `fully_shard`."""

    pin_memory: bool = True


def _require_one_rank(what: str) -> None:
    if distributed.is_initialized() and distributed.get_world_size() > 1:
        raise RuntimeError(
            f"torch.distributed.fsdp.{what} of several ranks is not in wengert.torch: use DistributedDataParallel, or "
            "wg.distributed.shard(model, mesh['data']) with wg.compile(mesh=mesh)"
        )


def fully_shard(module: Any, **options: Any) -> Any:
    """Return the module, which a single rank holds whole."""
    _require_one_rank("fully_shard")
    return module


class FullyShardedDataParallel(Module):
    """A module that a single rank holds whole, with the names it has in state dicts."""

    def __init__(self, module: Any, *args: Any, **options: Any) -> None:
        super().__init__()
        _require_one_rank("FullyShardedDataParallel")
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*args, **kwargs)


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.distributed.fsdp", name)
