"""Norms of rows on an emulated GPU: exact wherever the mean is, whatever one element is."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from tests.kernels.emulator import compiler

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]

CONTENTS = ("normal", "far from zero", "one of them far away", "all the same")


def rows_of(content: str, length: int, count: int = 9) -> np.ndarray:
    rows = np.random.default_rng(length).standard_normal((count, length)).astype(np.float32)
    if content == "far from zero":
        rows += 1000
    elif content == "one of them far away":
        rows[:, 0] = 1000
    elif content == "all the same":
        rows[:] = 1.1
    return rows


def normal(x: np.ndarray) -> np.ndarray:
    """Layer norm in float64."""
    x = x.astype(np.float64)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize(("count", "length"), [(9, 64), (9, 128), (2048, 768), (9, 1000), (9, 1024), (9, 8192)])
def test_rows_are_normalised(count: int, length: int, content: str) -> None:
    x = rows_of(content, length, count)
    compiled = wg.compile(lambda x: wg.layer_norm(x, (length,)))
    found = compiled(wg.tensor(x, device="cuda")).numpy()
    # what float32 leaves of a mean of 1000, or of a difference that is divided by the square root of 1e-5
    tolerance = {"far from zero": 1e-3, "all the same": 3e-4}.get(content, 1e-6)
    np.testing.assert_allclose(found, normal(x), rtol=1e-5, atol=tolerance)


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_spreads_over_its_row_alone(what: float) -> None:
    x = rows_of("normal", 1024)
    x[3, 700] = what
    found = wg.compile(lambda x: wg.layer_norm(x, (1024,)))(wg.tensor(x, device="cuda")).numpy()
    assert np.isnan(found[3]).all()
    others = np.arange(9) != 3
    np.testing.assert_allclose(found[others], normal(x[others]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [wg.float32, wg.bfloat16, wg.float16])
def test_a_residual_is_added_and_normalised_and_goes_back(dtype: np.dtype) -> None:
    """As a transformer does: the sum is stored beside, and what backward reads of the mean's derivative is zero."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((6, 768)) for _ in range(3)]

    def both(x: wg.Tensor, y: wg.Tensor, g: wg.Tensor) -> tuple[wg.Tensor, ...]:
        def forward(x: wg.Tensor, y: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
            total = x + y
            return total, wg.layer_norm(total.astype(wg.float32), (768,)).astype(dtype)

        (total, normed), pull = wg.vjp(forward, x, y)
        return total, normed, *pull((total, g))

    arrays = [wg.tensor(a).astype(dtype) for a in given]
    expected = [t.astype(wg.float32).numpy() for t in both(*arrays)]
    compiled = wg.compile(both)
    found = [t.to("cpu").astype(wg.float32).numpy() for t in compiled(*[t.to("cuda") for t in arrays])]
    tolerance = {"float32": 2e-6, "bfloat16": 2e-2, "float16": 2e-3}[dtype.name]
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
