"""The exercise `ranks`: the grader finds mistakes, and sums that the ring did not make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import wengert
from wengert.learn import exercises
from wengert.learn.grading.marking import Exam, mark

LEARN = Path(wengert.__file__).parent / "learn"


@pytest.fixture(scope="module")
def exam():
    return Exam(exercises.find("ranks"), seed=5)


BORROWED = (
    "    return chunks.reshape(x.shape)",
    "    from wengert.distributed import all_reduce\n\n    return all_reduce(x) + 0 * chunks.reshape(x.shape)",
)


@pytest.mark.parametrize(
    ("file", "change", "lost"),
    [
        ("ring.py", ("place = rank() - step - 1", "place = rank() - step"), "the first step of the reduce-scatter"),
        pytest.param(
            "ring.py",
            ("chunk(chunks, rank() + 1 - step, ranks)", "chunk(chunks, rank() - step, ranks)"),
            "the all-gather brings every chunk to all ranks",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "sharded.py",
            ("reduce_scatter(gradient) / ranks", "reduce_scatter(gradient)"),
            "so are five, on 4 ranks: the state goes on",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "sharded.py",
            ("own = block(parameter)", "own = parameter"),
            "a rank's state is that of its block",
            marks=pytest.mark.slow,
        ),
        ("ring.py", BORROWED, "values are added in the ring's order"),
    ],
)
def test_mistakes_are_found(tmp_path, exam, file, change, lost):
    for name in exam.exercise.submission:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((LEARN / name).read_text())
    path = tmp_path / "ranks" / file
    assert change[0] in path.read_text()
    path.write_text(path.read_text().replace(*change))
    only = Exam(replace(exam.exercise, checks=tuple(c for c in exam.exercise.checks if c.title == lost)), seed=5)
    (result,) = mark(only, tmp_path).results
    assert result.problem and "NotImplementedError" not in result.problem


def test_the_solution_is_not_in_the_jail(tmp_path, exam):
    (tmp_path / "ranks").mkdir()
    (tmp_path / "ranks" / "ring.py").write_text("from wengert.learn.ranks.ring import *\n")
    only = Exam(replace(exam.exercise, checks=exam.exercise.checks[:1]), seed=5)
    (result,) = mark(only, tmp_path).results
    assert "No module named 'wengert.learn" in result.problem
