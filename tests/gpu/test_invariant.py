"""`wg.config.invariant` on a GPU: the results and gradients of an example are the same bits in batches of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.runtime.invariant_cases import CASES
from tests.runtime.test_invariant import bits

PLACES = [(0, 1), (5, 1), (63, 1), (0, 7), (30, 7), (57, 7)]  # where a batch begins among 64, and its size


@pytest.fixture(autouse=True)
def _invariant() -> Iterator[None]:
    wg.set_default_device("cuda")
    wg.config.invariant = True
    yield
    wg.config.invariant = False
    wg.set_default_device("cpu")


def require_the_same(function: Any, whole: tuple[Any, ...]) -> None:
    """Compare smaller batches with 64 examples."""
    expected = bits(function(*map(wg.tensor, whole)))
    for at, size in PLACES:
        found = bits(function(*(wg.tensor(array[at : at + size]) for array in whole)))
        np.testing.assert_array_equal(found, expected[at : at + size])


@pytest.mark.parametrize("name", CASES)
def test_an_examples_results_do_not_depend_on_its_batch(name: str) -> None:
    case = CASES[name]
    require_the_same(wg.compile(case.make()), case.draw(np.random.default_rng(1), 64))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.floats])
def test_an_examples_gradients_do_not_depend_on_its_batch(name: str) -> None:
    case = CASES[name]
    function = case.make()

    def loss(*arguments: Any) -> Any:
        return (function(*[wg.expand_dims(x, 0) for x in arguments]) ** 2).sum()

    require_the_same(wg.compile(wg.vmap(wg.grad(loss))), case.draw(np.random.default_rng(1), 64))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_product_of_a_row_is_the_same_among_many(dtype: str) -> None:
    rng = np.random.default_rng(2)
    x, w = (wg.tensor(rng.normal(size=shape).astype(np.float32)) for shape in ((512, 768), (768, 3072)))
    multiply = wg.compile(lambda x, w: (x.to(getattr(wg, dtype)) @ w.to(getattr(wg, dtype))).to(wg.float32))
    expected = bits(multiply(x, w))
    for at, size in ((0, 1), (17, 3), (100, 64), (0, 257)):
        np.testing.assert_array_equal(bits(multiply(x[at : at + size], w)), expected[at : at + size])
