"""Spans of time on ranks: computation, communication, and which communication is exposed.

Communication is *exposed* while its rank computes nothing. A rank that enters a collective before another *waits* for
it: no faster network shortens that part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

Interval = tuple[float, float]

COMPUTE, COMMUNICATION, BUILD, COPY, STATE = "compute", "communication", "build", "copy", "state"
STEP = "step"  # the moment at which one begins


class Span(NamedTuple):
    """Something that a rank did: its kind, name, beginning and end in seconds; of a collective its bytes and ranks."""

    kind: str
    name: str
    start: float
    stop: float
    line: str = ""
    bytes: int = 0
    ranks: tuple[int, ...] = ()  # of a collective; none for all

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.stop - self.start


@dataclass
class RankSpans:
    """What one rank did from `start` to `stop`."""

    rank: int
    start: float
    stop: float
    spans: list[Span] = field(default_factory=list)
    left_out: int = 0

    @property
    def seconds(self) -> float:
        """How long was looked on."""
        return self.stop - self.start

    def of(self, *kinds: str) -> list[Span]:
        """The spans of some kinds, in order."""
        return sorted((span for span in self.spans if span.kind in kinds), key=lambda span: span.start)

    @cached_property
    def computing(self) -> list[Interval]:
        """When it computed."""
        return union(self.of(COMPUTE))

    @cached_property
    def communicating(self) -> list[Interval]:
        """When a collective was under way."""
        return union(self.of(COMMUNICATION))

    @cached_property
    def exposed(self) -> list[Interval]:
        """When a collective was under way and nothing was computed."""
        return without(self.communicating, self.computing)

    @property
    def exposed_share(self) -> float:
        """The part of the time in which communication was exposed."""
        return length(self.exposed) / self.seconds if self.seconds else 0.0

    def exposed_of(self, span: Span) -> list[Interval]:
        """The parts of one collective that nothing hides."""
        return without([(span.start, span.stop)], self.computing)

    def moved(self, seconds: float) -> RankSpans:
        """The same by a clock that is so many seconds ahead."""
        spans = [span._replace(start=span.start + seconds, stop=span.stop + seconds) for span in self.spans]
        return RankSpans(self.rank, self.start + seconds, self.stop + seconds, spans, self.left_out)

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        head = {"rank": self.rank, "start": self.start, "stop": self.stop, "left_out": self.left_out}
        return {**head, "spans": [list(span) for span in self.spans]}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> RankSpans:
        """What `as_data` gave."""
        spans = [Span(*entry)._replace(ranks=tuple(entry[6])) for entry in data["spans"]]
        return cls(data["rank"], data["start"], data["stop"], spans, data["left_out"])


def waits(ranks: Sequence[RankSpans]) -> dict[tuple[int, int], float]:
    """For how long a rank waited in a collective until the last one had entered it: by rank and number on that rank.

    The collectives of a group are the same on all of its ranks, in the same order.
    """
    entered: dict[tuple[tuple[int, ...], int], float] = {}
    places: list[tuple[int, int, Span, tuple[tuple[int, ...], int]]] = []
    for one in ranks:
        counts: dict[tuple[int, ...], int] = {}
        for number, span in enumerate(one.of(COMMUNICATION)):
            key = (span.ranks, counts.get(span.ranks, 0))
            counts[span.ranks] = key[1] + 1
            entered[key] = max(entered.get(key, span.start), span.start)
            places.append((one.rank, number, span, key))
    return {(rank, n): min(max(entered[key] - span.start, 0.0), span.seconds) for rank, n, span, key in places}


# --- intervals --------------------------------------------------------------------------------------------------------


def union(spans: Iterable[Span]) -> list[Interval]:
    """When at least one of some spans, which are in order, was under way."""
    found: list[Interval] = []
    for span in spans:
        if found and span.start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], span.stop))
        else:
            found.append((span.start, span.stop))
    return found


def without(intervals: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """The parts of intervals that are in no other; both are disjoint and in order.

    >>> without([(0, 10), (12, 14)], [(2, 3), (9, 13)])
    [(0, 2), (3, 9), (13, 14)]
    """
    found: list[Interval] = []
    for start, stop in intervals:
        for left, right in others:
            if right <= start or left >= stop:
                continue
            if left > start:
                found.append((start, left))
            start = max(start, right)
        if start < stop:
            found.append((start, stop))
    return found


def length(intervals: Iterable[Interval]) -> float:
    """How long some disjoint intervals are together."""
    return sum(stop - start for start, stop in intervals)
