"""Writing PyTorch's files: zip archives that `torch.load` reads, with `weights_only=True` where they hold nothing but
tensors, containers and numbers.

What a tensor is, `describe` says: it gives the `TensorInStorage` of a value, or None of what is no tensor. Tensors
whose storages have the same memory share one in the file, with the offsets and strides that they have.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, BinaryIO, ClassVar, NamedTuple, cast

import numpy as np

from wengert.api.safetensors_format import move_into_place
from wengert.api.torch_format.archive import ArchiveWriter
from wengert.api.torch_format.storages import KINDS, Storage, TensorInStorage
from wengert.core.errors import ArgumentError

Describe = Callable[[Any], TensorInStorage | None]
Reduce = Callable[[Any], Any]
PROTOCOL = 2
"""The pickles that `weights_only=True` takes without a word."""

_KIND_NAMES = {dtype.name: name for name, dtype in KINDS.items()}


class Name:
    """A name in PyTorch, written without importing it. As a function it comes first in what `reduce` returns.

    >>> Name("torch", "float32")
    <torch.float32>
    """

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        raise ArgumentError(f"{self.module}.{self.name} can be written to a file, but not called")

    def __repr__(self) -> str:
        return f"<{self.module}.{self.name}>"


def write(
    file: str | os.PathLike[str] | BinaryIO, value: Any, *, describe: Describe, reduce: Reduce | None = None
) -> None:
    """Write a value as `torch.save` would. A path is replaced atomically, once the new file is complete.

    `describe` recognises tensors. `reduce` says how other values are pickled, as `__reduce__` does, or under which
    `Name` PyTorch knows them, and returns NotImplemented for the rest.
    """
    storages = _Storages()
    stream = io.BytesIO()
    _Pickler(stream, storages, describe, reduce).dump(value)
    if hasattr(file, "write"):
        _write_archive(cast(BinaryIO, file), "archive", stream.getvalue(), storages)
        return
    path = Path(file)
    folder = path.stem if path.stem.isascii() else "archive"
    with move_into_place(path) as opened:
        _write_archive(opened, folder, stream.getvalue(), storages)


def _write_archive(file: BinaryIO, folder: str, content: bytes, storages: _Storages) -> None:
    writer = ArchiveWriter(file, folder)
    writer.write("data.pkl", content)
    writer.write("byteorder", sys.byteorder.encode())
    for number, raw in enumerate(storages.contents):
        writer.write(f"data/{number}", raw)
    writer.write("version", b"3\n")
    writer.close()


class _StorageName(NamedTuple):
    """A storage where a pickle refers to it."""

    kind: Name
    key: str
    location: str
    elements: int


class _Storages:
    """The storages of a file, each once."""

    def __init__(self) -> None:
        self.contents: list[np.ndarray[Any, Any]] = []
        self._numbers: dict[tuple[int, int, str], int] = {}

    def name(self, storage: Storage, tensor: TensorInStorage) -> _StorageName:
        """How a pickle refers to a storage."""
        raw = storage.raw
        place = (raw.__array_interface__["data"][0], raw.nbytes, tensor.dtype.name)
        number = self._numbers.get(place) if raw.nbytes else None
        if number is None:
            number = len(self.contents)
            self.contents.append(raw)  # which keeps its memory from being used for another
            self._numbers[place] = number
        kind = _KIND_NAMES.get(tensor.dtype.name)
        if kind is None:
            return _StorageName(Name("torch.storage", "UntypedStorage"), str(number), storage.location, raw.nbytes)
        count = raw.nbytes // tensor.dtype.stored.itemsize
        return _StorageName(Name("torch", kind), str(number), storage.location, count)


class _ParameterData(NamedTuple):
    """The tensor that a parameter holds."""

    tensor: TensorInStorage


class _Pickler(pickle._Pickler):
    """Python's pickler, written in Python: the one in C would import the names of PyTorch."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)

    def __init__(self, file: Any, storages: _Storages, describe: Describe, reduce: Reduce | None) -> None:
        super().__init__(file, PROTOCOL)
        self._storages, self._describe, self._reduce = storages, describe, reduce

    def persistent_id(self, obj: Any) -> Any:
        """What stands for a storage."""
        return ("storage", *obj) if type(obj) is _StorageName else None

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Write a value; one that `reduce` gives a `Name` for is that name."""
        if self._reduce is not None and (type(obj) is FunctionType or type(obj) not in self.dispatch):
            named = self._reduce(obj)
            obj = named if type(named) is Name else obj
        super().save(obj, save_persistent_id)  # type: ignore[misc]

    def reducer_override(self, obj: Any) -> Any:
        """How a tensor is pickled, or what the writer's own `reduce` knows."""
        if type(obj) is _ParameterData:
            return self._reduced(obj.tensor)
        tensor = self._describe(obj)
        if tensor is None:
            return NotImplemented if self._reduce is None else self._reduce(obj)
        if not tensor.is_parameter:
            return self._reduced(tensor)
        plain = _ParameterData(tensor._replace(requires_grad=False))
        return Name("torch._utils", "_rebuild_parameter"), (plain, tensor.requires_grad, OrderedDict())

    def _reduced(self, tensor: TensorInStorage) -> Any:
        storage = self._storages.name(tensor.storage, tensor)
        arguments: tuple[Any, ...] = (
            storage, tensor.offset, tensor.shape, tensor.strides, tensor.requires_grad, OrderedDict(),
        )  # fmt: skip
        if tensor.dtype.name in _KIND_NAMES:
            return Name("torch._utils", "_rebuild_tensor_v2"), arguments
        return Name("torch._utils", "_rebuild_tensor_v3"), (*arguments, Name("torch", tensor.dtype.name))

    def save_name(self, obj: Name) -> None:
        """Write a name."""
        self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    dispatch[Name] = save_name
