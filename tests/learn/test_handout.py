"""Handouts have gaps where they say so, run without Wengert, and no solution is in them or in what students install."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import wengert
from wengert.core.errors import ArgumentError
from wengert.learn import exercises, handout
from wengert.learn.exercises.gaps import functions_in, with_gaps
from wengert.learn.grading.marking import Exam, mark

LEARN = Path(wengert.__file__).parent / "learn"
ROOT = Path(__file__).parents[2]
SOLUTIONS = ROOT / "instructor" / "src" / "wengert_instructor" / "solutions"
pytestmark = pytest.mark.skipif(not SOLUTIONS.is_dir(), reason="the source distribution has no solutions")
HOMEWORK = ("mlp", "cnn", "rnn", "ctc", "attention")
OURS = (*HOMEWORK, "mytorch", "ranks")


def solution(name: str) -> dict[str, str]:
    place = LEARN if name in ("mytorch", "ranks") else SOLUTIONS / name
    return {path: (place / path).read_text() for path in exercises.find(name).submission}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("name", OURS)
def test_the_solution_gets_all_marks(tmp_path, name):
    result = mark(Exam(exercises.find(name), seed=7), written(tmp_path, solution(name)))
    assert [(check.title, check.problem) for check in result.results if check.problem] == []
    exercise = exercises.find(name)
    assert result.marks == pytest.approx(exercise.marks - exercise.question_marks)
    assert (result.suspicions, result.missing) == ((), ())


@pytest.mark.parametrize("name", OURS)
def test_the_handout_is_the_solution_with_gaps(name):
    exercise = exercises.find(name)
    gaps = importlib.import_module(f"wengert.learn.exercises.{name}").GAPS
    for path, text in solution(name).items():
        expected = with_gaps(text, gaps[path.removeprefix(f"{name}/")])
        assert exercise.files[path] == expected, f"regenerate {path} from its solution"


@pytest.mark.parametrize("name", OURS)
def test_the_untouched_handout_gets_nothing(tmp_path, name):
    exercise = exercises.find(name)
    result = mark(
        Exam(exercise, seed=7), written(tmp_path, {path: exercise.files[path] for path in exercise.submission})
    )
    assert result.marks == 0
    assert exercise.minutes > 0 and exercise.lecture and exercise.lesson


def test_no_solution_is_in_what_students_install():
    installed = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for name in HOMEWORK:
        gaps = importlib.import_module(f"wengert.learn.exercises.{name}").GAPS
        for path, text in solution(name).items():
            functions = functions_in(ast.parse(text))
            for function in gaps[path]:
                node = functions[function]
                body = "\n".join(text.splitlines()[node.body[1].lineno - 1 : node.end_lineno])
                if body.count("\n") > 1:  # a short one is a formula, which Wengert's own ops have too
                    assert body not in installed, f"{function} of {name} is in the package"
    hatch = (ROOT / "pyproject.toml").read_text()
    assert 'packages = ["src/wengert"]' in hatch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handout") / "mytorch"
    handout.write(folder, exercises.find("mytorch"))
    return folder


def run(folder: Path, *call: str) -> subprocess.CompletedProcess[str]:
    """Run a command as students do: with NumPy, and without Wengert."""
    program = (
        "import runpy, sys; sys.modules['wengert'] = None; sys.argv = sys.argv[1:];"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *call], cwd=folder, text=True, capture_output=True, timeout=60
    )


def test_the_tree_is_the_courses(folder):
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {
        *("README.md", "answers.md", "create_tarball.sh", "mytorch/autograd_engine.py", "mytorch/nn/functional.py"),
        *("autograder/runner.py", "hw1_bonus/mlp.py", "hw1_bonus/mlp_runner.py"),
        *(f"hw1_bonus/data/{part}_{kind}.npy" for part in ("train", "val") for kind in ("data", "labels")),
    } <= found


def test_students_check_their_work(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "work")
    empty = run(tmp_path / "work", "autograder/runner.py")
    assert (
        "FAIL      0/3      a @ b, also vectors and stacks\n        NotImplementedError: TODO: matmul_backward"
        in empty.stdout
    )
    assert "\n0 of 50 marks on these cases" in empty.stdout and empty.returncode == 1

    written(tmp_path / "work", solution("mytorch"))
    done = run(tmp_path / "work", "autograder/runner.py")
    assert "\n50 of 50 marks on these cases" in done.stdout, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "scores": {"Autograd": 13, "Functional": 14, "Layers": 15, "Losses": 8}
    }
    wrong = (tmp_path / "work/mytorch/nn/functional.py").read_text().replace("* np.exp(a)", "* a")
    (tmp_path / "work/mytorch/nn/functional.py").write_text(wrong)
    assert re.search(
        r"FAIL .* exp\(a\)\n +the result is\n.*and should be",
        run(tmp_path / "work", "autograder/runner.py").stdout,
        re.S,
    )


def test_the_bonus_learns(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "work")
    written(tmp_path / "work", solution("mytorch"))
    shutil.copy(SOLUTIONS / "mytorch/hw1_bonus/mlp.py", tmp_path / "work/hw1_bonus/mlp.py")
    done = run(tmp_path / "work", "hw1_bonus/mlp_runner.py", "--epochs", "2")
    errors = [float(each) for each in re.findall(r"held-back digits ([\d.]+)%", done.stdout)]
    assert len(errors) == 2 and errors[-1] < 15, done.stdout + done.stderr


def test_the_tarball_is_what_the_grader_takes(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "work")
    written(tmp_path / "work", solution("mytorch"))
    (tmp_path / "work/answers.md").write_text("## 1. Why?\nSo.\n")
    subprocess.run(["sh", "create_tarball.sh"], cwd=tmp_path / "work", check=True, timeout=20)
    from wengert.learn.grading import submissions

    exercise = exercises.find("mytorch")
    with submissions.opened(tmp_path / "work/handin.tar", exercise) as opened:
        assert all((opened / name).is_file() for name in exercise.submission)
        assert (opened / "answers.md").read_text().endswith("So.\n")


def test_public_cases_are_not_the_hidden_ones():
    exercise = exercises.find("mytorch")
    check = exercise.checks[7]
    assert (exercise.cases(check, exercise.public_seed)[0].inputs[2] != exercise.cases(check, 1)[0].inputs[2]).any()


def test_folders_are_looked_at_first(folder, tmp_path, capsys):
    with pytest.raises(ArgumentError, match="is not empty"):
        handout.write(folder, exercises.find("mytorch"))
    assert handout.main([str(tmp_path / "new"), "--exercise", "ctc"]) == 0
    assert "6 gaps, 33 marks" in capsys.readouterr().out
