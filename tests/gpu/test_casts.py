"""Casts of floats to integers on the GPU: the same for NaN, infinities and what does not fit as on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ops.casts import SOURCES, TARGETS, expected, numbers


@pytest.mark.parametrize("target", TARGETS, ids=lambda d: d.name)
@pytest.mark.parametrize("source", SOURCES, ids=lambda d: d.name)
def test_a_float_becomes_the_nearest_integer_that_there_is(source: Any, target: Any) -> None:
    array = numbers(source)
    x = wg.tensor(array, device="cuda")
    found = [
        x.astype(target),
        wg.compile(lambda x: x.astype(target))(x),
        wg.compile(lambda x: (x * 1).astype(target))(x),
    ]
    for result in found:
        np.testing.assert_array_equal(result.numpy(), expected(array, target))
