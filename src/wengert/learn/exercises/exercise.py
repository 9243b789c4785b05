"""What an exercise is: the files that students get, and checks that judge what comes back.

An exercise is a folder `exercises/NAME/` whose `__init__.py` defines `EXERCISE`:

    EXERCISE = Exercise(
        name="dual",
        title="Dual numbers",
        minutes=45,
        marks=10,
        allowed_imports=("math",),
        files=files_in(HERE / "handout"),          # what students get: starter code with TODO, README.md
        submission=("dual.py",),                   # what they hand in
        checks=(Check("the product rule", "product", products), ...),
        probes=(HERE / "probes.py").read_text(),
    )

The work of a check is divided between two processes:

- The grader, which the submission cannot reach, calls `cases(rng)`. It draws the inputs from a seed, and says for each
  case what the right answer is.
- The submission's process gets the inputs of one case at a time and calls a *probe*: a function of `probes.py`, which
  imports the submission, applies it to the inputs and returns arrays. A probe contains no expected values: whatever the
  submission does to it, the only thing that can come out is an answer, which the grader compares with its own.

`wengert.learn.exercises.find(name)` returns an exercise, `wengert.learn.grading` grades one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One call of a probe, and what it should return.

    `inputs` and `expected` consist of arrays, numbers, strings, None, and tuples, lists and dicts of these. `expected`
    may be `REFUSED`: the probe should raise an error. `judge` is for answers that have no single right value: it
    receives the answer, and returns what is wrong with it, or an empty string.
    """

    inputs: tuple[Any, ...]
    expected: Any = None
    note: str = ""
    judge: Callable[[Any], str] | None = None


class Refused:
    """The expected answer of a case that should raise an error."""

    def __repr__(self) -> str:
        return "an error"


REFUSED = Refused()

Cases = Callable[[np.random.Generator], Iterable[Case]]


@dataclass(frozen=True)
class Check:
    """One line of the result: a title, the probe that runs beside the submission, and the cases drawn for it.

    A check passes if all of its cases do. Its marks are `weight` over the sum of all weights, of the exercise's marks.
    `group` is the part of the exercise it belongs to: courses' systems list marks by these.
    """

    title: str
    probe: str
    cases: Cases
    weight: float = 1.0
    group: str = ""
    rtol: float = 1e-5
    atol: float = 1e-7


@dataclass(frozen=True)
class Exercise:
    """What students get and hand in, what they may import, and how it is checked.

    `questions` are answered in `answers.md` and read by people; `question_marks` of the marks are theirs. `needs` are
    the packages that a submission's process can import beside the standard library. `gpu` says that checks need CUDA.
    `public_seed` draws the cases that students get. `arrays` returns data that is handed out as .npy files.
    """

    name: str
    title: str
    minutes: int
    marks: float
    allowed_imports: tuple[str, ...]
    files: Mapping[str, str]
    submission: tuple[str, ...]
    checks: tuple[Check, ...]
    probes: str
    questions: tuple[str, ...] = ()
    question_marks: float = 0.0
    lesson: str = ""
    lecture: str = ""
    needs: tuple[str, ...] = ("numpy",)
    gpu: bool = False
    arrays: Callable[[], Mapping[str, Any]] | None = None
    public_seed: int = 11785

    def __post_init__(self) -> None:
        missing = [name for name in self.submission if name not in self.files]
        if missing:
            raise ValueError(
                f"exercise {self.name}: {missing} are to be handed in but are not among the handout's files"
            )
        defined = {node.name for node in ast.parse(self.probes).body if isinstance(node, ast.FunctionDef)}
        unknown = sorted({check.probe for check in self.checks} - defined)
        if unknown:
            raise ValueError(
                f"exercise {self.name}: the checks use the probes {unknown}, which probes.py does not define"
            )

    def marks_of(self, check: Check) -> float:
        """What a check is worth."""
        return (self.marks - self.question_marks) * check.weight / sum(each.weight for each in self.checks)

    def cases(self, check: Check, seed: int) -> list[Case]:
        """The cases of a check, drawn from a seed: other checks do not move them."""
        number = self.checks.index(check)
        return list(check.cases(np.random.default_rng([seed, number])))


def files_in(folder: Path) -> dict[str, str]:
    """The text files below a folder, by their paths from there: a handout as it lies on disk."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in found}
