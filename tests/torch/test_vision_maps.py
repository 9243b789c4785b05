"""Images turned, mapped and given another hue, as tensors in batches, and drawn as torchvision draws.

The expected numbers are torchvision 0.28's: the sum over the result of each element times its index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import wengert.torch as torch
from wengert.api import random as drawn
from wengert.torch import random, torch_random
from wengert.torch.vision import transforms as T
from wengert.torch.vision.transforms import functional as F

BATCH = (torch.arange(2 * 3 * 6 * 5).view(2, 3, 6, 5) * 37 % 101) / 100.0
BILINEAR = T.InterpolationMode.BILINEAR


def _sum(x: Any) -> float:
    return float((x.double() * torch.arange(x.numel(), dtype=torch.float64).view(x.shape)).sum().item())


@pytest.mark.parametrize(
    "made, expected",
    [
        (lambda x: F.adjust_hue(x, 0.2), 7905.29),
        (lambda x: F.adjust_hue((x * 255).to(torch.uint8), -0.4), 2002218.0),
        (lambda x: F.rotate(x, 25.0), 6958.43),
        (lambda x: F.rotate(x, 25.0, expand=True), 19382.2),
        (lambda x: F.rotate(x, 25.0, BILINEAR, fill=[0.1, 0.2, 0.3]), 6874.92),
        (lambda x: F.affine(x, 20.0, [1, -2], 0.8, [5.0, 3.0]), 3512.66),
    ],
)
def test_maps_of_a_batch(made: Any, expected: float) -> None:
    assert _sum(made(BATCH)) == pytest.approx(expected, abs=0.02)


def test_a_hue_and_back() -> None:
    assert torch.allclose(F.adjust_hue(F.adjust_hue(BATCH, 0.25), -0.25), BATCH, atol=1e-5)


@pytest.fixture
def stream() -> Iterator[None]:
    """PyTorch's random numbers."""
    before = random.stream
    torch_random.install()
    yield
    random.set_stream(before)
    drawn.stream = None


@pytest.mark.parametrize(
    "transform, expected",
    [
        (T.RandomResizedCrop(4), 1249.04),
        (T.RandomHorizontalFlip(), 8041.61),
        (T.RandomCrop(4), 2285.5),
        (T.ColorJitter(0.8, 0.8, 0.8, 0.2), 1954.43),
        (T.RandomRotation(30), 7731.21),
        (T.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), 10), 4935.09),
        (T.RandomErasing(p=0.9), 7334.0),
        (T.RandomGrayscale(0.5), 8062.54),
    ],
    ids=lambda value: type(value).__name__,
)
def test_draws_of_torchvision(transform: Any, expected: float, stream: None) -> None:
    torch.manual_seed(3)
    assert _sum(transform(BATCH)) == pytest.approx(expected, abs=0.02)
