"""The listening end of the control plane: who is there, what each rank does, and who has to be told.

It runs as a thread of the launcher, or of rank 0 where there is no launcher. Every rank keeps one connection, proved
with the job's nonce. A connection that closes without a word is a rank that died, and all others are told at once. The
first thing that goes wrong is what is told: what follows from it (others that end, too) is not.
"""

from __future__ import annotations

import os
import secrets
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from wengert.core.errors import DistributedError
from wengert.distributed.agreement import Agreements
from wengert.distributed.reports import Call, Loss, Report, lost
from wengert.distributed.wire import (
    LONGEST,
    LONGEST_OF_STRANGERS,
    Lines,
    Message,
    encode,
    is_proof,
    let_go_in_children,
    watch_closely,
)

_STRANGER = 10.0  # seconds in which a connection has to prove that it belongs to the job


class _Peer:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.lines = Lines(LONGEST_OF_STRANGERS)
        self.outgoing = bytearray()
        self.challenge = secrets.token_hex(16)
        self.rank = -1
        self.report = Report(-1)
        self.heard_at = time.monotonic()
        self.is_done = False  # it said goodbye, or was shown the door

    def seen(self) -> Report:
        """Its last report, as old as it is."""
        heard = time.monotonic() - self.heard_at
        return replace(self.report, heard=heard, seconds=self.report.seconds + heard)


class Server:
    """The control plane of a job of `size` ranks. `exit_status` knows how a rank's process ended, if anybody does."""

    def __init__(
        self,
        size: int,
        nonce: str,
        host: str = "127.0.0.1",
        port: int = 0,
        role: str = "the launcher",
        exit_status: Callable[[int], int | None] = lambda rank: None,
    ) -> None:
        self.size = size
        self.loss: Loss | None = None
        self.over = threading.Event()  # something went wrong that ends the job
        self.nonce = nonce
        self._role = role
        self._exit_status = exit_status
        self._ending: Message = {}
        self._peers: dict[socket.socket, _Peer] = {}
        self._ranks: dict[int, _Peer] = {}
        self._agreements = Agreements(size)
        self._values: dict[str, str] = {}
        self._asked: dict[str, list[_Peer]] = {}
        self._tasks: deque[Callable[[], None]] = deque()
        self._is_open = True
        self._listener = _listening(host, port)
        self.port = int(self._listener.getsockname()[1])
        self.address = f"{socket.gethostname() if host in ('', '0.0.0.0') else host}:{self.port}"
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="wengert control server", daemon=True)
        let_go_in_children(self)

    def start(self) -> Server:
        """Begin to listen."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Tell those who are still there that nobody listens any more, and end."""
        self._do(self._finish)
        self._thread.join(2.0)

    def close_when_alone(self, seconds: float = 5.0) -> None:
        """Close when all ranks have said goodbye or something went wrong; or after so many seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.over.is_set() and not self._is_alone():
            time.sleep(0.01)
        self.close()

    def _is_alone(self) -> bool:
        return len(self._ranks) == self.size and all(peer.is_done for peer in list(self._ranks.values()))

    def text(self) -> str:
        """What went wrong first, in words; empty as long as nothing did."""
        if self.loss is not None:
            return lost(self.loss)
        return "".join(str(said["text"]) for said in self._ending.values())

    def reports(self) -> list[Report]:
        """The last reports of the ranks that ever joined."""
        return [peer.seen() for _, peer in sorted(list(self._ranks.items()))]

    def blame(self, pid: int, status: int | None) -> None:
        """Somebody who saw it (mpiexec) says which process ended first, and how."""
        if self.loss is None or self.loss.role:
            return
        culprit = next((report for report in self.reports() if report.pid == pid), None)
        if culprit is not None and culprit.rank != self.loss.report.rank and not self.loss.reason:
            self.loss = Loss(culprit)
        if culprit is not None and culprit.rank == self.loss.report.rank:
            self.loss = self.loss.ended_by(status)

    def lose(self, rank: int, status: int | None, reason: str = "") -> None:
        """Somebody who saw it says that a rank has ended, which may never have joined."""
        self._do(lambda: self._lose(self._loss(rank, reason).ended_by(status)))

    # --- the thread -----------------------------------------------------------------------------------------------

    def _do(self, task: Callable[[], None]) -> None:
        self._tasks.append(task)
        with suppress(OSError):
            self._wake.send(b"x")

    def _serve(self) -> None:
        while self._is_open:
            for key, mask in self._selector.select(1.0):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._woken.recv(4096)
                elif isinstance(key.data, _Peer):
                    self._attend(key.data, mask)
            while self._tasks:
                self._tasks.popleft()()
            self._show_strangers_out()
        self.let_go()

    def let_go(self) -> None:
        """Let go of all sockets: at the end, and in a forked child, which would keep connections open otherwise."""
        for holder in (*list(self._peers), self._listener, self._wake, self._woken):
            holder.close()
        self._selector.close()

    def _finish(self) -> None:
        self._tell({"end": self._role})
        self._is_open = False

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        watch_closely(connection)
        peer = self._peers[connection] = _Peer(connection)
        self._selector.register(connection, selectors.EVENT_READ, peer)
        self._send(peer, {"challenge": peer.challenge})

    def _show_strangers_out(self) -> None:
        now = time.monotonic()
        for peer in [p for p in self._peers.values() if p.rank < 0 and now - p.heard_at > _STRANGER]:
            self._drop(peer)

    def _attend(self, peer: _Peer, mask: int) -> None:
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
        if messages is None:
            self._drop(peer)
            return
        for message in messages:
            self._hear(peer, message)

    def _send(self, peer: _Peer, message: Message) -> None:
        peer.outgoing += encode(message)
        self._flush(peer)

    def _flush(self, peer: _Peer) -> None:
        with suppress(BlockingIOError, OSError):  # a broken connection is seen when it is read
            sent = peer.socket.send(peer.outgoing)
            del peer.outgoing[:sent]
        if peer.socket in self._peers:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outgoing else 0)
            self._selector.modify(peer.socket, wanted, peer)

    def _tell(self, message: Message) -> None:
        for peer in list(self._ranks.values()):
            if not peer.is_done:
                self._send(peer, message)

    def _drop(self, peer: _Peer) -> None:
        """A connection is closed."""
        if self._peers.pop(peer.socket, None) is None:
            return
        self._selector.unregister(peer.socket)
        peer.socket.close()
        if self._ranks.get(peer.rank) is peer and not peer.is_done:
            peer.is_done = True
            self._lose(self._loss(peer.rank).ended_by(self._exit_status(peer.rank)))

    # --- what ranks say -------------------------------------------------------------------------------------------

    def _hear(self, peer: _Peer, message: Message) -> None:
        if peer.rank < 0:
            self._welcome(peer, message)
            return
        peer.heard_at = time.monotonic()
        if "report" in message:
            peer.report = Report.read(message["report"])
            self._answer(peer)
        for kind, hear in (
            ("agree", self._hear_agree),
            ("described", self._hear_described),
            ("publish", self._hear_publish),
            ("fetch", self._hear_fetch),
            ("late", self._hear_late),
            ("failed", self._hear_failed),
            ("bye", self._hear_bye),
        ):
            if kind in message:
                hear(peer, message[kind])

    def _welcome(self, peer: _Peer, message: Message) -> None:
        refusal = self._refusal(peer, message)
        if refusal:
            self._send(peer, {"refused": refusal})
            self._drop(peer)
            return
        peer.rank = int(message["rank"])
        peer.report = Report(peer.rank, str(message["host"]), int(message["pid"]))
        peer.lines.longest = LONGEST
        self._ranks[peer.rank] = peer
        self._send(peer, {"welcome": {"role": self._role, "host": socket.gethostname(), "pid": os.getpid()}})
        if self.over.is_set():
            self._send(peer, self._ending)

    def _refusal(self, peer: _Peer, message: Message) -> str:
        if not is_proof(message.get("hello"), self.nonce, peer.challenge):
            return "its nonce (WENGERT_NONCE) is that of another job"
        rank, size = message.get("rank"), message.get("size")
        if size != self.size:
            return f"it was started as one of {size} ranks, and this job has {self.size}"
        if not isinstance(rank, int) or not 0 <= rank < self.size:
            return f"there is no rank {rank} among {self.size}"
        if rank in self._ranks:
            there = self._ranks[rank].report
            return f"there is a rank {rank} already: host {there.host}, pid {there.pid}"
        return ""

    def _answer(self, peer: _Peer) -> None:
        """Tell a rank that waits in a collective who came to it and who did not."""
        call = peer.report.call
        if peer.report.state != "waiting" or call is None or self.over.is_set():
            return
        came, absent = [], []
        for rank in call.ranks or range(self.size):
            other = self._ranks.get(rank)
            if other is None:
                absent.append(Report(rank))
            elif other.report.numbers.get(call.series, -1) >= call.number:
                came.append(rank)
            elif other.is_done:
                self._lose(self._loss(rank, f"ended its program before it came to {call.title}"))
                return
            else:
                absent.append(other.seen())
        if not self._differs(peer, call, came):
            table = {"call": call.number, "series": call.series, "came": came, "absent": [r.wire() for r in absent]}
            self._send(peer, {"table": table})

    def _differs(self, peer: _Peer, call: Call, came: Iterable[int]) -> bool:
        """Whether another rank came to the same collective for another one; then all are told."""
        for rank in came:
            other = self._ranks[rank].report.call
            if other is None or (other.series, other.number) != (call.series, call.number):
                continue
            if (other.name, other.bytes) != (call.name, call.bytes):
                first, second = sorted([(peer.rank, call), (rank, other)], key=lambda pair: pair[0])
                text = f"ranks {first[0]} and {second[0]} came to different collectives, number {call.number} of both:"
                lines = [f"rank {number}: {what}" for number, what in (first, second)]
                self._end({"mismatch": {"text": "\n  ".join([text, *lines]), "ranks": [first[0], second[0]]}})
                return True
        return False

    def _hear_agree(self, peer: _Peer, said: Message) -> None:
        verdict = self._agreements.add(peer.rank, said["number"], said["key"], said["digest"])
        if verdict is None:
            return
        if verdict.same:
            self._tell({"agreed": said["number"]})
        for rank in verdict.ask:
            self._send(self._ranks[rank], {"describe": said["number"]})

    def _hear_described(self, peer: _Peer, said: Message) -> None:
        found = self._agreements.described(peer.rank, said["number"], said["lines"])
        if found is not None:
            self._end({"mismatch": {"text": found[0], "ranks": found[1]}})

    def _hear_publish(self, peer: _Peer, said: Message) -> None:
        self._values.update(said)
        for key in said:
            for waiting in self._asked.pop(key, []):
                self._hear_fetch(waiting, key)

    def _hear_fetch(self, peer: _Peer, key: str) -> None:
        if key in self._values:
            self._send(peer, {"value": {key: self._values[key]}})
        else:
            self._asked.setdefault(key, []).append(peer)

    def _hear_late(self, peer: _Peer, said: Message) -> None:
        self._end({"late": said})

    def _hear_failed(self, peer: _Peer, reason: str) -> None:
        peer.is_done = True
        self._lose(self._loss(peer.rank, reason))

    def _hear_bye(self, peer: _Peer, _: Any) -> None:
        peer.is_done = True

    # --- what goes wrong ------------------------------------------------------------------------------------------

    def _loss(self, rank: int, reason: str = "") -> Loss:
        peer = self._ranks.get(rank)
        return Loss(peer.seen() if peer else Report(rank, socket.gethostname()), reason=reason)

    def _lose(self, loss: Loss) -> None:
        if not self.over.is_set():
            self.loss = loss
            self._end({"lost": loss.wire()})

    def _end(self, message: Message) -> None:
        """The first thing that goes wrong ends the job."""
        if self.over.is_set():
            return
        self._ending = message
        self.over.set()
        self._tell(message)


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=1024)
    except OSError as error:
        raise DistributedError(
            f"control plane: port {port} of {host or 'this machine'} cannot be listened on ({error.strerror}). Another "
            "program may have it: set MASTER_PORT to another one"
        ) from None
