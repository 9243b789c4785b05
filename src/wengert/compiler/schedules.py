"""Schedules of a pipeline: the order in which each rank runs its pieces, as a table, and the cost of that order.

A *piece* is the forward or the backward pass of one micro-batch through one stage. With S ranks there are S stages, or
a multiple of S (*chunks*): stage q is on rank q mod S. `gpipe` runs all forward passes, then all backward passes.
`1f1b` starts each backward pass as early as it can, so that a rank keeps the activations of few micro-batches.
`interleaved` does the same with several chunks per rank, which divides the bubble by their number.

`timeline` plays a table in ticks: a piece starts when its rank is free and its operands are ready. The result gives the
bubble and the peak number of live activations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from wengert.core.errors import ArgumentError

FORWARD, BACKWARD = "forward", "backward"


class Piece(NamedTuple):
    """The forward or backward pass of a micro-batch through a stage."""

    phase: str
    stage: int
    microbatch: int

    def __str__(self) -> str:
        return f"{self.phase[0].upper()}{self.microbatch}" + (f"/{self.stage}" if self.stage else "")


@dataclass(frozen=True)
class Schedule:
    """The pieces of each rank of a pipeline, in the order in which it runs them."""

    name: str
    ranks: int
    stages: int
    microbatches: int
    table: tuple[tuple[Piece, ...], ...]

    @property
    def chunks(self) -> int:
        """The number of stages per rank."""
        return self.stages // self.ranks


def gpipe(ranks: int, microbatches: int, stages: int | None = None) -> Schedule:
    """All forward passes, then all backward passes, the last stage's first (Huang et al., 2019)."""
    stages = _stages(ranks, stages)
    table = []
    for rank in range(ranks):
        own = range(rank, stages, ranks)
        forward = [Piece(FORWARD, q, m) for q in own for m in range(microbatches)]
        backward = [Piece(BACKWARD, q, m) for q in reversed(own) for m in range(microbatches)]
        table.append((*forward, *backward))
    return Schedule("gpipe", ranks, stages, microbatches, tuple(table))


def one_forward_one_backward(ranks: int, microbatches: int, stages: int | None = None) -> Schedule:
    """Warm-up forward passes, then one backward per forward pass (1F1B; Narayanan et al., 2019).

    >>> schedule = one_forward_one_backward(2, 3)
    >>> [" ".join(map(str, pieces)) for pieces in schedule.table]
    ['F0 F1 B0 F2 B1 B2', 'F0/1 B0/1 F1/1 B1/1 F2/1 B2/1']
    """
    stages = _stages(ranks, stages)
    chunks = stages // ranks
    if chunks == 1:
        table = [_alternating(rank, ranks - rank - 1, 1, ranks, microbatches) for rank in range(ranks)]
        return Schedule("1f1b", ranks, stages, microbatches, tuple(table))
    if microbatches % ranks:
        raise ArgumentError(
            f"interleaved stages take a multiple of {ranks} micro-batches, one for each rank, not {microbatches}"
        )
    table = []
    for rank in range(ranks):
        ahead = min(2 * (ranks - rank - 1) + (chunks - 1) * ranks, microbatches * chunks)
        table.append(_alternating(rank, ahead, chunks, ranks, microbatches))
    return Schedule("interleaved", ranks, stages, microbatches, tuple(table))


def _alternating(rank: int, ahead: int, chunks: int, ranks: int, microbatches: int) -> tuple[Piece, ...]:
    """This many warm-up forward passes, then forward and backward in turn, then the remaining backward passes."""
    count = microbatches * chunks
    ahead = min(ahead, count)
    forward = [Piece(FORWARD, *_nth(k, rank, chunks, ranks, is_forward=True)) for k in range(count)]
    backward = [Piece(BACKWARD, *_nth(k, rank, chunks, ranks, is_forward=False)) for k in range(count)]
    turns = [piece for pair in zip(forward[ahead:], backward) for piece in pair]
    return (*forward[:ahead], *turns, *backward[count - ahead :])


def _nth(k: int, rank: int, chunks: int, ranks: int, is_forward: bool) -> tuple[int, int]:
    """Stage and micro-batch of a rank's k-th piece: `ranks` micro-batches through each chunk in turn."""
    if chunks == 1:
        return rank, k
    run, place = divmod(k, ranks * chunks)
    chunk = place // ranks if is_forward else chunks - 1 - place // ranks
    return chunk * ranks + rank, run * ranks + place % ranks


def _stages(ranks: int, stages: int | None) -> int:
    stages = ranks if stages is None else stages
    if stages % ranks:
        raise ArgumentError(f"{ranks} ranks of the axis 'stage' cannot share {stages} stages equally")
    return stages


SCHEDULES: Mapping[str, Callable[..., Schedule]] = {
    "gpipe": gpipe,
    "1f1b": one_forward_one_backward,
}
"""By the name that `compile(schedule=...)` takes. "1f1b" over several stages a rank is the interleaved one."""


def schedule_named(name: str) -> Callable[..., Schedule]:
    """The schedule with a given name."""
    if name not in SCHEDULES:
        raise ArgumentError(f"compile: schedule is one of {', '.join(map(repr, SCHEDULES))}, not {name!r}")
    return SCHEDULES[name]


# --- in ticks -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlayedSchedule:
    """A schedule played in ticks: the start of each piece, the total time, and the share of it that ranks are idle."""

    schedule: Schedule
    begins: Mapping[Piece, int]
    ticks: int
    bubble: float
    """The part of the ranks' time in which they wait."""
    live: tuple[int, ...]
    """For each rank: of how many pieces it keeps the activations at most."""

    def __str__(self) -> str:
        """The table as text: one line per rank, one column per tick."""
        lines = []
        for pieces in self.schedule.table:
            cells = [""] * self.ticks
            for piece in pieces:
                cells[self.begins[piece]] = str(piece)
            lines.append(" ".join(f"{cell:<5}" for cell in cells).rstrip())
        return "\n".join(lines)


def timeline(schedule: Schedule, forward: int = 1, backward: int = 1) -> PlayedSchedule:
    """Play a schedule with these durations of a forward and a backward pass; raises if it would deadlock.

    >>> played = timeline(gpipe(2, 3))
    >>> played.ticks, played.bubble, played.live
    (8, 0.25, (3, 3))
    """
    takes = {FORWARD: forward, BACKWARD: backward}
    ends: dict[Piece, int] = {}
    begins: dict[Piece, int] = {}
    left = [list(pieces) for pieces in schedule.table]
    free = [0] * schedule.ranks
    while any(left):
        moved = False
        for rank, pieces in enumerate(left):
            while pieces and all(need in ends for need in needs(pieces[0], schedule.stages)):
                piece = pieces.pop(0)
                ready = max((ends[need] for need in needs(piece, schedule.stages)), default=0)
                begins[piece] = max(free[rank], ready)
                ends[piece] = free[rank] = begins[piece] + takes[piece.phase]
                moved = True
        if not moved:
            stuck = ", ".join(f"rank {rank} at {pieces[0]}" for rank, pieces in enumerate(left) if pieces)
            raise ArgumentError(f"the schedule {schedule.name!r} never ends: {stuck}")
    ticks = max(ends.values())
    busy = sum(takes[piece.phase] for pieces in schedule.table for piece in pieces)
    live = tuple(_most_live(pieces) for pieces in schedule.table)
    return PlayedSchedule(schedule, begins, ticks, 1 - busy / (ticks * schedule.ranks), live)


def needs(piece: Piece, stages: int) -> list[Piece]:
    """What a piece waits for: the previous stage, or the next one on the way back; the last stage turns around."""
    phase, stage, microbatch = piece
    if phase == FORWARD:
        return [Piece(FORWARD, stage - 1, microbatch)] if stage else []
    own = Piece(FORWARD, stage, microbatch)
    return [own] if stage == stages - 1 else [own, Piece(BACKWARD, stage + 1, microbatch)]


def _most_live(pieces: tuple[Piece, ...]) -> int:
    """The largest number of forward passes whose backward pass has not run yet."""
    most = now = 0
    for piece in pieces:
        now += 1 if piece.phase == FORWARD else -1
        most = max(most, now)
    return most
