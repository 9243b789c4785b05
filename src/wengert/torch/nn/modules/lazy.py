"""`torch.nn.modules.lazy`: what layers that are made by their first input have in common."""

from wengert.torch.nn.lazy import LazyModuleMixin
from wengert.torch.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin", "is_lazy"]
