"""Bags of embeddings: what is in none of them, offsets as arguments, what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError

TABLE = wg.tensor(np.arange(8.0).reshape(4, 2))
ROWS = wg.tensor([0, 1, 2, 3, 3])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_rows_behind_an_included_last_offset_are_in_no_bag(mode: str) -> None:
    found = wg.embedding_bag(ROWS, TABLE, wg.tensor([0, 2, 3]), mode=mode, include_last_offset=True)
    expected = {"sum": [2.0, 4.0], "mean": [1.0, 2.0], "max": [2.0, 3.0]}[mode]
    assert found.tolist() == [expected, [4.0, 5.0]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_offsets_as_arguments_of_a_compiled_function(mode: str) -> None:
    f = wg.compile(lambda rows, offsets: wg.embedding_bag(rows, TABLE, offsets, mode=mode))
    for offsets in ([0, 2], [0, 4], [0, 0]):
        expected = wg.embedding_bag(ROWS, TABLE, wg.tensor(offsets), mode=mode)
        assert f(ROWS, wg.tensor(offsets)).tolist() == expected.tolist()


def test_max_norm_shortens_the_table_itself() -> None:
    table = wg.tensor([[3.0, 4.0], [6.0, 8.0], [0.1, 0.0]], requires_grad=True)
    y = wg.embedding(wg.tensor([0, 2, 0]), table, max_norm=1.0)
    np.testing.assert_allclose(y.detach().numpy(), [[0.6, 0.8], [0.1, 0.0], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(table.detach().numpy(), [[0.6, 0.8], [6.0, 8.0], [0.1, 0.0]], rtol=1e-6)
    y.sum().backward()
    assert table.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.embedding_bag(ROWS, TABLE), ArgumentError, "needs offsets, where each bag begins"),
        (
            lambda: wg.embedding_bag(ROWS, TABLE, wg.tensor([1, 2])),
            ArgumentError,
            "offsets must begin with 0 and increase",
        ),
        (lambda: wg.embedding_bag(wg.tensor([[1]]), TABLE, wg.tensor([0])), ArgumentError, "offsets cannot be given"),
        (lambda: wg.embedding_bag(wg.tensor([[4]]), TABLE), OutOfRangeError, "there is no row 4"),
        (lambda: wg.embedding_bag(wg.tensor([[1]]), TABLE, mode="min"), ArgumentError, "mode must be"),
        (
            lambda: wg.embedding_bag(wg.tensor([[1]]), TABLE, per_sample_weights=wg.ones((1, 1))),
            ArgumentError,
            'per_sample_weights require mode "sum"',
        ),
        (
            lambda: wg.embedding_bag(ROWS, TABLE[0], wg.tensor([0])),
            ShapeError,
            r"the weight must be \(rows, features\)",
        ),
        (lambda: wg.embedding(ROWS, TABLE.numpy(), max_norm=1.0), DTypeError, "the weight is a Tensor"),
        (lambda: wg.embedding(ROWS, TABLE, max_norm=0.0), ArgumentError, "max_norm and norm_type must be positive"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
