"""One expression over `torch` and `wengert.torch`: both give the same values, shapes and dtypes, or the same error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert.torch as ours

theirs = pytest.importorskip("torch", reason="torch, the other implementation to compare with, is not installed")

Expression = Callable[[Any], Any]


def parts(value: Any) -> list[Any]:
    """What a result is made of: the arrays and numbers within tuples and lists."""
    if isinstance(value, (tuple, list)) and not isinstance(value, (theirs.Size, ours.Size)):
        return [part for item in value for part in parts(item)]
    return [value]


def same(expression: Expression, tolerance: float = 1e-6) -> None:
    """Check that an expression gives the same with both."""
    found, expected = parts(expression(ours)), parts(expression(theirs))
    assert len(found) == len(expected), (found, expected)
    for a, b in zip(found, expected):
        if not isinstance(b, theirs.Tensor):
            assert str(a) == str(b) or a == b, (a, b)
            continue
        assert isinstance(a, ours.Tensor), type(a)
        assert tuple(a.shape) == tuple(b.shape), (a.shape, b.shape)
        assert str(a.dtype) == str(b.dtype), (a.dtype, b.dtype)
        expected_array = b.detach().resolve_conj().numpy()
        found_array = a.detach().numpy()
        if expected_array.dtype.kind in "fc":
            np.testing.assert_allclose(found_array, expected_array, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(found_array, expected_array)


def same_error(expression: Expression) -> None:
    """Check that an expression raises with both, and of one kind: what catches PyTorch's catches ours."""
    with pytest.raises(Exception) as expected:
        expression(theirs)
    with pytest.raises(expected.type):
        expression(ours)


def same_gradient(expression: Expression, *arrays: Any) -> None:
    """Check that the gradients of a sum of an expression's results are the same with both."""
    found = []
    for module in (ours, theirs):
        inputs = [module.tensor(array.tolist(), dtype=module.float64, requires_grad=True) for array in arrays]
        total = sum(
            (part * (i + 1)).sum()
            for i, part in enumerate(parts(expression(module)(*inputs)))
            if hasattr(part, "sum") and part.dtype.is_floating_point
        )
        total.backward()
        found.append([x.grad.detach().numpy() for x in inputs])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
