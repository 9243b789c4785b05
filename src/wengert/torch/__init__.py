"""PyTorch's names over Wengert: `import wengert.torch as torch`, or `wengert torch script.py` for a script as it is.

The names, signatures, defaults and meanings are PyTorch's; the work is Wengert's. A family of functions is a file that
enters its functions in the tables of `registry`; here they become the module's and the methods of Tensor.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from wengert.torch import einops_backend as _einops_backend
from wengert.torch import meta as _meta
from wengert.torch import random, return_types
from wengert.torch import registry as _registry
from wengert.torch.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from wengert.torch.creation import CLASSES as _CLASSES
from wengert.torch.devices import Size, device
from wengert.torch.dtypes import (
    NAMES as _NAMES,
)
from wengert.torch.dtypes import (
    can_cast,
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    promote_types,
    result_type,
    set_default_dtype,
)
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.printing import set_printoptions
from wengert.torch.tensor import Tensor

__version__ = "2.13.0+wengert"
inf, nan, pi, e, newaxis = float("inf"), float("nan"), 3.141592653589793, 2.718281828459045, None

_FAMILIES = (  # noqa: SIM905
    "activations attributes conversion creation diagonals differences factors filling floats indexing indexing_views "
    "joining memory misc networks norms ordering pointwise products questions random reductions sets shape specials "
    "windows copies parts pickling reshaping sharing sparse subclasses "
).split()
for _family in _FAMILIES:  # each enters its functions
    _import_module(f"wengert.torch.{_family}")

globals().update(_NAMES)
globals().update(_CLASSES)
globals().update(_registry.functions)
for _name, _method in _registry.methods.items():
    setattr(Tensor, _name, _method)

_einops_backend.install()
_meta.install()

_LATER = (  # noqa: SIM905
    "accelerator amp autograd backends compiler cuda distributed distributions fft func fx hub jit library linalg "
    "multiprocessing nn onnx optim overrides profiler serialization signal special testing types utils version vision"
).split()
"""Submodules that are imported when they are first asked for."""

_LAYERS = (  # noqa: SIM905
    "adaptive_avg_pool1d avg_pool1d bilinear channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d cosine_similarity ctc_loss max_pool1d max_pool2d max_pool3d pairwise_distance pdist "
    "pixel_shuffle pixel_unshuffle rms_norm rrelu triplet_margin_loss"
).split()
_ELSEWHERE = dict.fromkeys(_LAYERS, "nn.functional") | {
    "compile": "compiling",
    "autocast": "amp",
    "ops": "library",
    "vmap": "func",
    "save": "serialization",
    "load": "serialization",
}
"""Names of the module that another one has, which is imported when they are first asked for."""


def __getattr__(name: str) -> _Any:
    if name in _ELSEWHERE:
        return getattr(_import_module(f"wengert.torch.{_ELSEWHERE[name]}"), name)
    if name in ("_C", "_dynamo"):
        return _import_module(f"wengert.torch.{name}")
    if name in _LATER:
        return _import_module(f"wengert.torch.{name}")
    return _missing_attribute("torch", name)
