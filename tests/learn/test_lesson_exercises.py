"""The exercises of the lessons: solutions get every mark, handouts none, and usual wrong answers lose what they should.

The probes run in this process, on folders; how a submission is shut in is tested where the grader is.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from wengert.learn import handout
from wengert.learn.exercises import find
from wengert.learn.exercises.gaps import with_gaps
from wengert.learn.grading import judge, wire

SOLUTIONS = Path(__file__).parents[2] / "instructor" / "src" / "wengert_instructor" / "solutions"
NAMES = ("paths", "products", "dual", "value", "broadcasting", "cse", "matmul", "checkpoints", "vmap")


def problems(name, text, folder, monkeypatch, only=None):
    """What the checks of an exercise say about a submission of one file, by title; right ones are left out."""
    exercise = find(name)
    (folder / "homework").mkdir(exist_ok=True)
    (folder / "homework" / f"{name}.py").write_text(text)
    (folder / "homework" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    for module in ("homework", f"homework.{name}"):
        sys.modules.pop(module, None)
    probes = {}
    exec(compile(exercise.probes, "probes.py", "exec"), probes)
    found = {}
    for check in exercise.checks:
        if only is None or check.title in only:
            complaints = (_complaint(check, case, probes) for case in exercise.cases(check, seed=5))
            problem = next((complaint for complaint in complaints if complaint), "")
            if problem:
                found[check.title] = problem
    return found


def _complaint(check, case, probes):
    inputs = wire.decode(wire.encode(case.inputs))
    try:
        answer = {"value": wire.decode(wire.encode(probes[check.probe](*inputs)))}
    except Exception as error:
        answer = {"error": {"type": type(error).__name__, "text": str(error)}}
    return judge.complaint(check, case, answer)


def solution(name):
    return (SOLUTIONS / name / "homework" / f"{name}.py").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_passes_every_check(name, tmp_path, monkeypatch):
    assert problems(name, solution(name), tmp_path, monkeypatch) == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_handout_is_the_solution_with_gaps_and_gets_nothing(name, tmp_path, monkeypatch):
    exercise = find(name)
    gaps = importlib.import_module(f"wengert.learn.exercises.{name}").GAPS
    assert {path: with_gaps(solution(name), gaps[path]) for path in gaps} == {p: exercise.files[p] for p in gaps}
    found = problems(name, exercise.files[f"homework/{name}.py"], tmp_path, monkeypatch)
    assert set(found) == {check.title for check in exercise.checks}
    assert all("TODO" in problem for problem in found.values())


WRONG = [
    ("paths", "* slope for start", "+ slope for start", {"by_paths: products along paths, and their sum"}),
    ("paths", "found[source] += slope", "found[source] = slope", {"adjoints: one walk from the result"}),
    ("paths", "in sorted(edges):\n        found", "in edges:\n        found", {"tangents: one walk from the source"}),
    ("products", "return g @ b.T, a.T @ g", "return g @ b.T, g @ a.T", {"matmul_vjp"}),
    ("products", "np.exp(x - x.max(axis=-1, keepdims=True))", "np.exp(x)", {"softmax_jvp", "softmax_vjp"}),
    ("products", "return ta @ b + a @ tb", "return ta @ tb", {"matmul_jvp"}),
    ("dual", "if isinstance(x, Dual) and x.tag == tag else", "if isinstance(x, Dual) else",
     {"an inner derivative that uses an outer variable"}),
    ("dual", "return -self + other", "return self - other", {"with plain numbers on either side"}),
    ("dual", "-sin(x.real) * x.tangent", "sin(x.real) * x.tangent", {"functions", "drawn expressions"}),
    ("value", "share[source] += slope", "share[source] = slope",
     {"values that are used twice: paths add", "drawn programs"}),
    ("value", "value.grad += share[value]", "value.grad = share[value]", {"a second backward adds the same once more"}),
    ("value", "float(self.data > 0)", "float(self.data >= 0)", {"powers and relu, at 0 too"}),
    ("value", "if exponent else 0.0", "if True else 0.0", {"powers and relu, at 0 too"}),
    ("broadcasting", "if n == 1]", "if False]", {"sum_to"}),
    ("broadcasting", "np.where(a == b, 0.5,", "np.where(a == b, 1.0,",
     {"maximum_backward, where equal operands share"}),
    ("broadcasting", "/ a.size", "/ a.shape[0]", {"mean_backward"}),
    ("cse", 'struct.pack("d", float(operands[0]))', "operands[0]", {"cse: constants, the same to the last bit"}),
    ("cse", 'COMMUTATIVE = ("add", "multiply")', 'COMMUTATIVE = ("add", "multiply", "subtract")',
     {"cse: repeated lines are computed once"}),
    ("cse", 'COMMUTATIVE = ("add", "multiply")', "COMMUTATIVE = ()",
     {"cse: operands of commutative ops in either order"}),
    ("cse", '(op, name) if op == "random" else key_of', '(op, operands) if op == "random" else key_of',
     {"cse: two draws stay two draws"}),
    ("matmul", "        yield\n        for k", "        for k", {"no races: the same with the threads reversed"}),
    ("matmul", "total += tile_a[y, k] * tile_b[k, x]\n        yield", "total += tile_a[y, k] * tile_b[k, x]",
     {"several tiles", "no races: the same with the threads reversed"}),
    ("matmul", "if row < n and start + x < n else 0.0", "", {"sizes that are no multiple of the tile"}),
    ("matmul", "total += tile_a[y, k] * tile_b[k, x]",
     "total += a[row, start + k] * b[start + k, column] if max(row, start + k, column) < n else 0",
     {"every tile is loaded once"}),
    ("checkpoints", "kept.pop(), g)", "kept[0], g)", {"checkpointed_gradient: the right gradient"}),
    ("checkpoints", "sum(checkpoints[: k + 1])", "sum(checkpoints)", {"peak"}),
    ("vmap", "*[1] * (rank + 1 - front.ndim), ", "", {"add: different ranks"}),
    ("vmap", "axis if axis < 0 else axis + 1", "axis + 1", {"total, along positive and negative axes"}),
    ("vmap", "front[np.arange(len(front)), index[0]], 0", "front[:, index[0]], 0", {"take"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "right", "wrong", "failing"), WRONG, ids=[f"{w[0]}-{i}" for i, w in enumerate(WRONG)])
def test_wrong_answers_lose_marks(name, right, wrong, failing, tmp_path, monkeypatch):
    text = solution(name)
    assert right in text
    with np.errstate(all="ignore"):
        assert set(problems(name, text.replace(right, wrong), tmp_path, monkeypatch, only=failing)) == failing


def test_keeping_everything_is_no_checkpointing(tmp_path, monkeypatch):
    text = solution("checkpoints").replace("for start in reversed(starts):", "for start in ():")
    text = text.replace("    value = None\n", "    return gradient(layers, x, g)\n")
    found = problems("checkpoints", text, tmp_path, monkeypatch)
    title = "checkpointed_gradient: few arrays alive, each forward at most twice"
    assert set(found) == {title} and "arrays alive at once that are too many" in found[title]


def test_the_checks_of_every_exercise_depend_on_the_seed():
    for name in NAMES:
        exercise = find(name)
        differing = 0
        for check in exercise.checks:
            first, second = ([wire.encode(case.inputs) for case in exercise.cases(check, seed)] for seed in (1, 2))
            assert len(first) == len(second)
            differing += first != second
        assert differing >= len(exercise.checks) / 2, name


def test_every_check_has_cases_that_students_can_see(tmp_path):
    handout.write(tmp_path, find("cse"))
    (tmp_path / "homework" / "cse.py").write_text(
        solution("cse").replace("return kept, [instead", "return lines, [name")
    )
    command = [sys.executable, str(tmp_path / "autograder" / "runner.py")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1 and "cse: repeated lines are computed once" in run.stdout, run.stdout + run.stderr
    for name in NAMES:
        assert all(check["cases"] for check in handout.public_cases(find(name))["checks"]), name


def test_marks_and_minutes_are_round():
    for name in NAMES:
        exercise = find(name)
        assert np.isclose(sum(exercise.marks_of(check) for check in exercise.checks), exercise.marks)
        assert 20 <= exercise.minutes <= 120 and exercise.questions
