"""`wengert learn grade`: grades what students handed in, one submission or a whole class.

    wengert learn grade FOLDER                       a line for each check, and the marks
    wengert learn grade CLASS --csv marks.csv        every folder and archive in CLASS

What is graded is decided by `exercises`, how by `grading`: the submission's process only evaluates functions on inputs
that it gets one at a time; this process draws them, knows the right answers and compares.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from dataclasses import replace
from pathlib import Path

from wengert.core.errors import ArgumentError
from wengert.learn import exercises
from wengert.learn.exercises.exercise import Exercise
from wengert.learn.grading import report, sandbox, similarity, submissions
from wengert.learn.grading.marking import Exam, Graded, mark, new_seed
from wengert.learn.kit import variant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("paths", nargs="+", type=Path, help="a submission (folder, tar, zip), or a folder of many")
    parser.add_argument("--exercise", metavar="NAME", help=f"one of {', '.join(exercises.names())}; found by its files")
    parser.add_argument("--kit", type=Path, metavar="FOLDER", help="the instructor's folder of a term's kit")
    parser.add_argument(
        "--seed", type=int, help="draw the hidden cases from this seed; a new one each time if not given"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a table: a line for each submission")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything, for programs")
    parser.add_argument("--autolab", action="store_true", help="end with the line of JSON that Autolab reads")
    parser.add_argument("--gradescope", type=Path, metavar="FILE", help="write Gradescope's results.json")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="write the answers to the questions, by question")
    parser.add_argument(
        "--question-marks", type=Path, metavar="FILE", help="a CSV file: submission, marks of each question"
    )
    parser.add_argument("--similarity", action="store_true", help="list submissions that resemble each other")
    parser.add_argument("--seconds", type=float, default=120.0, help="for one submission (default: %(default)s)")
    parser.add_argument("--isolation", choices=sandbox.KINDS, help="the strongest that works here, if not given")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the submissions; it needs NumPy")


def run(options: argparse.Namespace) -> int:
    """The command; 0 if a single submission got all marks, or a class was graded."""
    exercise = _exercise(options)
    paths = [each for path in options.paths for each in submissions.found(path, exercise)]
    if exercise.gpu and not _has_gpu():
        raise ArgumentError(f"learn grade: the checks of {exercise.name} run CUDA; this machine has no GPU")
    if len(paths) > 1 and _is_for_a_system(options):
        raise ArgumentError(f"learn grade: --autolab and --gradescope are for one submission; there are {len(paths)}")
    seed = new_seed() if options.seed is None else options.seed
    isolation = options.isolation or sandbox.best_kind(options.python)
    if isolation in ("uid", "limits"):
        print(_weak(isolation, sandbox.why_not(options.python)), file=sys.stderr)
    started = time.monotonic()
    exam = Exam(exercise, seed)
    graded = [_graded(exam, path, isolation, options) for path in paths]
    if options.question_marks:
        graded = _with_question_marks(exercise, graded, options.question_marks)
    _tell(exercise, graded, options, time.monotonic() - started)
    return 1 if len(graded) == 1 and graded[0].passed < len(graded[0].results) and not _is_for_a_system(options) else 0


def _is_for_a_system(options: argparse.Namespace) -> bool:
    return bool(options.autolab or options.gradescope)


def _exercise(options: argparse.Namespace) -> Exercise:
    if options.kit:
        return variant.read(options.kit).exercise(options.exercise or "mytorch")
    return exercises.find(options.exercise) if options.exercise else submissions.recognized(options.paths)


def _has_gpu() -> bool:
    import wengert as wg

    return bool(wg.cuda.is_available())


def _weak(isolation: str, refusals: dict[str, str]) -> str:
    reasons = "".join(f"\n  {kind}: {reason}" for kind, reason in refusals.items())
    holds = "limits only" if isolation == "limits" else "another user and limits"
    return (
        f"wengert: submissions run under {holds}: they can read what every user of this machine can read, and the "
        f"grader's own files must not be among that.{f' Stronger isolation is refused:{reasons}' if reasons else ''}"
    )


def _graded(exam: Exam, path: Path, isolation: str, options: argparse.Namespace) -> Graded:
    limits = sandbox.Limits(seconds=options.seconds, answer=min(10.0, options.seconds))
    name = submissions.name_of(path)
    with submissions.opened(path, exam.exercise) as folder:
        return mark(exam, folder, limits=limits, kind=isolation, python=options.python, name=name)


def _tell(exercise: Exercise, graded: list[Graded], options: argparse.Namespace, seconds: float) -> None:
    """Print and write the results in all forms that were asked for."""
    print(report.text(graded[0]) if len(graded) == 1 else report.table(graded))
    for path, content in (
        (options.csv, report.as_csv),
        (options.json, report.as_json),
        (options.answers, lambda all_of_them: report.answer_sheet(exercise, all_of_them)),
        (options.gradescope, lambda all_of_them: report.gradescope(all_of_them[0], seconds)),
    ):
        if path:
            path.write_text(content(graded), encoding="utf-8")
    if options.similarity:
        solution = _published(exercise)
        files = {each.name: each.files for each in graded} | ({"the published solution": solution} if solution else {})
        print("\n" + similarity.report(similarity.pairs(files, exercise.files)))
    if options.autolab:
        print(report.autolab(graded[0]))


def _published(exercise: Exercise) -> dict[str, str]:
    """The solution that is part of Wengert, where there is one: the engines `mytorch` and `ranks`."""
    package = Path(__file__).parent
    files = {name: package / name for name in exercise.submission if (package / name).is_file()}
    return {name: path.read_text(encoding="utf-8") for name, path in files.items()}


def _with_question_marks(exercise: Exercise, graded: list[Graded], path: Path) -> list[Graded]:
    """The marks that people gave to answers, added: a table of submissions and their marks by question."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = {row[0]: row[1:] for row in csv.reader(file) if row}
    found = []
    for each in graded:
        try:
            given = sum(float(cell) for cell in rows.get(each.name, []) if cell.strip())
        except ValueError as error:
            raise ArgumentError(f"learn grade: {path}: the marks of {each.name} are no numbers: {error}") from None
        found.append(replace(each, question_marks=min(given, exercise.question_marks)))
    return found


def grade(folder: Path, seconds: float = 120.0, seed: int | None = None) -> int:
    """Grade one submission and print the result; 0 if it got all marks."""
    arguments = [str(folder), "--seconds", str(seconds), *(["--seed", str(seed)] if seed is not None else [])]
    return main(arguments)


def main(arguments: list[str] | None = None) -> int:
    """The command, as `python -m wengert.learn.grade`."""
    parser = argparse.ArgumentParser(prog="wengert learn grade", description=__doc__.splitlines()[0])
    add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except ArgumentError as error:
        raise SystemExit(f"wengert: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
