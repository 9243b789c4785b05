"""On the device itself: totals of columns beside rows, tokens one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.test_cuda_column_partials import norm_step, norms_step
from tests.backends.test_cuda_decode import decoded
from wengert.plan import lowering


@pytest.mark.parametrize("dtype", [wg.float32, wg.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(2048, 96), (4, 600, 100), (4096, 768), (300, 8192)], ids=str)
def test_a_norm_and_its_weights(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: Any) -> None:
    monkeypatch.setattr(lowering, "LARGE", 1)
    (gradient, slots, told), (again, slots_again, _) = (norm_step(shape, dtype, "cuda") for _ in range(2))
    expected, there, _ = norm_step(shape, dtype, "cpu")
    assert "add up columns" in told
    for found, same, wanted in zip([gradient, *slots], [again, *slots_again], [expected, *there]):
        np.testing.assert_array_equal(found, same)
        assert np.linalg.norm(found - wanted) <= (1e-2 if dtype is wg.bfloat16 else 1e-5) * np.linalg.norm(wanted)


def test_gradients_of_several_norms_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "LARGE", 1)
    (slots, told), (again, _), (expected, _) = (norms_step(6, device) for device in ("cuda", "cuda", "cpu"))
    assert "4 kernels of one text" in told
    for found, same, wanted in zip(slots, again, expected):
        np.testing.assert_array_equal(found, same)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("classes", [50_000, 50_257])  # rows of the second are padded
def test_cross_entropy_of_rows_in_shared_memory(classes: int) -> None:
    """Targets at both ends, at the edges of vectors, ignored, and anywhere."""
    rng = np.random.default_rng(0)
    hidden, head = (rng.normal(size=shape).astype(np.float32) / 8 for shape in ((256, 192), (192, classes)))
    targets = np.array([0, 1, 7, 8, 9, classes - 1, classes - 2, -100, *rng.integers(0, classes, 248)])

    def step(device: str) -> tuple[list[np.ndarray], str]:
        x, w = (wg.tensor(array, device=device).to(wg.bfloat16) for array in (hidden, head))
        y = wg.tensor(targets, device=device)
        loss = wg.compile(wg.value_and_grad(lambda x, w: wg.cross_entropy((x @ w).to(wg.float32), y), argnums=(0, 1)))
        value, gradients = loss(x, w)
        return [found.to(wg.float32).detach().numpy() for found in (value, *gradients)], loss.explain()

    (found, told), (wanted, _) = step("cuda"), step("cpu")
    assert "in shared memory" in told
    for one, other in zip(found, wanted):
        assert np.linalg.norm(one - other) <= 1e-2 * np.linalg.norm(other)


def test_tokens_one_by_one() -> None:
    np.testing.assert_allclose(decoded("cuda")[0], decoded("cpu")[0], atol=0.02)
