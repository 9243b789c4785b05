"""The exercise `ranks`: its solution is complete, its handout has gaps, and the grader finds mistakes."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

import wengert
from wengert.learn import exercise_ranks, grade, handout

LEARN = Path(wengert.__file__).parent / "learn"


@pytest.fixture(scope="module")
def exercise_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class") / "handout"
    assert handout.main([str(folder), "--exercise", "ranks"]) == 0
    return folder


@pytest.mark.parametrize("check", [name for name in vars(exercise_ranks) if name.startswith("test_")])
def test_the_solution_passes(check):
    getattr(exercise_ranks, check)()


def test_the_handout_is_the_solution_with_gaps(exercise_folder):
    for source in (LEARN / "ranks").rglob("*.py"):
        given = (exercise_folder / "ranks" / source.name).read_text()
        ast.parse(given)
        assert given.count("TODO") == len(handout.RANKS.gaps.get(source.name, ()))
    assert "from ranks import" in (exercise_folder / "test_ranks.py").read_text()
    assert "received = send_to_next" not in (exercise_folder / "ranks/ring.py").read_text()
    assert "TODO" in (exercise_folder / "README.md").read_text()


def test_the_grader_gives_points(exercise_folder, tmp_path, capfd):
    assert grade.main([str(exercise_folder)]) == 1
    empty = capfd.readouterr().out
    assert "NotImplementedError: TODO: all_reduce" in empty and "\n0 of 10 points" in empty

    partly = tmp_path / "partly"
    shutil.copytree(exercise_folder, partly)
    shutil.copy(LEARN / "ranks/ring.py", partly / "ranks/ring.py")
    assert grade.main([str(partly)]) == 1
    assert "\n7 of 10 points" in capfd.readouterr().out

    shutil.copytree(LEARN / "ranks", partly / "ranks", dirs_exist_ok=True)
    assert grade.main([str(partly)]) == 0
    assert "\n10 of 10 points" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("file", "right", "wrong", "said"),
    [
        (
            "ring.py",
            "place = rank() - step - 1",
            "place = rank() - step",
            r"FAIL  the first step of the reduce-scatter",
        ),
        (
            "ring.py",
            "chunk(chunks, rank() + 1 - step, ranks)",
            "chunk(chunks, rank() - step, ranks)",
            r"FAIL  the all-g",
        ),
        ("sharded.py", "reduce_scatter(gradient) / ranks", "reduce_scatter(gradient)", r"FAIL  so are five"),
        (
            "sharded.py",
            "own = block(parameter)",
            "own = parameter",
            r"state.mean of 2 ranks has shape \(2, 8, 3\), not",
        ),
        (
            "ring.py",
            "    return chunks.reshape(x.shape)",
            "    from wengert.distributed import all_reduce\n\n    return all_reduce(x) + 0 * send_to_next(x)",
            r"FAIL  a rank sends 2 \(ranks - 1\) messages",
        ),
    ],
)
def test_mistakes_are_found(tmp_path, capfd, file, right, wrong, said):
    shutil.copytree(LEARN / "ranks", tmp_path / "ranks")
    path = tmp_path / "ranks" / file
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    assert grade.main([str(tmp_path)]) == 1
    assert re.search(said, capfd.readouterr().out)
