"""`torch.save` and `torch.load` for PyTorch's files; loading runs no code unless `weights_only=False`."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from wengert.api import torch_format
from wengert.torch.devices import Size, device
from wengert.torch.dtypes import NAMES, dtype
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.parameter import Parameter
from wengert.torch.tensor import Tensor, of

_safe: dict[str, Any] = {}


class _Maker(torch_format.TensorMaker):
    """Makes this package's tensors and parameters."""

    def tensor(self, stored: torch_format.TensorInStorage) -> Tensor:
        key = (stored.storage.key, stored.dtype, *stored[2:])
        if key not in self._made:
            made = of(self._new(stored._replace(requires_grad=False)))
            if stored.requires_grad:
                made.requires_grad = True
            self._made[key] = made
        found: Tensor = self._made[key]  # type: ignore[assignment]
        return found

    def parameter(self, data: Any, requires_grad: bool) -> Any:
        return Parameter(data, requires_grad)


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write anything that pickles to a path or a file, as PyTorch does."""
    torch_format.write(f, obj, describe=_described, reduce=_reduced)


def _described(value: Any) -> torch_format.TensorInStorage | None:
    """A tensor in the format of files, and whether it is a parameter."""
    found = torch_format.described(value)
    return found._replace(is_parameter=True) if found is not None and isinstance(value, Parameter) else found


def _reduced(value: Any) -> Any:
    """How PyTorch's own objects are pickled."""
    if isinstance(value, Size):
        return torch_format.Name("torch", "Size"), (tuple(value),)
    if isinstance(value, dtype):
        return torch_format.Name("torch", value.name)
    if isinstance(value, device):
        index = () if value.index is None else (value.index,)
        return torch_format.Name("torch", "device"), (value.type, *index)
    if isinstance(value, FunctionType) and value.__module__.startswith("wengert.api"):  # a layer's activation
        named = getattr(importlib.import_module("wengert.torch.nn.functional"), value.__name__, value)
        return torch_format.Name(named.__module__, named.__name__)
    return NotImplemented


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read a file of `torch.save`, ours or PyTorch's: tensors, containers, numbers; all if not `weights_only`."""
    where = map_location
    if isinstance(where, device):
        where = str(where)
    maker = _Maker(map_location is not None)
    only = weights_only is None or weights_only
    return torch_format.read(
        f,
        make=maker.tensor,
        make_parameter=maker.parameter,
        map_location=where,
        weights_only=only,
        names=_names(),
        find=None if only else _found,
        pickle_options=pickle_load_args,
    )


def _names() -> dict[str, Any]:
    """The objects that PyTorch's names in a file stand for here, besides the common ones."""
    made: dict[str, Any] = {f"torch.{name}": value for name, value in NAMES.items()}
    return made | {"torch.Size": Size, "torch.device": device} | _safe


def _found(module: str, name: str) -> Any:
    """The object here that a name of PyTorch's stands for."""
    root, _, rest = module.partition(".")
    if root not in ("torch", "torchvision"):
        return None
    real = "wengert.torch" + (".vision" if root == "torchvision" else "") + (f".{rest}" if rest else "")
    try:
        return getattr(importlib.import_module(real), name)
    except (ImportError, AttributeError):
        return None


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow `load` to call these classes and functions when a file names them."""
    _safe.update({f"{each.__module__}.{each.__qualname__}": each for each in safe_globals})


def get_safe_globals() -> list[Any]:
    """The classes and functions that `load` may call besides the built-in ones."""
    return list(_safe.values())


def clear_safe_globals() -> None:
    """Remove everything that `add_safe_globals` allowed."""
    _safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """A block in which `load` calls these."""
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.serialization", name)
