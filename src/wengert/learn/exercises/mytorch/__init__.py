"""The exercise `mytorch`: build the automatic differentiator of CMU's course 11-785, homework 1 (bonus)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import wengert as wg
from wengert.learn.exercises.exercise import Check, Exercise, files_in
from wengert.learn.exercises.gaps import package_with_gaps
from wengert.learn.exercises.mytorch import cases
from wengert.learn.exercises.reference import positive

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "mytorch"

GAPS = {
    "autograd_engine.py": ("Autograd.add_operation", "Autograd.backward", "Autograd._pass_on"),
    "nn/functional.py": (
        *("sub_backward", "mul_backward", "div_backward", "matmul_backward", "outer_backward", "log_backward"),
        *("exp_backward", "max_backward", "sum_backward", "sigmoid_backward", "tanh_backward"),
        *("SoftmaxCrossEntropy_backward", "_sum_to"),
    ),
    "nn/modules/linear.py": ("Linear.forward",),
    "nn/modules/activation.py": ("Sigmoid.function", "Tanh.function", "ReLU.function"),
    "nn/modules/loss.py": ("MSELoss.function", "SoftmaxCrossEntropy.function"),
}
"""The functions that students write, by file."""


def _digits() -> dict[str, Any]:
    """The handwritten digits that `hw1_bonus/mlp_runner.py` trains on, as the course's handout names them."""
    from wengert.data import load_digits

    images, labels, test_images, test_labels = load_digits()
    return {
        "hw1_bonus/data/train_data.npy": images,
        "hw1_bonus/data/train_labels.npy": labels,
        "hw1_bonus/data/val_data.npy": test_images,
        "hw1_bonus/data/val_labels.npy": test_labels,
    }


AUTOGRAD, RULES, LAYERS, LOSSES = "Autograd", "Functional", "Layers", "Losses"

EXERCISE = Exercise(
    name="mytorch",
    title="Build an automatic differentiator",
    lecture="Recitation 3: automatic differentiation",
    lesson="The tape",
    minutes=300,
    marks=50,
    allowed_imports=("numpy", "typing", "collections", "abc", "math", "functools", "itertools", "dataclasses"),
    files={**package_with_gaps(PACKAGE, GAPS), **files_in(HERE / "handout")},
    arrays=_digits,
    submission=tuple(f"mytorch/{name}" for name in GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("add_operation writes operations down", "tape", cases.tapes, 3, AUTOGRAD),
        Check("add_operation refuses lists of other lengths", "too_few", cases.lengths, 2, AUTOGRAD),
        Check("backward through chains and random programs", "walk", cases.walks, 3, AUTOGRAD),
        Check("backward twice: the inputs' gradients are added", "walk", cases.second_walks, 1, AUTOGRAD),
        Check("backward where an output is not used", "walk", cases.unused, 1, AUTOGRAD),
        Check("backward after zero_grad", "cleared", cases.clears, 1, AUTOGRAD),
        Check("gradients_to_update: gradients are added to what is there", "collect", cases.collects, 2, AUTOGRAD),
        Check("a - b", "rule", cases.two_inputs("sub_backward", cases.SAME), 1, RULES),
        Check("a * b", "rule", cases.two_inputs("mul_backward", cases.SAME, cases.with_zeros), 1, RULES),
        Check("a / b", "rule", cases.two_inputs("div_backward", cases.SAME, cases.with_zeros, positive), 1, RULES),
        Check("broadcasting: a + b, a - b, a * b, a / b", "rule", cases.broadcasting, 2, RULES),
        Check("a @ b, also vectors and stacks", "rule", cases.two_inputs("matmul_backward", cases.PRODUCTS), 3, RULES),
        Check("np.outer(a, b)", "rule", cases.two_inputs("outer_backward", [((3,), (4,)), ((1,), (5,))]), 1, RULES),
        Check("log(a)", "rule", cases.one_input("log_backward", positive), 1, RULES),
        Check("exp(a)", "rule", cases.one_input("exp_backward", cases.with_zeros), 1, RULES),
        Check("max(0, a), also at 0", "rule", cases.one_input("max_backward", cases.with_zeros, (0.0,)), 1, RULES),
        Check("sum(a)", "rule", cases.sums, 1, RULES),
        Check("backward operations leave their inputs alone", "inputs_after", cases.untouched, 1, RULES),
        Check("Linear: output, dW, db, gradient of x", "linear", cases.linears, 4, LAYERS),
        Check("Linear with a skip connection", "skip", cases.skips, 2, LAYERS),
        Check("Sigmoid", "activation", cases.activations("Sigmoid", wg.sigmoid, (0.0, 800.0, -800.0)), 3, LAYERS),
        Check("Tanh", "activation", cases.activations("Tanh", wg.tanh, (0.0, 800.0, -800.0)), 3, LAYERS),
        Check("ReLU, also at 0", "activation", cases.activations("ReLU", wg.relu, (0.0, 800.0, -800.0)), 3, LAYERS),
        Check("MSELoss", "loss", cases.squared_errors, 2, LOSSES),
        Check("SoftmaxCrossEntropy", "loss", cases.cross_entropies, 3, LOSSES),
        Check("SoftmaxCrossEntropy with large scores", "loss", cases.large_scores, 1, LOSSES),
        Check("a network learns, loss by loss", "training", cases.trainings, 2, LOSSES),
    ),
    questions=(
        "Why must the list be walked in reverse? What would go wrong in another order?",
        "How many operations does `backward` carry out for each one that was written down?",
        "Which arrays must be kept until `backward`, and which are not needed?",
        "The buffer knows an array by its place in memory. When do two arrays share one?",
    ),
)
