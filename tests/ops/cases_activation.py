"""Cases for the activations, against the formulas in NumPy and against torch.nn.functional."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.special
import scipy.stats

from tests.ops.case import Case, arrays
from wengert.ops.samples import of_one

try:
    import torch.nn.functional as F
except ImportError:
    F = None  # type: ignore[assignment]

Reference = Callable[..., Any]


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return np.where(beta * x > threshold, x, np.log1p(np.exp(beta * np.minimum(x, 50))) / beta)


def _gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * scipy.stats.norm.cdf(x)


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(x), 0)


def _glu(x: Any, axis: int = -1) -> Any:
    a, b = np.split(x, 2, axis)
    return a * scipy.special.expit(b)


FORMULAS: dict[str, tuple[Reference, list[dict[str, Any]]]] = {
    "celu": (lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)), [{}, {"alpha": 2.0}]),
    "elu": (_elu, [{}, {"alpha": 0.5}]),
    "gelu": (_gelu, [{}, {"approximate": "tanh"}]),
    "hardsigmoid": (lambda x: np.clip(x / 6 + 0.5, 0, 1), [{}]),
    "hardswish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), [{}]),
    "hardtanh": (lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val), [{}, {"max_val": 3.0}]),
    "leaky_relu": (
        lambda x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x),
        [{}, {"negative_slope": 0.3}],
    ),
    "logsigmoid": (lambda x: np.log(scipy.special.expit(x)), [{}]),
    "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), [{}]),
    "relu": (lambda x: np.maximum(x, 0), [{}]),
    "relu6": (lambda x: np.clip(x, 0, 6), [{}]),
    "selu": (lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772), [{}]),
    "silu": (lambda x: x / (1 + np.exp(-x)), [{}]),
    "softplus": (_softplus, [{}, {"beta": 2.0, "threshold": 5.0}]),
    "softsign": (lambda x: x / (1 + np.abs(x)), [{}]),
    "tanhshrink": (lambda x: x - np.tanh(x), [{}]),
}


def _torch(name: str) -> Any:
    return getattr(F, name) if F is not None else None


def _along(name: str) -> Any:
    """The function of torch with its name for the axis."""
    function = _torch(name)
    return function and (lambda x, axis=-1: function(x, dim=axis))


def _pointwise_cases() -> Iterator[Case]:
    for seed, (name, (formula, options)) in enumerate(FORMULAS.items()):
        for kwargs in options:
            for (x,) in of_one(seed, -5.0, 8.0 if name == "relu6" else 5.0):
                yield Case(name, (x,), kwargs, numpy=formula, torch=_torch(name))


def _axis_cases() -> Iterator[Case]:
    vector, matrix, batch, thin, empty = arrays(50, (4,), (3, 4), (2, 4, 2), (1, 2, 1), (0, 2), low=-3.0, high=3.0)
    for name, formula in (("softmax", scipy.special.softmax), ("log_softmax", scipy.special.log_softmax)):
        for x, axis in ((vector, 0), (matrix.T, 0), (batch, 1), (thin, 2), (matrix[:, ::2], -1)):
            yield Case(name, (x,), {"axis": axis}, numpy=formula, torch=_along(name))
        yield Case(name, (batch,), {"axis": (0, 2)}, numpy=formula)
        yield Case(name, (empty,), {"axis": 1}, numpy=lambda x, axis: x, torch=_along(name))
        yield Case(name, (empty,), {"axis": 0}, numpy=lambda x, axis: x, torch=_along(name))
        yield Case(name, (matrix,), numpy=lambda x, formula=formula: formula(x, axis=-1))
    for x, axis in ((vector, 0), (matrix.T, 0), (batch, 1), (thin, 1), (empty, -1)):
        yield Case("glu", (x,), {"axis": axis}, numpy=_glu, torch=_along("glu"))


CASES = [*_pointwise_cases(), *_axis_cases()]
