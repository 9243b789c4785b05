"""How results come from a worker process: a pickle, and beside it the bytes of arrays.

On Linux large arrays lie in anonymous memory that both processes map: nothing is copied on arrival, no name is left
behind when a process dies, and the memory is freed with the last array. Elsewhere they go through the pipe.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

SHARED_FROM = 1 << 16
"""Bytes from which shared memory is worth its two system calls."""

ALIGNMENT = 64
CAN_SHARE = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")


def send(connection: Connection, value: Any) -> None:
    """Send a value; a pickling error is raised before anything is sent."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [buffer.raw() for buffer in buffers]
    sizes = [part.nbytes for part in parts]
    is_shared = CAN_SHARE and sum(sizes) >= SHARED_FROM
    memory = _shared(parts, sizes) if is_shared else None
    try:
        connection.send((content, sizes, memory is not None))
        if memory is not None:
            with _socket_of(connection) as channel:
                socket.send_fds(channel, [b"m"], [memory])
            return
    finally:
        if memory is not None:
            os.close(memory)
    for part in parts:
        connection.send_bytes(part)


def receive(connection: Connection) -> Any:
    """Receive what `send` sent. Its arrays are writable."""
    content, sizes, is_shared = connection.recv()
    if is_shared:
        return pickle.loads(content, buffers=_mapped(connection, sizes))
    buffers = []
    for size in sizes:
        buffer = np.empty(size, np.uint8)
        if size:
            connection.recv_bytes_into(buffer)
        else:
            connection.recv_bytes()
        buffers.append(buffer)
    return pickle.loads(content, buffers=buffers)


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Where each part begins, and where the last one ends."""
    places = [0]
    for size in sizes:
        places.append(places[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
    return places


def _shared(parts: Sequence[memoryview], sizes: Sequence[int]) -> int | None:
    """A descriptor of memory that holds these bytes; None where there is not enough of it."""
    places = _offsets(sizes)
    descriptor = os.memfd_create("wengert-batch")
    try:
        os.ftruncate(descriptor, places[-1])
        for part, place in zip(parts, places):
            _write(descriptor, part, place)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _write(descriptor: int, part: memoryview, place: int) -> None:
    done = 0
    while done < part.nbytes:
        done += os.pwrite(descriptor, part[done:], place + done)


def _mapped(connection: Connection, sizes: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    """The parts, in the memory that another process has written."""
    with _socket_of(connection) as channel:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not descriptors:
        raise EOFError
    places = _offsets(sizes)
    try:
        memory = mmap.mmap(descriptors[0], places[-1], flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
    finally:
        os.close(descriptors[0])
    whole = np.frombuffer(memory, np.uint8)
    return [whole[place : place + size] for place, size in zip(places, sizes)]


def _socket_of(connection: Connection) -> socket.socket:
    """The socket that a connection is made of, as one with a descriptor of its own."""
    channel = socket.socket(fileno=os.dup(connection.fileno()))
    channel.setblocking(True)  # whatever the program has made the default of sockets
    return channel
