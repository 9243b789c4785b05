"""Nests of loops: cut where guards change, split where indices are divided, and what that is for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cpu.toolchain import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def heads(x: Any, count: int) -> Any:
    """(rows, count * width) as (count, rows, width)."""
    return wg.permute_dims(wg.reshape(x, (x.shape[0], count, -1)), (1, 0, 2))


@pytest.mark.parametrize("width", [32, 20, 4])
def test_the_gradient_of_slices_side_by_side_is_a_loop_for_each(width: int) -> None:
    """Without a guard, and without a division where heads are wide; narrow ones stay as they are."""

    def apart(x: Any) -> Any:
        q, k, v = [heads(x[:, i * 4 * width : (i + 1) * 4 * width], 4) for i in range(3)]
        return wg.exp(q) * wg.sin(k) + wg.tanh(v)

    def gradients(x: Any, g: Any) -> Any:
        (by_x,) = wg.vjp(apart, x)[1](g)
        return by_x, by_x.sum(axis=0)

    rng = np.random.default_rng(0)
    x, g = (wg.tensor(rng.normal(size=shape).astype(np.float32)) for shape in ((30, 12 * width), (4, 30, width)))
    compiled = wg.compile(gradients)
    found = compiled(x, g)
    with wg.eager():
        expected = gradients(x, g)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-5)
    divides = re.search(r"\) [/%] \d", compiled.source()) is not None
    assert divides == (width < 16)
