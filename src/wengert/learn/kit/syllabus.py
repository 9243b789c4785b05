"""The syllabus: lecture, lesson, exercise, minutes and marks, as a table made from the exercises themselves."""

from __future__ import annotations

from collections.abc import Sequence

from wengert.learn import exercises

ORDER = ("mlp", "mytorch", "cnn", "rnn", "ctc", "attention", "ranks")


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
