"""What PyTorch refuses is refused, by the exceptions that its programs catch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wengert.errors import ComputationError

import wengert as wg
import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional


@pytest.mark.parametrize(
    "fails", [lambda: torch.linalg.inv(torch.zeros(2, 2)), lambda: torch.linalg.cholesky(-torch.eye(2))]
)
def test_singular_matrices(fails: Any) -> None:
    """A program that falls back on another method catches LinAlgError, which is NumPy's too."""
    kinds = RuntimeError, np.linalg.LinAlgError, ComputationError
    assert all(issubclass(torch.linalg.LinAlgError, kind) for kind in kinds)
    with pytest.raises(torch.linalg.LinAlgError):
        fails().sum().item()


def test_a_singular_matrix_compiled() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        wg.compile(wg.linalg.inv)(wg.zeros((2, 2))).numpy()


@pytest.mark.parametrize("compiled", [False, True])
def test_indices_out_of_range(compiled: bool) -> None:
    def look(x: Any, i: Any) -> Any:
        return x[i] * 2

    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        (torch.compile(look) if compiled else look)(torch.arange(3.0), torch.tensor([4]) + 1).tolist()


@pytest.mark.parametrize(
    "layer, shape",
    [(nn.Linear(3, 2), (1, 3)), (nn.Conv1d(3, 2, 2), (1, 3, 4)), (nn.ConvTranspose2d(3, 2, 2), (1, 3, 4, 4))],
)
def test_two_dtypes(layer: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="same dtype, but got Double and Float"):
        layer(torch.ones(shape, dtype=torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.ones(shape, dtype=torch.bfloat16)).dtype is torch.bfloat16


def test_two_dtypes_in_functions() -> None:
    with pytest.raises(RuntimeError, match="same dtype"):
        F.linear(torch.ones(1, 3), torch.ones(2, 3, dtype=torch.float64))


def test_targets_that_are_no_classes() -> None:
    scores, targets = torch.randn(2, 3), torch.tensor([0, 1], dtype=torch.int32)
    for loss in (F.cross_entropy, F.nll_loss, nn.CrossEntropyLoss(), nn.NLLLoss()):
        with pytest.raises(RuntimeError, match="Long or Byte"):
            loss(scores, targets)
    with pytest.raises(NotImplementedError, match="'Long'"):
        F.softmax(torch.tensor([1, 2]), dim=0)


def test_a_list_of_modules_with_a_part_left_out() -> None:
    parts = nn.ModuleList([nn.Linear(2, 2), None, nn.Linear(2, 1)])
    parts.append(None)
    assert len(parts) == 4 and parts[1] is None and parts[-1] is None
    assert list(parts.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    parts[1] = nn.ReLU()
    assert isinstance(parts[1], nn.ReLU) and [part is None for part in parts] == [False, False, False, True]


def test_a_nan_that_nobody_looks_at() -> None:
    """It is an error of the block in which it was made."""
    x = torch.zeros(1)
    with pytest.raises((RuntimeError, FloatingPointError), match="NaN"), torch.autograd.set_detect_anomaly(True):
        unseen = x / x
    assert unseen.shape == (1,)
