"""On the device itself: totals of columns beside rows, tokens one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.test_cuda_decode import decoded
from tests.backends.test_cuda_margins import norm_step
from wengert.backends.cuda import margins


@pytest.mark.parametrize("dtype", [wg.float32, wg.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(2048, 96), (4, 600, 100), (4096, 768), (300, 8192)], ids=str)
def test_a_norm_and_its_weights(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: Any) -> None:
    monkeypatch.setattr(margins, "LARGE", 1)
    (gradient, slots, told), (again, slots_again, _) = (norm_step(shape, dtype, "cuda") for _ in range(2))
    expected, there, _ = norm_step(shape, dtype, "cpu")
    assert "add up columns" in told
    for found, same, wanted in zip([gradient, *slots], [again, *slots_again], [expected, *there]):
        np.testing.assert_array_equal(found, same)
        assert np.linalg.norm(found - wanted) <= (1e-2 if dtype is wg.bfloat16 else 1e-5) * np.linalg.norm(wanted)


def test_tokens_one_by_one() -> None:
    np.testing.assert_allclose(decoded("cuda")[0], decoded("cpu")[0], atol=0.02)
