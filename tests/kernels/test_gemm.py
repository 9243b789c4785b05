"""The matrix products of kernels/matmul/cuda.py without a GPU, run by the emulator: all rungs but wgmma."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.cores import emulated
from tests.kernels.emulator import Emulator, compiler
from tests.kernels.headers import pasted
from wengert.core.dtypes import bfloat16, float16, float32, float64, int32
from wengert.kernels.launch import H200, RTX_2080, LaunchList, work_of
from wengert.kernels.matmul.cuda import (
    THIN,
    Epilogue,
    Matrix,
    Product,
    Tile,
    candidates,
    is_small,
    matmul,
    outdoes_libraries,
    tiles,
    write,
)
from wengert.ops.core import data, placeholder
from wengert.ops.linalg import MATMUL

needs_compiler = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++")

TILES = [
    Tile("naive", 16, 16, 1),
    Tile("tiled", 16, 16, 16),
    Tile("small", 16, 16, 32, warps=2),
    Tile("fma", 64, 64, 16, 32, 32, 2),
]


def product(
    sizes: tuple[int, int, int], transposed: tuple[bool, bool], dtype: Any, batch: tuple[int, ...] = (), **more: Any
) -> Product:
    """A product of contiguous matrices a, b into c."""
    m, n, k = sizes

    def matrix(name: str, rows: int, columns: int, turn: bool) -> Matrix:
        apart = tuple(rows * columns * int(np.prod(batch[axis + 1 :])) for axis in range(len(batch)))
        return Matrix(name, dtype, *((1, rows) if turn else (columns, 1)), apart)

    left, right = matrix("a", m, k, transposed[0]), matrix("b", k, n, transposed[1])
    return Product(m, n, k, left, right, matrix("c", m, n, False), batch, **more)


def values(p: Product, transposed: tuple[bool, bool]) -> tuple[dict[str, Any], Any]:
    """Random operands, and the product in float64."""
    rng = np.random.default_rng(3)
    shapes = [(p.rows, p.depth), (p.depth, p.columns)]
    arrays = [
        rng.integers(-4, 5, (*p.batch, *(shape[::-1] if turn else shape))).astype(p.dtype)
        for shape, turn in zip(shapes, transposed)
    ]
    plain = [np.swapaxes(a, -1, -2) if turn else a for a, turn in zip(arrays, transposed)]
    exact = plain[0].astype(np.float64) @ plain[1].astype(np.float64)
    return {"a": arrays[0], "b": arrays[1], "c": np.zeros(exact.shape, p.result.dtype)}, exact


@needs_compiler
def test_every_rung_multiplies_exactly_what_is_exact() -> None:
    """Small integers: sums are exact in every dtype, so any wrong index shows."""
    cases: list[tuple[Product, tuple[bool, bool], LaunchList]] = []
    for tile, transposed in itertools.product(TILES, ((False, False), (True, True))):
        for sizes in ((5, 7, 3), (38, 68, 40)):
            p = product(sizes, transposed, float32)
            cases.append((p, transposed, pasted(write(p, tile, RTX_2080))))
    for dtype in (float64, int32):
        p = product((19, 21, 18), (False, True), dtype)
        cases += [(p, (False, True), pasted(work)) for work in matmul(p, RTX_2080)]
    half = product((19, 24, 12), (True, False), float16)
    cases.append((half, (True, False), pasted(write(half, TILES[3], RTX_2080))))
    emulator = Emulator([work for _, _, work in cases])
    for p, transposed, work in cases:
        arrays, exact = values(p, transposed)
        emulator.run(work, arrays)
        np.testing.assert_array_equal(arrays["c"].astype(np.float64), exact, err_msg=f"{p} {work.launches[0].why}")


@needs_compiler
@pytest.mark.parametrize(
    "transposed", [(False, True), *(pytest.param(t, marks=pytest.mark.slow) for t in ((True, False), (False, False)))]
)
def test_tensor_cores_multiply_exactly_what_is_exact(transposed: tuple[bool, bool]) -> None:
    """By mma, as the emulator knows it: depths with a tile that is cut, with whole ones, and with both."""
    tile = Tile("mma", 64, 64, 64, 32, 32, 3)
    products = [product(sizes, transposed, bfloat16) for sizes in ((40, 72, 24), (72, 40, 200))]
    works = [emulated(write(p, tile, H200)) for p in products]
    emulator = Emulator(works)
    for p, work in zip(products, works):
        arrays, exact = values(p, transposed)
        emulator.run(work, arrays)
        np.testing.assert_array_equal(arrays["c"], exact.astype(bfloat16), err_msg=f"{p}")


@needs_compiler
def test_parts_of_the_depth_batches_and_epilogues() -> None:
    epilogue = Epilogue(
        "to[(batch * 9 + row) * 10 + column] = acc * 2 + own;\n",
        ("const float *bias", "float *to"),
        ("bias", "to"),
        ("bias", "c"),
        "const float own = bias[column];\n",
    )
    plain = product((9, 10, 70), (False, False), float32, (2, 3))
    fma, bias = TILES[3], np.arange(10, dtype=np.float32)
    cases = [
        (plain, fma),
        (plain, replace(fma, split=2)),
        (replace(plain, epilogue=epilogue), fma),
        (replace(plain, epilogue=epilogue), replace(fma, split=3)),
        (replace(plain, epilogue=epilogue), TILES[2]),
    ]
    works = [pasted(write(p, tile, RTX_2080)) for p, tile in cases]
    emulator = Emulator(works)
    for (p, _), work in zip(cases, works):
        arrays, exact = values(p, (False, False))
        emulator.run(work, {**arrays, "bias": bias})
        np.testing.assert_array_equal(arrays["c"], exact * 2 + bias if p.epilogue else exact)


@needs_compiler
def test_a_matrix_that_all_batches_share_and_a_result_by_columns() -> None:
    p = product((6, 5, 4), (False, False), float32, (3,))
    shared = replace(p, right=replace(p.right, batch=(0,)))
    arrays, _ = values(p, (False, False))
    arrays["b"] = arrays["b"][0]
    work = pasted(matmul(shared, RTX_2080)[0])
    Emulator([work]).run(work, arrays)
    np.testing.assert_array_equal(arrays["c"], arrays["a"] @ arrays["b"])

    transposed = replace(product((6, 5, 4), (False, False), float32), result=Matrix("c", float32, 1, 6))
    arrays, exact = values(transposed, (False, False))
    arrays["c"] = np.zeros((5, 6), np.float32)
    work = pasted(matmul(transposed, RTX_2080)[0])
    Emulator([work]).run(work, arrays)
    np.testing.assert_array_equal(arrays["c"], exact.T)


def test_the_choice_follows_the_work_and_the_device() -> None:
    def first(p: Product, device: Any) -> str:
        return matmul(p, device)[0].launches[0].why

    large = product((4096, 4096, 4096), (False, True), bfloat16)
    assert "wgmma 128x256" in first(large, H200)
    assert " mma " in first(large, replace(H200, arch="80"))
    assert " fma " in first(large, RTX_2080)
    assert " fma " in first(product((4096, 4096, 4096), (False, True), float32), H200)
    assert "wgmma" in first(product((4096, 4096, 4096), (False, True), float32, tf32=True), H200)
    assert "small" in first(product((100, 300, 300), (False, False), float32), H200)
    assert "the depth in" in first(product((256, 256, 65536), (False, True), bfloat16), H200)


@needs_compiler
def test_many_rows_by_a_small_matrix_have_a_tile_of_their_own() -> None:
    cases = []
    for transposed, sizes in itertools.product(((False, False), (False, True)), ((300, 64, 64), (131, 36, 40))):
        p = product(sizes, transposed, float32)
        cases.append((p, transposed, pasted(write(p, THIN, H200))))
    emulator = Emulator([work for _, _, work in cases])
    for p, transposed, work in cases:
        assert "wg_whole" in work.launches[0].source
        arrays, exact = values(p, transposed)
        emulator.run(work, arrays)
        np.testing.assert_array_equal(arrays["c"].astype(np.float64), exact, err_msg=f"{p}")


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "tf32", "thin"),
    [(1 << 17, 64, 64, False, True), (1 << 17, 64, 64, True, False), (4096, 64, 64, False, False),
     (1 << 17, 66, 64, False, False), (1 << 17, 64, 256, False, False), (1 << 17, 50, 64, False, False)],
)  # fmt: skip
def test_thin_products_go_to_our_kernel_first(rows: int, columns: int, depth: int, tf32: bool, thin: bool) -> None:
    node = MATMUL(placeholder((rows, depth), float32, "cuda:0"), placeholder((depth, columns), float32, "cuda:0"))
    device = replace(H200, tf32=tf32)
    assert outdoes_libraries(node, device) is (thin or is_small(node))
    assert (tiles(node, device)[0] == THIN) is thin
    assert tiles(node, replace(device, invariant=True))[0] != THIN


def test_wgmma_is_left_out_where_the_copy_engine_cannot_go() -> None:
    odd = product((512, 512, 513), (False, True), bfloat16)
    assert all(tile.rung != "wgmma" for tile in candidates(odd, H200))


def test_nothing_to_compute_is_no_work() -> None:
    assert matmul(product((0, 5, 3), (False, False), float32), H200) == []


@needs_compiler
def test_batches_that_broadcast_differently() -> None:
    """As those of heads that share keys: matrices of one side serve several of the other."""
    rng = np.random.default_rng(0)
    for left, right in (((2, 3, 5, 4), (2, 1, 4, 6)), ((1, 3, 5, 4), (2, 1, 4, 6)), ((2, 1, 5, 4), (3, 4, 6))):
        node = MATMUL(*(data(rng.integers(-4, 5, shape).astype(np.float32)) for shape in (left, right)))
        named = lambda value, node=node: "c" if value is node else "ab"[node.sources.index(value)]
        work = work_of(node, named, H200, {})
        assert work is not None
        arrays = {name: np.array(source.buffer) for name, source in zip("ab", node.sources)}
        arrays["c"] = np.zeros(node.shape, np.float32)
        Emulator([pasted(work)]).run(pasted(work), arrays)
        np.testing.assert_array_equal(arrays["c"], arrays["a"] @ arrays["b"])
    three = MATMUL(data(np.zeros((2, 1, 3, 5, 4))), data(np.zeros((1, 2, 1, 4, 6))))
    assert work_of(three, lambda _: "", H200, {}) is None


def test_batches_at_three_levels_are_refused_with_their_steps() -> None:
    p = product((4, 4, 4), (False, False), float32, (2, 2, 2))
    uneven = replace(p, left=replace(p.left, batch=(16, 100, 7)))
    with pytest.raises(ValueError, match="two levels"):
        matmul(uneven, H200)
