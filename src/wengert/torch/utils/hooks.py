"""`torch.utils.hooks`: the handles returned when a hook is registered."""

from wengert.torch.autograd.hooks import RemovableHandle as RemovableHandle
