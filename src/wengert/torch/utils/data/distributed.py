"""`torch.utils.data.distributed`: the sampler of several ranks."""

from wengert import data as _data
from wengert.torch.utils.data import _torch_draws


class DistributedSampler(_data.DistributedSampler):
    """The indices of one rank, in an order that all ranks share."""

    draws = _torch_draws
