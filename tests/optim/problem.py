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


def values(shapes: list[tuple[int, ...]], dtype: Any = np.float64, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Where the parameters start."""
    generator = np.random.default_rng(seed)
    return [np.asarray(generator.normal(size=shape), dtype) for shape in shapes]


def wengert_parameters(arrays: list[np.ndarray[Any, Any]]) -> list[wg.Tensor]:
    return [wg.tensor(array, requires_grad=True) for array in arrays]


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
        np.testing.assert_allclose(a.numpy(), b, rtol=rtol, atol=atol)
