"""Wengert: automatic differentiation for Python that trains at the speed of the machine.

import wengert as wg
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import Any as _Any

from wengert import autodiff
from wengert.api import fft, linalg, random, special, windows
from wengert.api.array_api import (
    __array_namespace_info__,
    astype,
    broadcast_shapes,
    can_cast,
    e,
    finfo,
    iinfo,
    inf,
    isdtype,
    nan,
    newaxis,
    pi,
    result_type,
)
from wengert.api.creation import asarray, tensor
from wengert.api.files import load, save
from wengert.api.functions import *  # noqa: F403
from wengert.api.functions import __all__ as _functions
from wengert.api.index_tricks import c_, r_
from wengert.api.interop import from_dlpack
from wengert.api.random import manual_seed
from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.autodiff.associative import associative_scan
from wengert.autodiff.check import check_grads
from wengert.autodiff.checkpoint import checkpoint
from wengert.autodiff.cond import cond, while_loop
from wengert.autodiff.custom import custom_jvp, custom_vjp
from wengert.autodiff.jacobian import hessian, jacfwd, jacobian, jacrev
from wengert.autodiff.jet import jet
from wengert.autodiff.linearize import fisher_product, gnvp, linear_transpose, linearize
from wengert.autodiff.reverse import enable_grad, no_grad
from wengert.autodiff.scan import scan
from wengert.autodiff.transforms import grad, hvp, jvp, value_and_grad, vjp
from wengert.autodiff.vectorize import vmap
from wengert.core import devices, dtypes, errors, graph, tree
from wengert.core.devices import set_default_device
from wengert.core.dtypes import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from wengert.core.dtypes import bool_ as bool
from wengert.core.evaluation import debug_nans
from wengert.ops.autocast import autocast
from wengert.runtime.config import config
from wengert.runtime.dynamic.realize import eager, synchronize
from wengert.runtime.memory.fits import largest_batch
from wengert.runtime.reads.hooks import static
from wengert.runtime.static.compile import compile
from wengert.solvers.linear import linear_solve
from wengert.solvers.minima import minimize
from wengert.solvers.nonlinear import custom_root, fixed_point, root
from wengert.tensor import Tensor

__version__ = "0.1.0"
__array_api_version__ = "2024.12"
__all__ = [
    *_functions,
    "Tensor",
    "autocast",
    "autodiff",
    "c_",
    "r_",
    "bfloat16",
    "bool",
    "check_grads",
    "complex64",
    "complex128",
    "debug_nans",
    "devices",
    "eager",
    "enable_grad",
    "fft",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "grad",
    "hessian",
    "hvp",
    "int8",
    "int16",
    "int32",
    "int64",
    "jacobian",
    "jvp",
    "largest_batch",
    "linalg",
    "load",
    "manual_seed",
    "no_grad",
    "random",
    "save",
    "set_default_device",
    "special",
    "synchronize",
    "tensor",
    "tree",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "associative_scan",
    "checkpoint",
    "compile",
    "cond",
    "config",
    "custom_jvp",
    "custom_vjp",
    "scan",
    "vmap",
    "while_loop",
    "windows",
    "__array_namespace_info__",
    "asarray",
    "astype",
    "broadcast_shapes",
    "can_cast",
    "e",
    "finfo",
    "fisher_product",
    "gnvp",
    "iinfo",
    "inf",
    "isdtype",
    "custom_root",
    "fixed_point",
    "jacfwd",
    "jacrev",
    "jet",
    "linear_solve",
    "linear_transpose",
    "minimize",
    "root",
    "linearize",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "vjp",
]


# Public modules can be imported by their short names: `from wengert.errors import ShapeError`.
for _module in (devices, dtypes, errors, fft, graph, linalg, random, special, tree, windows):
    _sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module

_LATER = (
    "cuda",
    "data",
    "distributed",
    "distributions",
    "inspect",
    "learn",
    "models",
    "nn",
    "ode",
    "optim",
    "sparse",
    "train",
)
"""Submodules that are imported when they are first asked for, so that `import wengert` stays quick."""

_FUNCTIONS_LATER = {
    "ctc_loss": "wengert.nn.ctc",
    "multi_head_attention_forward": "wengert.nn.attention_function",
    "profile": "wengert.inspect",
    "scipy": "wengert.sparse.scipy_bridge",
    "sparse_hessian": "wengert.sparse.jacobian",
    "sparse_jacobian": "wengert.sparse.jacobian",
}
"""Functions of submodules that are imported later, by the module that has each."""


def __getattr__(name: str) -> _Any:
    if name in _FUNCTIONS_LATER:
        return getattr(_import_module(_FUNCTIONS_LATER[name]), name)
    if name in _LATER:
        return _import_module(f"wengert.{name}")
    return _module_attribute(name, [*__all__, *_LATER, *_FUNCTIONS_LATER])


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER, *_FUNCTIONS_LATER, "errors", "graph"})
