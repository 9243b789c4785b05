"""The server of the control plane: it tracks which ranks are connected and what they do, and notifies them.

It runs as a thread of the launcher, or of rank 0 where there is no launcher. Every rank keeps one connection,
authenticated with the job's nonce. If a connection closes without a goodbye, the rank has died, and all others are
notified at once. Only the first failure is reported, not its consequences (other ranks that also end).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from wengert.distributed.agreement import Agreements
from wengert.distributed.listener import Listener, Peer
from wengert.distributed.reports import AGREEMENT, Call, Loss, Report, lost
from wengert.distributed.wire import LONGEST, Message, is_proof

RAISING = 1.2
"""Seconds that ranks have to end by themselves after a loss, if nothing else is asked for."""


class Server(Listener):
    """The control plane of a job of `size` ranks. `exit_status` returns how a rank's process ended, if known."""

    def __init__(
        self,
        size: int,
        nonce: str,
        host: str = "127.0.0.1",
        port: int = 0,
        role: str = "the launcher",
        exit_status: Callable[[int], int | None] = lambda rank: None,
        grace: float = RAISING,
    ) -> None:
        super().__init__(host, port)
        self.size = size
        self.loss: Loss | None = None
        self.over = threading.Event()  # something went wrong that ends the job
        self.nonce = nonce
        self.grace = grace
        self._role = role
        self._exit_status = exit_status
        self._ending: Message = {}
        self._over_at = 0.0
        self._ranks: dict[int, Peer] = {}
        self._agreements = Agreements(size)
        self._values: dict[str, str] = {}
        self._asked: dict[str, list[Peer]] = {}
        self._suspects: set[int] = set()  # ranks that were gone at the same moment as the first
        self._over_in = 0

    def close(self) -> None:
        """Tell the remaining ranks that the server stops, and stop."""
        self.do(self._finish)
        self.join(2.0)

    def close_when_alone(self, seconds: float = 5.0) -> None:
        """Close when all ranks have left or there was an error, or after this many seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.over.is_set() and not self._is_alone():
            time.sleep(0.01)
        self.close()

    def _is_alone(self) -> bool:
        return len(self._ranks) == self.size and all(peer.is_done for peer in list(self._ranks.values()))

    def error(self) -> str:
        """The first error, as the text that ranks raise; empty if there is none."""
        if self.loss is not None:
            ago = time.monotonic() - self._over_at
            return f"RankLost: {lost(replace(self.loss, seconds=ago))}"
        names = {"late": "CollectiveTimeout", "mismatch": "ProgramMismatch"}
        return "".join(f"{names[kind]}: {said['text']}" for kind, said in self._ending.items())

    def connected(self) -> int:
        """The number of connected ranks."""
        return sum(peer.rank >= 0 for peer in list(self.peers.values()))

    def reports(self) -> list[Report]:
        """The last reports of all ranks that have joined."""
        return [peer.seen() for _, peer in sorted(list(self._ranks.items()))]

    def blame(self, pid: int, status: int | None, is_sure: bool) -> None:
        """Record which process ended and how, as reported by an observer (mpiexec).

        Some launchers end the other ranks so quickly that they all seem to end at once. A report that is certain is
        believed. One that is not (MPICH's may name a rank that it ended itself) can only add the signal of the rank we
        know.
        """
        culprit = next((report for report in self.reports() if report.pid == pid), None)
        if self.loss is None or culprit is None or culprit.rank not in self._suspects:
            return
        if culprit.rank != self.loss.report.rank and is_sure:
            self.loss = Loss(culprit)
        if culprit.rank == self.loss.report.rank:
            self.loss = self.loss.ended_by(status)

    def lose(self, rank: int, status: int | None, reason: str = "") -> None:
        """Record that a rank has ended, as reported by an observer; the rank may never have joined."""
        self.do(lambda: self._lose(self._loss(rank, reason).ended_by(status)))

    def ask_to_stop(self, number: int) -> None:
        """Tell all ranks about a signal after which they should end by themselves."""
        self.do(lambda: self._tell({"stop": number}))

    # --- connections ------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._tell({"end": self._role})
        self.is_open = False

    def _tell(self, message: Message) -> None:
        for peer in list(self._ranks.values()):
            if not peer.is_done:
                self.send(peer, message)

    def closed(self, peer: Peer) -> None:
        """Handle a closed connection: the rank died, unless it had left."""
        if self._ranks.get(peer.rank) is peer and not peer.is_done:
            peer.is_done = True
            self._suspect(peer.rank)
            self._lose(self._loss(peer.rank).ended_by(self._exit_status(peer.rank)))
        self._let_leave()

    def _suspect(self, rank: int) -> None:
        if not self.over.is_set() or self.moment == self._over_in:
            self._suspects.add(rank)
            self._over_in = self.moment

    # --- what ranks say -------------------------------------------------------------------------------------------

    def hear(self, peer: Peer, message: Message) -> None:
        """Handle a message."""
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
            ("leaving", self._hear_leaving),
            ("bye", self._hear_bye),
        ):
            if kind in message:
                hear(peer, message[kind])

    def _welcome(self, peer: Peer, message: Message) -> None:
        refusal = self._refusal(peer, message)
        if refusal:
            self.send(peer, {"refused": refusal})
            self.drop(peer)
            return
        peer.rank = int(message["rank"])
        peer.report = Report(peer.rank, str(message["host"]), int(message["pid"]))
        peer.lines.longest = LONGEST
        self._ranks[peer.rank] = peer
        where = {"role": self._role, "host": socket.gethostname(), "pid": os.getpid(), "grace": self.grace}
        self.send(peer, {"welcome": where})
        if self.over.is_set():
            self.send(peer, self._ending)

    def _refusal(self, peer: Peer, message: Message) -> str:
        if not is_proof(message.get("hello"), self.nonce, peer.challenge):
            return "its nonce (WENGERT_NONCE) belongs to another job"
        rank, size = message.get("rank"), message.get("size")
        if size != self.size:
            return f"it was started as one of {size} ranks, but this job has {self.size}"
        if not isinstance(rank, int) or not 0 <= rank < self.size:
            return f"there is no rank {rank} among {self.size}"
        if rank in self._ranks:
            there = self._ranks[rank].report
            return f"there is already a rank {rank}: host {there.host}, pid {there.pid}"
        return ""

    def _answer(self, peer: Peer) -> None:
        """Tell a rank that waits in a collective which ranks have arrived and which have not."""
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
            self.send(peer, {"table": table})

    def _differs(self, peer: Peer, call: Call, came: Iterable[int]) -> bool:
        """Whether another rank entered a different collective at this point; then all are notified."""
        for rank in came if call.series != AGREEMENT else ():  # which are compared by what they are about
            other = self._ranks[rank].report.call
            if other is None or (other.series, other.number) != (call.series, call.number):
                continue
            if (other.name, other.bytes) != (call.name, call.bytes):
                first, second = sorted([(peer.rank, call), (rank, other)], key=lambda pair: pair[0])
                text = f"ranks {first[0]} and {second[0]} reached different collectives as their number {call.number}:"
                lines = [f"rank {number}: {what}" for number, what in (first, second)]
                self._end({"mismatch": {"text": "\n  ".join([text, *lines]), "ranks": [first[0], second[0]]}})
                return True
        return False

    def _hear_agree(self, peer: Peer, said: Message) -> None:
        verdict = self._agreements.add(peer.rank, said["number"], said["key"], said["digest"])
        if verdict is None:
            return
        if verdict.same:
            self._tell({"agreed": said["number"]})
        for rank in verdict.ask:
            self.send(self._ranks[rank], {"describe": said["number"]})

    def _hear_described(self, peer: Peer, said: Message) -> None:
        found = self._agreements.described(peer.rank, said["number"], said["lines"])
        if found is not None:
            self._end({"mismatch": {"text": found[0], "ranks": found[1]}})

    def _hear_publish(self, peer: Peer, said: Message) -> None:
        self._values.update(said)
        for key in said:
            for waiting in self._asked.pop(key, []):
                self._hear_fetch(waiting, key)

    def _hear_fetch(self, peer: Peer, key: str) -> None:
        if key in self._values:
            self.send(peer, {"value": {key: self._values[key]}})
        else:
            self._asked.setdefault(key, []).append(peer)

    def _hear_late(self, peer: Peer, said: Message) -> None:
        self._end({"late": said})

    def _hear_failed(self, peer: Peer, reason: str) -> None:
        peer.is_done = True
        self._lose(self._loss(peer.rank, reason))

    def _hear_leaving(self, peer: Peer, _: Any) -> None:
        peer.is_leaving = True
        self._let_leave()

    def _let_leave(self) -> None:
        """Let ranks exit once all have reported their errors: an mpiexec may end, with their output, at the first."""
        there = [peer for peer in self.peers.values() if peer.rank >= 0]
        if all(peer.is_leaving for peer in there):
            for peer in there:
                self.send(peer, {"leave": True})

    def _hear_bye(self, peer: Peer, _: Any) -> None:
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
        """The first failure ends the job."""
        if self.over.is_set():
            return
        self._ending, self._over_at = message, time.monotonic()
        self.over.set()
        self._tell(message)
