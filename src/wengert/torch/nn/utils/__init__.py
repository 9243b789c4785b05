"""`torch.nn.utils`: clipping, vectors of parameters, reparametrised weights, folded norms, sequences."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.utils import rnn
from wengert.torch.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from wengert.torch.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from wengert.torch.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from wengert.torch.nn.utils.init import skip_init
from wengert.torch.nn.utils.memory_format import (
    convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format,
)
from wengert.torch.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from wengert.torch.nn.utils.weight_norm import remove_weight_norm, weight_norm


def __getattr__(name: str) -> Any:
    if name in ("parametrizations", "parametrize", "stateless"):
        return _import_module(f"wengert.torch.nn.utils.{name}")
    return _missing_attribute("torch.nn.utils", name)
