"""`save` and `load`: nested containers of tensors in one safetensors file, with no code in it.

The suffixes `.pt` and `.pth` ask for PyTorch's format instead, which `torch_format` reads and writes; nothing in such a
file is run. Models in several files with an index are read by `indexed_files`.

A file holds the tensors by their path ("layers.0.weight"), so that other programs can read it, and in its metadata the
structure as JSON and checksums of it and of each tensor. It is written beside its place and moved there when it is
complete: a crash leaves the old file as it was. How arrays lie in a file is the
neighbour `safetensors_format`'s concern, what a folder that several ranks wrote holds is `sharded_files`'s.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wengert.api import safetensors_format, sharded_files, torch_format
from wengert.api.creation import tensor
from wengert.api.indexed_files import ModelFiles, parts_of
from wengert.api.safetensors_format import Arrays, bytes_of
from wengert.core import communication
from wengert.core.devices import HOST
from wengert.core.dtypes import complex128
from wengert.core.errors import ArgumentError, DTypeError, FileError
from wengert.tensor import Tensor

VERSION = 1
DEEPEST = 100  # containers in one another; far from what Python's stack and JSON readers can take
_LONGEST_DECIMAL = 2000  # bits of an integer that any setting of Python lets be written in decimal
TORCH_SUFFIXES = (".pt", ".pth")
_OUR_METADATA = ("structure", "checksums", "checksum")


def path_of(path: Any, caller: str) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        hint = ": the path comes first: write wg.save(path, tree)" if caller == "save" else ": the path is a string or"
        other = f", not {type(path).__name__} first" if caller == "save" else f" a Path, not {type(path).__name__}"
        raise ArgumentError(f"{caller}{hint}{other}")
    try:
        if b"\0" in os.fsencode(path):
            raise ValueError("it has a zero byte in it")
        return Path(path)
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"{caller}: {path!r} is not a path: {error}") from None


# --- saving ---------------------------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Write a nested container (dicts, lists, tuples) of tensors, arrays, numbers, strings and None to a file.

    A tensor that stands in several places is stored once, and is one tensor again after `load`. A path that ends in
    `.pt` or `.pth` gets PyTorch's format, which `torch.load` reads; any other safetensors.

    >>> import tempfile, wengert as wg
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> wg.save(path, {"weight": wg.tensor([1.0, 2.0]), "epoch": 3})
    >>> wg.load(path)["epoch"], wg.load(path)["weight"].tolist()
    (3, [1.0, 2.0])
    """
    file = path_of(path, "save")
    structure, values = described(tree)
    if file.suffix in TORCH_SUFFIXES:
        with communication.during("saving"):
            torch_format.write(file, _plain(tree), describe=_described_for_torch)
        return
    arrays = {name: storable(_on_host(found.value), found.path) for name, found in values.items()}
    write_described(file, arrays, json.dumps(structure))


def _plain(tree: Any) -> Any:
    """A tree in dicts, lists and tuples of Python's own classes."""
    if isinstance(tree, dict):
        return {key: _plain(item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(_plain, tree))
    return tree


def _described_for_torch(value: Any) -> torch_format.TensorInStorage | None:
    is_array = isinstance(value, (np.ndarray, np.generic))
    return torch_format.described(tensor(value, copy=False) if is_array else value)


class NamedValue(NamedTuple):
    """A tensor or an array of a container, and the keys that lead to it."""

    value: Any
    path: tuple[Any, ...]


def described(tree: Any) -> tuple[Any, dict[str, NamedValue]]:
    """A container as a description that JSON can hold, and its tensors and arrays by the names it gives them."""
    writer = _Writer()
    try:
        structure = writer.describe(tree, ())
        json.dumps(structure)
    except RecursionError:
        raise ArgumentError("save: there is not enough stack left for a value so deep in containers") from None
    return structure, writer.values


def _on_host(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value.detach().numpy() if isinstance(value, Tensor) else value)


def write_described(path: Path, arrays: Arrays, described: str) -> None:
    """Write arrays and the description of what they make up, with checksums of both."""
    checksums = json.dumps({name: _checksum(array) for name, array in arrays.items()})
    metadata = {
        "format": "wengert",
        "version": str(VERSION),
        "structure": described,
        "checksums": checksums,
        "checksum": _checksum_of_description(described, checksums),
    }
    with communication.during("saving"):
        safetensors_format.write(path, arrays, metadata)


class _Writer:
    """Takes a container apart into tensors by name and a description that JSON can hold."""

    def __init__(self) -> None:
        self.values: dict[str, NamedValue] = {}
        self.names: dict[int, str] = {}  # of tensors met before, by identity
        self.within: set[int] = set()  # the containers being described, by identity

    def describe(self, value: Any, path: tuple[Any, ...]) -> Any:
        if value is None or isinstance(value, (bool, str)):
            return value
        if type(value) is int:
            return _described_integer(value)
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if type(value) is complex:
            return {"complex": [str(value.real), str(value.imag)]}
        if isinstance(value, (Tensor, np.ndarray, np.generic)):
            return {"complex tensor" if value.dtype == complex128 else "tensor": self._store(value, path)}
        if isinstance(value, dict) or type(value) in (list, tuple):
            return self._describe_container(value, path)
        raise ArgumentError(
            f"save: {_where(path)} is a {type(value).__name__}; a file holds dicts, lists, tuples, tensors, numbers, "
            "strings and None. Save what it is made of instead (a dataclass: dataclasses.asdict(x))"
        )

    def _describe_container(self, value: Any, path: tuple[Any, ...]) -> dict[str, Any]:
        if id(value) in self.within:
            raise ArgumentError(f"save: {_where(path)} is a container that it is itself in")
        if len(path) >= DEEPEST:
            raise ArgumentError(f"save: containers are nested more than {DEEPEST} deep, at {_where(path[:5])}")
        self.within.add(id(value))
        if isinstance(value, dict):
            items = [[self._key(key, path), self.describe(item, (*path, key))] for key, item in value.items()]
            described = {"dict": items}
        else:
            described = {type(value).__name__: [self.describe(item, (*path, i)) for i, item in enumerate(value)]}
        self.within.remove(id(value))
        return described

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        if type(key) not in (str, int):
            raise ArgumentError(f"save: {_where(path)} has the key {key!r}; keys are strings or integers")
        return key if type(key) is str else _described_integer(key)

    def _store(self, value: Any, path: tuple[Any, ...]) -> str:
        if id(value) not in self.names:
            name = _joined(path).encode("utf-8", "backslashreplace").decode() or "tensor"  # half a surrogate is no text
            while name in self.values or name == safetensors_format.RESERVED:
                name += "_"
            self.names[id(value)] = name
            self.values[name] = NamedValue(value, path)
        return self.names[id(value)]


def _described_integer(value: int) -> Any:
    return value if value.bit_length() <= _LONGEST_DECIMAL else {"int": hex(value)}


def storable(array: np.ndarray[Any, Any], path: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """The array as safetensors takes it: in one piece and little-endian; complex128, which it lacks, as pairs."""
    try:
        array = tensor(array, copy=False).numpy()
    except DTypeError as error:
        raise DTypeError(f"save: {_where(path)}: {error.message}") from None
    if array.dtype == complex128:
        array = np.stack([array.real, array.imag], axis=-1)
    return array if array.flags.c_contiguous else array.copy(order="C")


def _joined(path: tuple[Any, ...]) -> str:
    return ".".join(str(_described_integer(part)) if isinstance(part, int) else str(part) for part in path)


def _where(path: tuple[Any, ...]) -> str:
    return f"the value at {_joined(path)!r}" if path else "the value"


def _checksum(array: np.ndarray[Any, Any]) -> int:
    """Of an array's dtype, shape and bytes."""
    return zlib.crc32(bytes_of(array), zlib.crc32(f"{array.dtype}{array.shape}".encode()))


def _checksum_of_description(structure: str, checksums: str) -> str:
    return str(zlib.crc32(f"{structure}\n{checksums}".encode()))


# --- loading --------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], map_location: torch_format.MapLocation = None) -> Any:
    """What `save` wrote to a file. A safetensors file of another program is a dict of its tensors by name.

    Of a folder that `wg.distributed.save_checkpoint` wrote, on any number of ranks, it gives the whole tensors. Of a
    folder of Hugging Face, or of a `*.index.json` in it, it gives the tensors of all files by name.

    PyTorch's files (`.pt`, `.pth`) are read too, with nothing in them run: tensors, dicts, lists, numbers and text
    come back, and whatever else a file has is refused by its name. Tensors that share memory there do so here.

    Tensors are on the host, or where `map_location` says: a device, a dict of devices, or a function of a storage and
    its device, as PyTorch's.

    float8 and float4 tensors of other programs are read as float16 (F8_E8M0 as float32), which holds all their values.

    >>> import wengert as wg
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/weights.safetensors"
    >>> wg.save(path, {"w": wg.ones(2)})
    >>> wg.load(path)["w"].tolist()
    [1.0, 1.0]
    """
    file = path_of(path, "load")
    if sharded_files.is_checkpoint(file):
        manifest, wholes = sharded_files.read_whole(file)
        return _moved(rebuilt(manifest.structure, wholes, file), map_location)
    parts = parts_of(file)
    if parts is not None:
        return _joined_parts(parts, map_location)
    if _is_of_torch(file):
        maker = torch_format.TensorMaker(map_location is not None)
        return torch_format.read(file, make=maker.tensor, make_parameter=maker.parameter, map_location=map_location)
    arrays, metadata = safetensors_format.read(file)
    if sharded_files.SHARD in metadata:
        raise FileError(f"load: {str(file)!r} is the part of one rank; load the folder that it is in")
    if metadata.get("format") != "wengert" and not any(name in metadata for name in _OUR_METADATA):
        return _moved({name: tensor(array, copy=False) for name, array in arrays.items()}, map_location)
    return _moved(_restored(file, metadata, arrays), map_location)


def _is_of_torch(path: Path) -> bool:
    if path.suffix == ".npz" or not path.is_file():
        return False
    with path.open("rb") as file:
        return torch_format.is_torch_file(file.read(32))


def _joined_parts(parts: ModelFiles, map_location: Any) -> Any:
    """The tensors of all files of an index, in its order."""
    if parts.names is None:
        return load(parts.source, map_location)
    found: dict[str, Any] = {}
    for file, names in parts.files.items():
        content = load(file, map_location)
        missing = [name for name in names if not isinstance(content, dict) or name not in content]
        if missing:
            raise FileError(f"load: {str(file)!r} has no {missing[0]!r}, which {parts.source.name!r} says it has")
        found |= {name: content[name] for name in names}
    return {name: found[name] for name in parts.names}


def _moved(tree: Any, map_location: Any) -> Any:
    """A tree with its tensors, which are on the host, where a `map_location` says."""
    device = torch_format.host_moves_to(map_location)
    return tree if device == HOST else _on(tree, device, {})


def _on(tree: Any, device: str, made: dict[int, Tensor]) -> Any:
    if isinstance(tree, Tensor):
        if id(tree) not in made:
            made[id(tree)] = tensor(tree, device=device)
        return made[id(tree)]
    if isinstance(tree, dict):
        return {key: _on(item, device, made) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_on(item, device, made) for item in tree)
    return tree


def _restored(path: Path, metadata: dict[str, str], arrays: Arrays) -> Any:
    if metadata.get("format") != "wengert" or "version" not in metadata:
        raise FileError(f"load: {str(path)!r} was altered: its description has no format or no version")
    version = metadata["version"]
    if version != str(VERSION):
        raise FileError(f"load: {str(path)!r} has format version {version}; this Wengert reads version {VERSION}")
    try:
        checksums = json.loads(metadata["checksums"])
        changed = [name for name, array in arrays.items() if _checksum(array) != checksums[name]]
        value = _rebuilt(json.loads(metadata["structure"]), arrays, {})
        is_as_saved = metadata["checksum"] == _checksum_of_description(metadata["structure"], metadata["checksums"])
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        what = getattr(error, "message", str(error))  # of an error of ours without the caller's line
        raise FileError(f"load: {str(path)!r} was altered: its description does not fit its tensors: {what}") from None
    if changed:
        raise FileError(f"load: {str(path)!r} was altered: the tensor {changed[0]!r} is not what was saved")
    if not is_as_saved:
        raise FileError(f"load: {str(path)!r} was altered: its description is not what was saved")
    return value


def rebuilt(structure: Any, arrays: Mapping[str, Any], path: Path, made: dict[str, Tensor] | None = None) -> Any:
    """The container that a description of a checkpoint stands for; `made` are the tensors there are already."""
    try:
        return _rebuilt(structure, arrays, {} if made is None else made)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        what = getattr(error, "message", str(error))
        raise FileError(f"load: {str(path)!r} was altered: its description does not fit its tensors: {what}") from None


def _rebuilt(part: Any, arrays: Mapping[str, Any], made: dict[str, Tensor]) -> Any:
    """The value that a description stands for; `made` are the tensors there are already, by name."""
    if part is None or isinstance(part, (bool, int, float, str)):
        return part
    ((kind, content),) = part.items()
    if kind in ("tensor", "complex tensor"):
        if content not in made:
            array = arrays[content]
            made[content] = tensor(array if kind == "tensor" else array.view(complex128)[..., 0], copy=False)
        return made[content]
    if kind == "dict":
        return {_rebuilt_key(key): _rebuilt(item, arrays, made) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_rebuilt(item, arrays, made) for item in content]
        return items if kind == "list" else tuple(items)
    return _rebuilt_number(kind, content)


def _rebuilt_number(kind: str, content: Any) -> complex:
    if kind == "int":
        return int(content, 16)
    if kind == "float":
        return float(content)
    if kind == "complex":
        real, imaginary = content
        return complex(float(real), float(imaginary))
    raise ValueError(f"there is no {kind!r}")


def _rebuilt_key(key: Any) -> Any:
    key = _rebuilt(key, {}, {}) if isinstance(key, dict) else key
    if type(key) not in (str, int):
        raise TypeError(f"{key!r} is no key")
    return key
