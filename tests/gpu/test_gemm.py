"""The matrix products on a GPU: every rung, dtype and transpose against NumPy in float64."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.gpu.harness import has_gpu, run, this_device
from tests.kernels.test_gemm import product
from wengert.dtypes import bfloat16, float16, float32, float64, int32
from wengert.kernels.gemm import Product, candidates, write

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="there is no GPU")]

SIZES = [(128, 256, 128), (100, 300, 300), (257, 130, 65), (33, 17, 5), (8, 8, 2048), (1, 300, 1)]


def bound(p: Product, scale: Any) -> Any:
    """How far a result may be off: the rounding of operands, of sums as long as the depth, and of the result."""
    operands = 2.0**-10 if p.tf32 else 0.0
    sums = {float64: 2.0**-53}.get(p.dtype, 2.0**-24) * (p.depth + 2)
    stored = {bfloat16: 2.0**-8, float16: 2.0**-11, float32: 2.0**-24}.get(p.result.dtype, 0.0)
    return (operands + sums + stored) * scale


@pytest.mark.parametrize("kind", ["float32", "tf32", "bfloat16", "bfloat16 to float32", "float16", "float64", "int32"])
def test_products(kind: str) -> None:
    dtype = {"tf32": float32, "float32": float32, "float16": float16, "float64": float64, "int32": int32}.get(
        kind, bfloat16
    )
    rng = np.random.default_rng(0)
    for sizes, turned in itertools.product(SIZES, itertools.product((False, True), repeat=2)):
        for batch in ((), (2, 3)) if sizes == SIZES[2] else ((),):
            p = product(sizes, turned, dtype, batch, tf32=kind == "tf32")
            if kind == "bfloat16 to float32":
                p = replace(p, result=replace(p.result, dtype=float32))
            shapes = [(p.rows, p.depth), (p.depth, p.columns)]
            given = [
                (rng.standard_normal((*batch, *(s[::-1] if turn else s))) * 4).astype(dtype)
                for s, turn in zip(shapes, turned)
            ]
            plain = [
                np.swapaxes(a, -1, -2).astype(float) if turn else a.astype(float) for a, turn in zip(given, turned)
            ]
            exact, scale = plain[0] @ plain[1], np.abs(plain[0]) @ np.abs(plain[1])
            for tile in candidates(p.normal(), this_device()):
                if tile.split > 4:
                    continue
                poison = np.full(exact.shape, 77, p.result.dtype)
                got = run(write(p.normal(), tile, this_device()), {"a": given[0], "b": given[1], "c": poison})["c"]
                error = np.abs(got.astype(float) - exact)
                assert (error <= bound(p, scale)).all(), f"{sizes} {turned} {batch} {tile}: {np.nanmax(error)}"


def test_the_same_bits_twice() -> None:
    p = product((300, 200, 5000), (False, True), bfloat16)
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.standard_normal(shape).astype(bfloat16) for name, shape in (("a", (300, 5000)), ("b", (200, 5000)))
    }
    arrays["c"] = np.zeros((300, 200), bfloat16)
    for tile in candidates(p, this_device()):
        work = write(p, tile, this_device())
        assert run(work, arrays)["c"].tobytes() == run(work, arrays)["c"].tobytes()
