"""The kernels for searching, counting and finding what is not zero, run by the emulator, against the references."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.kernels.emulator import Emulator, compiler
from tests.kernels.test_addressing_cuda import reference, worked
from tests.kernels.test_sorting_cuda import DTYPES, elements
from wengert.core.dtypes import HALF, bool_, complex64, complex128
from wengert.core.graph import Node
from wengert.kernels.counting import cuda as counting_cuda
from wengert.kernels.launch import H200
from wengert.kernels.search import cuda as searching_cuda
from wengert.ops.core import data
from wengert.ops.counting import BINCOUNT, FLAT_NONZERO
from wengert.ops.sorting import SEARCHSORTED

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")

RNG = np.random.default_rng(0)


def check(nodes: list[Node], rule: Callable[..., Any]) -> None:
    works = [worked(node, partial(rule, device=H200)) for node in nodes]
    emulator = Emulator([work for work, _ in works])
    for node, (work, arrays) in zip(nodes, works):
        for reverse in (False, True):
            emulator.run(work, arrays, reverse)
            about = f"{node.sources[0].dtype} {node.sources[0].shape} {node.attrs}"
            np.testing.assert_array_equal(arrays[f"b{node.serial}"], reference(node), err_msg=about)


def in_order(x: np.ndarray) -> np.ndarray:
    """Sorted along the last axis; NumPy does not know where NaN of bfloat16 belongs."""
    return np.sort(x.astype(np.float32)).astype(x.dtype) if x.dtype in HALF else np.sort(x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_places_in_sorted_rows(dtype: Any) -> None:
    nodes = []
    for side in ("left", "right"):
        for row, values in (((40,), (3, 7)), ((2, 3, 33), (2, 3, 9)), ((0,), (4,))):
            nodes.append(SEARCHSORTED(data(in_order(elements(dtype, *row))), data(elements(dtype, *values)), side=side))
    check(nodes, searching_cuda.searchsorted)


@pytest.mark.parametrize("dtype", [*DTYPES, complex64, complex128], ids=str)
def test_places_that_are_not_zero(dtype: Any) -> None:
    nodes = []
    for shape in ((1,), (15,), (16,), (17,), (300,), (20, 40), (17000,)):
        x = elements(dtype, *shape) if np.dtype(dtype).kind != "c" else (1j * RNG.normal(size=shape)).astype(dtype)
        x = np.where(RNG.random(shape) < 0.5, x, np.zeros((), dtype))
        count = int(np.count_nonzero(x))
        sizes = {count, max(count - 1, 1), min(count + 3, x.size)} - {0}
        nodes += [FLAT_NONZERO(data(x), size=size) for size in sizes]
    check(nodes, counting_cuda.flat_nonzero)


def test_no_place_is_asked_for() -> None:
    node = FLAT_NONZERO(data(np.zeros((3, 4), bool_)), size=0)
    assert not worked(node, partial(counting_cuda.flat_nonzero, device=H200))[0].launches


@pytest.mark.parametrize("dtype", [d for d in DTYPES if np.dtype(d).kind in "iu"], ids=str)
def test_how_often_numbers_occur(dtype: Any) -> None:
    nodes = []
    for n, size in ((0, 3), (1, 1), (1000, 7), (5003, 100), (300, 8192), (300, 8193)):
        x = RNG.integers(0, min(size + 2, 120), n).astype(dtype)
        nodes.append(BINCOUNT(data(x), size=size))
    nodes.append(BINCOUNT(data(elements(dtype, 999)), size=5))
    nodes.append(BINCOUNT(data(np.full(3000, 3, dtype)), size=4))
    check(nodes, counting_cuda.bincount)
