"""TensorBoard's event files: numbers by name and step, for viewing runs in TensorBoard.

A file is a sequence of records: length, its checksum, data, its checksum. The data is an Event in the protocol-buffer
encoding, of which little is needed: the time, the step and one number.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO


class EventFile:
    """A new TensorBoard event file in a folder, to which scalars are added."""

    def __init__(self, folder: Path) -> None:
        name = f"events.out.tfevents.{int(time.time())}.wengert.{os.getpid()}.{os.urandom(2).hex()}"
        self._file: IO[bytes] = (folder / name).open("wb")
        self._write(_text(3, "brain.Event:2"))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add scalars by name at a step."""
        shown = b"".join(_bytes(1, _text(1, name) + _float(2, value)) for name, value in values.items())
        self._write(_integer(2, step) + _bytes(5, shown))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, event: bytes) -> None:
        self._file.write(record(_double(1, time.time()) + event))


def record(content: bytes) -> bytes:
    """A record of the file."""
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked(length)) + content + struct.pack("<I", masked(content))


def masked(content: bytes) -> int:
    """The checksum of a record: CRC-32C, rotated and offset, as TensorFlow's record format requires."""
    crc = crc32c(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """The Castagnoli checksum.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _entry(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


_TABLE = [_entry(byte) for byte in range(256)]

# --- protocol buffers: a key of field number and kind, then the value -----------------------------------------------


def _varint(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
