"""Products that cuBLASLt finishes, every algorithm it suggests, against float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.gpu.harness import gpu, placed
from wengert.backends.cuda import blas
from wengert.core.dtypes import bfloat16, float16
from wengert.plan.epilogues import ARGUMENT, BIAS, GELU, SLOPE

SIZES = [(256, 192, 128), (100, 72, 40), (1024, 1536, 256)]
FINISHES = [
    (),
    (BIAS,),
    (GELU,),
    (BIAS, GELU),
    (GELU, ARGUMENT),
    (BIAS, GELU, ARGUMENT),
    (SLOPE,),
]
STEP = {bfloat16: 2.0**-8, float16: 2.0**-11}


def _gelu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)))


def _finished(how: tuple[str, ...], product: np.ndarray, bias: np.ndarray, at: np.ndarray) -> np.ndarray:
    total = product + bias if BIAS in how else product
    if SLOPE in how:
        total = total * (_gelu(at + 1e-5) - _gelu(at - 1e-5)) / 2e-5
    return _gelu(total) if GELU in how else total


@pytest.mark.skipif(blas.library() is None, reason="cuBLASLt is not installed")
@pytest.mark.parametrize("dtype", [bfloat16, float16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False)], ids=["nn", "nt", "tn"])
@pytest.mark.parametrize("how", FINISHES, ids=lambda how: "-".join(how) or "alone")
def test_it_finishes_a_product(how: tuple[str, ...], transposed: tuple[bool, bool], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    tried = 0
    for m, n, k in SIZES:
        x, y, at, bias = (rng.normal(size=s) for s in ((m, k), (k, n), (m, n), (n,)))
        x, y, at, bias = ((a * f).astype(dtype) for a, f in ((x, k**-0.5), (y, 1.0), (at, 1.0), (bias, 1.0)))
        x[1, 2] = np.nan  # of which nothing makes a number
        wide = [a.astype(np.float64) for a in (x, y, bias, at)]
        product = wide[0] @ wide[1]
        want = _finished(how, product, *wide[2:])
        given = {"x": x.T if transposed[0] else x, "y": y.T if transposed[1] else y, "bias": bias, "at": at}
        shape = blas.ProductShape(1, m, n, k, *transposed, 0, 0, dtype, dtype, epilogue=how)
        for algorithm in blas.candidates(shape, gpu().index):
            sizes = {"result": want.size * 2, "workspace": max(algorithm.workspace, 1)}
            with placed({name: np.ascontiguousarray(a) for name, a in given.items()}, sizes) as places:
                others = [places["bias"]] * (BIAS in how) + [places["at"]] * shape.beside
                pointers = [places["x"], places["y"], *others, places["result"]]
                algorithm.enqueue(int(gpu().stream), pointers, places["workspace"])
                result, beside = np.empty((m, n), dtype), np.empty((m, n), dtype)
                gpu().download(result, places["result"])
                gpu().download(beside, places["at"])
            rounded = np.abs(product) if BIAS in how else np.zeros_like(product)  # by some before they add the bias
            _near(result, want, rounded, dtype, algorithm.name)
            if ARGUMENT in how:
                _near(beside, product + wide[2] if BIAS in how else product, rounded, dtype, algorithm.name)
            tried += 1
    assert tried >= len(SIZES)


def _near(found: np.ndarray, want: np.ndarray, rounded: np.ndarray, dtype: Any, name: str) -> None:
    assert np.array_equal(np.isnan(found), np.isnan(want)), name
    bound = STEP[dtype] * (3 * np.abs(want) + rounded + 0.5)  # partial sums in half precision would be off by more
    off = np.abs(found.astype(np.float64) - want) / bound
    worst = np.unravel_index(np.nanargmax(off), off.shape)
    assert off[worst] <= 1, f"{name}, {want.shape} at {worst}: {found[worst]} instead of {want[worst]}"


@pytest.mark.skipif(blas.library() is None, reason="cuBLASLt is not installed")
def test_a_training_step_has_finished_products() -> None:
    rng = np.random.default_rng(0)
    shapes = ((4096, 256), (1024, 256), (1024,), (256, 1024), (4096, 256))
    arrays = [(rng.normal(size=s) * f).astype(np.float32) for s, f in zip(shapes, (1, 0.06, 0.1, 0.03, 0.01))]

    def step(x: wg.Tensor, w: wg.Tensor, b: wg.Tensor, v: wg.Tensor, weight: wg.Tensor) -> Any:
        def loss(w: wg.Tensor, b: wg.Tensor, v: wg.Tensor) -> wg.Tensor:
            with wg.autocast():
                y = wg.linear(wg.gelu(wg.linear(x, w, b), approximate="tanh"), v)
            return (y.to(wg.float32) * weight).sum()

        return wg.value_and_grad(loss, argnums=(0, 1, 2))(w, b, v)

    compiled = wg.compile(step, tune=5.0)
    for _ in range(3):
        found = compiled(*(wg.tensor(a, device="cuda") for a in arrays))
    want = step(*map(wg.tensor, arrays))
    for one, other in zip(wg.tree.flatten(found)[0], wg.tree.flatten(want)[0]):
        assert np.linalg.norm(one.numpy() - other.numpy()) <= 0.02 * np.linalg.norm(other.numpy())
    finishes = compiled._newest("a test").program.plan.epilogues
    assert {finish.how for finish in finishes.values()} == {(BIAS, GELU, ARGUMENT), (SLOPE,)}
