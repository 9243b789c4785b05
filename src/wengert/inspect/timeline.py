"""`wg.inspect.timeline`: what each rank computed and communicated over time, and which communication was exposed.

In: whatever the ranks run inside a `with` block, which all of them enter and leave. Each rank records its own spans
(`recorder`). At the end the spans are gathered, by one clock, and rank 0 writes a page (`timeline_page`).
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from wengert.core.communication import Communicator, communicator, current
from wengert.inspect.recorder import RankRecorder
from wengert.inspect.spans import BUILD, COMMUNICATION, RankSpans, Span, length, waits
from wengert.inspect.timeline_page import page
from wengert.runtime.debug.explain import bytes_text
from wengert.runtime.dynamic.realize import flush

_ROUNDS = 9  # of reading the clocks of all ranks


class RankTimelines:
    """The spans of all ranks, after the block has ended; print it to see a table.

    >>> import wengert as wg
    >>> with wg.inspect.timeline() as spans:
    ...     y = wg.ones(3) + 1
    >>> isinstance(spans, wg.inspect.RankTimelines)
    True
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self.ranks: list[RankSpans] = []
        self._recorder = RankRecorder(current.rank)

    def __enter__(self) -> RankTimelines:
        flush()
        if current.size > 1:
            _everyone().all_gather(np.zeros(1), 0)  # they begin together
        self._recorder.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        if exception[0] is None:
            flush()
        self._recorder.__exit__(*exception)
        if exception[0] is not None:  # another rank may not come here
            return
        self.ranks = _gathered(self._recorder.found)
        if self.path is not None and current.rank == 0:
            self.path.write_text(page(self.ranks, str(self)), encoding="utf-8")

    @property
    def exposed(self) -> float:
        """The share of time in which ranks communicated and computed nothing."""
        total = sum(one.seconds for one in self.ranks)
        return sum(length(one.exposed) for one in self.ranks) / total if total else 0.0

    def __str__(self) -> str:
        if not self.ranks:
            return "a timeline whose block has not ended"
        lines = [_HEAD, *_rows(self.ranks), f"exposed communication: {self.exposed:.1%} of the time"]
        return "\n".join([*lines, *_collectives(self.ranks)])


def timeline(path: str | Path | None = None) -> RankTimelines:
    """Record what all ranks do inside a `with` block. With a path, rank 0 writes a page with two lanes for each rank.

    Every rank enters and leaves the block. Run a step before it, so that no program is built inside.

    >>> import wengert as wg
    >>> double = wg.compile(lambda x: x * 2)
    >>> with wg.inspect.timeline() as timeline:
    ...     y = double(wg.ones(3))
    >>> len(timeline.ranks), timeline.exposed
    (1, 0.0)
    """
    return RankTimelines(path)


# --- from all ranks to one clock --------------------------------------------------------------------------------------


def _everyone() -> Communicator:
    return communicator(current.group())


def _gathered(own: RankSpans) -> list[RankSpans]:
    """The spans of all ranks, by the clock of rank 0, from when the first one began."""
    found = [own]
    if current.size > 1:
        everyone = _everyone()
        ahead = _clocks(everyone)
        texts = _texts(everyone, json.dumps(own.as_data()))
        found = [RankSpans.from_data(json.loads(text)).moved(-ahead[k]) for k, text in enumerate(texts)]
    first = min(one.start for one in found)
    return [one.moved(-first) for one in found]


def _clocks(everyone: Communicator) -> list[float]:
    """By how much the clock of each rank is ahead of rank 0's: nothing on one machine, whose processes share it.

    Ranks leave a collective at about the same time, so they read their clocks then; the median of several readings.
    """
    readings = []
    for _ in range(_ROUNDS):
        everyone.all_gather(np.zeros(1), 0)
        readings.append(everyone.all_gather(np.array([perf_counter()]), 0))
    machines = _texts(everyone, _machine())
    ahead = [median(float(row[k] - row[0]) for row in readings) for k in range(everyone.size)]
    return [0.0 if machine == machines[0] else seconds for machine, seconds in zip(machines, ahead)]


def _machine() -> str:
    """What tells this machine, since it was started, from others."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return platform.node()


def _texts(everyone: Communicator, own: str) -> list[str]:
    """A text of every rank."""
    data = np.frombuffer(own.encode(), np.uint8)
    sizes = everyone.all_gather(np.array([data.size]), 0)
    padded = np.zeros((1, int(sizes.max())), np.uint8)
    padded[0, : data.size] = data
    rows = everyone.all_gather(padded, 0)
    return [bytes(row[: int(size)]).decode() for row, size in zip(rows, sizes)]


# --- as text ----------------------------------------------------------------------------------------------------------

_HEAD = f"{'rank':>4} {'seconds':>9} {'computing':>10} {'communicating':>14} {'exposed':>9} {'share':>7} {'waiting':>9}"


def _rows(ranks: Sequence[RankSpans]) -> list[str]:
    """A line a rank; `waiting` is for ranks that came later."""
    waited = waits(ranks)
    lines = []
    for one in ranks:
        waiting = sum(seconds for (rank, _), seconds in waited.items() if rank == one.rank)
        built = sum(span.seconds for span in one.of(BUILD))
        lines.append(
            f"{one.rank:>4} {one.seconds:>9.4f} {length(one.computing):>10.4f} {length(one.communicating):>14.4f} "
            f"{length(one.exposed):>9.4f} {one.exposed_share:>7.1%} {waiting:>9.4f}"
            + (f"  {built:.4f} s building programs" if built else "")
            + (f"  {one.left_out} spans left out" if one.left_out else "")
        )
    return lines


def _collectives(ranks: Sequence[RankSpans], top: int = 10) -> list[str]:
    """The collectives of rank 0 by name and line, those that were exposed for longest first."""
    rows: dict[tuple[str, str], list[tuple[Span, float]]] = {}
    for span in ranks[0].of(COMMUNICATION):
        exposed = length(ranks[0].exposed_of(span))
        rows.setdefault((span.name, span.line), []).append((span, exposed))
    if not rows:
        return []
    ordered = sorted(rows.items(), key=lambda item: -sum(exposed for _, exposed in item[1]))
    lines = [f"collectives of rank 0:\n{'calls':>6} {'bytes':>10} {'ms':>9} {'exposed':>9}  name, line"]
    for (name, line), spans in ordered[:top]:
        size, seconds = sum(span.bytes for span, _ in spans), sum(span.seconds for span, _ in spans)
        exposed = sum(exposed for _, exposed in spans)
        lines.append(
            f"{len(spans):>6} {bytes_text(size):>10} {seconds * 1e3:>9.3f} {exposed * 1e3:>9.3f}  {name}, {line}"
        )
    return lines
