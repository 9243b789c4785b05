"""`wengert learn kit`: the folders of a term, for students and for the people who teach them.

    wengert learn kit cs2027 --term 2027S --seed 4711

`students/` has a handout for each exercise, in this term's variant. `instructor/` has `kit.json`, which the grader
reads, the solutions, what Autolab and Gradescope need, and the syllabus. Nothing below `students/` contains a solution.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import io
import shlex
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from wengert.core.errors import ArgumentError
from wengert.learn import exercises, handout
from wengert.learn.exercises.exercise import Exercise
from wengert.learn.kit import syllabus, variant

LEARN = Path(__file__).parents[1]
DATE = (2026, 1, 1, 0, 0, 0)  # of files in archives, so that the same kit is the same bytes


def write(folder: Path, term: variant.Variant, names: list[str], solutions: Path | None = None) -> list[str]:
    """Write a kit into a folder that is empty or not there yet; what could not be written, a line each."""
    if folder.exists() and any(folder.iterdir()):
        raise ArgumentError(f"{folder} is not empty: the kit would overwrite what is there. Name a new folder")
    instructor = folder / "instructor"
    instructor.mkdir(parents=True)
    variant.write(term, instructor)
    missing = []
    for name in names:
        exercise = term.exercise(name)
        handout.write(folder / "students" / name, exercise)
        found = {path: term.spelled(text) for path, text in solution_of(exercise, term, solutions).items()}
        if not set(exercise.submission) <= set(found):
            missing.append(f"{name}: no solution; install wengert-instructor, or name its folder with --solutions")
        _write_texts(instructor / "solutions" / name, found)
        _write_autolab(instructor / "autolab" / name, exercise, instructor / variant.FILE)
        _write_gradescope(instructor / "gradescope", exercise, instructor / variant.FILE)
    (instructor / "syllabus.md").write_text(syllabus.page(names, term.term), encoding="utf-8")
    return missing


def solution_of(exercise: Exercise, term: variant.Variant, folder: Path | None = None) -> dict[str, str]:
    """An exercise's solution, in the names of Wengert: the engines' own sources, and the instructor's package."""
    found = {}
    for name in exercise.submission:
        if (LEARN / name).is_file():
            found[name] = (LEARN / name).read_text(encoding="utf-8")
    apart = _instructor_files(exercise.name, folder)
    rules = apart.pop("rules.py", "")
    path = "mytorch/nn/functional.py"
    if path in found and rules:
        found[path] += "".join(f"\n\n{text}" for name, text in _functions(rules).items() if name in term.operations)
    return {**found, **apart}


def _functions(text: str) -> dict[str, str]:
    """The texts of a module's functions, by name."""
    lines = text.splitlines()
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) + "\n" for node in nodes}


def _instructor_files(name: str, folder: Path | None) -> dict[str, str]:
    """The solution of an exercise in the instructor's package, or in a folder that was named."""
    if folder is None:
        spec = importlib.util.find_spec("wengert_instructor")
        if spec is None or spec.origin is None:
            return {}
        folder = Path(spec.origin).parent / "solutions"
    place = folder / name
    files = (path for path in sorted(place.rglob("*.py")) if "__pycache__" not in path.parts)
    return {path.relative_to(place).as_posix(): path.read_text(encoding="utf-8") for path in files}


def _write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _write_autolab(folder: Path, exercise: Exercise, kit: Path) -> None:
    """The two files that an Autolab assessment takes: they grade handin.tar on a machine that has Wengert."""
    folder.mkdir(parents=True)
    script = (
        f'#!/bin/sh\nexec wengert learn grade "$1" --kit autograde --exercise {shlex.quote(exercise.name)} --autolab\n'
    )
    (folder / "autograde-Makefile").write_text(
        "all:\n\ttar xf autograde.tar\n\tsh autograde/grade.sh handin.tar\n", encoding="utf-8"
    )
    with tarfile.open(folder / "autograde.tar", "w") as archive:
        for name, data in ((variant.FILE, kit.read_bytes()), ("grade.sh", script.encode())):
            entry = tarfile.TarInfo(f"autograde/{name}")
            entry.size, entry.mode = len(data), 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(entry, io.BytesIO(data))


SETUP = """#!/bin/sh
# Two environments: the grader's, which submissions cannot read, and theirs, which has NumPy alone.
set -e
apt-get update && apt-get install -y python3 python3-venv
python3 -m venv /opt/grader
python3 -m venv /opt/submission
/opt/submission/bin/pip install numpy
if ls /autograder/source/*.whl > /dev/null 2>&1; then
    /opt/grader/bin/pip install /autograder/source/*.whl  # put Wengert's wheel beside this file
else
    /opt/grader/bin/pip install wengert
fi
chmod -R go-rwx /opt/grader /autograder/source
"""


def _write_gradescope(folder: Path, exercise: Exercise, kit: Path) -> None:
    """The zip file that Gradescope builds a container from."""
    folder.mkdir(parents=True, exist_ok=True)
    run = (
        "#!/bin/sh\n"
        "exec /opt/grader/bin/wengert learn grade /autograder/submission --kit /autograder/source \\\n"
        f"    --exercise {shlex.quote(exercise.name)} --python /opt/submission/bin/python \\\n"
        "    --gradescope /autograder/results/results.json\n"
    )
    with zipfile.ZipFile(folder / f"{exercise.name}.zip", "w") as archive:
        for name, text in (("setup.sh", SETUP), ("run_autograder", run), (variant.FILE, kit.read_text("utf-8"))):
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = (0o644 if name.endswith(".json") else 0o755) << 16
            archive.writestr(entry, text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("folder", type=Path, help="where to write it: a new or empty folder")
    parser.add_argument("--term", required=True, help="the term's name, as 2027S")
    parser.add_argument("--seed", type=int, required=True, help="draws the term's variant; keep it to yourself")
    parser.add_argument("--exercises", metavar="A,B", help="which ones (default: all)")
    parser.add_argument("--course-names", action="store_true", help="keep the names of CMU's 11-785 handout")
    parser.add_argument("--solutions", type=Path, metavar="FOLDER", help="the solutions, if not installed as a package")


def run(options: argparse.Namespace) -> int:
    """The command."""
    names = options.exercises.split(",") if options.exercises else exercises.names()
    term = variant.draw(options.term, options.seed, options.course_names)
    missing = write(options.folder, term, names, options.solutions)
    marks = sum(exercises.find(name).marks for name in names)
    print(f"wrote {options.folder}: {len(names)} exercises, {marks:g} marks, term {term.term}")
    print(f"  students/    handouts: {', '.join(names)}")
    print("  instructor/  kit.json, solutions, autolab, gradescope, syllabus.md: keep it to yourself")
    renamed = ", ".join(f"{old} -> {new}" for old, new in term.spellings.items() if old != new)
    print(f"  this term:   rules are named *{term.suffix}, added: {', '.join(term.operations)}")
    if renamed:
        print(f"               {renamed}")
    for line in missing:
        print(f"  missing:     {line}")
    return 0
