"""Questions about tensors, and what scripts set at their beginning: dtypes, devices, threads, layouts."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np

from wengert.core import devices
from wengert.core.context import mode
from wengert.core.dtypes import COMPLEX, FLOATING, as_dtype
from wengert.ops import reduce as r
from wengert.ops.elementwise import equal as equal_elements
from wengert.tensor import Tensor as Base
from wengert.tensor import engine
from wengert.torch import dtypes
from wengert.torch.creation import type_name
from wengert.torch.devices import Size
from wengert.torch.devices import device as as_device
from wengert.torch.registry import functions, methods, torch_function
from wengert.torch.tensor import Tensor

# --- layouts and memory formats -------------------------------------------------------------------------------------


class _Named:
    """A constant of PyTorch's that is known by its name."""

    __slots__ = ("name",)
    _all: ClassVar[dict[str, _Named]] = {}

    def __init__(self, name: str) -> None:
        self.name = name
        _Named._all[name] = self

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return _named, (self.name,)


def _named(name: str) -> _Named:
    return _Named._all[name]


class layout(_Named):
    """How the elements of a tensor lie in memory."""


class memory_format(_Named):
    """The memory order of a tensor's axes; it does not change values."""


class qscheme(_Named):
    """A way of quantizing."""


strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")

CONSTANTS: dict[str, Any] = {**_Named._all, "layout": layout, "memory_format": memory_format}
"""The constants by their names in the module, and their classes."""

functions.update(CONSTANTS)
methods["layout"] = property(lambda self: strided, doc="How the elements lie in memory.")

# --- questions ------------------------------------------------------------------------------------------------------


@torch_function(method=False)
def is_tensor(obj: Any) -> bool:
    """Whether this is a tensor."""
    return isinstance(obj, Tensor)


@torch_function(method=False)
def is_storage(obj: Any) -> bool:
    """Whether this is a tensor's storage."""
    return type(obj).__name__.endswith("Storage")


@torch_function()
def is_floating_point(input: Any) -> bool:
    """Whether the elements are floating-point numbers."""
    return input.node.dtype in FLOATING


@torch_function()
def is_complex(input: Any) -> bool:
    """Whether the elements are complex numbers."""
    return input.node.dtype in COMPLEX


@torch_function()
def is_signed(input: Any) -> bool:
    """Whether the elements may be negative."""
    return bool(input.dtype.is_signed)


@torch_function("is_neg", "is_inference")
def is_conj(input: Any) -> bool:
    """Whether a conjugation is pending: always False."""
    return False


@torch_function("resolve_neg")
def resolve_conj(input: Any) -> Any:
    """Return the tensor itself: no conjugation or negation is ever pending."""
    return input


@torch_function()
def numel(input: Any) -> int:
    """The number of elements."""
    return int(input.node.size)


methods["nelement"] = methods["numel"]


@torch_function()
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    return bool(input.node.shape == other.node.shape)


@torch_function()
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and elements."""
    a, b = input.node, other.node
    if a.shape != b.shape:
        return False
    return bool(engine.value(r.all(equal_elements(a, b))))


@torch_function()
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close in the sense of `isclose`."""
    return bool(engine.value(r.all(functions["isclose"](input, other, rtol, atol, equal_nan).node)))


@torch_function(method=False)
def typename(obj: Any) -> str:
    """The full name of an object's class; for a tensor, its legacy class name."""
    if isinstance(obj, Base):
        return type_name(obj)  # type: ignore[arg-type]
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


@torch_function(method=False)
def broadcast_shapes(*shapes: Any) -> Any:
    """The common broadcast shape of shapes."""
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    try:
        return Size(np.broadcast_shapes(*given))
    except ValueError as error:
        raise RuntimeError(
            "Shape mismatch: objects cannot be broadcast to a single shape: " + ", ".join(map(str, given))
        ) from error


# --- what scripts set -----------------------------------------------------------------------------------------------

_settings: dict[str, Any] = {
    "float32_matmul_precision": "highest",
    "deterministic": False,
    "deterministic_warn_only": False,
    "flush_denormal": False,
    "threads": os.cpu_count() or 1,
    "interop_threads": os.cpu_count() or 1,
    "warn_always": False,
}


@torch_function(method=False)
def set_default_tensor_type(t: Any) -> None:
    """Set the default class of tensors made from Python floats."""
    name = t if isinstance(t, str) else f"torch.{t.__name__}"
    kinds = {f"torch.{n}Tensor": k for n, k in (("Float", "float32"), ("Double", "float64"), ("Half", "float16"))}
    plain = name.replace("torch.cuda.", "torch.")
    if plain not in kinds:
        raise TypeError("only floating-point types are supported as the default type")
    dtypes.set_default_dtype(as_dtype(kinds[plain]))
    if "cuda" in name:
        devices.set_default_device("cuda")


@torch_function(method=False)
def set_default_device(device: Any) -> None:
    """Set the default device of new tensors."""
    devices.set_default_device("cpu" if device is None else str(as_device(device)))


@torch_function(method=False)
def get_default_device() -> as_device:
    """The default device of new tensors."""
    return as_device(devices.default)


@torch_function(method=False)
def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matrix products on a GPU; without effect on a CPU."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"Invalid float32 matmul precision: {precision}")
    _settings["float32_matmul_precision"] = precision


@torch_function(method=False)
def get_float32_matmul_precision() -> str:
    """The value passed to `set_float32_matmul_precision`."""
    return str(_settings["float32_matmul_precision"])


@torch_function(method=False)
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Request deterministic results. Wengert's always are; the setting is only stored."""
    _settings["deterministic"], _settings["deterministic_warn_only"] = bool(mode), bool(warn_only)


@torch_function(method=False)
def are_deterministic_algorithms_enabled() -> bool:
    """The value passed to `use_deterministic_algorithms`."""
    return bool(_settings["deterministic"])


@torch_function(method=False)
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was called with `warn_only`."""
    return bool(_settings["deterministic_warn_only"])


@torch_function(method=False)
def set_num_threads(int: int) -> None:
    """Store the number. Wengert's kernels use the number of threads in WENGERT_THREADS."""
    _require_positive("set_num_threads", int)
    _settings["threads"] = int


@torch_function(method=False)
def get_num_threads() -> int:
    """The requested number of threads."""
    found: int = _settings["threads"]
    return found


@torch_function(method=False)
def set_num_interop_threads(int: int) -> None:
    """Store the number; Wengert runs one program at a time."""
    _require_positive("set_num_interop_threads", int)
    _settings["interop_threads"] = int


@torch_function(method=False)
def get_num_interop_threads() -> int:
    """The requested number."""
    found: int = _settings["interop_threads"]
    return found


def _require_positive(name: str, count: Any) -> None:
    if not isinstance(count, int) or isinstance(count, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError(f"{name} expects a positive integer")


@torch_function(method=False)
def set_flush_denormal(mode: bool) -> bool:
    """Not supported: denormal numbers are kept, so it returns False."""
    return False


@torch_function(method=False)
def set_warn_always(b: bool) -> None:
    """Noted."""
    _settings["warn_always"] = bool(b)


@torch_function(method=False)
def is_warn_always_enabled() -> bool:
    """The value passed to `set_warn_always`."""
    return bool(_settings["warn_always"])


# --- autocast -------------------------------------------------------------------------------------------------------


@torch_function(method=False)
def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether this is inside autocast."""
    return mode().autocast is not None


@torch_function("is_autocast_cache_enabled", method=False)
def is_autocast_cpu_enabled() -> bool:
    """Whether this is inside autocast."""
    return mode().autocast is not None


@torch_function(method=False)
def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The dtype that autocast uses, or would use."""
    inside = mode().autocast
    return dtypes.of(inside) if inside is not None else dtypes.float16 if device_type == "cuda" else dtypes.bfloat16


@torch_function(method=False)
def get_autocast_gpu_dtype() -> dtypes.dtype:
    """The dtype that autocast uses on a GPU."""
    return get_autocast_dtype("cuda")


@torch_function(method=False)
def get_autocast_cpu_dtype() -> dtypes.dtype:
    """The dtype that autocast uses on the CPU."""
    return get_autocast_dtype("cpu")


@torch_function(method=False)
def clear_autocast_cache() -> None:
    """Do nothing: autocast has no cache."""
