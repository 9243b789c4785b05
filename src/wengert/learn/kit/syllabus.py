"""The syllabus: lecture, lesson, exercise, minutes and marks, as a table made from the exercises themselves.

    python -m wengert.learn.kit.syllabus docs/course.md

writes the table of all exercises between the two marks of a page.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from wengert.learn import exercises

ORDER = (
    *("paths", "products", "mlp", "dual", "value", "mytorch", "broadcasting", "cnn", "rnn", "ctc", "attention"),
    *("cse", "matmul", "checkpoints", "ranks", "vmap"),
)
MARKS = ("<!-- syllabus -->\n", "<!-- end of the syllabus -->\n")


def table(names: Sequence[str]) -> str:
    """A row for each exercise, in the order of the course."""
    rows = ["| lecture | lesson | exercise | minutes | marks |", "|---|---|---|---:|---:|"]
    known = [name for name in ORDER if name in names] + [name for name in names if name not in ORDER]
    for name in known:
        exercise = exercises.find(name)
        rows.append(
            f"| {exercise.lecture} | {exercise.lesson} | {exercise.title} (`{name}`) | {exercise.minutes} "
            f"| {exercise.marks:g} |"
        )
    minutes, marks = (sum(getattr(exercises.find(name), what) for name in names) for what in ("minutes", "marks"))
    return "\n".join([*rows, f"| | | all | {minutes} | {marks:g} |"])


def page(names: Sequence[str], term: str) -> str:
    """The page of a term."""
    return f"# Syllabus, {term}\n\n{table(names)}\n"


def filled(text: str) -> str:
    """A page's text with the table of all exercises between its marks."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{table(exercises.names())}\n\n{MARKS[1]}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
