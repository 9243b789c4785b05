"""Marks a submission: from a folder and an exercise to marks for each check.

The grader's process draws the cases, knows the right answers and compares. The submission's process gets inputs, one
case at a time, and returns arrays. A process that ends, hangs or answers nonsense fails the check at hand, and a
new one is started for the next check.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from wengert.learn.exercises.exercise import Case, Check, Exercise
from wengert.learn.grading import judge, suspicions, wire
from wengert.learn.grading.sandbox import Limits, NoIsolation, Session, best_kind

MOST_STARTS = 4
ENDED = ("timed out", "the program ended", "not run", "the answer cannot be read")  # how such problems begin
LIMITS = Limits()


@dataclass(frozen=True)
class Result:
    """What one check gave; `problem` is empty if it passed."""

    title: str
    group: str
    marks: float
    out_of: float
    problem: str = ""


@dataclass(frozen=True)
class Graded:
    """What one submission gets, and what a person should look at."""

    name: str
    exercise: str
    seed: int
    isolation: str
    results: tuple[Result, ...]
    question_marks: float = 0.0
    questions_out_of: float = 0.0
    missing: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    note: str = ""
    files: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def marks(self) -> float:
        """All marks."""
        return sum(result.marks for result in self.results) + self.question_marks

    @property
    def out_of(self) -> float:
        """What can be reached."""
        return sum(result.out_of for result in self.results) + self.questions_out_of

    @property
    def passed(self) -> int:
        """How many checks passed."""
        return sum(not result.problem for result in self.results)


class Exam:
    """An exercise with its hidden cases, which are drawn once for all submissions."""

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise, self.seed = exercise, seed
        self._cases: dict[int, list[Case]] = {}

    def cases(self, check: Check) -> list[Case]:
        """The cases of a check."""
        number = self.exercise.checks.index(check)
        if number not in self._cases:
            self._cases[number] = self.exercise.cases(check, self.seed)
        return self._cases[number]


def new_seed() -> int:
    """A seed that nobody knows before."""
    return secrets.randbelow(2**31)


def mark(
    exam: Exam,
    folder: Path,
    *,
    limits: Limits = LIMITS,
    kind: str | None = None,
    python: str = sys.executable,
    name: str = "",
) -> Graded:
    """Grade what is in a folder."""
    exercise = exam.exercise
    taken, missing = _taken_files(exercise, folder)
    isolation = kind or best_kind(python)
    with tempfile.TemporaryDirectory() as place:
        for path, text in {**exercise.files, **taken}.items():
            target = Path(place) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")

        def start() -> Session:
            return Session(
                Path(place),
                exercise.probes,
                allowed=exercise.allowed_imports,
                needs=exercise.needs,
                limits=limits,
                kind=isolation,
                python=python,
            )

        results = _Marker(exam, start, limits).results()
    own = {path.partition("/")[0].removesuffix(".py") for path in exercise.files}
    return Graded(
        name=name or folder.name,
        exercise=exercise.name,
        seed=exam.seed,
        isolation=isolation,
        results=results,
        questions_out_of=exercise.question_marks,
        missing=missing,
        suspicions=tuple(suspicions.problems(taken, exercise.allowed_imports, own)),
        answers=_answers(folder, len(exercise.questions)),
        files=taken,
    )


def _taken_files(exercise: Exercise, folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """The files that students hand in, and those that are not there. All others are the handout's own, as they were."""
    taken, missing = {}, []
    for name in exercise.submission:
        path = folder / name
        inside = path.resolve().is_relative_to(folder.resolve())  # a link may point to somebody else's file
        if inside and path.is_file() and path.stat().st_size < 2**20:
            taken[name] = path.read_text(encoding="utf-8", errors="replace")
        else:
            missing.append(name)
    return taken, tuple(missing)


class _Marker:
    """The checks of one submission, in turn, over processes that may die."""

    def __init__(self, exam: Exam, start: Callable[[], Session], limits: Limits) -> None:
        self.exam, self.start, self.limits = exam, start, limits
        for check in exam.exercise.checks:  # drawing them is no part of the submission's time
            exam.cases(check)
        self.session: Session | None = None
        self.starts = 0
        self.deadline = time.monotonic() + limits.seconds

    def results(self) -> tuple[Result, ...]:
        """One result for each check."""
        try:
            return tuple(self._result(check) for check in self.exam.exercise.checks)
        finally:
            self._end()

    def _result(self, check: Check) -> Result:
        problem, out_of = self._problem(check), self.exam.exercise.marks_of(check)
        return Result(check.title, check.group, 0.0 if problem else out_of, out_of, problem)

    def _problem(self, check: Check) -> str:
        try:
            for case in self.exam.cases(check):
                if time.monotonic() > self.deadline:
                    return f"not run: the submission has taken more than {self.limits.seconds:g} s in all"
                if self.session is None:
                    if self.starts == MOST_STARTS:
                        return f"not run: the program ended early {MOST_STARTS} times"
                    self.starts += 1
                    self.session = self.start()
                found = judge.complaint(check, case, self.session.ask(check.probe, case.inputs))
                if found:
                    return found
        except wire.TooLate:
            self._end()
            return f"timed out after {self.limits.answer:g} s (an infinite loop?)"
        except wire.Closed:
            self._end()
            return "the program ended before it answered (out of memory, too many processes, or an exit?)"
        except wire.BadMessage as error:
            self._end()
            return f"the answer cannot be read: {error}"
        except NoIsolation as error:
            return f"not run: the grader could not start a process: {error}"
        return ""

    def _end(self) -> None:
        if self.session is not None:
            self.session.close()
        self.session = None


def _answers(folder: Path, count: int) -> tuple[str, ...]:
    """The answers to the questions to think about: the text below each heading `## 1. ...` of answers.md."""
    path = folder / "answers.md"
    if not count or path.is_symlink() or not path.is_file() or path.stat().st_size > 2**20:
        return ("",) * count
    found = [""] * count
    number = 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        head = line.removeprefix("## ").partition(".")[0] if line.startswith("## ") else ""
        if head.isdigit():
            number = int(head)
        elif 1 <= number <= count:
            found[number - 1] += line + "\n"
    return tuple(text.strip() for text in found)
