"""Mixed precision on the GPU: master weights stay float32, losses scale, and a step that is not finite is skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg


class Training:
    """A small classifier, trained in mixed precision."""

    def __init__(self, dtype: Any, compiled: bool) -> None:
        wg.manual_seed(0)
        self.model = wg.models.ConvNet(5, channels=(8, 16), image_size=12, hidden=32).to("cuda")
        self.optimizer = wg.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scaler = wg.optim.GradScaler(enabled=dtype is wg.float16, device="cuda")
        self.dtype = dtype
        self.step = wg.compile(self._step) if compiled else self._step
        rng = np.random.default_rng(0)
        self.x = wg.tensor(rng.normal(size=(32, 1, 12, 12)).astype(np.float32), device="cuda")
        self.y = wg.tensor(rng.integers(0, 5, 32), device="cuda")
        self.one = wg.tensor(np.float32(1), device="cuda")

    def _step(self, factor: wg.Tensor) -> wg.Tensor:
        self.optimizer.zero_grad()
        with wg.autocast(self.dtype, enabled=self.dtype is not wg.float32):
            loss = wg.cross_entropy(self.model(self.x), self.y) * factor
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def weights(self) -> list[np.ndarray]:
        return [parameter.detach().numpy() for parameter in self.model.parameters()]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "dynamic"])
@pytest.mark.parametrize("dtype", [wg.bfloat16, wg.float16], ids=lambda dtype: dtype.name)
def test_losses_are_near_those_of_float32(dtype: Any, compiled: bool) -> None:
    full, half = Training(wg.float32, compiled), Training(dtype, compiled)
    courses = [[training.step(training.one).item() for _ in range(10)] for training in (full, half)]
    np.testing.assert_allclose(courses[1], courses[0], rtol=3e-2)
    assert courses[1][-1] < courses[1][0]
    assert all(parameter.dtype is wg.float32 for parameter in half.model.parameters())


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "dynamic"])
def test_a_step_that_is_not_finite_is_skipped_and_lowers_the_scale(compiled: bool) -> None:
    training = Training(wg.float16, compiled)
    infinite = wg.tensor(np.float32(np.inf), device="cuda")
    for _ in range(3):
        training.step(training.one)
    before, scale = training.weights(), training.scaler.get_scale()
    training.step(infinite)
    assert all((a == b).all() for a, b in zip(before, training.weights()))
    assert training.scaler.get_scale() == scale / 2
    training.step(training.one)
    assert any((a != b).any() for a, b in zip(before, training.weights()))
    assert all(np.isfinite(weight).all() for weight in training.weights())


def test_a_scaled_step_reads_nothing_on_the_host() -> None:
    training = Training(wg.float16, compiled=True)
    for _ in range(4):
        training.step(training.one)
    wg.synchronize()
    before = wg.cuda.transfers()
    for _ in range(10):
        training.step(training.one)
    assert wg.cuda.transfers() == before


def product(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the GPU gives for a product in a dtype, and what it is."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(dtype) for shape in ((512, 4096), (4096, 512)))
    found = wg.compile(wg.matmul)(wg.tensor(x, device="cuda"), wg.tensor(y, device="cuda"))
    return found.numpy().astype(float), x.astype(float) @ y.astype(float)


def convolution(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same of a convolution, by one that is exact enough."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((8, 64, 16, 16), (64, 64, 3, 3)))
    convolve = wg.compile(lambda x, w: wg.conv2d(x, w, padding=1))
    exact = wg.conv2d(wg.tensor(x.astype(float)), wg.tensor(w.astype(float)), padding=1).numpy()
    return convolve(wg.tensor(x, device="cuda"), wg.tensor(w, device="cuda")).numpy().astype(float), exact


def distance(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("computed", [product, convolution], ids=lambda computed: computed.__name__)
def test_float32_is_rounded_to_tf32_only_where_the_setting_says_so(
    computed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert distance(*computed(np.float32)) < 3e-6
    monkeypatch.setattr(wg.config, "tf32", True)
    assert 3e-5 < distance(*computed(np.float32)) < 1e-3


@pytest.mark.parametrize("dtype", [wg.bfloat16, wg.float16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("computed", [product, convolution], ids=lambda computed: computed.__name__)
def test_sums_in_half_precision_are_float32(computed: Any, dtype: Any) -> None:
    """Only the result is rounded, by half a unit at most; sums of hundreds of terms would lose more."""
    assert distance(*computed(dtype)) < (2.0**-9 if dtype is wg.bfloat16 else 2.0**-12)
