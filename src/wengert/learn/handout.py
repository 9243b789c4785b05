"""`wengert learn handout`: writes an exercise for students: a package with gaps to fill in, cases to try it on.

    wengert learn handout FOLDER                       mytorch: build an automatic differentiator
    wengert learn handout FOLDER --exercise ranks      all-reduce from messages, and a sharded optimizer

The folder has the exercise's files, `autograder/runner.py` with cases whose right answers are known, `answers.md` for
the questions, and `create_tarball.sh`. `wengert learn grade` grades what comes back, on other cases.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from wengert.core.errors import ArgumentError
from wengert.learn import exercises
from wengert.learn.exercises.exercise import REFUSED, Check, Exercise
from wengert.learn.grading import wire

LEARN = Path(__file__).parent


def contents(exercise: Exercise) -> dict[str, bytes]:
    """All files of a handout, by their paths."""
    texts = {
        **exercise.files,
        "autograder/runner.py": (LEARN / "exercises" / "runner.py").read_text(encoding="utf-8"),
        "autograder/wire.py": (LEARN / "grading" / "wire.py").read_text(encoding="utf-8"),
        "autograder/probes.py": exercise.probes,
        "autograder/cases.json": json.dumps(public_cases(exercise)),
        "create_tarball.sh": _tarball(exercise),
    }
    if exercise.questions:
        texts["answers.md"] = _answers(exercise)
    found = {name: text.encode() for name, text in texts.items()}
    for name, array in (exercise.arrays() if exercise.arrays else {}).items():
        out = io.BytesIO()
        np.save(out, array)
        found[name] = out.getvalue()
    return found


def write(folder: Path, exercise: Exercise) -> None:
    """Write an exercise into a folder that is empty or not there yet."""
    if folder.exists() and any(folder.iterdir()):
        raise ArgumentError(f"{folder} is not empty: the handout would overwrite what is there. Name a new folder")
    for name, data in contents(exercise).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if name.endswith(".sh"):
            target.chmod(0o755)


def public_cases(exercise: Exercise) -> dict[str, Any]:
    """Cases that students may see, with their right answers: drawn from a seed that no grading uses."""
    return {
        "exercise": exercise.name,
        "marks": exercise.marks - exercise.question_marks,
        "checks": [_public_check(exercise, check) for check in exercise.checks],
    }


def _public_check(exercise: Exercise, check: Check) -> dict[str, Any]:
    cases = [case for case in exercise.cases(check, exercise.public_seed) if case.judge is None]
    return {
        "title": check.title,
        "probe": check.probe,
        "group": check.group,
        "marks": round(exercise.marks_of(check), 4),
        "rtol": check.rtol,
        "atol": check.atol,
        "cases": [
            {
                "inputs": wire.to_plain(case.inputs),
                "expected": None if case.expected is REFUSED else wire.to_plain(case.expected),
                "is_refused": case.expected is REFUSED,
                "note": case.note,
            }
            for case in cases
        ],
    }


def _answers(exercise: Exercise) -> str:
    """The sheet that answers are written on."""
    lines = [
        f"# {exercise.title}: questions to think about",
        "",
        "Write below each question. A few sentences suffice.",
        "",
    ]
    for k, question in enumerate(exercise.questions, 1):
        lines += [f"## {k}. {question}", "", ""]
    return "\n".join(lines)


def _tarball(exercise: Exercise) -> str:
    """The command that packs what is handed in."""
    names = [*exercise.submission, *(["answers.md"] if exercise.questions else [])]
    return '#!/bin/sh\ncd "$(dirname "$0")" && tar -cf handin.tar \\\n    ' + " \\\n    ".join(names) + "\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("folder", type=Path, help="where to write it: a new or empty folder")
    parser.add_argument("--exercise", default="mytorch", help=f"{', '.join(exercises.names())} (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """The command."""
    exercise = exercises.find(options.exercise)
    write(options.folder, exercise)
    gaps = sum(text.count('NotImplementedError("TODO') for text in exercise.files.values())
    print(f"wrote {options.folder}: {exercise.title}, {gaps} gaps, {exercise.marks:g} marks")
    print(f"  to fill in: {', '.join(exercise.submission)}")
    print("  to check:   python autograder/runner.py")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """The command, as `python -m wengert.learn.handout`."""
    parser = argparse.ArgumentParser(prog="wengert learn handout", description=__doc__.splitlines()[0])
    add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except ArgumentError as error:
        raise SystemExit(f"wengert: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
