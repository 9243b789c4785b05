"""Lines of JSON over a socket: how the control plane's two ends talk, and how they know each other."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import weakref
from contextlib import suppress
from typing import Any, Protocol

from wengert.core.errors import ArgumentError
from wengert.core.forking import in_child

Message = dict[str, Any]

LONGEST = 1 << 26  # bytes of a line; the description of a program is the longest that is sent
LONGEST_OF_STRANGERS = 1 << 12


def encode(message: Message) -> bytes:
    """Encode a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class LineReader:
    """Decodes messages from a stream of bytes that arrives in pieces."""

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest = longest
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that these bytes complete; raises ValueError if they are not valid messages."""
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        if len(self._rest) > self.longest:
            raise ValueError("a line without an end")
        messages = [json.loads(line) for line in lines]
        if not all(isinstance(message, dict) for message in messages):
            raise ValueError("a line that is not a message")
        return messages


def proof(nonce: str, challenge: str) -> str:
    """The answer to a challenge, which requires the job's nonce."""
    return hmac.new(nonce.encode(), challenge.encode(), hashlib.sha256).hexdigest()


def is_proof(answer: object, nonce: str, challenge: str) -> bool:
    """Whether the answer to a challenge is correct."""
    return isinstance(answer, str) and hmac.compare_digest(answer.encode(), proof(nonce, challenge).encode())


def parts_of(address: str) -> tuple[str, int]:
    """The host and the port of an address.

    >>> parts_of("node-3:29500")
    ('node-3', 29500)
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ArgumentError(
            f"control plane: {address!r} is not an address; WENGERT_CONTROL must be a host and a port, such as a:29500"
        )
    return host, int(port)


def watch_closely(connection: socket.socket) -> None:
    """Have the kernel detect within ten seconds that the other machine is gone, since nothing closes the connection
    then.

    A stopped process does not count as gone: its kernel still answers.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    options = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 5, "TCP_USER_TIMEOUT": 9000}
    for name, value in options.items():
        if hasattr(socket, name):
            with suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Holder(Protocol):
    """An object that holds sockets."""

    def let_go(self) -> None:
        """Close the sockets without a message."""
        ...


_holders: weakref.WeakSet[Any] = weakref.WeakSet()


def let_go_in_children(holder: Holder) -> None:
    """Close an object's sockets in forked children, so that no worker keeps the connection of a dead rank open."""
    _holders.add(holder)


def _let_go() -> None:
    for holder in list(_holders):
        holder.let_go()


in_child(_let_go)
