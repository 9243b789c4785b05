"""`torch.distributed._composable.fsdp`: the names of `torch.distributed.fsdp`."""

from wengert.torch.distributed.fsdp import CPUOffloadPolicy as CPUOffloadPolicy
from wengert.torch.distributed.fsdp import MixedPrecisionPolicy as MixedPrecisionPolicy
from wengert.torch.distributed.fsdp import fully_shard as fully_shard
