"""The kernels for sorting, run by the emulator, against the references."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.kernels.emulator import Emulator, compiler
from tests.kernels.test_addressing_cuda import reference, worked
from wengert.core.dtypes import bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8, uint64
from wengert.core.graph import Node
from wengert.kernels.launch import H200, LaunchList
from wengert.kernels.sort import cuda as sorting_cuda
from wengert.kernels.sort import select as selecting_cuda
from wengert.ops.core import data
from wengert.ops.sorting import ARGSORT, SORT, TOPK

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")

RNG = np.random.default_rng(0)
DTYPES = (bool_, int8, uint8, int16, int32, int64, uint64, float16, bfloat16, float32, float64)


def elements(dtype: Any, *shape: int) -> np.ndarray:
    """Random elements with ties, and for floats NaN of both signs, infinities and zeros of both signs."""
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        wide = RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
        return np.where(RNG.random(shape) < 0.3, wide, RNG.integers(0, 5, shape).astype(dtype)).astype(dtype)
    if dtype == np.bool_:
        return RNG.random(shape) < 0.5
    found = RNG.normal(size=shape)
    odd = RNG.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], shape)
    return np.where(RNG.random(shape) < 0.3, odd, found).astype(dtype)


def sorts(x: np.ndarray, axis: int = -1) -> Iterator[Node]:
    for descending in (False, True):
        for op in (ARGSORT, SORT):
            yield op(data(x), axis=axis % x.ndim, descending=descending)


def check(nodes: list[Node], **options: Any) -> None:
    """Carry out nodes and compare every bit, but for those of NaN."""
    works = [worked(node, partial(sorting_cuda.sort, device=H200)) for node in nodes]
    emulator = Emulator([work for work, _ in works])
    for node, (work, arrays) in zip(nodes, works):
        for reverse in (False, True):
            emulator.run(work, arrays, reverse)
            assert_same(
                arrays[f"b{node.serial}"], reference(node), f"{node.op.name} {node.sources[0].dtype} {node.shape}"
            )


def assert_same(found: np.ndarray, expected: np.ndarray, about: str) -> None:
    if found.dtype.kind not in "iub":
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]), err_msg=about)
    np.testing.assert_array_equal(found, expected, err_msg=about)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_all_lengths(dtype: Any) -> None:
    shapes = [(1,), (2,), (7, 3), (5, 33), (3, 64), (2, 65), (2, 128), (1, 300), (2, 1000)]
    check([node for shape in shapes for node in sorts(elements(dtype, *shape))])


@pytest.mark.parametrize("size", [2049, 4096])
def test_rows_that_fill_blocks(size: int) -> None:
    check([node for dtype in (float32, int64) for node in sorts(elements(dtype, size))])


def test_axes_before_the_last() -> None:
    nodes = [
        *sorts(elements(float32, 40, 3), 0),
        *sorts(elements(float64, 2, 70, 5), 1),
        *sorts(elements(int8, 9, 4), 0),
    ]
    check(nodes)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_long_rows(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By tiles of 512 keys, as if nothing fitted a block."""
    monkeypatch.setattr(sorting_cuda, "longest_in_block", lambda itemsize: 0)
    monkeypatch.setattr(sorting_cuda.RadixSort, "block", sorting_cuda.SortBlock(128, 4))
    shapes = [(65,), (511,), (512,), (513,), (2, 1500)]
    check([node for shape in shapes for node in sorts(elements(dtype, *shape))])


def test_long_rows_of_small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most digits of all keys are the same, which passes that move nothing notice."""
    monkeypatch.setattr(sorting_cuda, "longest_in_block", lambda itemsize: 0)
    monkeypatch.setattr(sorting_cuda.RadixSort, "block", sorting_cuda.SortBlock(128, 4))
    x = np.stack([RNG.integers(0, 1000, 1100), np.full(1100, 7)])
    check([*sorts(x), *sorts(x.astype(np.int32)), *sorts(x.astype(np.float32))])


def test_keys_and_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other kernels use: numbers below a bound, with their places."""
    keys = RNG.integers(0, 70000, 1300).astype(np.uint32)
    monkeypatch.setattr(sorting_cuda.RadixSort, "block", sorting_cuda.SortBlock(128, 4))
    for passes in (3, 4):
        work = sorting_cuda.sorted_pairs("keys", "sorted", "places", 1300, passes, H200)
        arrays = {"keys": keys, "sorted": np.zeros_like(keys), "places": np.zeros(1300, np.uint32)}
        Emulator([work]).run(work, arrays)
        expected = np.argsort(keys, stable=True)
        np.testing.assert_array_equal(arrays["places"], expected)
        np.testing.assert_array_equal(arrays["sorted"], keys[expected])


def first(x: np.ndarray, k: int, axis: int = -1) -> list[Node]:
    return [TOPK(data(x), k=k, axis=axis % x.ndim, descending=descending) for descending in (False, True)]


def check_first(nodes: list[Node]) -> None:
    works = [worked(node, partial(selecting_cuda.topk, device=H200)) for node in nodes]
    emulator = Emulator([work for work, _ in works])
    for node, (work, arrays) in zip(nodes, works):
        for reverse in (False, True):
            emulator.run(work, arrays, reverse)
            about = f"{node.sources[0].dtype} {node.sources[0].shape} {node.attrs}"
            np.testing.assert_array_equal(arrays[f"b{node.serial}"], reference(node), err_msg=about)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_first_of_long_rows(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal keys straddle the last of them in most of these."""
    for module in (sorting_cuda, selecting_cuda):
        monkeypatch.setattr(module, "longest_in_block", lambda itemsize: 0)
    check_first(
        [*first(elements(dtype, 2, 5003), 100), *first(elements(dtype, 4097), 1), *first(np.zeros(3000, dtype), 5)]
    )


def test_the_first_of_rows_that_fit_a_block() -> None:
    check_first(
        [*first(elements(float32, 3, 10), 4), *first(elements(float32, 300, 5), 7, 0), *first(elements(int8, 999), 1)]
    )


def test_more_than_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting_cuda, "MOST", 20)
    check_first(first(elements(float32, 9000), 21))


def test_nothing_is_launched_for_nothing() -> None:
    for node in sorts(np.zeros((0, 3)), 0):
        assert worked(node, partial(sorting_cuda.sort, device=H200))[0] == LaunchList(())
