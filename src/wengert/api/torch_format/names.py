"""The names that PyTorch's files use, and their equivalents here: dtypes, storages, tensors, containers.

The functions in this table are safe to call with any arguments: they only make values.
"""

from __future__ import annotations

import re
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from wengert.api.torch_format.storages import (
    ALIASES,
    DTYPES,
    KINDS,
    Problem,
    Refusal,
    Storage,
    TensorInStorage,
    TorchDType,
    shown,
)
from wengert.api.torch_format.unpickler import Buildable, PickledFunction, checked_keys

Make = Callable[[TensorInStorage], Any]
MakeParameter = Callable[[Any, bool], Any]


class StorageKind(NamedTuple):
    """A class of storages of PyTorch; the dtype is None for plain bytes."""

    name: str
    dtype: TorchDType | None


class PickledDType(Buildable):
    """A dtype of NumPy as its pickle makes it: numbers and text, in whatever byte order."""

    def __init__(self, code: Any, *_: Any) -> None:
        if type(code) is not str or not re.fullmatch(r"[biufcSU]\d{1,6}", code):
            raise Refusal(f"it has a NumPy dtype {shown(code)}")
        self.dtype = np.dtype(code)

    def set_state(self, state: Any) -> None:
        """Take the byte order."""
        if state[1] in ("<", ">", "|", "="):
            self.dtype = self.dtype.newbyteorder(state[1])


def table(make: Make, make_parameter: MakeParameter) -> dict[str, Any]:
    """What each name stands for, where tensors and parameters are made by these."""
    functions: dict[str, Callable[..., Any]] = {
        "collections.OrderedDict": _ordered,
        "collections.Counter": _counter,
        "builtins.set": lambda items=(): set(checked_keys(list(items))),
        "builtins.frozenset": lambda items=(): frozenset(checked_keys(list(items))),
        "builtins.bytearray": _bytearray,
        "builtins.complex": _complex,
        "_codecs.encode": _encoded,
        "torch.Size": lambda sizes=(): tuple(_integer(size) for size in sizes),
        "torch.device": _device,
        "torch.serialization._get_layout": _layout,
        **_tensors(make, make_parameter),
        **_numpy(),
    }
    return {name: PickledFunction(name, function) for name, function in functions.items()} | _constants()


def _constants() -> dict[str, Any]:
    """Dtypes and storages."""
    known: dict[str, Any] = {
        f"torch.{name}": dtype.read if dtype.read == dtype.stored else dtype for name, dtype in DTYPES.items()
    }
    known |= {f"torch.{name}": DTYPES[of].read for name, of in ALIASES.items()}
    for module in ("torch", "torch.cuda"):
        for name, dtype in KINDS.items():
            known[f"{module}.{name}"] = StorageKind(name, DTYPES[dtype.name])
    for name in ("torch.UntypedStorage", "torch.storage.UntypedStorage", "torch.storage._UntypedStorage"):
        known[name] = StorageKind("UntypedStorage", None)
    known |= {name: _Class(name) for name in ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.Parameter")}
    known["numpy.ndarray"] = _Class("numpy.ndarray")
    return known


class _Class(NamedTuple):
    """A class by its name, which is an argument and is never called."""

    name: str


# --- tensors --------------------------------------------------------------------------------------------------------


def _tensors(make: Make, make_parameter: MakeParameter) -> dict[str, Callable[..., Any]]:
    def tensor(
        storage: Any, offset: Any, size: Any, stride: Any, grad: Any = False, hooks: Any = None, metadata: Any = None
    ) -> Any:
        if isinstance(storage, Storage) and storage.dtype is None:
            raise Problem("a tensor refers to a storage without a dtype")
        return made(storage, getattr(storage, "dtype", None), offset, size, stride, grad, metadata)

    def tensor_of(
        storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, dtype: Any, metadata: Any = None
    ) -> Any:
        return made(storage, dtype, offset, size, stride, grad, metadata)

    def made(storage: Any, dtype: Any, offset: Any, size: Any, stride: Any, grad: Any, metadata: Any) -> Any:
        marks = metadata if type(metadata) is dict else {}
        found = DTYPES.get(getattr(dtype, "name", str(dtype).removeprefix("torch."))) if dtype is not None else None
        if not isinstance(storage, Storage) or found is None:
            raise Problem("a tensor has no storage or no dtype")
        stored = TensorInStorage(
            storage,
            found,
            offset,
            tuple(size),
            tuple(stride),
            bool(grad),
            is_conjugated=bool(marks.get("conj")),
            is_negated=bool(marks.get("neg")),
        )
        stored.check()
        return make(stored)

    def parameter(data: Any, grad: Any = True, hooks: Any = None, state: Any = None) -> Any:
        return make_parameter(data, bool(grad))

    def of_type(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
        if not isinstance(function, PickledFunction) or type(arguments) is not tuple:
            raise Refusal(f"it makes a tensor by {shown(function)}")
        return function.function(*arguments)

    return {
        "torch._utils._rebuild_tensor": tensor,
        "torch._utils._rebuild_tensor_v2": tensor,
        "torch._utils._rebuild_tensor_v3": tensor_of,
        "torch._utils._rebuild_parameter": parameter,
        "torch._utils._rebuild_parameter_with_state": parameter,
        "torch._tensor._rebuild_from_type_v2": of_type,
    }


# --- other values ---------------------------------------------------------------------------------------------------


def _ordered(items: Any = ()) -> OrderedDict[Any, Any]:
    pairs = list(items.items()) if isinstance(items, dict) else [tuple(pair) for pair in items]
    return OrderedDict(zip(checked_keys([key for key, _ in pairs]), [value for _, value in pairs]))


def _counter(counts: Any = ()) -> Counter[Any]:
    if counts and not isinstance(counts, dict):
        raise TypeError("a Counter must be made from a dict")
    return Counter(counts or {})


def _bytearray(content: Any = b"", encoding: Any = None) -> bytearray:
    if isinstance(content, str):
        return bytearray(_encoded(content, encoding or "latin1"))
    if type(content) is not bytes:
        raise TypeError("a bytearray must be made from bytes")
    return bytearray(content)


def _complex(real: Any, imag: Any) -> complex:
    return complex(float(real), float(imag))


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8"):
        raise Refusal(f"it encodes {shown(text)} as {shown(encoding)}")
    return text.encode(encoding)


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("a size must be an integer")
    return value


def _device(kind: Any, index: Any = None) -> str:
    if type(kind) is not str:
        raise TypeError("a device must have a name")
    return kind if index is None else f"{kind}:{_integer(index)}"


def _layout(name: Any) -> str:
    if name != "torch.strided":
        raise Refusal(f"it has a tensor of the layout {shown(name)}; Wengert supports dense tensors only")
    return str(name)


# --- NumPy ----------------------------------------------------------------------------------------------------------


def _numpy() -> dict[str, Callable[..., Any]]:
    known: dict[str, Callable[..., Any]] = {"numpy.dtype": PickledDType}
    for module in ("numpy._core.multiarray", "numpy.core.multiarray"):
        known[f"{module}.scalar"] = _scalar
        known[f"{module}._reconstruct"] = _reconstructed
    return known


def _scalar(dtype: Any, content: Any) -> Any:
    if not isinstance(dtype, PickledDType) or type(content) is not bytes:
        raise Refusal("it has a NumPy scalar that is not a number")
    return np.frombuffer(content, dtype.dtype, 1)[0]


def _reconstructed(kind: Any, shape: Any, code: Any) -> Any:
    if kind != _Class("numpy.ndarray"):
        raise Refusal(f"it has an array of the class {shown(getattr(kind, 'name', kind))}")
    return np.empty(0, np.uint8)


OLD_MODULES = {**IMPORT_MAPPING, "torch.tensor": "torch._tensor"}
"""Modules by the names that Python 2, and so protocol 2, or an old PyTorch had for them."""

NOT_HERE = {
    "torch._utils._rebuild_sparse_tensor": "a sparse tensor",
    "torch._utils._rebuild_qtensor": "a quantized tensor",
    "torch._utils._rebuild_nested_tensor": "a nested tensor",
    "torch._utils._rebuild_meta_tensor_no_storage": "a tensor without values (of the device meta)",
    "torch._utils._rebuild_wrapper_subclass": "a tensor subclass",
}


def finder(known: Mapping[str, Any]) -> Callable[[str, str], Any]:
    """What looks names up in a table, and refuses others."""

    def find(module: str, name: str) -> Any:
        full = ".".join(NAME_MAPPING.get((module, name), (OLD_MODULES.get(module, module), name)))[:200]
        if full in known:
            return known[full]
        if full in NOT_HERE:
            raise Refusal(f"it has {NOT_HERE[full]}, which Wengert does not have ({full})")
        if full.startswith("torch.") and full.rsplit(".", 1)[1].endswith("Storage"):
            raise Refusal(f"it has a tensor of a dtype that Wengert does not have ({full})")
        raise Refusal(
            f"it refers to {full}, which is not a tensor, container or number; reading it would run code that the "
            "file chooses"
        )

    return find
