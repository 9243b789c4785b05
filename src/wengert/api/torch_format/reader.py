"""Reading PyTorch's files: the current zip archives, and the older format that begins with a magic number.

In: a path or an open file, and what is to be made of tensors. Out: what was saved. Without `weights_only=False`
nothing in a file is run; `unpickler` and `names` see to that. With it, Python's own pickle does what the file says.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from wengert.api.torch_format.archive import Archive, size_of
from wengert.api.torch_format.names import Make, MakeParameter, StorageKind, finder, table
from wengert.api.torch_format.storages import (
    ArchiveError,
    MapLocation,
    Problem,
    Refusal,
    RefusedError,
    Storage,
    located,
    shown,
)
from wengert.api.torch_format.unpickler import Find, PickledClass, PickledFunction, PickleMachine, Scanner
from wengert.core.errors import OutOfMemoryError, WengertError

MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
"""How the older form begins: the pickles of a magic number and of its version, 1001."""

ZIP = b"PK\x03\x04"
_ADVICE = (
    "wengert.torch.load(path, weights_only=False) reads it, for a file that you trust as you would trust a program; "
    "a state_dict() saved by torch.save can be read without it"
)


class Reading(NamedTuple):
    """How to read a file: what to make of it, which device to load onto, and whether it may run code."""

    make: Make
    make_parameter: MakeParameter
    map_location: MapLocation
    weights_only: bool
    names: Mapping[str, Any]
    find: Callable[[str, str], Any] | None
    pickle_options: Mapping[str, Any]


def is_torch_file(start: bytes) -> bool:
    """Whether a file that begins with these bytes may be a PyTorch file."""
    is_zip = start.startswith(ZIP) and start[8:9] != b"{"  # four bytes that a length of JSON may begin with, too
    return is_zip or (len(start) >= 13 and MAGIC.startswith(start[: len(MAGIC)]))


def read(
    file: str | os.PathLike[str] | BinaryIO,
    *,
    make: Make,
    make_parameter: MakeParameter,
    map_location: MapLocation = None,
    weights_only: bool = True,
    names: Mapping[str, Any] | None = None,
    find: Callable[[str, str], Any] | None = None,
    pickle_options: Mapping[str, Any] | None = None,
) -> Any:
    """Read what `torch.save` wrote.

    `make` makes a tensor of a `TensorInStorage`, `make_parameter` a parameter of a tensor and whether it requires grad.
    `names` are further names that a file may use, or other meanings of known ones: functions, which are called with
    whatever the file says, or values. With `weights_only=False` anything is unpickled by Python's pickle, and `find`
    gives what stands for a module's name of PyTorch, or None.
    """
    reading = Reading(make, make_parameter, map_location, weights_only, names or {}, find, dict(pickle_options or {}))
    path = None if hasattr(file, "read") else Path(cast(Any, file))
    name = "the file" if path is None else repr(str(path))
    with nullcontext(cast(BinaryIO, file)) if path is None else path.open("rb") as opened:
        try:
            return _read(opened, reading)
        except Refusal as refusal:
            raise RefusedError(f"load: refused to read {name}: {refusal}. {_ADVICE}") from None
        except Problem as problem:
            raise ArchiveError(f"load: {name} is corrupt or not a PyTorch file: {problem}") from None
        except MemoryError as error:
            if isinstance(error, WengertError):
                raise
            raise OutOfMemoryError(f"load: there is no memory for {name}") from None


def _read(file: BinaryIO, reading: Reading) -> Any:
    begin = file.tell()
    start = file.read(len(MAGIC))
    file.seek(begin)
    if start.startswith(ZIP):
        return _read_archive(file, reading)
    if start == MAGIC:
        return _read_old(file, begin, reading)
    if start[:1] == b"\x80":
        raise Refusal("it is a pickle, but torch.save did not write it")
    if not start:
        raise Problem("it is empty")
    raise Problem("it begins with neither a zip archive's bytes nor PyTorch's magic number")


# --- archives -------------------------------------------------------------------------------------------------------


def _read_archive(file: BinaryIO, reading: Reading) -> Any:
    archive = Archive(file)
    if archive.is_script:
        raise Refusal("it is a compiled program (TorchScript), not tensors")
    order = archive.text("byteorder") if "byteorder" in archive else "little"
    if order not in ("little", "big"):
        raise Problem(f"its byte order is {order!r}")
    storages: dict[str, Storage] = {}

    def storage(described: Any) -> Any:
        _, kind, key, location, count = _described(described, 5)
        if key not in storages:
            raw = archive.read(f"data/{key}", count * _itemsize(kind))
            storages[key] = _located(Storage(key, raw, kind.dtype, location, order != sys.byteorder), reading)
        return _as_kind(storages[key], kind)

    return _unpickled(archive.read("data.pkl").tobytes(), 0, reading, storage)[0]


def _described(described: Any, length: int) -> tuple[Any, ...]:
    """The description of a storage, checked."""
    if type(described) is not tuple or len(described) != length:
        raise Problem("the description of a storage is malformed")
    kind, key, location, count = described[1:5]
    key, location = (part.decode() if type(part) is bytes else part for part in (key, location))
    if described[0] not in ("storage", b"storage") or not isinstance(kind, StorageKind):
        raise Refusal(f"it has {shown(described[0])} in place of a storage")
    if type(key) is not str or type(location) is not str or type(count) is not int or not 0 <= count < 1 << 60:
        raise Problem("the description of a storage is malformed")
    return ("storage", kind, key, location, count, *described[5:])


def _itemsize(kind: StorageKind) -> int:
    return 1 if kind.dtype is None else kind.dtype.stored.itemsize


def _located(storage: Storage, reading: Reading) -> Storage:
    storage.location = located(storage, reading.map_location)
    return storage


def _as_kind(storage: Storage, kind: StorageKind) -> Storage:
    """A storage as this kind; what was read is the same."""
    if storage.dtype == kind.dtype:
        return storage
    raise Problem(f"the storage {storage.key!r} has two different dtypes")


def _unpickled(content: bytes, place: int, reading: Reading, storage: Callable[[Any], Any]) -> tuple[Any, int]:
    """The value of the pickle at a place, and where it ends."""
    known = table(reading.make, reading.make_parameter)
    known |= {name: _callable(name, value) for name, value in reading.names.items()}
    if reading.weights_only:
        machine = PickleMachine(content, finder(known), storage, place)
        return machine.load(), machine.place
    stream = io.BytesIO(content)
    stream.seek(place)
    value = _Pickle(stream, known, reading, storage).load()
    return value, stream.tell()


def _callable(name: str, value: Any) -> Any:
    if isinstance(value, type):
        return PickledClass(name, value)
    return PickledFunction(name, value) if callable(value) else value


class _Pickle(pickle.Unpickler):
    """Python's pickle, which runs what a file says, with our storages and tensors in place of PyTorch's."""

    def __init__(self, file: Any, known: Mapping[str, Any], reading: Reading, storage: Callable[[Any], Any]) -> None:
        super().__init__(file, **reading.pickle_options)
        self._known, self._own, self._find, self._storage = known, reading.names, reading.find, storage

    def find_class(self, module: str, name: str, /) -> Any:
        """What stands for a name; what begins with torch is never imported."""
        is_torch = module.split(".")[0] == "torch"
        if not is_torch and f"{module}.{name}" not in self._own:
            return super().find_class(module, name)
        found = None if self._find is None or not is_torch else self._find(module, name)
        found = finder(self._known)(module, name) if found is None else found
        return found.function if isinstance(found, PickledFunction) else found

    def persistent_load(self, described: Any, /) -> Any:
        """A storage, or the class of a module, which an old file has with its source."""
        if type(described) is tuple and described and described[0] == "module":
            return described[1]
        return self._storage(described)


# --- the older form -------------------------------------------------------------------------------------------------


def _read_old(file: BinaryIO, begin: int, reading: Reading) -> Any:
    """The older form: pickles of what machine wrote it, of the value, of the storages' keys; then the storages.

    The value's pickle comes before the bytes that it refers to, so it is read twice: for its storages alone, by a
    machine that makes nothing, and again when these are there.
    """
    size = size_of(file)
    file.seek(begin)
    content = file.read(size - begin)
    machine = PickleMachine(content, finder({}), lambda described: None, len(MAGIC))
    system = machine.load()
    order = "little" if not isinstance(system, dict) or system.get("little_endian", True) else "big"
    start = machine.place
    kinds: dict[str, tuple[StorageKind, str, int]] = {}
    scan = Scanner(content, _scanning(reading), _noting(kinds), start)
    scan.load()
    keys = PickleMachine(content, finder({}), lambda described: None, scan.place)
    names = keys.load()
    is_list = type(names) is list and all(type(name) in (str, int) for name in names)
    if not is_list or set(map(str, names)) != set(kinds):
        raise Problem("its list of storages does not match its tensors")
    storages = _old_storages(content, keys.place, [str(name) for name in names], kinds, order, reading)

    def storage(described: Any) -> Any:
        _, kind, key, _, _, view = _described(described, 6)
        if view is not None:
            raise Refusal("it has a storage that is a part of another, as PyTorch wrote before 0.4")
        return _as_kind(storages[key], kind)

    return _unpickled(content, start, reading, storage)[0]


def _scanning(reading: Reading) -> Find:
    """Names while storages are looked for: those of storages; what is refused is refused now, unless all is read."""
    known = table(lambda stored: None, lambda data, grad: None)
    strict = finder(known | {name: _callable(name, value) for name, value in reading.names.items()})

    def find(module: str, name: str) -> Any:
        if isinstance(known.get(f"{module}.{name}"), StorageKind):
            return known[f"{module}.{name}"]
        if reading.weights_only:
            strict(module, name)
        return None

    return find


def _noting(kinds: dict[str, tuple[StorageKind, str, int]]) -> Callable[[Any], Any]:
    def note(described: Any) -> Any:
        if type(described) is tuple and described and described[0] == "module":
            return None
        _, kind, key, location, count, _ = _described(described, 6)
        if kinds.setdefault(key, (kind, location, count)) != (kind, location, count):
            raise Problem(f"the storage {key!r} is described in two ways")
        return None

    return note


def _old_storages(
    content: bytes,
    place: int,
    names: list[str],
    kinds: dict[str, tuple[StorageKind, str, int]],
    order: str,
    reading: Reading,
) -> dict[str, Storage]:
    storages = {}
    for name in names:
        kind, location, count = kinds[name]
        if content[place : place + 8] != struct.pack("<q" if order == "little" else ">q", count):
            raise Problem(f"the storage {name!r} is missing, or its size does not match its tensors")
        end = place + 8 + count * _itemsize(kind)
        if end > len(content):
            raise Problem(f"the storage {name!r} is truncated")
        raw = np.frombuffer(content, np.uint8, end - place - 8, place + 8).copy()
        storages[name] = _located(Storage(name, raw, kind.dtype, location, order != sys.byteorder), reading)
        place = end
    if place != len(content):
        raise Problem("there is extra data after the last storage")
    return storages
