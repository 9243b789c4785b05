"""A rank's end of the control plane: it reports what this rank does, receives news of the others, and raises errors.

Each rank has two threads. One sends a report every second, and at once when the state changes; it also measures how
long a collective waits. The other one listens. When a rank is lost, the main thread is interrupted and raises RankLost
wherever it is: in a collective, in a sleep, between two lines of Python. A rank that is saving may finish first. If the
main thread is stuck in C code and cannot be interrupted, the process exits after five seconds.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np

import wengert
from wengert.core.code import Location, describe, here, is_library, source_line
from wengert.core.errors import CollectiveTimeout, DistributedError, ProgramMismatch, RankLost
from wengert.distributed import endings
from wengert.distributed.reports import AGREEMENT, Call, Loss, Report, late, lost
from wengert.distributed.wire import LineReader, Message, encode, let_go_in_children
from wengert.runtime.config import config

GRACE = 5.0
"""Seconds after which a process ends that was told of a loss and did not raise."""

SOONER = 0.2
"""Seconds before the launcher's patience ends at which a rank leaves that waits for the others to tell their errors."""

STATES = ("starting", "computing", "compiling", "loading data", "saving")

_TICK = 0.1  # seconds between two looks at whether there is something to say
_BEAT = 1.0  # seconds between two reports
_MANY = 64  # ranks, from which on they report less often than ten times a second what they came to


def line_of(location: Location | str) -> str:
    """A location as shown in messages: `train.py:31: loss.backward()`."""
    if location is None or isinstance(location, str):
        return location or ""
    line = source_line(location)
    return f"{describe(location)}{f': {line}' if line else ''}"


class Control:
    """One rank's connection. `entering`, `left`, `state`, `step` and `saved` only record something, and are cheap."""

    def __init__(self, connection: socket.socket, rank: int, size: int, served: Message) -> None:
        self.rank = rank
        self.size = size
        self.on_loss: list[Callable[[], None]] = []  # called by the listening thread: abort what the main thread is in
        self.before_close: Callable[[], None] = lambda: None
        self.asked_to_stop = 0  # the signal that the launcher was given, for a program that looks here to end well
        self._socket = connection
        self._served = served
        self._me = Report(rank, socket.gethostname(), os.getpid())
        self._state, self._since = "computing", time.monotonic()
        self._call: tuple[Call, Location | str] | None = None  # that this rank is in
        self._last: tuple[Call, Location | str] | None = None
        self._entered = self._sent_at = 0.0
        self._numbers: dict[str, int] = {}
        self._is_numbered = False
        self._agreed = 0
        self._described: dict[int, Callable[[], Sequence[str]]] = {}
        self._answers: dict[str, Any] = {}
        self._news: Message | None = None  # what ends the job
        self._news_at = 0.0
        self._table: tuple[float, Message] | None = None
        self.is_open = True
        self._raised = False
        self._sending = threading.Lock()
        self._changed = threading.Event()
        self._heard = threading.Condition()
        let_go_in_children(self)
        self._interrupts = endings.interrupt_with(self._interrupted)
        endings.on_exception(self._failing, self._failed)
        atexit.register(self.close)
        self._send({"report": self._now().wire()})  # here, not by a thread: this rank may be stopped on its next line
        threading.Thread(target=self._listen, name="wengert control", daemon=True).start()
        threading.Thread(target=self._report, name="wengert reports", daemon=True).start()

    # --- what this rank does --------------------------------------------------------------------------------------

    def entering(self, number: int, name: str, bytes: int, location: Location | str, ranks: Sequence[int] = ()) -> None:
        """Note that this rank enters a collective of a group (all ranks by default)."""
        self.check()
        series = ",".join(map(str, ranks)) if ranks else "all"
        self._numbers[series] = number
        self._entered = time.monotonic()
        self._call = self._last = (Call(number, name, bytes, "", series, tuple(ranks)), location)

    def left(self) -> None:
        """Note that the collective is done."""
        self._call = None
        self._since = time.monotonic()

    def state(self, name: str) -> None:
        """Set what this rank does from now on, outside collectives: one of STATES."""
        if name not in STATES:
            raise ValueError(f"a rank's state must be {' or '.join(STATES)}, not {name!r}")
        self._be(name)
        self.check()

    def _be(self, name: str) -> None:
        self._state, self._since = name, time.monotonic()
        if self._since - self._sent_at >= _TICK:  # else the next look is soon enough
            self._changed.set()

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Set the state for a block, and restore the previous one after it."""
        before = self._state
        self.state(name)
        try:
            yield
        finally:
            self._be(before)
        self.check()

    def step(self, number: int | None = None) -> None:
        """Note that a step begins: the given one, or the next. Steps are counted automatically unless numbers are
        given."""
        if number is None and self._is_numbered:
            return
        self._is_numbered = number is not None
        before = self._me.step
        self._me = replace(self._me, step=number if number is not None else (0 if before is None else before + 1))

    def saved(self, checkpoint: str) -> None:
        """Note that a checkpoint is complete; the text is shown after a loss."""
        self._me = replace(self._me, checkpoint=checkpoint)
        self._changed.set()

    def check(self) -> None:
        """Raise the error that ends the job, if there is one. Code that waits for other ranks calls this repeatedly."""
        if self._news is not None:
            self._raised = True
            raise self._error(self._news)

    # --- what ranks ask each other ----------------------------------------------------------------------------------

    def agree(self, key: str, digest: str, describe: Callable[[], Sequence[str]]) -> None:
        """Return when all ranks have the same digest for `key` and run the same versions. Otherwise raise
        ProgramMismatch with the first line in which the `describe()` texts of two ranks differ.

        The n-th agreement of a rank is compared with the n-th of the others. It precedes all other communication.
        """
        if self.size == 1:
            return
        self._agreed += 1
        number, versions = self._agreed, _versions()
        self._described[number] = lambda: [*versions, *describe()]
        whole = hashlib.sha256("\n".join([digest, *versions]).encode()).hexdigest()
        question = {"agree": {"number": number, "key": key, "digest": whole}}
        self._ask(question, Call(number, f"agreement on {key}", 0, "", AGREEMENT), here(), f"agreed {number}")
        del self._described[number]

    def publish(self, key: str, value: str) -> None:
        """Publish a text for any rank to fetch."""
        self._send({"publish": {key: value}})

    def fetch(self, key: str) -> str:
        """Wait for and return the text that a rank published."""
        call = Call(0, f"fetching {key!r}, which no rank has published", 0, "", f"value {key}", (self.rank,))
        return str(self._ask({"fetch": key}, call, here(), f"value {key}"))

    def _ask(self, question: Message, call: Call, location: Location, answer: str) -> Any:
        """The answer to a question; waiting for it counts like waiting in a collective."""
        self.check()
        self._numbers[call.series] = call.number
        self._entered = time.monotonic()
        self._call = self._last = (call, location)
        self._send({**question, "report": self._now().wire()})
        try:
            while answer not in self._answers:
                with self._heard:
                    self._heard.wait(0.05)
                self.check()
        finally:
            self.left()
        return self._answers.pop(answer)

    # --- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Report that this rank ends normally, and close the connection."""
        if self.is_open:
            self._raised = True  # this rank needs the others no more: no news is raised
            self._send({"report": self._now().wire(), "bye": True})
            self.is_open = False
            self._changed.set()
            self.before_close()
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            atexit.unregister(self.close)
            endings.restore(self._interrupts)

    def let_go(self) -> None:
        """Drop the connection in a forked child: it belongs to the parent."""
        self.is_open = False
        self._socket.close()

    def fail(self, error: BaseException, show: Callable[[], None]) -> None:
        """End this process with an error, as an uncaught exception does; `show` prints it."""
        self._failing()
        show()
        if self._failed(type(error), error):
            endings.leave(1)

    def _failing(self) -> None:
        """An exception ends this rank, regardless of later news."""
        self._raised = True

    def _failed(self, kind: type[BaseException], error: BaseException) -> bool:
        """An exception ends this rank: the others are told why. Returns whether the process must exit at once."""
        if not self.is_open:
            return False
        if self._news is None:
            text = (str(error).splitlines() or [""])[0]
            self._send({"report": self._now().wire(), "failed": f"ended with {kind.__name__}: {text}"})
        self._send({"leaving": True})
        with self._heard:
            self._heard.wait_for(lambda: "leave" in self._answers, max(0.0, self._served["grace"] - SOONER))
        return self.size > 1

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """The handler in the main thread."""
        if not self._raised:
            self.check()

    # --- the thread that reports ------------------------------------------------------------------------------------

    def _now(self) -> Report:
        """The report of this moment."""
        call, last, now = self._call, self._last, time.monotonic()
        told = replace(last[0], line=line_of(last[1])) if last is not None else None
        state, since = ("waiting", self._entered) if call is not None else (self._state, self._since)
        return replace(self._me, state=state, seconds=now - since, call=told, numbers=dict(self._numbers))

    def _send(self, message: Message) -> None:
        with self._sending, suppress(OSError):  # a closed connection is the listening thread's business
            self._socket.sendall(encode(message))

    def _report(self) -> None:
        """Report and count until the end; `counted` are the seconds of the collective `waited`."""
        waited, counted, told, looked_at = None, 0.0, None, time.monotonic()
        while self.is_open and self._news is None:
            self._changed.wait(_TICK)
            self._changed.clear()
            call, now = self._call, time.monotonic()
            passed, looked_at = min(now - looked_at, 5 * _TICK), now  # more only if this process itself was stopped
            if call is not waited:
                waited, counted, self._table = call, 0.0, None
            elif call is not None and not self._is_excused():
                counted += passed
            beat = _BEAT if call is None else min(_BEAT, config.deadline / 4)
            doing = (self._last, self._state, self._me)
            if doing != told:
                beat = min(beat, _TICK * max(1.0, self.size / _MANY))
            if now - self._sent_at >= beat:
                self._sent_at, told = now, doing
                self._send({"report": self._now().wire()})
            if call is not None and counted >= config.deadline and call is self._call:
                self._is_late(call[0], counted)

    def _is_excused(self) -> bool:
        """Whether a rank that we wait for is doing something without a time limit."""
        table = self._table
        return table is not None and any(Report.read(wire).excused for wire in table[1]["absent"])

    def _is_late(self, call: Call, counted: float) -> None:
        told = self._now().call or call
        table = self._table
        is_fresh = table is not None and time.monotonic() - table[0] < max(3 * _BEAT, config.deadline / 2)
        came, absent = (table[1]["came"], [Report.read(r) for r in table[1]["absent"]]) if table else ([], [])
        said = {"text": late(told, counted, came, absent, is_fresh), "ranks": [report.rank for report in absent]}
        self._send({"late": said})
        self._learn({"late": said})

    # --- the thread that listens ------------------------------------------------------------------------------------

    def _listen(self) -> None:
        lines = LineReader()
        while self.is_open:
            try:
                data = self._socket.recv(1 << 16)
                messages = lines.feed(data)
            except (OSError, ValueError):
                data, messages = b"", []
            for message in messages:
                self._hear(message)
            if not data:
                break
        self._answered("leave", True)  # no rank is left to wait for
        if self.is_open and not self._served.get("ended"):
            self._learn({"lost": self._server_loss().wire()})

    def _hear(self, message: Message) -> None:
        for kind, said in message.items():
            if kind == "table":
                call = self._call
                if call is not None and (call[0].number, call[0].series) == (said["call"], said["series"]):
                    self._table = (time.monotonic(), said)
            elif kind == "agreed":
                self._answered(f"agreed {said}", True)
            elif kind == "value":
                for key, value in said.items():
                    self._answered(f"value {key}", value)
            elif kind == "describe":
                self._send({"described": {"number": said, "lines": self._description(said)}})
            elif kind == "leave":
                self._answered("leave", True)
            elif kind == "stop":
                self.asked_to_stop = said
            elif kind == "end":
                self._served["ended"] = True
            elif kind in ("lost", "late", "mismatch"):
                self._learn(message)

    def _answered(self, name: str, value: Any) -> None:
        with self._heard:
            self._answers[name] = value
            self._heard.notify_all()

    def _description(self, number: int) -> list[str]:
        try:
            return list(self._described[number]())
        except Exception as error:  # which must not leave the other ranks without an answer
            return [f"(it cannot be described: {error})"]

    def _server_loss(self) -> Loss:
        role = self._served["role"]
        rank = int(role.removeprefix("rank ")) if role.startswith("rank ") else -1
        return Loss(Report(rank, self._served["host"], self._served["pid"]), role=role if rank < 0 else "")

    def _learn(self, news: Message) -> None:
        """Handle news that ends the job; only the first counts."""
        if self._news is not None:
            return
        self._news_at = time.monotonic()
        self._news = news
        with self._heard:
            self._heard.notify_all()
        threading.Thread(target=self._see_to_the_end, name="wengert end", daemon=True).start()

    def _see_to_the_end(self) -> None:
        """Make the main thread raise; exit the process if that fails."""
        for action in self.on_loss:
            with suppress(Exception):
                action()
        until = self._news_at + max(GRACE, self._served["grace"])
        while not self._raised and self.is_open and time.monotonic() < until:
            if self._state != "saving" or self._call is not None:
                endings.interrupt(self._interrupts)
            time.sleep(0.1)
        if not self._raised and self.is_open and self._news is not None:
            error = self._error(self._news)
            endings.end_now(f"{type(error).__name__}: {error.message}")

    def _error(self, news: Message) -> DistributedError:
        if "lost" in news:
            loss = Loss.read(news["lost"])
            report = loss.report
            loss = replace(loss, seconds=loss.seconds + time.monotonic() - self._news_at)
            waiting = self._now().call if self._call is not None else None
            facts: dict[str, Any] = {"host": report.host, "pid": report.pid, "signal": loss.signal, "step": report.step}
            return RankLost(lost(loss, waiting), _users_line(), rank=None if report.rank < 0 else report.rank, **facts)
        kind = CollectiveTimeout if "late" in news else ProgramMismatch
        said = news["late" if "late" in news else "mismatch"]
        return kind(said["text"], _users_line(), ranks=tuple(said["ranks"]))


def _users_line() -> Location:
    """The innermost line outside Wengert and libraries: an interrupt may arrive anywhere."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def _versions() -> list[str]:
    """Versions that must match on all ranks, besides the program."""
    return [
        f"wengert {wengert.__version__}",
        f"Python {platform.python_version()}",
        f"NumPy {np.__version__}",
        f"byte order {sys.byteorder}",
    ]
