"""Creation functions: the very numbers NumPy gives, dtypes, what they cost, and what they say to other habits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg


def test_defaults() -> None:
    assert wg.zeros(3).dtype is wg.float32 and wg.eye(2).dtype is wg.float32 and wg.tri(2).dtype is wg.float32
    assert wg.arange(3).dtype is wg.int64 and wg.arange(3.0).dtype is wg.float32
    assert wg.linspace(0, 1, 3).dtype is wg.float32
    fills = [(True, wg.bool), (1, wg.int64), (1.0, wg.float32), (1j, wg.complex64), (np.float64(1), wg.float64)]
    for value, dtype in fills:
        assert wg.full((), value).dtype is dtype
    x = wg.tensor([1, 2], wg.int8)
    assert wg.zeros_like(x).dtype is wg.int8 and wg.full_like(x, 2.5, dtype=wg.float64).dtype is wg.float64
    assert wg.zeros((2,), dtype="bfloat16").dtype is wg.bfloat16


def test_constants_hold_one_number() -> None:
    strides = wg.zeros((1000, 1000)).numpy().strides
    assert strides == (0, 0)


RANGES: list[tuple[Any, ...]] = [(0, 1, 0.1), (1.0, -1.0, -0.07), (3e4, 3e4 + 3, 0.3), (0.1, 50), (-3, 3, 0.5)]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("bounds", RANGES)
def test_arange_gives_numpys_very_numbers(bounds: tuple[Any, ...], dtype: str) -> None:
    np.testing.assert_array_equal(wg.arange(*bounds, dtype=dtype).numpy(), np.arange(*bounds, dtype=dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
@pytest.mark.parametrize("ends", [(0, 1, 7), (-0.3, 0.1, 50), (6e4, 6e4 + 1, 9), (5, -5, 4), (0, 1e-320, 7)])
def test_linspace_gives_numpys_very_numbers(ends: tuple[Any, ...], dtype: str) -> None:
    for endpoint in (True, False):
        found = wg.linspace(*ends, dtype=dtype, endpoint=endpoint).numpy()
        np.testing.assert_array_equal(found, np.linspace(*ends, dtype=dtype, endpoint=endpoint))


def test_requires_grad() -> None:
    x = wg.ones((2,), requires_grad=True)
    (x * wg.arange(2.0)).sum().backward()
    assert x.grad.tolist() == [0, 1]
    assert wg.zeros_like(x, requires_grad=True).is_leaf and not wg.zeros_like(x).requires_grad
    with pytest.raises(wg.errors.DTypeError, match="floating"):
        wg.arange(3, requires_grad=True)


def test_a_filled_value_can_be_differentiated_by_what_fills_it() -> None:
    assert wg.grad(lambda v: wg.full((2, 3), v).sum())(1.5).item() == 6


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_torchs_spelling_of_a_shape_gets_the_one_here(name: str) -> None:
    with pytest.raises(ValueError, match=rf"write {name}\(\(2, 3\)\)"):
        getattr(wg, name)(2, 3)
    with pytest.raises(ValueError, match="dtype=float64"):
        getattr(wg, name)((2, 3), wg.float64)


def test_errors() -> None:
    for call, message in [
        (lambda: wg.zeros((2, -1)), "negative"),
        (lambda: wg.zeros((2.5,)), "integers"),
        (lambda: wg.zeros(2, device="tpu"), "no device 'tpu'"),
        (lambda: wg.zeros(2, dtype="float8"), "float8"),
        (lambda: wg.full(2, wg.ones(3)), "one number"),
        (lambda: wg.arange(0, 5, 0), "no finite number of steps"),
        (lambda: wg.arange(0, float("inf")), "no finite number of steps"),
        (lambda: wg.arange(300, dtype=wg.int8), "299 does not fit"),
        (lambda: wg.arange(wg.tensor(3)), "item"),
        (lambda: wg.arange(3, dtype=wg.bool), "real"),
        (lambda: wg.linspace(0, 1, -1), "negative"),
        (lambda: wg.linspace(0, 1j, 3, dtype=wg.float32), "complex"),
        (lambda: wg.tril(wg.ones(3)), "two axes"),
        (lambda: wg.meshgrid(wg.ones((2, 2))), "one axis"),
        (lambda: wg.meshgrid(wg.ones(2), indexing="yx"), "indexing"),
        (lambda: wg.broadcast_arrays(wg.ones(2), wg.ones(3)), "do not broadcast"),
        (lambda: wg.hardtanh(wg.ones(2), 1.0, -1.0), "not less"),
        (lambda: wg.gelu(wg.ones(2), approximate="erf"), "approximate"),
        (lambda: wg.glu(wg.ones(3)), "halve"),
        (lambda: wg.softplus(wg.ones(3), beta=0), "beta"),
        (lambda: wg.softmax(wg.ones(3), axis=1), "axis 1"),
        (lambda: wg.silu(wg.tensor(1j)), "floating"),
    ]:
        with pytest.raises(wg.errors.WengertError, match=message):
            call()


def test_lerp_meets_both_ends() -> None:
    a, b = wg.tensor([1e8, 0.1]), wg.tensor([1.0, 0.7])
    assert wg.lerp(a, b, 0.0).tolist() == a.tolist() and wg.lerp(a, b, 1.0).tolist() == b.tolist()
    assert wg.lerp(a, b, wg.tensor([1.0, 0.0])).tolist() == [b.tolist()[0], a.tolist()[1]]


@pytest.mark.parametrize("k", [2**63 - 1, 2**63, 2**64, -(2**63), -(2**64), 10**30, 5, -5])
def test_a_diagonal_outside_the_matrix_is_empty(k: int) -> None:
    """Found by array-api-tests: a number past int64 was refused, as if it were an element."""
    assert wg.eye(2, 3, k=k, dtype=wg.int64).tolist() == [[0] * 3] * 2
    x = wg.ones((2, 3), dtype=wg.int64)
    below, above = ([[1] * 3] * 2, [[0] * 3] * 2)[:: 1 if k > 0 else -1]
    assert wg.tri(2, 3, k=k, dtype=wg.int64).tolist() == below
    assert wg.tril(x, k=k).tolist() == below
    assert wg.triu(x, k=k).tolist() == above
