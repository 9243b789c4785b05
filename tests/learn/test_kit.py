"""A term's kit: variants differ and stay solvable, students get no solution, graders' files work, slides are right."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

import wengert
from wengert.cli import main
from wengert.core.errors import ArgumentError
from wengert.learn import exercises, grade
from wengert.learn.exercises.mytorch.pool import POOL
from wengert.learn.grading.marking import Exam, mark
from wengert.learn.kit import frames, kit, slides, syllabus, variant

ROOT = Path(__file__).parents[2]
SOLUTIONS = ROOT / "instructor" / "src" / "wengert_instructor" / "solutions"
pytestmark = pytest.mark.skipif(not SOLUTIONS.is_dir(), reason="the source distribution has no solutions")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit") / "2027S"
    arguments = ["--term", "2027S", "--seed", "4711", "--exercises", "mytorch,cnn", "--solutions", str(SOLUTIONS)]
    assert main(["learn", "kit", str(folder), *arguments]) == 0
    return folder


def test_the_kit_has_two_folders(folder):
    students = {path.relative_to(folder / "students").as_posix() for path in (folder / "students").rglob("*.py")}
    assert {"mytorch/hw1_bonus/mlp_runner.py", "mytorch/autograder/runner.py", "cnn/homework/conv.py"} <= students
    instructor = {path.name for path in (folder / "instructor").iterdir()}
    assert instructor == {"kit.json", "solutions", "autolab", "gradescope", "syllabus.md"}


def test_the_solution_of_a_term_gets_all_marks_and_the_plain_one_does_not(folder, tmp_path):
    exercise = variant.read(folder).exercise("mytorch")
    exam = Exam(exercise, seed=1)
    result = mark(exam, folder / "instructor" / "solutions" / "mytorch")
    assert [check.title for check in result.results if check.problem] == []
    assert result.marks == pytest.approx(50)
    shutil.copytree(Path(wengert.__file__).parent / "learn" / "mytorch", tmp_path / "mytorch")
    assert mark(exam, tmp_path).marks < 25  # last year's names, and none of this term's rules


def test_students_get_no_solution(folder):
    term = variant.read(folder)
    solution = term.spelled((SOLUTIONS / "cnn" / "homework" / "conv.py").read_text())
    bodies = [line.strip() for line in solution.splitlines() if "einsum" in line]
    assert len(bodies) >= 6
    given = "\n".join(
        path.read_text() for path in (folder / "students").rglob("*") if path.suffix in (".py", ".json", ".md")
    )
    assert not [body for body in bodies if body in given]
    assert "kit.json" not in {path.name for path in (folder / "students").rglob("*")}


@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3)]])
def test_variants_are_solvable(tmp_path, seed):
    term = variant.draw("2027F", seed)
    exercise = term.exercise("mytorch")
    assert sum(exercise.marks_of(check) for check in exercise.checks) == pytest.approx(50)
    found = {name: term.spelled(text) for name, text in kit.solution_of(exercise, term, SOLUTIONS).items()}
    for name, text in found.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    result = mark(Exam(exercise, seed=seed), tmp_path)
    assert [(check.title, check.problem) for check in result.results if check.problem] == []


def test_terms_differ():
    drawn = [variant.draw("2027S", seed) for seed in range(12)]
    assert variant.draw("2027S", 3) == drawn[3] != variant.draw("2027F", 3)
    assert len({each.operations for each in drawn}) > 6
    assert len({tuple(each.spellings.values()) for each in drawn}) > 10
    plain = variant.draw("2027S", 3, course_names=True)
    assert plain.spelled("mul_backward add_operation") == "mul_backward add_operation"


def test_every_rule_of_the_pool_has_a_solution(tmp_path):
    term = variant.Variant("all", 0, {}, "_backward", tuple(each.name for each in POOL), 1)
    exercise = exercises.find("mytorch")
    found = kit.solution_of(term.exercise("mytorch"), term, SOLUTIONS)
    for name, text in found.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    from dataclasses import replace

    from wengert.learn.exercises.exercise import Check

    checks = tuple(Check(each.title, "rule", each.cases) for each in POOL)
    result = mark(Exam(replace(exercise, checks=checks), seed=3), tmp_path)
    assert [(check.title, check.problem) for check in result.results if check.problem] == []


def test_what_is_missing_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["learn", "kit", str(tmp_path / "kit"), "--term", "t", "--seed", "1", "--exercises", "ctc"]) == 0
    assert "ctc: no solution; install wengert-instructor" in capsys.readouterr().out
    with pytest.raises(ArgumentError, match="is not empty"):
        kit.write(tmp_path / "kit", variant.draw("t", 1), ["ctc"])
    with pytest.raises(ArgumentError, match=r"has no kit\.json"):
        variant.read(tmp_path)


def test_autolab_runs_its_files(folder, tmp_path):
    for name in ("autograde-Makefile", "autograde.tar"):
        shutil.copy(folder / "instructor/autolab/cnn" / name, tmp_path / name)
    with tarfile.open(tmp_path / "handin.tar", "w") as archive:
        archive.add(folder / "instructor/solutions/cnn/homework", "homework")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "wengert"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wengert.cli "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(wengert.__file__).parents[1]),
    }
    call = ["make", "-s", "-f", "autograde-Makefile"]
    done = subprocess.run(call, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=100)
    scores = json.loads(done.stdout.splitlines()[-1])["scores"]
    assert scores == {"Conv1d": 16, "Conv2d": 18, "Layer": 6, "Questions": 0}, done.stdout + done.stderr


def test_gradescope_gets_a_container(folder):
    with zipfile.ZipFile(folder / "instructor/gradescope/cnn.zip") as archive:
        assert {entry.filename for entry in archive.infolist()} == {"setup.sh", "run_autograder", "kit.json"}
        assert archive.getinfo("run_autograder").external_attr >> 16 == 0o755
        run, setup = (archive.read(name).decode() for name in ("run_autograder", "setup.sh"))
    assert "--gradescope /autograder/results/results.json" in run and "--exercise cnn" in run
    assert "chmod -R go-rwx /opt/grader /autograder/source" in setup
    options = run.partition("learn grade ")[2].replace("\\\n", " ").split()
    import argparse

    parser = argparse.ArgumentParser()
    grade.add_arguments(parser)
    assert parser.parse_args(options).python == "/opt/submission/bin/python"  # the options are those of the command
    for text in (run, setup):
        assert subprocess.run(["sh", "-n"], input=text, text=True, timeout=10).returncode == 0


def test_the_syllabus_adds_up():
    lines = syllabus.table(exercises.names()).splitlines()
    assert len(lines) == len(exercises.names()) + 3
    assert int(lines[-1].split("|")[-2]) == sum(exercises.find(name).marks for name in exercises.names())


# --- slides ---------------------------------------------------------------------------------------------------------


def test_the_recitation_in_frames(tmp_path, capsys):
    assert main(["learn", "slides", str(tmp_path)]) == 0
    assert "17 frames" in capsys.readouterr().out
    texts = [path.read_text() for path in sorted(tmp_path.glob("frame-*.svg"))]
    assert len(texts) == 17
    for k, text in enumerate(texts[1:8], 1):  # a node more in each
        assert len(re.findall(r">v\d [-\d.]+<", text)) == k
    assert "0.2837" in texts[8] and "11.6521" in texts[8]
    adds = [text for text in texts if "Two paths add" in text]
    assert len(adds) == 2
    assert "v1 = v3 * (1 / v1) + v4 * v2 = 1 * 0.5 + 1 * 5 = 5.5000" in adds[1]
    assert "df/dx1 = 5.5000, df/dx2 = 1.7163" in texts[-1]


def test_the_reverse_walk_finds_the_gradient_of_other_functions(tmp_path):
    import math

    import wengert as wg

    found = slides.frames(lambda a, b: wg.tanh(a / b) * wg.exp(-b) + wg.sqrt(a) ** 3, [2.0, 1.5])
    tanh, decay = math.tanh(2 / 1.5), math.exp(-1.5)
    da = (1 - tanh**2) / 1.5 * decay + 1.5 * math.sqrt(2)
    db = -(1 - tanh**2) * 2 / 1.5**2 * decay - tanh * decay
    for number in (da, db):
        assert any(f"{number:.4f}" in shape.text for shape in found[-1].shapes if isinstance(shape, frames.Text))
    sums = [
        shape.text for frame in found for shape in frame.shapes if isinstance(shape, frames.Text) and "~v" in shape.text
    ]
    assert any(text.startswith("~v1 = ") and text.endswith(f"{da:.4f}") for text in sums)
    assert any(text.startswith("~v2 = ") and text.endswith(f"{db:.4f}") for text in sums)


def test_what_cannot_be_drawn_is_told(tmp_path):
    import wengert as wg

    with pytest.raises(ArgumentError, match="erf is not among the functions drawn: log, exp"):
        slides.frames(wg.erf, [1.0])
    with pytest.raises(ArgumentError, match="has room for 14 lines"):
        slides.frames(lambda x: sum((x + float(k) for k in range(9)), x), [1.0])
    assert main(["learn", "slides", str(tmp_path), "--at", "a"]) == 1


def test_the_pdf_is_one_that_readers_read():
    found = [frames.Frame("One (1)", [frames.Text(10, 10, "~v1 \\ 2"), frames.Box(0, 0, 9, 9)]), frames.Frame("Two")]
    data = frames.pdf(found)
    start = int(data.rpartition(b"startxref\n")[2].split()[0])
    count = int(data[start:].split()[2])
    places = [int(line.split()[0]) for line in data[start:].splitlines()[3 : 2 + count]]
    assert len(places) == count - 1
    for number, place in enumerate(places, 1):
        assert data[place:].startswith(b"%d 0 obj\n" % number)
    streams = [zlib.decompress(part.partition(b"\nendstream")[0]) for part in data.split(b"stream\n")[1::2]]
    assert b"(One \\(1\\)) Tj" in streams[0] and b"(v1 \\\\ 2) Tj" in streams[0]
    assert b"/Count 2" in data
    first = re.search(rb"/Contents (\d+) 0 R", data)
    assert data[places[int(first[1]) - 1] :].split(b"\n")[1].startswith(b"<< /Length")
