"""The reports that ranks send about themselves, and the error messages about lost and late ranks.

A report is a plain value that travels as JSON over the control plane (`control`, `control_server`). The texts of
RankLost and CollectiveTimeout are made here and nowhere else, for ranks and for the launcher.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from wengert.runtime.debug.explain import bytes_text

EXCUSED = ("compiling", "loading data", "saving")
"""States that take as long as they take: while an awaited rank is in one, the deadline does not run."""

SILENT = 5.0
"""Seconds after which a rank that sent nothing is no longer excused by the state that it reported last."""


AGREEMENT = "agreement"
"""The series of what ranks agree on, which is numbered apart from collectives."""


@dataclass(frozen=True)
class Call:
    """One collective that a rank entered: its number in a series (a group of ranks), and the user's line."""

    number: int
    name: str
    bytes: int
    line: str
    series: str = "all"
    ranks: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """Its name in messages: `collective 41`."""
        return f"{'agreement' if self.series == AGREEMENT else 'collective'} {self.number}"

    def __str__(self) -> str:
        size = f" of {bytes_text(self.bytes)}" if self.bytes else ""
        return f"{self.title}: {self.name}{size}{f', {self.line}' if self.line else ''}"


@dataclass(frozen=True)
class Report:
    """A rank's report about itself, sent about once a second."""

    rank: int
    host: str = ""
    pid: int = 0
    step: int | None = None
    state: str = "starting"
    seconds: float = 0.0  # in that state
    call: Call | None = None  # the last collective that it entered
    numbers: dict[str, int] = field(default_factory=dict)  # the last number of each series
    checkpoint: str = ""
    heard: float = 0.0  # seconds since it was heard of; the server fills it in

    def wire(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)

    @classmethod
    def read(cls, wire: dict[str, Any]) -> Report:
        """Rebuild it from what `wire` returned."""
        call = wire.get("call")
        if call:
            call = Call(**{**call, "ranks": tuple(call["ranks"])})
        return cls(**{**wire, "call": call})

    @property
    def excused(self) -> bool:
        """Whether the time that others wait for it does not count."""
        return self.state in EXCUSED and self.heard < SILENT


@dataclass(frozen=True)
class Loss:
    """A lost rank: its last report, how it ended, and how long ago."""

    report: Report
    signal: int | None = None
    status: int | None = None  # its exit status, if it is known
    reason: str = ""  # its own last words, or why it is missed
    seconds: float = 0.0
    role: str = ""  # "the launcher", where it is no rank

    def wire(self) -> dict[str, Any]:
        """As JSON data."""
        return {**asdict(self), "report": self.report.wire()}

    @classmethod
    def read(cls, wire: dict[str, Any]) -> Loss:
        """Rebuild it from what `wire` returned."""
        return cls(**{**wire, "report": Report.read(wire["report"])})

    def ended_by(self, status: int | None) -> Loss:
        """The same loss with the exit status that a parent process saw; negative for a signal."""
        if status is None or self.signal is not None or self.status is not None:
            return self
        return replace(self, signal=-status) if status < 0 else replace(self, status=status)


def lost(loss: Loss, waiting: Call | None = None) -> str:
    """The text of RankLost, for a rank that is waiting in a collective or one that is not."""
    report = loss.report
    who = loss.role or f"rank {report.rank}"
    step = f" in step {report.step}" if report.step is not None else ""
    lines = [f"{who} (host {report.host}, pid {report.pid}) {_how(loss)}{step}, {loss.seconds:.1f} s ago."]
    if not loss.role:
        lines.append(f"At its last report, {report.heard:.1f} s before, it was {_doing(report)}")
    if waiting is not None:
        lines.append(f"You were waiting in {waiting}")
    if report.checkpoint:
        lines.append(f"Last checkpoint: {report.checkpoint}")
    return "\n  ".join(lines)


def _how(loss: Loss) -> str:
    if loss.reason:
        return loss.reason
    if loss.signal is not None:
        return f"died of signal {loss.signal}{_signal_name(loss.signal)}"
    if loss.status is not None:
        return f"ended with exit status {loss.status}"
    return "died"


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def _doing(report: Report) -> str:
    """What a rank was doing according to its last report."""
    call = report.call
    if call is None:
        return f"{report.state}, and had entered no collective"
    if report.state == "waiting":
        return f"waiting in {call}"
    return f"{report.state}; the last one it entered was {call}"


def late(call: Call, seconds: float, came: Sequence[int], absent: Sequence[Report], answered: bool = True) -> str:
    """The text of CollectiveTimeout."""
    where = f"{call.name}{f', {call.line}' if call.line else ''}"
    if not answered:
        return (
            f"{call.title} has waited {seconds:.0f} s: {where}\n  "
            "The control plane does not answer, so nothing is known about the other ranks"
        )
    if not absent:
        return (
            f"{call.title} has waited {seconds:.0f} s, and all ranks are in it: {where}\n  "
            "The communication library hangs, or is slower than wg.config.deadline allows"
        )
    missing = [report.rank for report in absent]
    groups = [f"{listed(came)}: in {call.title}"] if came else []
    groups += [f"rank {report.rank}: {_absence(report)}" for report in absent[:8]]
    if len(absent) > 8:
        groups.append(f"and {len(absent) - 8} more")
    text = f"{call.title} has waited {seconds:.0f} s for {listed(missing)}: {where}\n  "
    return text + "\n  ".join(groups)


def _absence(report: Report) -> str:
    if not report.pid:
        return "has not joined"
    silent = (
        (f", and has not reported for {report.heard:.0f} s: stopped, or disconnected") if report.heard >= SILENT else ""
    )
    if report.state == "waiting":
        return f"has not entered it: waiting for {report.seconds:.0f} s in {report.call}{silent}"
    last = f", last in {report.call}" if report.call else ""
    return f"has not entered it: {report.state} for {report.seconds:.0f} s{last}{silent}"


def listed(ranks: Sequence[int]) -> str:
    """Ranks as text, with runs shortened.

    >>> listed([2]), listed([0, 1, 3]), listed([0, 1, 2, 3, 7])
    ('rank 2', 'ranks 0, 1 and 3', 'ranks 0 to 3 and 7')
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [word for run in runs for word in (_run(run) if len(run) > 2 else map(str, run))]
    if len(ranks) == 1:
        return f"rank {words[0]}"
    return f"ranks {words[0] if len(words) == 1 else ', '.join(words[:-1]) + ' and ' + words[-1]}"


def _run(run: list[int]) -> list[str]:
    return [f"{run[0]} to {run[-1]}"]
