"""Gather, scatter, sorting, running ops and rearranging: special points, derivatives at ties and zeros, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import AbstractValueError, ArgumentError, DTypeError, OutOfRangeError, ShapeError

X = wg.tensor(np.arange(6.0).reshape(2, 3))


def test_only_the_last_value_in_a_place_has_a_derivative() -> None:
    def function(src: wg.Tensor) -> wg.Tensor:
        written = wg.scatter(wg.tensor(np.zeros(3)), 0, wg.tensor([2, 0, 2]), src)
        return wg.sum(written * wg.tensor(np.array([1.0, 10.0, 100.0])))

    assert wg.grad(function)(wg.tensor(np.ones(3))).tolist() == [0.0, 1.0, 100.0]


def test_gather_of_an_integer_table_keeps_its_dtype() -> None:
    assert wg.take(wg.tensor(np.array([1, 2], np.int8)), [1, 1]).dtype is wg.int8


def test_small_numbers_are_added_up_in_float32() -> None:
    ones = wg.tensor(np.ones(4096), wg.float16)
    total = wg.index_add(wg.tensor(np.zeros(1), wg.float16), 0, wg.tensor(np.zeros(4096, np.int64)), ones)
    assert total.item() == 4096.0 and total.dtype is wg.float16


def test_one_hot_in_another_dtype() -> None:
    assert wg.one_hot(wg.tensor([1]), 2, dtype=wg.float32).dtype is wg.float32


def test_nans_come_last() -> None:
    x = wg.tensor([2.0, float("nan"), 1.0])
    np.testing.assert_array_equal(wg.sort(x).numpy(), [1.0, 2.0, np.nan])
    np.testing.assert_array_equal(wg.sort(x, descending=True).numpy(), [np.nan, 2.0, 1.0])
    assert np.isnan(wg.quantile(x, 0.5).item()) and np.isnan(wg.median(x).item())
    np.testing.assert_array_equal(wg.cummax(x).values.numpy(), [2.0, np.nan, np.nan])


def test_quantile_by_a_tensor_has_a_derivative_by_it() -> None:
    slope = wg.grad(lambda q: wg.quantile(wg.tensor(np.array([0.0, 1.0, 5.0])), q))(wg.tensor(np.float64(0.75)))
    assert slope.item() == pytest.approx(8.0)


def test_running_product_with_two_zeros_to_second_order() -> None:
    x = wg.tensor(np.array([2.0, 0.0, 3.0, 0.0, 5.0]))
    total = lambda x: wg.cumprod(x, 0)[-1]
    assert wg.grad(total)(x).tolist() == [0.0] * 5
    expected = np.zeros((5, 5))
    expected[1, 3] = expected[3, 1] = 2 * 3 * 5
    np.testing.assert_array_equal(wg.hessian(total)(x).numpy(), expected)


def test_logcumsumexp_of_large_and_infinite_values() -> None:
    x = wg.tensor(np.array([-np.inf, -np.inf, 1000.0, 1000.0]))
    np.testing.assert_allclose(wg.logcumsumexp(x).numpy(), [-np.inf, -np.inf, 1000.0, 1000.0 + np.log(2)])
    slope = wg.grad(lambda x: wg.logcumsumexp(x)[-1])(x).numpy()
    np.testing.assert_allclose(slope, [0.0, 0.0, 0.5, 0.5])


def test_running_extremes_name_the_last_of_equal_elements() -> None:
    found = wg.cummax(wg.tensor([1, 1, 0, 1]))
    assert found.values.tolist() == [1, 1, 1, 1] and found.indices.tolist() == [0, 1, 1, 3]


def test_small_integers_are_added_up_in_64_bits() -> None:
    assert wg.cumsum(wg.tensor(np.full(3, 100, np.int8)), 0).tolist() == [100, 200, 300]


def test_torch_spelling_works() -> None:
    index = wg.tensor([[0], [2]])
    assert wg.gather(X, dim=1, index=index).tolist() == [[0.0], [5.0]]
    assert X.gather(1, index).tolist() == [[0.0], [5.0]]
    assert X.cumsum(dim=0).tolist() == [[0.0, 1.0, 2.0], [3.0, 5.0, 7.0]]
    assert X.topk(1, dim=-1).indices.tolist() == [[2], [2]]


def test_repeats_may_be_computed() -> None:
    assert wg.repeat(wg.tensor([7, 8]), wg.tensor([1, 0]) + 1).tolist() == [7, 7, 8]


def test_unique_counts_nans_apart_and_unique_together() -> None:
    x = wg.tensor([float("nan"), 1.0, float("nan")])
    assert wg.unique_values(x).shape == (3,) and wg.unique(x).shape == (2,)


@pytest.mark.parametrize(
    "function, instead",
    [
        (wg.nonzero, r"wg\.where"),
        (wg.unique_values, r"wg\.sort"),
        (wg.unique, r"wg\.sort"),
        (lambda x: wg.masked_select(x, x > 0), r"wg\.where"),
        (lambda x: wg.repeat(x, wg.astype(x, wg.int64)), "repeats as numbers"),
    ],
    ids=["nonzero", "unique_values", "unique", "masked_select", "repeat"],
)
def test_what_depends_on_data_says_what_to_use_instead(function: Callable[..., Any], instead: str) -> None:
    with pytest.raises(AbstractValueError, match=instead):
        wg.vmap(function)(X)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: wg.take(X, [2], axis=0), OutOfRangeError, "take: index 2 is out of range for an axis of size 2"),
        (lambda: wg.take(X, [0.5], axis=0), DTypeError, "take: an index must be an integer, not float64"),
        (lambda: wg.take(X, [0], axis=2), OutOfRangeError, "axis 2"),
        (lambda: wg.index_select(X, 0, [[0]]), ShapeError, "the index must have one axis"),
        (lambda: wg.index_add(X, 0, [0, 1], np.zeros((1, 3))), ShapeError, r"2 indices need \(2, 3\)"),
        (lambda: wg.take_along_axis(X, wg.tensor([0])), ShapeError, "the ranks must be equal"),
        (lambda: wg.take_along_axis(X, wg.tensor([[0], [3]])), OutOfRangeError, "index 3"),
        (lambda: wg.put_along_axis(X, np.zeros((2, 1, 1), int), 0.0), ShapeError, "the ranks must be equal"),
        (lambda: wg.gather(X, 1, wg.tensor([[0], [0], [0]])), ShapeError, "none longer than the value's except axis 1"),
        (lambda: wg.scatter(X, 1, wg.tensor([[0, 1]]), np.zeros((1, 1))), ShapeError, "does not hold a value for each"),
        (lambda: wg.masked_fill(X, X, 0.0), DTypeError, "the mask must be boolean"),
        (lambda: wg.masked_select(X, X), DTypeError, "the mask must be boolean"),
        (lambda: wg.one_hot(wg.tensor([3]), 3), OutOfRangeError, "classes range from 3 to 3"),
        (lambda: wg.one_hot(wg.tensor([3]), -1), ArgumentError, "num_classes must be a positive integer"),
        (lambda: wg.one_hot(wg.tensor([0.0]), 3), DTypeError, "an index must be an integer"),
        (lambda: wg.nonzero(wg.tensor(1.0)), ShapeError, "0-d"),
        (lambda: wg.sort(wg.tensor(1.0)), OutOfRangeError, "0-d"),
        (lambda: wg.sort(wg.tensor([1j])), DTypeError, "complex numbers are not ordered"),
        (lambda: wg.topk(X, 4), ArgumentError, "k=4 is out of range for the 3 elements"),
        (lambda: wg.kthvalue(X, 0), ArgumentError, "k counts from 1"),
        (lambda: wg.quantile(X, 1.5), ArgumentError, "between 0 and 1"),
        (lambda: wg.quantile(wg.tensor(np.zeros((0,))), 0.5), ShapeError, "no elements"),
        (lambda: wg.searchsorted(X, wg.tensor([1.0])), ShapeError, "x1 has one axis"),
        (lambda: wg.searchsorted(X[0], 1.0, side="up"), ArgumentError, "side"),
        (lambda: wg.cumulative_sum(X), ArgumentError, "choose one with axis="),
        (lambda: wg.cumulative_sum(wg.tensor(1.0)), ShapeError, "no axis to run along"),
        (lambda: wg.cummax(wg.tensor([1j])), DTypeError, "complex"),
        (lambda: wg.diff(X, n=-1), ArgumentError, "number of times"),
        (lambda: wg.roll(X, (1, 2)), ArgumentError, "name one axis for each"),
        (lambda: wg.roll(X, (1, 2), axis=0), ArgumentError, "2 shifts for 1 axes"),
        (lambda: wg.repeat(X, -1), ArgumentError, "cannot be negative"),
        (lambda: wg.repeat(X, [1, 2], axis=1), ShapeError, "for the 3 elements along axis 1"),
        (lambda: wg.repeat(X, 0.5), DTypeError, "integers"),
        (lambda: wg.tile(X, (-1,)), ArgumentError, "cannot be negative"),
        (lambda: wg.rot90(X, axes=(0, -2)), ArgumentError, "one and the same"),
        (lambda: wg.split(X, [1, 1], axis=1), ShapeError, "do not add up to the 3 elements"),
        (lambda: wg.split(X, 0), ArgumentError, "at least one element"),
        (lambda: wg.chunk(X, 0), ArgumentError, "positive"),
    ],
)
def test_arguments_that_make_no_sense(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert "test_gather.py" in str(caught.value), "the user's line is named"
