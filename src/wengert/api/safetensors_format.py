"""The safetensors format: arrays by name in one file, with a description of each in JSON and text by name beside them.

A file is the length of its header (eight bytes, little-endian), the header, and the arrays' bytes without gaps. In and
out: NumPy arrays by name, and the metadata. Headers are checked before use, so that a corrupt file always gives a
`FileError`. The neighbour `files` keeps nested containers in such files.

float8 and float4, which tensors cannot have, are read as the smallest dtype that holds each of their values exactly:
float16, and float32 for F8_E8M0.
"""

from __future__ import annotations

import json
import math
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from wengert.core.dtypes import ALL, as_dtype, bool_, complex128, float16, float32, uint8
from wengert.core.errors import FileError, OutOfMemoryError
from wengert.core.file_locks import locked_new_file

Arrays = dict[str, np.ndarray[Any, Any]]
RESERVED = "__metadata__"
LONGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors library
MOST_DIMENSIONS = 64  # of a NumPy array


def _name_in_files(dtype: np.dtype[Any]) -> str:
    special = {"bool": "BOOL", "bfloat16": "BF16", "complex64": "C64"}
    return special.get(dtype.name) or f"{dtype.name[0].upper()}{8 * dtype.itemsize}"


NAMES = {dtype: _name_in_files(dtype) for dtype in ALL if dtype is not complex128}
"""What the format calls the dtypes."""
DTYPES = {name: dtype for dtype, name in NAMES.items()}
SMALL = {
    "F8_E4M3": (np.dtype(ml_dtypes.float8_e4m3fn), float16),
    "F8_E5M2": (np.dtype(ml_dtypes.float8_e5m2), float16),
    "F8_E4M3FNUZ": (np.dtype(ml_dtypes.float8_e4m3fnuz), float16),
    "F8_E5M2FNUZ": (np.dtype(ml_dtypes.float8_e5m2fnuz), float16),
    "F8_E8M0": (np.dtype(ml_dtypes.float8_e8m0fnu), float32),
    "F4": (np.dtype(ml_dtypes.float4_e2m1fn), float16),  # two in a byte, the first in the low bits
}
"""Dtypes of files that tensors do not have, and the dtype each is read as, which holds all of its values."""


# --- writing --------------------------------------------------------------------------------------------------------


def bytes_of(array: np.ndarray[Any, Any]) -> Any:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8) if array.size else b""


def write(path: Path, arrays: Arrays, metadata: dict[str, str]) -> None:
    """Write to a temporary file in the same folder, flush it to disk, and rename it to its final path."""
    aligned = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    with move_into_place(path) as file:
        file.write(_header(aligned, metadata))
        for array in aligned.values():
            file.write(bytes_of(array))


@contextmanager
def move_into_place(path: Path) -> Iterator[BinaryIO]:
    """A temporary file to write to. On success it is flushed to disk and renamed to `path`; on an error it is
    deleted."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: there is no folder {str(path.parent)!r}")
    if path.is_dir():
        raise IsADirectoryError(f"save: {str(path)!r} is a folder")
    try:
        with locked_new_file(path) as (temporary, file):
            yield file
            file.flush()
            os.fsync(file.fileno())
            if os.name != "posix":
                file.close()  # an open file cannot be moved there
            os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, f"save: {str(path)!r} could not be written: {error.strerror or error}") from error
    flush_to_disk(path.parent)  # the move itself


def _header(arrays: Arrays, metadata: dict[str, str]) -> bytes:
    """The start of a file: the length of its description, and that as JSON."""
    entries: dict[str, Any] = {RESERVED: metadata}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        entries[name] = {"dtype": NAMES[as_dtype(array.dtype)], "shape": array.shape, "data_offsets": [start, end]}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def flush_to_disk(path: Path) -> None:
    """Flush a folder to disk after files were created in it or moved into it."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- reading --------------------------------------------------------------------------------------------------------


class TensorEntry(NamedTuple):
    """A header's entry for one array."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def bits(self) -> int:
        """The number of bits per element."""
        if self.dtype == "F4":
            return 4
        return 8 * (DTYPES[self.dtype] if self.dtype in DTYPES else SMALL[self.dtype][0]).itemsize


class _HeaderError(Exception):
    """A header that says what cannot be."""


def read(path: Path) -> tuple[Arrays, dict[str, str]]:
    """Read the arrays of a file by name, and its metadata."""
    _require_regular(path)
    with path.open("rb") as file:
        entries, metadata = _described(path, file)
        try:
            arrays = {entry.name: _read_array(file, entry) for entry in sorted(entries, key=lambda entry: entry.start)}
        except _HeaderError as error:
            raise FileError(f"load: {str(path)!r} cannot be read: {error}") from None
        except EOFError:
            raise FileError(f"load: {str(path)!r} is truncated: it became shorter while it was read") from None
        except MemoryError:
            size = sum(entry.end - entry.start for entry in entries)
            raise OutOfMemoryError(f"load: there is no memory for the {size:,} bytes of {str(path)!r}") from None
    return {entry.name: arrays[entry.name] for entry in entries}, metadata


def read_header(path: Path) -> tuple[list[TensorEntry], dict[str, str], int]:
    """Read a file's header: its entries for the arrays, the metadata, and the offset of the arrays' bytes."""
    _require_regular(path)
    with path.open("rb") as file:
        entries, metadata = _described(path, file)
        return entries, metadata, file.tell()


def _require_regular(path: Path) -> None:
    """Raise an error for what is no file: to open a pipe would wait for somebody to write."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # to open a folder raises by itself
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise FileError(f"load: {str(path)!r} is not a file of tensors, but {kind}")


def _described(path: Path, file: BinaryIO) -> tuple[list[TensorEntry], dict[str, str]]:
    """The header's entries and the metadata; the file is then at the arrays' bytes."""
    size = os.fstat(file.fileno()).st_size
    header = _header_text(path, file, size)
    try:
        content = json.loads(header.decode("utf-8"), object_pairs_hook=_checked, parse_constant=_refused)
        metadata = _texts(content.pop(RESERVED, {}))
        entries = [_entry(name, described) for name, described in content.items()]
    except _HeaderError as error:
        raise FileError(f"load: {str(path)!r} cannot be read: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileError(f"load: {str(path)!r} is corrupt: its header cannot be parsed") from None
    expected = 8 + len(header) + max((entry.end for entry in entries), default=0)
    if size != expected:
        what = "is truncated" if size < expected else "was altered"
        raise FileError(f"load: {str(path)!r} {what}: it has {size} bytes, but its header describes {expected}")
    _require_no_gaps(path, entries)
    return entries, metadata


def _header_text(path: Path, file: BinaryIO, size: int) -> bytes:
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    header = file.read(min(length, LONGEST_HEADER, size))
    if not header.startswith(b"{") or length > LONGEST_HEADER:  # a length may begin with the bytes of another format
        _refuse_other_formats(path, start)
    if not header.startswith(b"{"):
        what = "empty" if not size else "not a safetensors file" if size > 8 else "truncated"
        raise FileError(f"load: {str(path)!r} is {what}")
    if len(header) < length:
        what = f"its header has {length} bytes, but the file ends after {len(header)} of them"
        raise FileError(f"load: {str(path)!r} is truncated or not a safetensors file: {what}")
    return header


def _refuse_other_formats(path: Path, start: bytes) -> None:
    if path.suffix == ".npz" or start.startswith(b"\x93NUMPY"):
        raise FileError(f"load: {str(path)!r} is a NumPy file; read it with np.load and pass the arrays to wg.tensor")
    if start.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        raise FileError(
            f"load: {str(path)!r} is a PyTorch file or a pickle, not a safetensors file. wg.load reads the tensors in "
            "PyTorch files; it does not read other pickles, because reading them may run arbitrary code"
        )


def _checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the header, in which no name stands twice and all text is Unicode (half a surrogate is none)."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    for text in (*found, *(value for value in found.values() if isinstance(value, str))):
        text.encode()
    return found


def _refused(name: str) -> None:
    """NaN and Infinity, which Python reads in JSON, though it has none."""
    raise ValueError(f"{name} is not valid JSON")


def _texts(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise TypeError("metadata must map names to strings")
    return metadata


def _entry(name: str, described: Any) -> TensorEntry:
    """What the header says of an array, checked by itself."""
    dtype, shape, (start, end) = described["dtype"], described["shape"], described["data_offsets"]
    if not isinstance(dtype, str) or (dtype not in DTYPES and dtype not in SMALL):
        raise _HeaderError(f"the tensor {name!r} has the dtype {dtype!r}; known are {', '.join([*DTYPES, *SMALL])}")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 1 << 63 for size in shape):
        raise _HeaderError(f"the tensor {name!r} has the shape {shape!r}")
    if len(shape) > MOST_DIMENSIONS:
        raise _HeaderError(f"the tensor {name!r} has {len(shape)} dimensions; an array has at most {MOST_DIMENSIONS}")
    if type(start) is not int or type(end) is not int or not start <= end:
        raise TypeError("offsets must be increasing integers")
    entry = TensorEntry(name, dtype, tuple(shape), start, end)
    if math.prod(shape) * entry.bits != 8 * (end - start):
        raise _HeaderError(f"the tensor {name!r}, {dtype} {shape}, does not fit into its {end - start} bytes")
    return entry


def _require_no_gaps(path: Path, entries: list[TensorEntry]) -> None:
    """Raise an error unless the arrays lie one after another, as the format asks: no byte is in two of them or in
    none."""
    place = 0
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.end)):
        if entry.start != place:
            raise FileError(f"load: {str(path)!r} is corrupt: its tensors overlap or leave gaps, at {entry.name!r}")
        place = entry.end


def _read_array(file: BinaryIO, entry: TensorEntry) -> np.ndarray[Any, Any]:
    """The next array of a file."""
    raw = np.empty(entry.end - entry.start, uint8)
    if file.readinto(raw.data) != raw.size:  # type: ignore[attr-defined]
        raise EOFError
    dtype = DTYPES.get(entry.dtype)
    try:
        return (_widened(raw, entry.dtype) if dtype is None else elements(raw, dtype)).reshape(entry.shape)
    except ValueError:  # an empty array whose other sizes are beyond NumPy's
        raise _HeaderError(f"the tensor {entry.name!r} has the shape {list(entry.shape)}") from None


def elements(raw: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Reinterpret bytes as elements of a dtype. Any non-zero byte of a bool becomes 1."""
    return raw != 0 if dtype is bool_ else raw.view(dtype)


def _widened(raw: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Bytes of a small dtype as elements of the one it is read as."""
    small, wide = SMALL[name]
    if name == "F4":
        raw = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)
    return raw.view(small).astype(wide)
