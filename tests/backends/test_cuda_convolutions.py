"""Training steps of depthwise, grouped, dilated, 3-d and transposed convolutions on an emulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.kernels.emulator import compiler
from wengert import nn

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]


class Separable(nn.Module):
    """A depthwise convolution, and a product of its channels, each normed."""

    def __init__(self) -> None:
        super().__init__()
        self.apart, self.mixed = nn.Conv2d(8, 8, 3, 2, 1, groups=8, bias=False), nn.Conv2d(8, 12, 1, bias=False)
        self.first, self.second = nn.BatchNorm2d(8), nn.BatchNorm2d(12)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        return nn.ReLU6()(self.second(self.mixed(nn.ReLU6()(self.first(self.apart(x))))))


class Causal(nn.Module):
    """Gated convolutions of two taps, with residuals and skips."""

    def __init__(self) -> None:
        super().__init__()
        self.dilated = nn.ModuleList([nn.Conv1d(8, 16, 2, dilation=gap) for gap in (1, 4)])
        self.residual = nn.ModuleList([nn.Conv1d(8, 8, 1) for _ in range(2)])
        self.skip = nn.ModuleList([nn.Conv1d(8, 12, 1) for _ in range(2)])

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        total: Any = 0
        for gap, dilated, residual, skip in zip((1, 4), self.dilated, self.residual, self.skip):
            y = dilated(wg.pad(x, (gap, 0)))
            y = wg.tanh(y[:, :8]) * wg.sigmoid(y[:, 8:])
            x, total = x + residual(y), total + skip(y)
        return wg.concat([wg.relu(total), x], axis=1)


class Solid(nn.Module):
    """Three axes of space: depthwise, in groups, and transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.apart = nn.Conv3d(4, 8, 3, padding=1, groups=4)
        self.grouped = nn.Conv3d(8, 6, (1, 3, 2), dilation=(1, 1, 2), groups=2)
        self.back = nn.ConvTranspose3d(6, 4, 2, 2)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        return self.back(wg.relu(self.grouped(wg.relu(self.apart(x)))))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "separable": (Separable, (3, 8, 7, 6)),
    "causal": (Causal, (2, 8, 20)),
    "solid": (Solid, (2, 4, 3, 5, 6)),
}


def gradients(name: str, device: str) -> list[np.ndarray]:
    """A loss, and its gradients with respect to the parameters."""
    wg.manual_seed(0)
    make, shape = MODELS[name]
    model = make().to(device)
    x = wg.tensor(np.random.default_rng(0).standard_normal(shape, np.float32), device=device)

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        loss = (wg.tanh(model(wg.tanh(x))) ** 2).sum()
        loss.backward()
        return loss

    loss = step(x)
    return [loss.numpy(), *(p.grad.numpy() for p in model.parameters())]


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_cpu(name: str) -> None:
    found, expected = gradients(name, "cuda"), gradients(name, "cpu")
    assert len(found) == len(expected) > 3
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(1, np.abs(b).max()))
