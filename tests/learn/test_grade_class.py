"""A class of simulated students gets what it deserves: all marks, those of what is right, or none; in every format."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tarfile
import zipfile

import pytest

from wengert.core.errors import ArgumentError
from wengert.learn import exercises, grade
from wengert.learn.grading import report, similarity
from wengert.learn.grading.marking import Exam, mark
from wengert.learn.grading.sandbox import Limits
from wengert.learn.kit import simulated

STUDENTS = {student.name: student for student in simulated.STUDENTS}
LOST = {
    "carl": ["max(0, a), also at 0", "ReLU, also at 0"],
    "dorothy": ["backward twice: the inputs' gradients are added"],
    "emmy": ["a @ b, also vectors and stacks"],
    "grace": ["gradients_to_update: gradients are added to what is there"],
    "henri": ["SoftmaxCrossEntropy with large scores"],
    "james": ["backward operations leave their inputs alone"],
}
"""The checks that find each mistake, where they are few."""


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class") / "submissions"
    simulated.write(folder)
    return folder


@pytest.fixture(scope="module")
def exam():
    return Exam(exercises.find("mytorch"), seed=20270115)


@pytest.fixture(scope="module")
def results(classroom, exam):
    slow = Limits(answer=1.0, seconds=2.0)
    return {
        name: mark(exam, classroom / name, limits=slow if student.kind == "cheating" else Limits())
        for name, student in STUDENTS.items()
    }


@pytest.mark.parametrize("name", STUDENTS)
def test_every_student_gets_what_is_due(results, name):
    student, result = STUDENTS[name], results[name]
    lost = [check.title for check in result.results if check.problem]
    if student.kind == "right":
        assert (result.marks, result.out_of, lost) == (50, 50, [])
    elif student.kind == "cheating":
        assert result.marks == 0
    else:
        assert 0 <= result.marks < 50
        assert lost == LOST.get(name, lost)
        assert lost


def test_a_mistake_is_shown_beside_the_right_value(results):
    (problem,) = [check.problem for check in results["felix"].results if check.title == "a / b"]
    assert "is\n" in problem and "and should be\n" in problem
    (problem,) = [check.problem for check in results["leo"].results if check.title == "a - b"]
    assert "SyntaxError" in problem
    assert results["leo"].suspicions == ("mytorch/nn/modules/linear.py, line 31: not Python: invalid syntax",)
    assert results["katherine"].missing == ("mytorch/nn/modules/loss.py",)


def test_the_table_has_a_line_for_each(results):
    lines = report.table(list(results.values())).splitlines()
    assert lines[0].split() == [
        "submission",
        "Autograd",
        "Functional",
        "Layers",
        "Losses",
        "marks",
        "checks",
        "look",
        "at",
    ]
    assert lines[1].split() == ["out", "of", "13", "14", "15", "8", "50"]
    assert [line.split()[0] for line in lines[2:]] == list(STUDENTS)


def test_csv_and_json(results):
    rows = list(csv.DictReader(io.StringIO(report.as_csv(list(results.values())))))
    assert [row["submission"] for row in rows] == list(STUDENTS)
    assert [float(row["marks"]) for row in rows] == [result.marks for result in results.values()]
    assert rows[2]["a - b"] == "1"
    plain = json.loads(report.as_json(list(results.values())))
    assert sum(check["marks"] for check in plain[0]["checks"]) == 50


def test_a_name_is_no_formula(results):
    from dataclasses import replace

    row = report.as_csv([replace(results["ada"], name="=HYPERLINK(1)")]).splitlines()[1]
    assert row.startswith("'=HYPERLINK")


def test_autolab(results):
    scores = json.loads(report.autolab(results["carl"]))["scores"]
    assert scores == {"Autograd": 13, "Functional": 13, "Layers": 12, "Losses": 8}
    for result in results.values():
        assert sum(json.loads(report.autolab(result))["scores"].values()) == pytest.approx(result.marks)


def test_gradescope(results):
    for result in results.values():
        found = json.loads(report.gradescope(result, seconds=1.4))
        assert found["score"] == pytest.approx(sum(test["score"] for test in found["tests"]))
        assert sum(test["max_score"] for test in found["tests"]) == 50
        assert {test["status"] for test in found["tests"]} <= {"passed", "failed"}
        assert isinstance(found["execution_time"], int)


def test_similar_submissions_are_listed(classroom):
    ada, blaise = (STUDENTS[name].files() for name in ("ada", "blaise"))
    renamed = {name: text.replace("grad_output", "upstream") for name, text in ada.items()}
    handout = exercises.find("mytorch").files
    other = {"mytorch/nn/functional.py": handout["mytorch/nn/functional.py"]}
    found = similarity.pairs({"ada": ada, "renamed": renamed, "blaise": blaise, "nothing": other}, handout)
    shares = {(pair.first, pair.second): pair.share for pair in found}
    assert shares[("ada", "renamed")] == 1.0
    assert not any("nothing" in (pair.first, pair.second) for pair in found)
    assert "100%" in similarity.report(found)


# --- the command ----------------------------------------------------------------------------------------------------


def test_a_submission_may_be_a_folder_or_an_archive(classroom, tmp_path, capsys):
    ada = classroom / "ada"
    with tarfile.open(tmp_path / "in-tar.tar", "w") as archive:
        archive.add(ada, "handin")
    with zipfile.ZipFile(tmp_path / "in-zip.zip", "w") as archive:
        for path in ada.rglob("*.py"):
            archive.write(path, path.relative_to(ada))
    shutil.copytree(ada, tmp_path / "in-folder" / "handin")
    csv_file, json_file = tmp_path / "marks.csv", tmp_path / "marks.json"
    assert grade.main([str(tmp_path), "--seed", "3", "--csv", str(csv_file), "--json", str(json_file)]) == 0
    rows = list(csv.DictReader(csv_file.open()))
    assert [(row["submission"], row["marks"]) for row in rows] == [
        ("in-folder", "50"),
        ("in-tar", "50"),
        ("in-zip", "50"),
    ]
    assert len(json.loads(json_file.read_text())) == 3
    assert "in-tar" in capsys.readouterr().out


def test_an_archive_cannot_write_elsewhere(classroom, tmp_path):
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        for name in ("../../mytorch/autograd_engine.py", "/tmp/mytorch/autograd_engine.py"):
            entry = tarfile.TarInfo(name)
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"evil"))
        link = tarfile.TarInfo("mytorch/nn/functional.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    from wengert.learn.grading import submissions

    exercise = exercises.find("mytorch")
    with submissions.opened(tmp_path / "evil.tar", exercise) as folder:
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    assert set(names) <= {"mytorch/autograd_engine.py"}
    assert not (tmp_path / "mytorch").exists()


def test_the_last_line_is_autolabs(classroom, capsys):
    assert grade.main([str(classroom / "carl"), "--autolab"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["scores"]["Layers"] == 12


def test_results_for_gradescope(classroom, tmp_path):
    with pytest.raises(SystemExit, match="are for one submission; there are 18"):
        grade.main([str(classroom), "--gradescope", str(tmp_path / "results.json")])
    assert grade.main([str(classroom / "carl"), "--gradescope", str(tmp_path / "results.json")]) == 0
    assert json.loads((tmp_path / "results.json").read_text())["score"] == 46


def test_answers_and_their_marks(tmp_path, capsys):
    from dataclasses import replace

    exercise = replace(exercises.find("mytorch"), question_marks=8.0, checks=exercises.find("mytorch").checks[:1])
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "answers.md").write_text("## 1. Why?\n\nBecause.\n\n## 3. Which?\nThose.\n=SUM(1)\n")
    result = mark(Exam(exercise, 1), tmp_path / "ada")
    assert result.answers == ("Because.", "", "Those.\n=SUM(1)", "")
    sheet = report.answer_sheet(exercise, [result])
    assert "> Because." in sheet and "(no answer)" in sheet
    (tmp_path / "marks.csv").write_text("ada,2,0,1.5\n")
    (with_marks,) = grade._with_question_marks(exercise, [result], tmp_path / "marks.csv")
    assert (with_marks.question_marks, with_marks.out_of) == (3.5, 50)


def test_what_is_not_there_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        SystemExit, match=r"is of an exercise. The files looked for are .*mytorch/autograd_engine.py \(mytorch\)"
    ):
        grade.main([str(tmp_path / "empty")])
    with pytest.raises(SystemExit, match="there is no exercise 'mytroch'; there are attention"):
        grade.main([str(tmp_path), "--exercise", "mytroch"])


def test_an_exercise_that_needs_a_gpu_says_so(tmp_path, monkeypatch):
    from dataclasses import replace

    import wengert as wg

    found = replace(exercises.find("mytorch"), gpu=True)
    monkeypatch.setattr(exercises, "find", lambda name: found)
    monkeypatch.setattr(wg.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="run CUDA; this machine has no GPU"):
        grade.main([str(tmp_path), "--exercise", "mytorch"])


def test_hidden_cases_are_drawn_anew():
    exercise = exercises.find("mytorch")
    check = exercise.checks[8]
    one, two, again = (exercise.cases(check, seed)[0].inputs[2] for seed in (1, 2, 1))
    assert (one != two).any() and (one == again).all()


def test_unknown_probes_and_files_are_refused():
    from dataclasses import replace

    with pytest.raises(ValueError, match="checks use the probes"):
        replace(exercises.find("mytorch"), probes="")
    with pytest.raises(ValueError, match="to be handed in but are not among"):
        replace(exercises.find("mytorch"), submission=("x.py",))
    with pytest.raises(ArgumentError, match="no exercise"):
        exercises.find("nothing")
