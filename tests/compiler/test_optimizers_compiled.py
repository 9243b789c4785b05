"""Every optimizer form, three training steps, all forms in one program: compiled they give what the references give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.three_steps import Training, assert_compiled_as_interpreted, dynamic, replayed
from tests.optim.problem import CASES, MATRICES, SHAPES, identifier, loss, values, wengert_parameters
from wengert.backends.cpu.toolchain import compiler

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with"),
    pytest.mark.usefixtures("quick_builds"),
]

OURS: list[tuple[str, dict[str, Any]]] = [
    ("Lion", {}),
    ("Lion", {"lr": 0.01, "betas": (0.8, 0.9), "weight_decay": 0.1, "maximize": True}),
    ("Muon", {}),
    ("Muon", {"lr": 0.02, "nesterov": False, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}),
]


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_all_optimizers_replayed(dtype: str) -> None:
    assert_compiled_as_interpreted(replayed, training, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_all_optimizers_dynamically(dtype: str) -> None:
    assert_compiled_as_interpreted(dynamic, training, dtype)


def test_every_optimizer_is_there() -> None:
    kinds = {name for name in wg.optim.__all__ if issubclass(type(getattr(wg.optim, name)), type)}
    public = {name for name in kinds if issubclass(getattr(wg.optim, name), wg.optim.Optimizer)} - {"Optimizer"}
    public -= {"LBFGS", "SparseAdam"}  # tests/optim/test_lbfgs.py, test_new_rules.py
    assert public == {name for name, _ in CASES + OURS}


def training(dtype: str, device: str = "cpu") -> Training:
    runs = []
    state = {}
    for case in CASES + OURS:
        name, options = case
        start = values(MATRICES if name == "Muon" else SHAPES, np.float32)
        parameters = wengert_parameters([array.astype(dtype) for array in start], device)
        runs.append((identifier(case), parameters, getattr(wg.optim, name)(parameters, **options)))
        state |= {f"{identifier(case)}: parameter {i}": p for i, p in enumerate(parameters)}

    def step() -> dict[str, wg.Tensor]:
        losses = {name: loss(wg, parameters) for name, parameters, _ in runs}
        total, *others = losses.values()
        sum(others, total).backward()
        for _, _, optimizer in runs:
            optimizer.step()
            optimizer.zero_grad()
        return losses

    return Training(step, state)
