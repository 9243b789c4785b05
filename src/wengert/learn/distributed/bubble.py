"""The section on pipelines: schedules played tick by tick, and the bubble that is read off them."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from wengert.compiler.schedules import FORWARD, gpipe, one_forward_one_backward, timeline
from wengert.learn.derivatives.section import Section, Table

RANKS, MICROBATCHES = 4, 4


@dataclass
class Ticks:
    """A schedule that was played: a row a rank, a column a tick; idle ticks are empty."""

    title: str
    played: Any  # by `compiler.schedules.timeline`

    def _cells(self) -> list[list[tuple[str, str]]]:
        """For each rank and tick the phase of the piece, and its name: in small letters for a rank's second stage."""
        rows = []
        for pieces in self.played.schedule.table:
            row = [("idle", "")] * self.played.ticks
            for piece in pieces:
                name = f"{piece.phase[0].upper()}{piece.microbatch}"
                is_first = piece.stage < self.played.schedule.ranks
                row[self.played.begins[piece]] = (piece.phase, name if is_first else name.lower())
            rows.append(row)
        return rows

    def to_text(self) -> str:
        """F and B with the number of the micro-batch; a dot where a rank is idle."""
        lines = [f"  {self.title}"]
        for rank, row in enumerate(self._cells()):
            lines.append(f"  rank {rank}  {' '.join(f'{name or chr(46):<2}' for _, name in row)}".rstrip())
        return "\n".join(lines)

    def to_html(self) -> str:
        """A coloured table."""
        colours = {FORWARD: "#3b82f6", "idle": "transparent"}
        rows = []
        for rank, row in enumerate(self._cells()):
            cells = "".join(
                f'<td style="background:{colours.get(kind, "#16a34a")};color:white;padding:0 .25em;text-align:center;'
                f'min-width:1.3em">{html.escape(name)}</td>'
                for kind, name in row
            )
            rows.append(f"<tr><td>rank {rank}</td>{cells}</tr>")
        return f"<figcaption>{html.escape(self.title)}</figcaption><table>{''.join(rows)}</table>"


def played() -> dict[str, Any]:
    """Three schedules of the same work."""
    return {
        "GPipe": timeline(gpipe(RANKS, MICROBATCHES)),
        "1F1B": timeline(one_forward_one_backward(RANKS, MICROBATCHES)),
        "interleaved, 2 stages a rank": timeline(one_forward_one_backward(RANKS, MICROBATCHES, 2 * RANKS)),
    }


def section() -> Section:
    """The pipeline's bubble."""
    found = played()
    rows = [[name, str(one.ticks), f"{one.bubble:.1%}", f"{max(one.live)} pieces"] for name, one in found.items()]
    late, early = (timeline(make(RANKS, 8 * MICROBATCHES)) for make in (one_forward_one_backward, gpipe))
    return Section(
        "The bubble of a pipeline",
        f"The layers are cut into stages, a rank has one, and {MICROBATCHES} micro-batches go through {RANKS} ranks. F "
        "is a forward pass of a micro-batch through a stage, B a backward pass, each one tick. At the beginning the "
        "last rank waits for the first micro-batch, at the end the first rank for the last gradient: the bubble.",
        [Ticks(name, one) for name, one in found.items()]
        + [Table(["schedule", "ticks", "bubble", "activations of"], rows)],
        "GPipe and 1F1B have the same bubble. But 1F1B begins backward passes as early as it can: however many "
        "micro-batches there are, a rank keeps the activations of only as many as there are ranks, not of all "
        f"({max(late.live)} and {max(early.live)} of {8 * MICROBATCHES}). Two stages a rank (the second in small "
        "letters) are half as long each, and so is each wait. More micro-batches make the bubble smaller: with "
        f"{8 * MICROBATCHES} it is {late.bubble:.0%}. wg.distributed.stage(i) around layers, and "
        "wg.compile(mesh=..., microbatches=..., schedule=...) with an axis `stage`, run these very tables.",
    )
