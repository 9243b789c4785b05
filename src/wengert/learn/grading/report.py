"""Results as people and courses' systems read them: text, tables, CSV, JSON, Autolab, Gradescope, an answer sheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from wengert.learn.exercises.exercise import Exercise
from wengert.learn.grading.marking import ENDED, Graded


def number(value: float) -> str:
    """Marks without needless digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(graded: Graded) -> str:
    """The result of one submission, a line for each check."""
    lines = [f"{graded.name}: {graded.exercise}, hidden cases of seed {graded.seed}, isolation: {graded.isolation}", ""]
    for result in graded.results:
        marks = f"{number(result.marks):>4}/{number(result.out_of):<4}"
        lines.append(f"{'FAIL' if result.problem else 'ok  '}  {marks}  {result.title}")
        lines += [f"        {line}" for line in result.problem.splitlines()]
    if graded.questions_out_of:
        lines.append(f"      {number(graded.question_marks):>4}/{number(graded.questions_out_of):<4}  questions")
    lines += [f"note: {remark}" for remark in remarks(graded)]
    return "\n".join([*lines, "", f"{number(graded.marks)} of {number(graded.out_of)} marks"])


def remarks(graded: Graded) -> list[str]:
    """What a person should look at."""
    found = [f"not handed in: {name}" for name in graded.missing]
    found += [f"code: {problem}" for problem in graded.suspicions]
    ended = [result.problem for result in graded.results if result.problem.startswith(ENDED)]
    return found + list(dict.fromkeys(ended)) + ([graded.note] if graded.note else [])


def table(submissions: Sequence[Graded]) -> str:
    """A line for each submission: marks by part of the exercise, all marks, and remarks."""
    groups = groups_of(submissions)
    rows = [["submission", *groups, "marks", "checks", "look at"]]
    for graded in submissions:
        by_group = marks_by_group(graded)
        passed = f"{graded.passed}/{len(graded.results)}"
        found = remarks(graded)
        remark = found[0] + (f" (+{len(found) - 1})" if len(found) > 1 else "") if found else ""
        rows.append([graded.name, *(number(by_group[group]) for group in groups), number(graded.marks), passed, remark])
    full = submissions[0]
    out_of = {group: sum(result.out_of for result in full.results if result.group == group) for group in groups}
    rows.insert(1, ["out of", *(number(out_of[group]) for group in groups), number(full.out_of), "", ""])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: list[str], widths: list[int]) -> str:
    """The cells of a row: the first and the last to the left, numbers to the right."""
    inner = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1])]
    return "  ".join([row[0].ljust(widths[0]), *inner, row[-1]]).rstrip()


def groups_of(submissions: Iterable[Graded]) -> list[str]:
    """The parts of the exercise, in order."""
    return list(dict.fromkeys(result.group for graded in submissions for result in graded.results))


def marks_by_group(graded: Graded) -> dict[str, float]:
    """The marks of each part."""
    found: dict[str, float] = {}
    for result in graded.results:
        found[result.group] = found.get(result.group, 0.0) + result.marks
    return found


def as_csv(submissions: Sequence[Graded]) -> str:
    """A line for each submission, a column for each check."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    titles = [result.title for result in submissions[0].results]
    writer.writerow(["submission", "marks", "out of", *titles, "questions", "remarks"])
    for graded in submissions:
        marks = [number(result.marks) for result in graded.results]
        row = [graded.name, number(graded.marks), number(graded.out_of), *marks, number(graded.question_marks)]
        writer.writerow([_as_cell(cell) for cell in [*row, "; ".join(remarks(graded))]])
    return out.getvalue()


def _as_cell(value: str) -> str:
    """A text that a spreadsheet does not take for a formula: a submission's name is a student's to choose."""
    return (
        f"'{value}" if value[:1] in ("=", "+", "@", "\t") or (value[:1] == "-" and not value[1:2].isdigit()) else value
    )


def as_json(submissions: Sequence[Graded]) -> str:
    """Everything, for programs."""
    return json.dumps([_plain(graded) for graded in submissions], indent=2)


def _plain(graded: Graded) -> dict[str, Any]:
    return {
        "submission": graded.name,
        "exercise": graded.exercise,
        "seed": graded.seed,
        "isolation": graded.isolation,
        "marks": round(graded.marks, 4),
        "out_of": round(graded.out_of, 4),
        "checks": [
            {
                "title": result.title,
                "group": result.group,
                "marks": round(result.marks, 4),
                "out_of": round(result.out_of, 4),
                "problem": result.problem,
            }
            for result in graded.results
        ],
        "question_marks": graded.question_marks,
        "answers": list(graded.answers),
        "remarks": remarks(graded),
    }


def autolab(graded: Graded) -> str:
    """The last line that Autolab reads: marks by problem, which are the parts of the exercise."""
    scores = {group: round(marks, 4) for group, marks in marks_by_group(graded).items()}
    if graded.questions_out_of:
        scores["Questions"] = round(graded.question_marks, 4)
    return json.dumps({"scores": scores, "scoreboard": [round(graded.marks, 4)]})


def gradescope(graded: Graded, seconds: float, visibility: str = "visible") -> str:
    """The text of Gradescope's results.json."""
    tests = [
        {
            "name": result.title,
            "number": str(k),
            "score": round(result.marks, 4),
            "max_score": round(result.out_of, 4),
            "status": "failed" if result.problem else "passed",
            "output": result.problem or "right on all hidden cases",
            "tags": [result.group],
            "visibility": visibility,
        }
        for k, result in enumerate(graded.results, 1)
    ]
    output = "\n".join(remarks(graded)) or f"hidden cases of seed {graded.seed}"
    return json.dumps(
        {
            "score": round(graded.marks, 4),
            "execution_time": round(seconds),
            "output": output,
            "visibility": visibility,
            "stdout_visibility": "hidden",
            "tests": tests,
            "extra_data": {"seed": graded.seed, "isolation": graded.isolation, "exercise": graded.exercise},
        },
        indent=2,
    )


def answer_sheet(exercise: Exercise, submissions: Sequence[Graded]) -> str:
    """All answers to each question together, for the people who mark them."""
    lines = [f"# {exercise.title}: answers", ""]
    if exercise.question_marks:
        each = number(exercise.question_marks / len(exercise.questions))
        lines += [f"Each question is worth {each} marks. Enter them in the table that `--question-marks` reads.", ""]
    for k, question in enumerate(exercise.questions):
        lines += [f"## {k + 1}. {question}", ""]
        for graded in submissions:
            answer = graded.answers[k] if k < len(graded.answers) and graded.answers[k] else "(no answer)"
            lines += [f"**{graded.name}**", "", *(f"> {line}" for line in answer.splitlines()), ""]
    return "\n".join(lines)
