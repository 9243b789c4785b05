"""Grades a `mytorch` that students handed in.

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

from wengert.learn import handout


def grade(folder: Path, seconds: float = 60.0) -> int:
    """Run the checks on the `mytorch` in a folder and print the result; 0 if all pass."""
    if not (folder / "mytorch" / "__init__.py").is_file():
        raise SystemExit(f"there is no mytorch in {folder}: name the folder that has mytorch/__init__.py in it")
    with tempfile.TemporaryDirectory() as place:
        checks = Path(place) / "test_mytorch.py"
        checks.write_text(handout.checks())
        environment = {**os.environ, "PYTHONPATH": str(folder.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            result = subprocess.run([sys.executable, str(checks)], env=environment, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            print(f"stopped after {seconds:g} s: something does not come to an end")
            return 1
    return result.returncode


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wengert.learn.grade", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder with mytorch in it")
    return grade(parser.parse_args(arguments).folder)


if __name__ == "__main__":
    sys.exit(main())
