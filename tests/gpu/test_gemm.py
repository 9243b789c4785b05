"""The matrix products on a GPU: every rung, dtype and transpose against NumPy in float64."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.gpu.harness import prepare, run, this_device
from tests.kernels.test_gemm import product
from wengert.core.dtypes import bfloat16, float16, float32, float64, int32
from wengert.kernels.matmul.cuda import THIN, Product, Tile, candidates, write

SIZES = [(128, 256, 128), (100, 300, 300), (257, 130, 65), (33, 17, 5), (8, 8, 2048), (1, 300, 1), (3000, 64, 64)]


def bound(p: Product, scale: Any) -> Any:
    """How far a result may be off: the rounding of operands, of sums as long as the depth, and of the result."""
    operands = 2.0**-10 if p.tf32 else 0.0
    sums = {float64: 2.0**-53}.get(p.dtype, 2.0**-24) * (p.depth + 2)
    stored = {bfloat16: 2.0**-8, float16: 2.0**-11, float32: 2.0**-24}.get(p.result.dtype, 0.0)
    return (operands + sums + stored) * scale


def tiles(p: Product, every: bool) -> list[Tile]:
    """Those to be tested: every one, or one of each kind."""
    found = [tile for tile in candidates(p, this_device()) if tile.split <= 4]
    if p.dtype is float32 and not p.tf32 and (p.columns, p.depth) == (64, 64) and p.left.column == 1:
        return [*found, THIN]
    if every:
        return [tile for tile in found if tile.split == 1]
    return list({(tile.rung, tile.split > 1): tile for tile in found}.values())


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["float32", "tf32", "bfloat16", "bfloat16 to float32", "float16", "float64", "int32"])
def test_products(kind: str, sizes: tuple[int, int, int]) -> None:
    named = {"tf32": float32, "float32": float32, "float16": float16, "float64": float64, "int32": int32}
    dtype = named.get(kind, bfloat16)
    cases: list[tuple[Product, tuple[bool, bool], Tile]] = []
    for transposed in itertools.product((False, True), repeat=2):
        p = product(sizes, transposed, dtype, (2, 3) if sizes == SIZES[2] else (), tf32=kind == "tf32").normal()
        if kind == "bfloat16 to float32":
            p = replace(p, result=replace(p.result, dtype=float32))
        cases += [(p, transposed, tile) for tile in tiles(p, sizes == SIZES[0] and transposed[0] == transposed[1])]
    prepare(write(p, tile, this_device()) for p, _, tile in cases)
    rng = np.random.default_rng(0)
    for p, transposed, tile in cases:
        shapes = [(p.rows, p.depth), (p.depth, p.columns)]
        stored = [shape[::-1] if turn else shape for shape, turn in zip(shapes, transposed)]
        given = [(rng.standard_normal((*p.batch, *shape)) * 4).astype(dtype) for shape in stored]
        plain = [(np.swapaxes(a, -1, -2) if turn else a).astype(float) for a, turn in zip(given, transposed)]
        exact, scale = plain[0] @ plain[1], np.abs(plain[0]) @ np.abs(plain[1])
        poison = np.full(exact.shape, 77, p.result.dtype)
        got = run(write(p, tile, this_device()), {"a": given[0], "b": given[1], "c": poison})["c"]
        error = np.abs(got.astype(float) - exact)
        assert (error <= bound(p, scale)).all(), f"{p} {tile}: {np.nanmax(error)}"


def test_the_same_bits_twice() -> None:
    p = product((300, 200, 5000), (False, True), bfloat16)
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.standard_normal(shape).astype(bfloat16) for name, shape in (("a", (300, 5000)), ("b", (200, 5000)))
    }
    arrays["c"] = np.zeros((300, 200), bfloat16)
    prepare(write(p, tile, this_device()) for tile in tiles(p, False))
    for tile in tiles(p, False):
        work = write(p, tile, this_device())
        assert run(work, arrays)["c"].tobytes() == run(work, arrays)["c"].tobytes()
