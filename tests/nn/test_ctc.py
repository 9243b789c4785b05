"""The CTC loss: against torch and against all alignments, derivatives, lengths of every kind, what does not fit."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import AbstractValueError, ArgumentError, DTypeError, OutOfRangeError, ShapeError

RNG = np.random.default_rng(3)
SCORES = RNG.normal(size=(7, 4, 5))
LABELS = np.array([[1, 1, 2], [4, 3, 0], [2, 2, 2], [1, 2, 3]])
FRAMES, SIZES = np.array([7, 5, 6, 2]), np.array([3, 2, 0, 2])
FLAT = np.concatenate([row[:n] for row, n in zip(LABELS, SIZES)])


def loss(scores: wg.Tensor, labels: Any = LABELS, **options: Any) -> wg.Tensor:
    return wg.ctc_loss(wg.log_softmax(scores), wg.tensor(labels), wg.tensor(FRAMES), wg.tensor(SIZES), **options)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("labels", [LABELS, FLAT], ids=["padded", "one axis"])
def test_values_and_gradients_are_torchs(labels: Any, reduction: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.tensor(SCORES.astype(dtype), requires_grad=True)
    expected = torch.nn.functional.ctc_loss(
        torch.log_softmax(theirs, -1), *map(torch.tensor, (labels, FRAMES, SIZES)), reduction=reduction
    )
    ours = wg.tensor(SCORES.astype(dtype), requires_grad=True)
    found = loss(ours, labels, reduction=reduction)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=tolerance)
    found.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), atol=tolerance)


def collapsed(path: tuple[int, ...], blank: int) -> list[int]:
    return [label for label, _ in itertools.groupby(path) if label != blank]


@pytest.mark.parametrize("blank", [0, 2])
def test_it_is_the_sum_over_all_alignments(blank: int) -> None:
    logs = np.log(np.exp(SCORES[:4, 0, :3]) / np.exp(SCORES[:4, 0, :3]).sum(-1, keepdims=True))
    labels = [1, 1 - blank // 2]
    total = sum(
        math.exp(sum(logs[t, c] for t, c in enumerate(path)))
        for path in itertools.product(range(3), repeat=4)
        if collapsed(path, blank) == labels
    )
    found = wg.ctc_loss(wg.tensor(logs), wg.tensor(labels), 4, 2, blank=blank, reduction="sum")
    assert math.isclose(found.item(), -math.log(total), rel_tol=1e-12)


def test_derivatives_to_second_order_compiled_and_over_lanes() -> None:
    scores = wg.tensor(SCORES[:4, :1, :3])
    one = lambda x: wg.ctc_loss(wg.log_softmax(x), wg.tensor([[1, 1]]), (4,), (2,))
    wg.check_grads(one, (scores,), order=2)
    whole = wg.tensor(SCORES)
    expected = wg.grad(loss)(whole)
    np.testing.assert_allclose(wg.compile(wg.grad(loss))(whole).numpy(), expected.numpy(), atol=1e-12)
    lanes = wg.tensor(RNG.normal(size=(3, *SCORES.shape)))
    rows = np.stack([loss(wg.tensor(row)).numpy() for row in lanes.numpy()])
    np.testing.assert_allclose(wg.vmap(loss)(lanes).numpy(), rows, rtol=1e-12)


def test_lengths_as_arguments_of_a_compiled_function() -> None:
    f = wg.compile(lambda x, labels, frames, sizes: wg.ctc_loss(wg.log_softmax(x), labels, frames, sizes))
    for frames in (FRAMES, FRAMES - 1):
        args = [wg.tensor(a) for a in (SCORES, LABELS, frames, SIZES)]
        expected = wg.ctc_loss(wg.log_softmax(args[0]), *args[1:])
        np.testing.assert_allclose(f(*args).item(), expected.item(), rtol=1e-12)
    with pytest.raises(AbstractValueError, match=r"Pad the targets to \(N, S\), or pass target_lengths as a tuple"):
        f(wg.tensor(SCORES), wg.tensor(FLAT), wg.tensor(FRAMES), wg.tensor(SIZES))


def test_where_no_alignment_fits() -> None:
    scores = wg.tensor(SCORES[:2, :1], requires_grad=True)
    hopeless = lambda **options: wg.ctc_loss(wg.log_softmax(scores), wg.tensor([[1, 1, 2]]), (2,), (3,), **options)
    assert hopeless().item() == math.inf
    settled = hopeless(zero_infinity=True)
    settled.backward()
    assert settled.item() == 0 and not scores.grad.numpy().any()


def test_no_frames_are_an_empty_sequence() -> None:
    found = wg.ctc_loss(wg.tensor(SCORES[:, :2]), wg.tensor(LABELS[:2]), (0, 0), (0, 1), reduction="none")
    assert found.tolist() == [0.0, math.inf]


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((wg.ones(3), [[1]], (1,), (1,)), ShapeError, r"\(T, N, C\) or \(T, C\)"),
        ((wg.ones((3, 1, 2)), [[1.0]], (1,), (1,)), DTypeError, "class indices"),
        ((wg.ones((3, 1, 2)), [[1]], (4,), (1,)), ArgumentError, "input_lengths must be from 0 to 3"),
        ((wg.ones((3, 1, 2)), [[1]], (3,), (2,)), ArgumentError, "target_lengths must be from 0 to 1"),
        ((wg.ones((3, 2, 2)), [1, 1, 1], (3, 3), (1, 1)), ShapeError, "add up to 2, but there are 3"),
        ((wg.ones((3, 1, 2)), [[1]], (3,), (1,), 2), OutOfRangeError, "blank 2 is not one of the 2 classes"),
        ((wg.ones((3, 1, 2)), [[1]], (3,), (1,), 0, "avg"), ArgumentError, "reduction must be"),
    ],
)
def test_what_does_not_fit_is_named(args: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wg.ctc_loss(args[0], wg.tensor(args[1]), *args[2:])


def test_the_module_is_the_function() -> None:
    module = wg.nn.CTCLoss(zero_infinity=True)
    logs = wg.log_softmax(wg.tensor(SCORES))
    args = (logs, wg.tensor(LABELS), wg.tensor(FRAMES), wg.tensor(SIZES))
    assert module(*args).item() == wg.ctc_loss(*args, zero_infinity=True).item()
    assert "zero_infinity=True" in repr(module)
