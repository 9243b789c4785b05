"""What the tests of `wg.ode` share: float64 tensors, and problems with known solutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg
from wengert import Tensor

EXPLICIT = ["tsit5", "dopri5", "dopri8"]
STIFF = ["rodas4", "rodas5", "kvaerno5"]
ADAPTIVE = [*EXPLICIT, *STIFF]


def real(value: Any) -> Tensor:
    """A tensor in float64."""
    return wg.tensor(np.array(value, dtype=np.float64))


def turning(t: Tensor, y: Any, args: Any) -> Any:
    """y turns by t^2 / 2: (sin, cos) of it where it begins at (0, 1)."""
    return y[1] * t, -y[0] * t


def lorenz(t: Tensor, y: Sequence[Tensor], args: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The Lorenz equations."""
    sigma, rho, beta = args
    return sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - beta * y[2]


def robertson(t: Tensor, y: Sequence[Tensor], rates: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Robertson's three reactions, whose rates are nine orders of magnitude apart."""
    slow, middle, fast = rates[0] * y[0], rates[1] * y[1] * y[2], rates[2] * y[1] * y[1]
    return middle - slow, slow - middle - fast, fast


LORENZ = (real(10.0), real(28.0), real(8 / 3))
RATES = (real(0.04), real(1e4), real(3e7))
"""The usual parameters."""


def flat(values: Any) -> Any:
    """All numbers of a nested container, in one array."""
    return np.concatenate([one.numpy().ravel() for one in wg.tree.flatten(values)[0]])
