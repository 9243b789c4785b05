"""`torch.nn.modules.module`: where PyTorch has these layers too."""

from wengert.nn import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from wengert.nn.state import _EXTRA as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401
from wengert.torch.nn.module import Module
from wengert.torch.nn.modules import layers_here

globals().update(layers_here())

register_module_backward_hook = register_module_full_backward_hook

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]
