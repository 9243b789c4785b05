"""Sorting, running sums and functions of data-dependent shape on an emulated GPU: programs, and what is read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.compiler.three_steps import tier
from tests.kernels.emulator import compiler
from tests.ops.suite import assert_equal
from wengert.api import data_dependent
from wengert.core import tree
from wengert.core.errors import ArgumentError, ShapeError
from wengert.ops.sets import distinct
from wengert.runtime.dynamic import realize

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 50)).astype(np.float32)
TIES = RNG.integers(0, 4, (5, 8)).astype(np.float32)
NUMBERS = RNG.integers(0, 9, 300)
ODD = np.array([0.0, -0.0, np.nan, 2.0, -np.nan, 2.0, np.inf], np.float32)
WIDE = np.round(RNG.normal(size=(40, 3)), 0).astype(np.float32)

DIFFERENTIABLE: dict[str, Callable[..., Any]] = {
    "sort": lambda x: wg.sort(x, axis=1, descending=True),
    "sort along another axis": lambda x: wg.sort(x, axis=0),
    "topk": lambda x: wg.topk(x, 3, axis=1).values,
    "kthvalue": lambda x: wg.kthvalue(x, 4, axis=0).values,
    "median": lambda x: wg.median(x, axis=1),
    "quantile": lambda x: wg.quantile(x, 0.3),
    "cumsum": lambda x: wg.cumsum(x, axis=0),
    "cumprod": lambda x: wg.cumprod(x, axis=1),
    "logcumsumexp": lambda x: wg.logcumsumexp(x, axis=1),
    "cummax": lambda x: wg.cummax(x, axis=0).values,
}


def both(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """A function gives the same on the GPU as on the host."""
    found, expected = (function(*[wg.tensor(a, device=device) for a in arrays]) for device in ("cuda", "cpu"))
    leaves = [leaf for leaf in tree.flatten(found)[0] if isinstance(leaf, wg.Tensor)]
    assert all(leaf.device == "cuda:0" for leaf in leaves)
    assert [leaf.dtype for leaf in leaves] == [leaf.dtype for leaf in tree.flatten(expected)[0]]
    assert_equal(found, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("mode", ["interpret", "compile"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_values_and_gradients(name: str, mode: str) -> None:
    function = DIFFERENTIABLE[name]
    weigh = lambda x: (function(x) * wg.sin(function(x))).sum()
    with tier(mode):
        both(function, TIES)
        both(wg.value_and_grad(weigh), TIES)


@pytest.mark.parametrize("name", ["sort", "topk", "cumsum"])
def test_compiled_functions_stay_on_the_gpu(name: str) -> None:
    function = wg.compile(lambda x: wg.value_and_grad(lambda x: DIFFERENTIABLE[name](x).sum())(x))
    value, slope = function(wg.tensor(X, device="cuda"))
    assert " 0 ops on the host" in str(function.explain())
    expected = wg.value_and_grad(lambda x: DIFFERENTIABLE[name](x).sum())(wg.tensor(X))
    assert_equal((value, slope), expected, 1e-5, 1e-5)


DEPENDENT: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "nonzero": (wg.nonzero, (TIES,)),
    "nonzero of none": (wg.nonzero, (np.zeros((3, 4)),)),
    "nonzero of one axis": (wg.nonzero, (ODD,)),
    "nonzero of booleans": (wg.nonzero, (X > 0,)),
    "argwhere": (wg.argwhere, (TIES,)),
    "masked_select": (wg.masked_select, (X, X > 0)),
    "a mask that broadcasts": (wg.masked_select, (X, X[0] > 0)),
    "a mask as an index": (lambda x, mask: x[mask], (X, X > 0.5)),
    "a mask of rows": (lambda x, mask: x[mask, 1:], (X, X[:, 0] > 0)),
    "index_put": (lambda x, mask: wg.index_put(x, (mask,), wg.tensor(5.0, device=x.device)), (X, X > 0)),
    "bincount": (wg.bincount, (NUMBERS,)),
    "bincount of none": (lambda x: wg.bincount(x, minlength=3), (NUMBERS[:0],)),
    "bincount with weights": (wg.bincount, (NUMBERS, RNG.normal(size=300))),
    "repeat": (lambda x, n: wg.repeat(x, n, axis=0), (X, np.array([2, 0, 1, 3, 0, 1]))),
    "unique": (
        lambda x: wg.unique(x, return_index=True, return_inverse=True, return_counts=True),
        (NUMBERS.reshape(3, 100),),
    ),
    "unique with NaN": (lambda x: wg.unique(x, return_index=True, return_counts=True), (ODD,)),
    "unique_all with NaN": (wg.unique_all, (ODD,)),
    "unique_counts": (wg.unique_counts, (NUMBERS,)),
    "unique_inverse": (wg.unique_inverse, (TIES,)),
    "unique rows": (lambda x: wg.unique(x, axis=0, return_inverse=True, return_counts=True), (WIDE,)),
    "unique columns": (lambda x: wg.unique(x, axis=-1, return_index=True), (WIDE[:4].repeat(2, axis=1),)),
    "unique of one": (wg.unique, (np.array(3.5),)),
    "isin": (wg.isin, (NUMBERS, np.array([1, 3, 11]))),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_functions_of_data_dependent_shape(name: str) -> None:
    function, arrays = DEPENDENT[name]
    both(function, *arrays)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.bool_, np.float16, np.complex64, np.complex128])
def test_places_of_a_value_that_is_there(dtype: Any, monkeypatch: pytest.MonkeyPatch, gpu: EmulatedDriver) -> None:
    sizes = ((0, 1), (1, 0), (3, 1), (70, 0), (997, 0.4), (5000, 0.01), (997, 0.9))
    arrays = [(RNG.random(size) < share).astype(dtype) for size, share in sizes]
    given = [wg.tensor(array, device="cuda") for array in arrays]
    wg.synchronize()
    flushes: list[Any] = []
    monkeypatch.setattr(realize, "_compute", lambda *nodes: flushes.append(nodes))
    for array, x in zip(arrays, given):
        (found,) = wg.nonzero(x)
        assert found.device == "cuda:0" and found.dtype is wg.int64
        np.testing.assert_array_equal(found.numpy(), np.flatnonzero(array))
    assert not flushes


@pytest.mark.parametrize("name", DEPENDENT)
def test_only_sizes_are_read_back(name: str) -> None:
    function, arrays = DEPENDENT[name]
    moved = [wg.tensor(array, device="cuda") for array in arrays]
    before = wg.cuda.transfers()
    result = function(*moved)
    wg.synchronize()
    after = wg.cuda.transfers()
    assert after["downloaded"] - before["downloaded"] <= 16 and after["downloads"] - before["downloads"] <= 2
    del result


@pytest.mark.parametrize("dtype", [np.int64, np.int16, np.uint8])
def test_distinct_small_numbers_are_counted(dtype: Any, monkeypatch: pytest.MonkeyPatch, gpu: EmulatedDriver) -> None:
    function = lambda x: wg.unique(x, return_index=True, return_inverse=True, return_counts=True)
    numbers, sorts = (NUMBERS.reshape(3, 100) * 2).astype(dtype), list[int]()
    monkeypatch.setattr(data_dependent, "_MANY", 1)
    monkeypatch.setattr(data_dependent, "distinct", lambda *_: sorts.append(1) or distinct(*_))
    both(function, numbers)
    assert not sorts
    if dtype is not np.uint8:
        both(function, numbers - dtype(7))
        both(function, numbers * dtype(5000 if dtype is np.int64 else 1200))
        assert len(sorts) == 2
    assert wg.bincount(wg.tensor(numbers.reshape(-1), device="cuda")).tolist() == np.bincount(numbers.flat).tolist()


def test_what_does_not_count_is_refused(gpu: EmulatedDriver) -> None:
    with pytest.raises(ShapeError, match="the smallest value here is -1"):
        wg.bincount(wg.tensor([2, -1], device="cuda"))
    with pytest.raises(ArgumentError, match="cannot be negative, but one of them is -1"):
        wg.repeat(wg.tensor([1.0, 2.0], device="cuda"), wg.tensor([2, -1], device="cuda"), axis=0)


def test_a_mask_keeps_its_gradient() -> None:
    def chosen(x: Any) -> Any:
        return (x[x > 0] ** 2).sum()

    both(wg.grad(chosen), X)
