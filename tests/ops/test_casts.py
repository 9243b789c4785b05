"""Casts of floats to integers: one meaning for NaN, infinities and what does not fit, however they are computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ops.casts import SOURCES, TARGETS, expected, numbers


def _replayed(x: Any, dtype: Any) -> Any:
    compiled = wg.compile(lambda x: x.astype(dtype))
    return [compiled(wg.tensor(x)) for _ in range(6)][-1]


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "op by op": lambda x, dtype: wg.tensor(x).astype(dtype),
    "compiled": _replayed,
    "fused": lambda x, dtype: wg.compile(lambda x: (x * 1).astype(dtype) + 0)(x),
    "one by one": lambda x, dtype: wg.compile(lambda x: wg.stack([x[i].astype(dtype) for i in range(5)]))(x[:5]),
    "a constant": lambda x, dtype: wg.compile(lambda: wg.tensor(x).astype(dtype) + 0)(),
    "batched": lambda x, dtype: wg.vmap(lambda x: x.astype(dtype))(wg.tensor(x)),
    "tensor": lambda x, dtype: wg.tensor(x, dtype=dtype),
    "asarray": lambda x, dtype: wg.asarray(x, dtype=dtype),
    "assigned": lambda x, dtype: wg.zeros(x.shape, dtype=dtype).assign(x),
}


@pytest.mark.parametrize("target", TARGETS, ids=lambda d: d.name)
@pytest.mark.parametrize("source", SOURCES, ids=lambda d: d.name)
def test_a_float_becomes_the_nearest_integer_that_there_is(source: Any, target: Any) -> None:
    array = numbers(source)
    for way, cast in WAYS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = cast(array, target).numpy()
        wanted = expected(array, target)[: len(found)]
        np.testing.assert_array_equal(found, wanted, err_msg=f"{way}: {array[: len(found)][found != wanted]}")
        assert found.dtype == target


@pytest.mark.parametrize("source", SOURCES, ids=lambda d: d.name)
def test_nan_is_true(source: Any) -> None:
    array = numbers(source)
    want = array.astype(bool)
    np.testing.assert_array_equal(wg.tensor(array).astype(wg.bool).numpy(), want)
    np.testing.assert_array_equal(wg.compile(lambda x: x.astype(wg.bool))(array).numpy(), want)


def test_integers_wrap_around() -> None:
    array = np.array([-1, 300, 2**40 + 5, -(2**63)], np.int64)
    for target in TARGETS:
        want = array.astype(target)
        np.testing.assert_array_equal(wg.tensor(array).astype(target).numpy(), want)
        np.testing.assert_array_equal(wg.compile(lambda x, t=target: x.astype(t))(array).numpy(), want)
