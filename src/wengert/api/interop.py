"""NumPy and DLPack: `np.sin(t)` and `np.concatenate([t, u])` record, arrays are exchanged without a copy if possible.

A NumPy function called with a Tensor is looked up by name in `wengert.api.functions`; if it is missing, the error says
how to get the array.
"""

from __future__ import annotations

import functools
import inspect
import sys
from itertools import takewhile
from typing import Any

import numpy as np

from wengert.api import creation, functions
from wengert.api.numpy_meanings import MEANINGS
from wengert.core import devices
from wengert.core.conversion import require_array, require_number
from wengert.core.devices import CUDA, HOST, is_host
from wengert.core.errors import DTypeError
from wengert.core.graph import Node, now
from wengert.ops.core import data
from wengert.tensor import Tensor, engine

# NumPy's names for what the Array API standard calls otherwise.
NUMPY_NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "amax": "max",
    "amin": "min",
    "bitwise_not": "bitwise_invert",
    "concatenate": "concat",
    "conjugate": "conj",
    "degrees": "rad2deg",
    "fabs": "abs",
    "float_power": "pow",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "mod": "remainder",
    "power": "pow",
    "radians": "deg2rad",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "true_divide": "divide",
}

_PAGE_LOCKED = 3  # DLPack's number for memory of the host that a GPU reads: NumPy reads it, too

# Questions about values, whose answers are no tensors: NumPy answers them.
QUESTIONS = {"allclose", "array_equal", "iscomplexobj", "isrealobj", "ndim", "result_type", "shape", "size"}


def _function(name: str) -> Any:
    return MEANINGS.get(name) or getattr(functions, NUMPY_NAMES.get(name, name), None)


def _missing(name: str) -> DTypeError:
    return DTypeError(f"np.{name} has no counterpart in Wengert; call it on t.numpy(), outside of differentiated code")


def array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """`np.sin(t)` and `np.add(array, t)` call Wengert's function of the same name."""
    function = _function(ufunc.__name__)
    if method != "__call__" or function is None or kwargs.get("out") is not None:
        raise _missing(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")
    return function(*inputs, **{key: value for key, value in kwargs.items() if key != "out"})


def array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """`np.concatenate([t, u])` and `np.sum(t, axis=0)` call Wengert's function of the same name."""
    if func.__name__ in QUESTIONS:
        args = [engine.value(value.node) if isinstance(value, Tensor) else value for value in args]
        return func(*args, **kwargs)
    module = func.__module__.removeprefix("numpy").strip(".")
    if module in ("linalg", "fft"):
        from wengert.api import fft, linalg

        function = getattr({"linalg": linalg, "fft": fft}[module], func.__name__, None) or _function(func.__name__)
    else:
        function = _function(func.__name__)
    if function is None:
        raise _missing(f"{module}.{func.__name__}".strip("."))
    args, kwargs = _by_place(func, args, kwargs)
    return function(*args, **kwargs)


def _by_place(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Arguments that NumPy takes by name or by place, by place as far as there is no gap: our names are others."""
    parameters = _parameters(func)
    given = list(args)
    named = dict(kwargs)
    while len(given) < len(parameters) and parameters[len(given)] in named:
        given.append(named.pop(parameters[len(given)]))
    return given, named


@functools.cache
def _parameters(func: Any) -> tuple[str, ...]:
    """The names of the leading arguments of a function of NumPy's that have no default."""
    try:
        found = inspect.signature(func).parameters.values()
    except ValueError:  # NumPy's functions in C do not tell
        return ()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    return tuple(p.name for p in takewhile(lambda p: p.kind in kinds and p.default is p.empty, found))


def array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """The value as a NumPy array: read-only and without a copy, unless a copy is requested."""
    require_array(self.node, "np.asarray(x)")
    value = self.numpy()
    if copy:
        return np.array(value, dtype)
    if copy is False and dtype is not None and value.dtype != dtype:
        raise ValueError(f"a {value.dtype} tensor cannot become a {np.dtype(dtype)} array without a copy")
    return value if dtype is None else value.astype(dtype, copy=False)


def dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Export the value to another library, without a copy unless it requests one. Neither side may write to it
    afterwards."""
    require_array(self.node, "__dlpack__()")
    now()
    if not is_host(self.device) and dl_device not in (None, dlpack_device(self)):
        if copy is False or dl_device != devices.of(HOST).dlpack_device:
            raise BufferError(f"a tensor on {self.device} cannot be handed to device {dl_device} without a copy")
        return dlpack(self.to(HOST), max_version=max_version)
    array = engine.array(self.node)
    is_old = max_version is None or tuple(max_version) < (1, 0)  # and cannot say that memory is read-only
    if copy is False and is_old and type(array) is np.ndarray and not array.flags.writeable:
        array = self.node.buffer = array.copy()  # zeros, a broadcast value: from now on it has memory of its own
    options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    return devices.of(self.device).to_dlpack(array, stream=stream, **options)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """The device in DLPack's numbering."""
    return devices.of(self.device).dlpack_device


@property  # type: ignore[misc]
def cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """The value's address on a GPU, for other libraries. Neither side may write to it afterwards."""
    require_number(self.node, "__cuda_array_interface__")
    if is_host(self.device):
        raise AttributeError("__cuda_array_interface__: this tensor is on the CPU")
    now()
    return devices.of(self.device).array_interface(engine.array(self.node), self)


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor over another library's memory, through DLPack, without a copy unless one is requested.

    >>> import numpy as np, wengert as wg
    >>> wg.from_dlpack(np.ones(2)).tolist()
    [1.0, 1.0]
    """
    made = Tensor(_taken(x, bool(copy)))
    return made if device is None else made.to(device)


def _taken(x: Any, copy: bool) -> Node:
    number = x.__dlpack_device__()[0] if hasattr(x, "__dlpack_device__") else None
    kind = HOST if number in (None, _PAGE_LOCKED) else devices.exchanged(number)
    if kind is None:
        raise DTypeError(f"from_dlpack: the array is on device {x.__dlpack_device__()}, which Wengert does not support")
    if not is_host(kind):
        return borrowed(x, copy)
    try:
        value = devices.of(HOST).borrow(x)
    except (BufferError, RuntimeError, TypeError, AttributeError) as error:
        raise DTypeError(f"from_dlpack: {error}") from None
    return data(np.array(value) if copy else value)


def borrowed(x: Any, copy: bool) -> Node:
    """A node over another library's array on a GPU: in the same memory, or in a copy of it on that GPU."""
    device = devices.of(devices.named(CUDA, "from_dlpack"))  # which says what is missing
    try:
        array = device.borrow(x)
    except (BufferError, RuntimeError, TypeError) as error:
        raise DTypeError(f"cannot make a tensor from this {type(x).__name__} on a GPU: {error}") from None
    return data(array.copy() if copy else array, array.device)


def array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The module: it is an Array API namespace."""
    return sys.modules["wengert"]


def connect() -> None:
    """Give Tensor NumPy's and DLPack's protocols, and let it take what other libraries have on a GPU."""
    creation.borrow = borrowed
    for name, method in {
        "__array__": array,
        "__array_ufunc__": array_ufunc,
        "__array_function__": array_function,
        "__array_namespace__": array_namespace,
        "__dlpack__": dlpack,
        "__dlpack_device__": dlpack_device,
        "__cuda_array_interface__": cuda_array_interface,
    }.items():
        setattr(Tensor, name, method)


connect()
