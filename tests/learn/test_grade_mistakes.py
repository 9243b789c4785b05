"""Common wrong answers to the homeworks lose the marks of the check that is about them, and of no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from wengert.learn import exercises
from wengert.learn.grading.marking import Exam, mark
from wengert.learn.kit import syllabus

ROOT = Path(__file__).parents[2]
SOLUTIONS = ROOT / "instructor" / "src" / "wengert_instructor" / "solutions"
pytestmark = pytest.mark.skipif(not SOLUTIONS.is_dir(), reason="the source distribution has no solutions")

MISTAKES = [
    (
        "mlp",
        "scale * (inner - inner.mean(axis=0) - along)",
        "scale * inner",
        {"batch_norm_backward"},
        "and should be",
    ),
    (
        "mlp",
        "grad_output * (self.inputs[k] > 0)",
        "grad_output * (self.inputs[k] >= 0)",
        {"MLP: output and all gradients"},
        "",
    ),
    (
        "mlp",
        "momentum * velocity - lr",
        "-momentum * velocity - lr",
        {"sgd_step, with and without momentum"},
        "momentum 0.9",
    ),
    (
        "cnn",
        "dx, dw, positions = np.zeros(x.shape), np.zeros(w.shape), grad_output.shape[2]",
        "dx, dw, positions = np.zeros(x.shape), np.zeros(w.shape), grad_output.shape[2]\n"
        "    dx = dx[:, :, : stride * (positions - 1) + w.shape[2]]",
        {"conv1d_backward"},
        "has shape",
    ),
    (
        "cnn",
        "return dx[:, :, inner[0], inner[1]], dw",
        "return dx, dw",
        {"conv2d_backward", "Conv2d on the tape"},
        "has shape",
    ),
    (
        "cnn",
        "conv2d_backward(g, x, w, b, self.stride, self.padding)",
        "conv2d_backward(g, x, w, b)",
        {"Conv2d on the tape"},
        "",
    ),
    ("rnn", "grad_output[t] + later", "grad_output[t]", {"rnn_backward through time"}, "2 steps"),
    ("rnn", "            total += share", "            total[...] = share", {"rnn_backward through time"}, "2 steps"),
    ("rnn", "dh @ W_hh + grad_output * z", "dh @ W_hh", {"gru_cell_backward"}, "value 2"),
    (
        "ctc",
        "if s > 1 and symbol != blank and symbol != symbols[s - 2]:",
        "if s > 1 and symbol != blank:",
        {"forward_scores", "ctc_loss", "ctc_loss_backward"},
        "a label twice",
    ),
    (
        "ctc",
        "        gradient[:, symbol] -= share[:, s]",
        "        gradient[:, symbol] = -share[:, s]",
        {"ctc_loss_backward"},
        "",
    ),
    ("ctc", "alpha[-1, -2:]))", "alpha[-1, -1:]))", {"ctc_loss", "ctc_loss_backward"}, ""),
    (
        "attention",
        "np.exp(x - x.max(axis=-1, keepdims=True))",
        "np.exp(x)",
        {"softmax", "softmax_backward"},
        "exponentials overflow",
    ),
    (
        "attention",
        "np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])",
        "np.swapaxes(k, -1, -2) / q.shape[-1]",
        {"scores, causal or not", "attention", "attention_backward"},
        "",
    ),
    (
        "attention",
        "np.arange(k.shape[-2]) > np.arange",
        "np.arange(k.shape[-2]) >= np.arange",
        {"scores, causal or not", "attention", "attention_backward"},
        "causal: True",
    ),
]


@pytest.fixture(scope="module")
def exams():
    return {name: Exam(exercises.find(name), seed=99) for name in {case[0] for case in MISTAKES}}


@pytest.mark.parametrize(
    ("name", "right", "wrong", "lost", "said"), MISTAKES, ids=[f"{m[0]}-{m[2][:24]}" for m in MISTAKES]
)
def test_a_mistake_loses_its_marks(tmp_path, exams, name, right, wrong, lost, said):
    (path,) = exercises.find(name).submission
    text = (SOLUTIONS / name / path).read_text()
    assert right in text
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text.replace(right, wrong))
    failed = {result.title: result.problem for result in mark(exams[name], tmp_path).results if result.problem}
    assert set(failed) == lost
    assert said in "".join(failed.values())


def test_the_courses_page_has_all_exercises():
    page = (ROOT / "docs" / "course.md").read_text()
    assert syllabus.filled(page) == page, "python -m wengert.learn.kit.syllabus docs/course.md writes the table"
