"""Wengert: automatic differentiation for Python that trains at the speed of the machine.

    import wengert as wg
"""

from wengert import tree
from wengert.autodiff.backward import enable_grad, no_grad
from wengert.autodiff.transforms import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from wengert.backends.numpy import debug_nans
from wengert.dtypes import (
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
from wengert.dtypes import bool_ as bool
from wengert.functions import *  # noqa: F403
from wengert.functions import __all__ as _functions
from wengert.runtime.realize import eager, synchronize
from wengert.tensor import Tensor, tensor

__version__ = "0.1.0"
__all__ = [
    *_functions,
    "Tensor",
    "bfloat16",
    "bool",
    "complex64",
    "complex128",
    "debug_nans",
    "eager",
    "enable_grad",
    "float16",
    "float32",
    "float64",
    "grad",
    "hessian",
    "hvp",
    "int8",
    "int16",
    "int32",
    "int64",
    "jacobian",
    "jvp",
    "no_grad",
    "synchronize",
    "tensor",
    "tree",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vjp",
]
