"""Connections served by one thread: accepted, read line by line, written without blocking."""

from __future__ import annotations

import secrets
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Self

from wengert.core.errors import DistributedError
from wengert.distributed.reports import Report
from wengert.distributed.wire import (
    LONGEST_OF_STRANGERS,
    LineReader,
    Message,
    encode,
    let_go_in_children,
    watch_closely,
)

_STRANGER = 10.0  # seconds in which a connection has to prove that it belongs to the job


class Peer:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.lines = LineReader(LONGEST_OF_STRANGERS)
        self.outgoing = bytearray()
        self.challenge = secrets.token_hex(16)
        self.rank = -1
        self.report = Report(-1)
        self.heard_at = time.monotonic()
        self.is_done = False  # it said goodbye, or why it failed
        self.is_leaving = False  # it has told its error, and waits for the others to have done so

    def seen(self) -> Report:
        """Its last report, with its age."""
        heard = time.monotonic() - self.heard_at
        return replace(self.report, heard=heard, seconds=self.report.seconds + heard)


class Listener:
    """A port, its connections and the thread that serves them. Subclasses handle the messages."""

    def __init__(self, host: str, port: int) -> None:
        self.peers: dict[socket.socket, Peer] = {}
        self.is_open = True
        self.moment = 0  # counts how often the thread looked
        self._tasks: deque[Callable[[], None]] = deque()
        self._listener = _listening(host, port)
        self.port = int(self._listener.getsockname()[1])
        self.address = f"{host or socket.gethostname()}:{self.port}"
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="wengert control server", daemon=True)
        let_go_in_children(self)

    def hear(self, peer: Peer, message: Message) -> None:
        """Handle a message."""

    def closed(self, peer: Peer) -> None:
        """Handle a closed connection."""

    def start(self) -> Self:
        """Start listening."""
        self._thread.start()
        return self

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def do(self, task: Callable[[], None]) -> None:
        """Run a function in the thread."""
        self._tasks.append(task)
        with suppress(OSError):
            self._wake.send(b"x")

    def send(self, peer: Peer, message: Message) -> None:
        """Send a message, now or when the socket has room. Only the thread itself may call this."""
        peer.outgoing += encode(message)
        self._flush(peer)

    def drop(self, peer: Peer) -> None:
        """Close a connection."""
        if self.peers.pop(peer.socket, None) is not None:
            self._selector.unregister(peer.socket)
            peer.socket.close()
            self.closed(peer)

    def let_go(self) -> None:
        """Close all sockets: at the end, and in a forked child, which would otherwise keep connections open."""
        for holder in (*list(self.peers), self._listener, self._wake, self._woken):
            holder.close()
        self._selector.close()

    def _serve(self) -> None:
        while self.is_open:
            self.moment += 1
            for key, mask in self._selector.select(1.0):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._woken.recv(4096)
                elif isinstance(key.data, Peer):
                    self._attend(key.data, mask)
            while self._tasks:
                self._tasks.popleft()()
            self._show_strangers_out()
        self.let_go()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        watch_closely(connection)
        peer = self.peers[connection] = Peer(connection)
        self._selector.register(connection, selectors.EVENT_READ, peer)
        self.send(peer, {"challenge": peer.challenge})

    def _show_strangers_out(self) -> None:
        now = time.monotonic()
        for peer in [p for p in self.peers.values() if p.rank < 0 and now - p.heard_at > _STRANGER]:
            self.drop(peer)

    def _attend(self, peer: Peer, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush(peer)
        if not mask & selectors.EVENT_READ:
            return
        try:
            data = peer.socket.recv(1 << 16)
            messages = peer.lines.feed(data) if data else None
        except BlockingIOError:
            return
        except (OSError, ValueError):  # reset, or not our language
            messages = None
        try:
            for message in messages or ():
                self.hear(peer, message)
        except (KeyError, TypeError, ValueError):  # a message that is none of ours
            messages = None
        if messages is None:
            self.drop(peer)

    def _flush(self, peer: Peer) -> None:
        with suppress(BlockingIOError, OSError):  # a broken connection is seen when it is read
            sent = peer.socket.send(peer.outgoing)
            del peer.outgoing[:sent]
        if peer.socket in self.peers:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outgoing else 0)
            self._selector.modify(peer.socket, wanted, peer)


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=1024)
    except OSError as error:
        raise DistributedError(
            f"control plane: port {port} of {host or 'this machine'} cannot be opened ({error.strerror}). Another "
            "program may be using it: set MASTER_PORT to a free one"
        ) from None
