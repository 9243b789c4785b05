"""A tensor in a PyTorch file: a storage, which is a run of bytes, and the tensor's layout in it.

Several tensors may lie in one storage: weights that are tied, and views. What a tensor is made of it, `make` decides:
a function of a `TensorInStorage`.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from wengert.api.safetensors_format import MOST_DIMENSIONS, elements
from wengert.core import dtypes
from wengert.core.devices import CUDA, HOST
from wengert.core.errors import FileError

Array = np.ndarray[Any, Any]


class ArchiveError(FileError, RuntimeError):
    """A file that is corrupt, truncated, or not a PyTorch file. It is a RuntimeError, which is what PyTorch raises."""


class RefusedError(FileError, pickle.UnpicklingError):
    """A PyTorch file with content that is refused: it might run code, or Wengert has no equivalent."""


class Problem(Exception):
    """What is wrong with a file; the caller, which knows the file's name, turns it into an error."""


class Refusal(Problem):
    """Content of a file that is refused."""


def shown(value: Any) -> str:
    """A file's content for a message: short, and without descending into containers, which may be recursive."""
    if isinstance(value, (str, bytes)):
        return repr(value[:60])
    is_small = value is None or isinstance(value, (bool, float)) or (type(value) is int and abs(value) < 1 << 64)
    return repr(value) if is_small else f"a {type(value).__name__}"


KINDS: dict[str, np.dtype[Any]] = {
    "DoubleStorage": dtypes.float64,
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool_,
    "ComplexDoubleStorage": dtypes.complex128,
    "ComplexFloatStorage": dtypes.complex64,
}
"""The storages of PyTorch that have a dtype, by their names."""

_HALF_PAIR = np.dtype([("real", np.float16), ("imag", np.float16)])
WIDENED: dict[str, tuple[np.dtype[Any], np.dtype[Any]]] = {
    "float8_e4m3fn": (np.dtype(ml_dtypes.float8_e4m3fn), dtypes.float16),
    "float8_e5m2": (np.dtype(ml_dtypes.float8_e5m2), dtypes.float16),
    "float8_e4m3fnuz": (np.dtype(ml_dtypes.float8_e4m3fnuz), dtypes.float16),
    "float8_e5m2fnuz": (np.dtype(ml_dtypes.float8_e5m2fnuz), dtypes.float16),
    "float8_e8m0fnu": (np.dtype(ml_dtypes.float8_e8m0fnu), dtypes.float32),
    "complex32": (_HALF_PAIR, dtypes.complex64),
}
"""Dtypes of PyTorch that tensors here do not have, and the dtype that each is read as, which holds all its values."""


class TorchDType(NamedTuple):
    """A dtype of PyTorch by its name: how its elements lie in a file, and as what they are read."""

    name: str
    stored: np.dtype[Any]
    read: np.dtype[Any]


DTYPES = {dtype.name: TorchDType(dtype.name, dtype, dtype) for dtype in dtypes.ALL} | {
    name: TorchDType(name, *both) for name, both in WIDENED.items()
}
ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}


class Storage:
    """A run of bytes in a file. `location` is the device to load it onto: what `map_location` made of the file's
    own."""

    def __init__(self, key: str, raw: Array, dtype: TorchDType | None, location: str, swapped: bool = False) -> None:
        self.key, self.raw, self.dtype, self.location = key, raw, dtype, location
        self._swapped = swapped  # in the other byte order than this machine's
        self._typed: dict[str, Array] = {}

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self.raw.size)

    def cpu(self) -> Storage:
        """The same storage on the host, for a `map_location` that is a function."""
        return self._at(HOST)

    def cuda(self, device: Any = None) -> Storage:
        """The same storage on a GPU, for a `map_location` that is a function: `lambda storage, location:
        storage.cuda(1)`."""
        return self._at(f"{CUDA}:{device}" if isinstance(device, int) else str(device or CUDA))

    def _at(self, location: str) -> Storage:
        return Storage(self.key, self.raw, self.dtype, location, self._swapped)

    def typed(self, dtype: TorchDType) -> Array:
        """All of it as elements of a dtype; the same array each time, so that what is shared stays shared."""
        if dtype.name not in self._typed:
            self._typed[dtype.name] = self._read_as(dtype)
        return self._typed[dtype.name]

    def _read_as(self, dtype: TorchDType) -> Array:
        size = dtype.stored.itemsize
        raw = self.raw[: self.raw.size // size * size]
        if self._swapped:
            part = size // 2 if dtype.stored.kind in "cV" else size
            raw = raw.reshape(-1, part)[:, ::-1].reshape(-1)
        if dtype.stored == dtype.read:
            return elements(raw, dtype.read)
        if dtype.stored == _HALF_PAIR:
            return raw.view(np.float16).astype(np.float32).view(np.complex64)
        return raw.view(dtype.stored).astype(dtype.read)


class TensorInStorage(NamedTuple):
    """A tensor as the file describes it: a view of a storage, with an offset and strides in elements."""

    storage: Storage
    dtype: TorchDType
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool = False
    is_parameter: bool = False
    is_conjugated: bool = False
    is_negated: bool = False

    def check(self) -> None:
        """Raise an error unless the tensor lies within its storage."""
        numbers = (self.offset, *self.shape, *self.strides)
        if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
            raise Problem("a tensor's shape, strides or offset are not valid sizes")
        if len(self.shape) != len(self.strides) or len(self.shape) > MOST_DIMENSIONS:
            raise Problem(f"a tensor has {len(self.shape)} sizes and {len(self.strides)} strides")
        count = self.storage.nbytes // self.dtype.stored.itemsize
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
        if 0 not in self.shape and last >= count:
            raise Problem(
                f"a tensor of shape {list(self.shape)} and strides {list(self.strides)} from element {self.offset} "
                f"extends beyond the {count} elements of its storage {self.storage.key!r}"
            )

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_whole(self) -> bool:
        """Whether its elements are contiguous."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != expected:
                return not self.size
            expected *= size
        return True

    def array(self) -> Array:
        """Its elements, as a view of the storage where that is possible."""
        flat = self.storage.typed(self.dtype)
        if not self.size:
            return np.empty(self.shape, self.dtype.read)
        if self.is_whole:
            found = flat[self.offset : self.offset + self.size].reshape(self.shape)
        else:
            strides = [stride * flat.itemsize for stride in self.strides]
            found = np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides)
        found = np.conj(found) if self.is_conjugated else found
        return np.negative(found) if self.is_negated else found


MapLocation = str | Mapping[str, str] | Callable[[Storage, str], Any] | None


def located(storage: Storage, map_location: Any) -> str:
    """The device for a storage, given a `map_location` as in PyTorch: a device, a dict of devices, or a function."""
    location = storage.location
    if map_location is None:
        return location
    if isinstance(map_location, Mapping):
        return str(map_location.get(location, location))
    if callable(map_location) and not isinstance(map_location, str):
        found = map_location(storage, location)
        if found is None:
            return location
        return found.location if isinstance(found, Storage) and found is not storage else _device(found, storage)
    return str(map_location)


def host_moves_to(map_location: MapLocation) -> str:
    """The device for storages that the file has on the host."""
    return located(Storage("", np.empty(0, np.uint8), None, HOST), map_location)


def _device(found: Any, storage: Storage) -> str:
    return HOST if found is storage else str(found)
