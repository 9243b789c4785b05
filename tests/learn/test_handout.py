"""The handout has gaps where it says so, its solution is complete, and the grader tells the two apart."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

import wengert
from wengert.learn import exercise, grade, handout

LEARN = Path(wengert.__file__).parent / "learn"


@pytest.fixture(scope="module")
def exercise_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class") / "handout"
    handout.write(folder)
    return folder


@pytest.mark.parametrize("check", [name for name in vars(exercise) if name.startswith("test_")])
def test_the_solution_passes(check):
    getattr(exercise, check)()


def test_the_handout_is_the_solution_with_gaps(exercise_folder):
    for source in (LEARN / "mytorch").rglob("*.py"):
        name = source.relative_to(LEARN / "mytorch").as_posix()
        given = (exercise_folder / "mytorch" / name).read_text()
        ast.parse(given)
        assert given.count("TODO") == len(handout.GAPS.get(name, ()))
        if name not in handout.GAPS:
            assert given == source.read_text()
    assert "from mytorch import" in (exercise_folder / "test_mytorch.py").read_text()
    assert "grad_output / a" not in (exercise_folder / "mytorch/nn/functional.py").read_text()


def test_the_grader_gives_points(exercise_folder, tmp_path, capfd):
    assert grade.main([str(exercise_folder)]) == 1
    empty = capfd.readouterr().out
    assert "FAIL  a @ b\n        NotImplementedError: TODO: matmul_backward" in empty
    assert re.search(r"\n0 of 21 points", empty)

    partly = tmp_path / "partly"
    shutil.copytree(exercise_folder, partly)
    shutil.copy(LEARN / "mytorch/nn/functional.py", partly / "mytorch/nn/functional.py")
    (partly / "test_mytorch.py").write_text("print('1000 of 21 points')")  # is not what is run
    assert grade.main([str(partly)]) == 1
    assert "\n10 of 21 points" in capfd.readouterr().out

    shutil.copytree(LEARN / "mytorch", partly / "mytorch", dirs_exist_ok=True)
    assert grade.main([str(partly)]) == 0
    assert "21 of 21 points" in capfd.readouterr().out


def test_a_wrong_rule_is_shown_beside_the_right_one(exercise_folder, tmp_path, capfd):
    wrong = tmp_path / "wrong"
    shutil.copytree(LEARN / "mytorch", wrong / "mytorch")
    rules = wrong / "mytorch/nn/functional.py"
    rules.write_text(rules.read_text().replace("return grad_output * np.exp(a)", "return grad_output * a"))
    assert grade.main([str(wrong)]) == 1
    assert re.search(
        r"FAIL  exp\(a\)\n +AssertionError: the gradient of a is\n.*and should be", capfd.readouterr().out, re.S
    )


def test_what_does_not_end_is_stopped(tmp_path, capfd):
    (tmp_path / "mytorch").mkdir()
    (tmp_path / "mytorch/__init__.py").write_text("while True: pass")
    assert grade.grade(tmp_path, seconds=0.5) == 1
    assert "stopped after 0.5 s" in capfd.readouterr().out


def test_folders_are_looked_at_first(exercise_folder, tmp_path):
    with pytest.raises(SystemExit, match="is not empty"):
        handout.main([str(exercise_folder)])
    with pytest.raises(SystemExit, match="there is no mytorch or ranks in"):
        grade.main([str(tmp_path)])
    assert handout.main([str(tmp_path / "new")]) == 0
