"""The zip archives that PyTorch's files are: records by name, which are read whole or not at all.

Headers are checked before use: records must lie within the file without overlapping, and compressed data may not be
much larger than the file. So no file can make a reader allocate excessive memory.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np

from wengert.api.torch_format.storages import Problem

LARGEST_RATIO = 64
"""Bytes that may come out of a byte of a packed archive: an archive of weights packs to half its size, if at all."""
SLACK = 1 << 24

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
ALIGNMENT = 64
_LOCAL = struct.Struct("<4s5H3L2H")
_BROKEN = (zipfile.BadZipFile, struct.error, NotImplementedError, UnicodeError, ValueError, EOFError, zlib.error)


def size_of(file: BinaryIO) -> int:
    """The size of an open file in bytes."""
    return file.seek(0, os.SEEK_END)


class Archive:
    """The records of a PyTorch archive, by name without the folder that contains them all."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = size_of(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except (*_BROKEN, OSError, RuntimeError) as error:
            raise Problem(f"its table of contents cannot be read: {error}") from None
        infos = self._zip.infolist()
        self._check(infos)
        found = [match[1] for info in infos if (match := re.fullmatch(r"([^/]+)/data\.pkl", info.filename))]
        if len(found) != 1:
            raise Problem("it is a zip archive, but not one of PyTorch's: it has no data.pkl")
        self._records = {
            info.filename[len(found[0]) + 1 :]: info for info in infos if info.filename.startswith(f"{found[0]}/")
        }

    def __contains__(self, name: str) -> bool:
        return name in self._records

    @property
    def is_script(self) -> bool:
        """Whether the archive holds a compiled program (TorchScript)."""
        return "constants.pkl" in self or any(name.startswith("code/") for name in self._records)

    def read(self, name: str, expected: int | None = None) -> Bytes:
        """Read the bytes of a record of known size."""
        info = self._records.get(name)
        if info is None:
            raise Problem(f"the record {name!r} is missing")
        if expected is not None and info.file_size != expected:
            raise Problem(f"the record {name!r} has {info.file_size} bytes, but its tensors need {expected}")
        content = self._stored(info) if info.compress_type == zipfile.ZIP_STORED else self._unpacked(info)
        if zlib.crc32(content.data) != info.CRC:
            raise Problem(f"the record {name!r} is corrupt: its checksum does not match")
        return content

    def text(self, name: str) -> str:
        """Read a short record as text."""
        if self._records[name].file_size > 1000:
            raise Problem(f"the record {name!r} is too long")
        return self.read(name).tobytes().decode("ascii", "replace").strip()

    def _check(self, infos: list[zipfile.ZipInfo]) -> None:
        """Raise an error unless what the table of contents says can be."""
        if len({info.filename for info in infos}) != len(infos):
            raise Problem("a record occurs twice")
        end = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise Problem(f"the record {info.filename!r} is encrypted or packed in an unusual way")
            if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
                raise Problem(f"the record {info.filename!r} has two different sizes")
            if info.header_offset < end or info.header_offset + _LOCAL.size + info.compress_size > self._size:
                raise Problem(f"the record {info.filename!r} does not lie within the file")
            end = info.header_offset + _LOCAL.size + info.compress_size
        total = sum(info.file_size for info in infos)
        if total > LARGEST_RATIO * self._size + SLACK:
            raise Problem(f"{self._size:,} bytes would unpack to {total:,}, which no file of weights would")

    def _stored(self, info: zipfile.ZipInfo) -> Bytes:
        self._file.seek(info.header_offset)
        header = self._file.read(_LOCAL.size)
        if len(header) != _LOCAL.size or header[:4] != b"PK\x03\x04":
            raise Problem(f"the record {info.filename!r} does not begin at its offset")
        name_size, extra_size = _LOCAL.unpack(header)[-2:]
        self._file.seek(info.header_offset + _LOCAL.size + name_size + extra_size)
        content = np.empty(info.file_size, np.uint8)
        _fill(self._file, content, info.filename)
        return content

    def _unpacked(self, info: zipfile.ZipInfo) -> Bytes:
        try:
            with self._zip.open(info) as record:
                content = record.read(info.file_size)
        except (*_BROKEN, OSError, RuntimeError) as error:
            raise Problem(f"the record {info.filename!r} cannot be unpacked: {error}") from None
        if len(content) != info.file_size:
            raise Problem(f"the record {info.filename!r} is truncated")
        return np.frombuffer(bytearray(content), np.uint8)


def _fill(file: BinaryIO, content: Bytes, name: str) -> None:
    """Read as many bytes as an array has."""
    view = memoryview(content.data)
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise Problem(f"the record {name!r} is truncated after {done} of {len(view)} bytes")
        done += count


# --- writing --------------------------------------------------------------------------------------------------------


class ArchiveWriter:
    """Writes records into an archive in PyTorch's layout: uncompressed, with their bytes aligned to 64.

    It writes no record `.format_version`, which would promise the exact gaps between records.
    """

    def __init__(self, file: BinaryIO, folder: str) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._folder = folder

    def write(self, name: str, content: Any) -> None:
        """Add a record."""
        view = memoryview(content).cast("B") if len(content) else memoryview(b"")
        info = zipfile.ZipInfo(f"{self._folder}/{name}")
        info.file_size = view.nbytes
        is_large = view.nbytes * 1.05 > zipfile.ZIP64_LIMIT
        start = (self._zip.start_dir or 0) + _LOCAL.size + len(info.filename.encode()) + 20 * is_large
        padding = -(start + 4) % ALIGNMENT
        info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        with self._zip.open(info, "w", force_zip64=is_large) as record:
            record.write(view)

    def close(self) -> None:
        """Write the table of contents."""
        self._zip.close()
