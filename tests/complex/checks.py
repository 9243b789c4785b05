"""What the tests of complex numbers share: a real number made of any results, and results compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from tests.complex.cases import Array
from wengert.core import tree

SINGLE = {"c": np.complex64, "f": np.float32}


def loss_of(function: Callable[..., Any]) -> Callable[..., wg.Tensor]:
    """A real number in which real and imaginary part of every element of every result count differently."""

    def loss(*operands: wg.Tensor) -> wg.Tensor:
        total: Any = 0.0
        for result in tree.flatten(function(*operands))[0]:
            if wg.isdtype(result.dtype, "complex floating"):
                total = total + (wg.imag(result) * 0.7).sum() + (wg.abs(result) ** 2).sum()
            total = total + (wg.real(result) * 1.3).sum()
        return total

    return loss


def arrays(results: Any) -> list[Array]:
    """The leaves of some results, as arrays."""
    return [np.asarray(leaf.numpy()) for leaf in tree.flatten(results)[0]]


def single(operand: Array) -> Array:
    """An array in single precision."""
    return operand.astype(SINGLE[operand.dtype.kind])


def assert_same(found: Any, expected: Any, tolerance: float) -> None:
    """Raise unless two results have the same dtypes, shapes and, within a tolerance, values."""
    got, wanted = arrays(found), arrays(expected)
    assert [(a.shape, a.dtype) for a in got] == [(b.shape, b.dtype) for b in wanted]
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
