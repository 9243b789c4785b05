"""Right answers, by Wengert's own ops: values and gradients of a function, as arrays in double precision.

    outputs, gradients = value_and_gradients(wg.matmul, [a, b], seed)

The grader's process calls these; a submission's process has none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wengert as wg


def value(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """What a function of tensors gives for arrays."""
    return function(*map(wg.tensor, inputs)).numpy()


def gradients(function: Callable[..., Any], inputs: Sequence[Any], seed: Any) -> tuple[Any, ...]:
    """The gradients of sum(seed * function(*inputs)) with respect to each of the inputs."""
    return value_and_gradients(function, inputs, seed)[1]


def value_and_gradients(function: Callable[..., Any], inputs: Sequence[Any], seed: Any) -> tuple[Any, tuple[Any, ...]]:
    """What a function gives, and the gradients of its sum, weighted by `seed`, with respect to each input."""
    tensors = [wg.tensor(np.asarray(each, np.float64)) for each in inputs]
    result, pullback = wg.vjp(function, *tensors)
    spread = np.broadcast_to(np.asarray(seed, np.float64), result.shape)
    return result.numpy(), tuple(each.numpy() for each in pullback(wg.tensor(np.array(spread))))


def drawn(rng: np.random.Generator, *shape: int, zeros: bool = False) -> Any:
    """Numbers between -2 and 2, at least 0.05 away from 0, some of them replaced by zeros if asked for."""
    array = rng.uniform(0.05, 2.0, shape) * rng.choice([-1.0, 1.0], shape)
    return np.where(rng.uniform(size=shape) < 0.3, 0.0, array) if zeros else array


def positive(rng: np.random.Generator, *shape: int) -> Any:
    """Numbers between 0.3 and 3."""
    return rng.uniform(0.3, 3.0, shape)
