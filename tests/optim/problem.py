"""The small problem that the optimizers are compared on: parameters of several shapes, and a loss of all of them.

Written once for Wengert and once for torch, so that both compute their own gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

SHAPES: list[tuple[int, ...]] = [(3, 4), (4,), (), (2, 4, 1)]
MATRICES: list[tuple[int, ...]] = [(3, 5), (5, 2), (4, 4)]


CASES: list[tuple[str, dict[str, Any]]] = [  # by name and options: what torch has too
    ("SGD", {"lr": 0.01}),
    ("SGD", {"lr": 0.01, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.01, "momentum": 0.9}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.01, "momentum": 0.8, "nesterov": True, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.001, "momentum": 0.5, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True, "betas": (0.7, 0.8)}),
    ("Adam", {"lr": 0.01, "maximize": True, "weight_decay": 0.01}),
    ("Adam", {"lr": 0.01, "decoupled_weight_decay": True, "weight_decay": 0.2}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3}),
    ("AdamW", {"lr": 0.05, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("Adamax", {"lr": 0.01, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "momentum_decay": 0.02}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("NAdam", {"lr": 0.01, "maximize": True, "betas": (0.8, 0.9)}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.9, 0.9)}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.01, "betas": (0.5, 0.6), "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-5, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.02, "centered": True, "alpha": 0.9}),
    ("RMSprop", {"lr": 0.005, "centered": True, "momentum": 0.5, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1}),
    ("Adadelta", {"maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.05, "etas": (0.4, 1.5), "step_sizes": (1e-4, 0.2)}),
    ("Rprop", {"lr": 0.001, "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.02, "lambd": 0.01, "alpha": 0.6, "t0": 10, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.001, "t0": 1, "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "beta2_decay": -0.5, "eps": (1e-6, 1e-2), "d": 1.5, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.02, "maximize": True}),
]
ONE_EACH = [case for i, case in enumerate(CASES) if case[0] not in {name for name, _ in CASES[:i]}]


def identifier(case: tuple[str, dict[str, Any]]) -> str:
    """A case as a test's name."""
    name, options = case
    return f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})"


def values(shapes: list[tuple[int, ...]], dtype: Any = np.float64, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Where the parameters start."""
    generator = np.random.default_rng(seed)
    return [np.asarray(generator.normal(size=shape), dtype) for shape in shapes]


def wengert_parameters(arrays: list[np.ndarray[Any, Any]], device: str = "cpu") -> list[wg.Tensor]:
    return [wg.tensor(array, requires_grad=True, device=device) for array in arrays]


def torch_parameters(arrays: list[np.ndarray[Any, Any]]) -> list[Any]:
    import torch

    return [torch.tensor(array, requires_grad=True) for array in arrays]


def loss(library: Any, params: list[Any]) -> Any:
    """A bowl with ripples around other places than where the parameters start."""
    parts = [((p - 0.3 * (i + 1)) ** 2 + 0.5 * library.sin(3 * p)).sum() for i, p in enumerate(params)]
    first = params[0].sum()
    total = parts[0]
    for part in parts[1:]:
        total = total + part + 0.1 * library.tanh(first) * part
    return total


def descend(
    library: Any, params: list[Any], optimizer: Any, steps: int, after: Callable[[], Any] = lambda: None
) -> None:
    """The training loop, the same in both libraries."""
    for _ in range(steps):
        optimizer.zero_grad()
        loss(library, params).backward()
        optimizer.step()
        after()


def assert_same(mine: list[wg.Tensor], theirs: list[Any], rtol: float, atol: float) -> None:
    for a, b in zip(mine, theirs, strict=True):
        b = np.asarray(b.detach() if hasattr(b, "detach") else b)
        np.testing.assert_allclose(a.detach().numpy(), b, rtol=rtol, atol=atol)
