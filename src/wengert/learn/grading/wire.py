"""Messages between the grader and a submission's process: JSON with arrays in it, and nothing that can run.

A message is its length in eight bytes and then a text in JSON. Arrays are dicts with their dtype, shape and bytes; a
tuple is a list. What comes in is checked before it is believed: the length, the dtype, the number of bytes. Unlike a
pickle, a message cannot call anything where it is read.

The file needs Python and NumPy only: a copy of it runs beside the submission.
"""

from __future__ import annotations

import base64
import json
import math
import os
import select
import struct
import time
from typing import Any

import numpy as np

LONGEST = 16 * 2**20  # bytes of one message
PIECE = 4096  # bytes that a pipe takes at once whenever it takes any: a write never blocks
DTYPES = ("float64", "float32", "int64", "int32", "bool", "complex128", "complex64", "uint8")


class BadMessage(ValueError):
    """What came in is no message."""


class Closed(EOFError):
    """The other side has closed its end: its process is gone."""


class TooLate(TimeoutError):
    """Nothing came in time."""


def encode(value: Any) -> bytes:
    """The text of a value."""
    return json.dumps(to_plain(value)).encode()


def decode(text: bytes) -> Any:
    """The value of a text; BadMessage if it has none."""
    try:
        return from_plain(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError, OverflowError) as error:
        raise BadMessage(f"{type(error).__name__}: {error}") from None


def to_plain(value: Any) -> Any:
    """A value in what JSON knows: arrays become dicts, tuples lists."""
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.name not in DTYPES:
            raise TypeError(f"an array of dtype {array.dtype} is no answer")
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        return {"array": data, "dtype": array.dtype.name, "shape": list(array.shape)}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[str(key), to_plain(item)] for key, item in value.items()]}
    raise TypeError(f"a {type(value).__name__} is no answer: an array, a number or a tuple of them is")


def from_plain(value: Any) -> Any:
    """The value that `to_plain` made something of."""
    if isinstance(value, list):
        return tuple(from_plain(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return {str(key): from_plain(item) for key, item in value["dict"]}
    dtype, shape = value["dtype"], tuple(value["shape"])
    if dtype not in DTYPES or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 32:
        raise ValueError(f"no array has dtype {dtype!r} and shape {shape!r}")
    data = base64.b64decode(value["array"], validate=True)
    if len(data) != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError(f"{len(data)} bytes for an array of dtype {dtype} and shape {shape}")
    return np.frombuffer(data, dtype).reshape(shape).copy()


def send(descriptor: int, value: Any, seconds: float = 60.0) -> None:
    """Write a message."""
    text = encode(value)
    left, deadline = memoryview(struct.pack("<Q", len(text)) + text), time.monotonic() + seconds
    while left:
        _wait(descriptor, deadline, writing=True)
        try:
            left = left[os.write(descriptor, left[:PIECE]) :]
        except BrokenPipeError:
            raise Closed("the other side does not read any more") from None


def receive(descriptor: int, seconds: float, longest: int = LONGEST) -> Any:
    """Read a message, which has to be complete within some seconds."""
    deadline = time.monotonic() + seconds
    (length,) = struct.unpack("<Q", _read(descriptor, 8, deadline))
    if length > longest:
        raise BadMessage(f"a message of {length} bytes is longer than {longest}")
    return decode(_read(descriptor, length, deadline))


def _read(descriptor: int, count: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while count:
        _wait(descriptor, deadline)
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            raise Closed("the other side has closed its end")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _wait(descriptor: int, deadline: float, writing: bool = False) -> None:
    seconds = max(0.0, deadline - time.monotonic())
    ready = select.select([] if writing else [descriptor], [descriptor] if writing else [], [], seconds)
    if not any(ready):
        raise TooLate("nothing came in time")
