"""A model and its reference in torch, trained side by side: losses, all gradients, and the whole state after a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import wengert as wg

TOLERANCE = 1e-9


class Comparison:
    """Counts what it compares, to `1e-9` of the largest number of each tensor."""

    def __init__(self) -> None:
        self.tensors = 0
        self.numbers = 0

    def same(self, actual: Any, expected: Any, name: str) -> None:
        a, b = np.asarray(actual.detach().numpy()), expected.detach().numpy()
        assert a.shape == b.shape, name
        scale = np.abs(b).max() if b.size else 0.0
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * scale, err_msg=name)
        self.tensors += 1
        self.numbers += b.size

    def same_gradients(self, model: Any, reference: Any) -> None:
        expected = dict(reference.named_parameters())
        actual = dict(model.named_parameters())
        assert list(actual) == list(expected)
        for name, parameter in actual.items():
            self.same(parameter.grad, expected[name].grad, f"gradient of {name}")

    def same_state(self, model: Any, reference: Any) -> None:
        expected, actual = reference.state_dict(), model.state_dict()
        assert sorted(actual) == sorted(expected)
        for name, value in actual.items():
            self.same(value, expected[name], name)

    @property
    def counts(self) -> tuple[int, int]:
        return self.tensors, self.numbers


def shake(reference: Any) -> None:
    """Move the zeros and ones that biases and norms begin with, so that a forgotten one shows."""
    with torch.no_grad():
        for parameter in reference.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)


def train_beside(
    model: Any,
    reference: Any,
    optimizers: tuple[Any, Any],
    losses: tuple[Callable[[], Any], Callable[[], Any]],
    steps: int = 3,
) -> Comparison:
    """Load the reference's values by name; then compare after each step of both."""
    model.load_state_dict(reference.state_dict())
    compare = Comparison()
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        actual, expected = losses[0](), losses[1]()
        actual.backward()
        expected.backward()
        compare.same(actual, expected, "loss")
        compare.same_gradients(model, reference)
        for optimizer in optimizers:
            optimizer.step()
        compare.same_state(model, reference)
    return compare


def optimizers(name: str, model: Any, reference: Any, **options: Any) -> tuple[Any, Any]:
    """The same optimizer here and in torch."""
    return getattr(wg.optim, name)(model.parameters(), **options), getattr(torch.optim, name)(
        reference.parameters(), **options
    )
