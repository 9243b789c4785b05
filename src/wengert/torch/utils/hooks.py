"""`torch.utils.hooks`: what registering a hook gives."""

from wengert.torch.autograd.hooks import RemovableHandle as RemovableHandle
