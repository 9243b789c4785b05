"""`save` and `load`: nested containers of tensors in one safetensors file, with no code in it.

A file holds the tensors by their path ("layers.0.weight"), so that other programs can read it, and in its metadata the
structure as JSON and checksums of it and of each tensor. It is written beside its place and moved there when it is
complete: a crash leaves the old file as it was. Pickle is neither written nor read. Loading needs the extra `files`
(safetensors).
"""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from wengert.api.creation import tensor
from wengert.core.dtypes import complex128
from wengert.core.errors import ArgumentError, DTypeError, FileError
from wengert.tensor import Tensor

VERSION = 1
_RESERVED = "__metadata__"  # safetensors' own entry


# --- saving ---------------------------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Write a nested container (dicts, lists, tuples) of tensors, arrays, numbers, strings and None to a file.

    A tensor that stands in several places is stored once, and is one tensor again after `load`.

    >>> import tempfile, wengert as wg
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> wg.save(path, {"weight": wg.tensor([1.0, 2.0]), "epoch": 3})
    >>> wg.load(path)["epoch"], wg.load(path)["weight"].tolist()
    (3, [1.0, 2.0])
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"save: the path comes first: write wg.save(path, tree), not {type(path).__name__} first")
    writer = _Writer()
    structure = writer.describe(tree, ())
    described = json.dumps(structure)
    checksums = json.dumps({name: _checksum(array) for name, array in writer.arrays.items()})
    metadata = {
        "format": "wengert",
        "version": str(VERSION),
        "structure": described,
        "checksums": checksums,
        "checksum": _checksum_of_description(described, checksums),
    }
    _write(Path(path), writer.arrays, metadata)


class _Writer:
    """Takes a container apart into arrays by name and a description that JSON can hold."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.names: dict[int, str] = {}  # of tensors met before, by identity

    def describe(self, value: Any, path: tuple[Any, ...]) -> Any:
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if type(value) is complex:
            return {"complex": [str(value.real), str(value.imag)]}
        if isinstance(value, (Tensor, np.ndarray, np.generic)):
            return {"complex tensor" if value.dtype == complex128 else "tensor": self._store(value, path)}
        if isinstance(value, dict):
            items = [[self._key(key, path), self.describe(item, (*path, key))] for key, item in value.items()]
            return {"dict": items}
        if type(value) in (list, tuple):
            return {type(value).__name__: [self.describe(item, (*path, i)) for i, item in enumerate(value)]}
        raise ArgumentError(
            f"save: {_where(path)} is a {type(value).__name__}; a file holds dicts, lists, tuples, tensors, numbers, "
            "strings and None. Save what it is made of instead (a dataclass: dataclasses.asdict(x))"
        )

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        if type(key) not in (str, int):
            raise ArgumentError(f"save: {_where(path)} has the key {key!r}; keys are strings or integers")
        return key

    def _store(self, value: Any, path: tuple[Any, ...]) -> str:
        if id(value) not in self.names:
            name = ".".join(map(str, path)) or "tensor"
            while name in self.arrays or name == _RESERVED:
                name += "_"
            self.names[id(value)] = name
            self.arrays[name] = _storable(
                np.asarray(value.detach().numpy() if isinstance(value, Tensor) else value), path
            )
        return self.names[id(value)]


def _storable(array: np.ndarray[Any, Any], path: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """The array as safetensors takes it: in one piece and little-endian; complex128, which it lacks, as pairs."""
    try:
        array = tensor(array, copy=False).numpy()
    except DTypeError as error:
        raise DTypeError(f"save: {_where(path)}: {error.message}") from None
    if array.dtype == complex128:
        array = np.stack([array.real, array.imag], axis=-1)
    return array if array.flags.c_contiguous else array.copy(order="C")


def _where(path: tuple[Any, ...]) -> str:
    return f"the value at {'.'.join(map(str, path))!r}" if path else "the value"


def _bytes_of(array: np.ndarray[Any, Any]) -> Any:
    return array.reshape(-1).view(np.uint8) if array.size else b""


def _checksum(array: np.ndarray[Any, Any]) -> int:
    """Of an array's dtype, shape and bytes."""
    return zlib.crc32(_bytes_of(array), zlib.crc32(f"{array.dtype}{array.shape}".encode()))


def _checksum_of_description(structure: str, checksums: str) -> str:
    return str(zlib.crc32(f"{structure}\n{checksums}".encode()))


_NAMES_IN_FILES = {
    "bool": "BOOL",
    "bfloat16": "BF16",
    "complex64": "C64",
    **{f"{kind}{bits}": f"{kind[0].upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
}
"""What safetensors calls the dtypes."""


def _header(arrays: dict[str, np.ndarray[Any, Any]], metadata: dict[str, str]) -> bytes:
    """The start of a safetensors file: the length of its description, and that as JSON."""
    entries: dict[str, Any] = {_RESERVED: metadata}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        entries[name] = {
            "dtype": _NAMES_IN_FILES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": [start, end],
        }
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _write(path: Path, arrays: dict[str, np.ndarray[Any, Any]], metadata: dict[str, str]) -> None:
    """Write to a temporary file in the same folder, make sure it is on the disk, and move it to its place."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: there is no folder {str(path.parent)!r}")
    if path.is_dir():
        raise IsADirectoryError(f"save: {str(path)!r} is a folder")
    aligned = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(_header(aligned, metadata))
            for array in aligned.values():
                file.write(_bytes_of(array))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, f"save: {str(path)!r} could not be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        _flush_to_disk(path.parent)  # the move itself


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _library() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError("loading needs safetensors: pip install 'wengert[files]'") from None
    return safetensors


# --- loading --------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Any:
    """What `save` wrote to a file. A safetensors file of another program is a dict of its tensors by name."""
    path = Path(path)
    safetensors = _library()
    _require_whole(path)
    try:
        with safetensors.safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except safetensors.SafetensorError as error:
        raise FileError(f"load: {str(path)!r} is damaged: {error}") from error
    if metadata.get("format") != "wengert":
        return {name: tensor(array, copy=False) for name, array in arrays.items()}
    return _restored(path, metadata, arrays)


def _restored(path: Path, metadata: dict[str, str], arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    version = metadata.get("version")
    if version != str(VERSION):
        raise FileError(f"load: {str(path)!r} has format version {version}; this Wengert reads version {VERSION}")
    try:
        checksums = json.loads(metadata["checksums"])
        changed = [name for name, array in arrays.items() if _checksum(array) != checksums[name]]
        value = _rebuilt(json.loads(metadata["structure"]), arrays, {})
        is_as_saved = metadata["checksum"] == _checksum_of_description(metadata["structure"], metadata["checksums"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FileError(f"load: {str(path)!r} was altered: its description does not fit its tensors: {error}") from None
    if changed:
        raise FileError(f"load: {str(path)!r} was altered: the tensor {changed[0]!r} is not what was saved")
    if not is_as_saved:
        raise FileError(f"load: {str(path)!r} was altered: its description is not what was saved")
    return value


def _rebuilt(part: Any, arrays: dict[str, np.ndarray[Any, Any]], made: dict[str, Tensor]) -> Any:
    """The value that a description stands for; `made` are the tensors there are already, by name."""
    if not isinstance(part, dict):
        return part
    ((kind, content),) = part.items()
    if kind in ("tensor", "complex tensor"):
        if content not in made:
            array = arrays[content]
            made[content] = tensor(array if kind == "tensor" else array.view(complex128)[..., 0], copy=False)
        return made[content]
    if kind == "dict":
        return {key: _rebuilt(item, arrays, made) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_rebuilt(item, arrays, made) for item in content]
        return items if kind == "list" else tuple(items)
    return float(content) if kind == "float" else complex(*map(float, content))


def _require_whole(path: Path) -> None:
    """Raise, and say what the file is instead, unless it looks like a complete safetensors file."""
    with path.open("rb") as file:
        start = file.read(8)
        size = file.seek(0, os.SEEK_END)
        _refuse_other_formats(path, start)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        file.seek(8)
        if file.read(1) != b"{":
            what = "empty" if not size else "not a safetensors file" if size > 8 else "truncated"
            raise FileError(f"load: {str(path)!r} is {what}")
        file.seek(8)
        header = file.read(min(length, size))
    if len(header) < length:
        raise FileError(
            f"load: {str(path)!r} is truncated: its header of {length} bytes breaks off after {len(header)}"
        )
    try:
        entries = {k: v for k, v in json.loads(header).items() if k != _RESERVED}
        expected = 8 + length + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise FileError(f"load: {str(path)!r} was altered: its header cannot be read") from None
    if size != expected:
        what = "is truncated" if size < expected else "was altered"
        raise FileError(f"load: {str(path)!r} {what}: it has {size} bytes where its header tells of {expected}")


def _refuse_other_formats(path: Path, start: bytes) -> None:
    if path.suffix == ".npz" or start.startswith(b"\x93NUMPY"):
        raise FileError(f"load: {str(path)!r} is a NumPy file; read it with np.load and pass the arrays to wg.tensor")
    if start.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        name = path.with_suffix(".safetensors").name
        raise FileError(
            f"load: {str(path)!r} is a PyTorch file or a pickle, which may run any code when it is read. Where PyTorch "
            f"is, convert it: safetensors.torch.save_file(torch.load({path.name!r}, weights_only=True), {name!r})"
        )
