"""Utilities for models and parameters: reparametrised weights, parameter vectors, folding.

The names are PyTorch's: `parametrize`, `parametrizations` and `rnn` are modules, the others functions.
"""

from importlib import import_module as _import_module

from wengert.nn.utils import parametrizations, parametrize, rnn
from wengert.nn.utils.fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from wengert.nn.utils.init import skip_init
from wengert.nn.utils.norms import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from wengert.nn.utils.vectors import parameters_to_vector, vector_to_parameters

_IN_OPTIM = ("clip_grad_norm_", "clip_grad_value_")

__all__ = [
    *_IN_OPTIM,
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]


def __getattr__(name: str) -> object:
    if name in _IN_OPTIM:  # which stands above: optimizers know modules, modules know no optimizers
        return getattr(_import_module("wengert.optim"), name)
    raise AttributeError(f"wengert.nn.utils has no {name!r}; it has {', '.join(__all__)}")
