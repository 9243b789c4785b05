"""Grades an exercise that students handed in: `mytorch`, or `ranks`, whichever is in the folder.

    python -m wengert.learn.grade DIR

The checks are those of the handout, as it was written: changes to the copy in DIR have no effect. They run in a process
of their own, with a time limit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import wengert
from wengert.learn import handout


def grade(folder: Path, seconds: float = 60.0) -> int:
    """Run the checks on what is in a folder and print the result; 0 if all pass."""
    exercise = _exercise_in(folder)
    with tempfile.TemporaryDirectory() as place:
        for name, text in exercise.files().items():
            (Path(place) / name).write_text(text)
        checks = Path(place) / f"test_{exercise.package}.py"
        paths = [str(folder.resolve())]
        if exercise.needs_wengert:
            paths.append(str(Path(wengert.__file__).parents[1]))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            result = subprocess.run([sys.executable, str(checks)], env=environment, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            print(f"stopped after {seconds:g} s: something does not come to an end")
            return 1
    return result.returncode


def _exercise_in(folder: Path) -> handout.Exercise:
    """The exercise whose package is in a folder."""
    for name, exercise in handout.EXERCISES.items():
        if (folder / name / "__init__.py").is_file():
            return exercise
    names = " or ".join(handout.EXERCISES)
    raise SystemExit(f"there is no {names} in {folder}: name the folder that has mytorch/__init__.py in it")


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wengert.learn.grade", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder with mytorch or ranks in it")
    return grade(parser.parse_args(arguments).folder)


if __name__ == "__main__":
    sys.exit(main())
