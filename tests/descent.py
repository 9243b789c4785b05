"""A compiled step that goes on and on, and what a user may hold of it in between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import wengert as wg

RATE = 0.5


class Descent:
    """w goes down along its gradient, compiled; `expected` is the same in NumPy."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.w = wg.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
        self.rate = wg.tensor(RATE, device=device)
        self.expected = np.array([1, 2, 3], np.float32)
        self.step = wg.compile(self._step)

    def _step(self, x: wg.Tensor) -> wg.Tensor:
        self.w.grad = None
        loss = (self.w * self.w * x).sum()
        loss.backward()
        with wg.no_grad():
            self.w.assign(self.w - self.rate * self.w.grad)
        return loss

    def __call__(self, scale: float = 0.25, rate: float = RATE) -> wg.Tensor:
        """A step, checked."""
        x = np.full(3, scale, np.float32)
        before = self.expected
        loss = self.step(wg.tensor(x, device=self.device))
        self.expected = before - np.float32(rate) * (2 * before * x)
        np.testing.assert_allclose(loss.item(), (before * before * x).sum(), rtol=1e-6)
        np.testing.assert_allclose(self.w.detach().numpy(), self.expected, rtol=1e-6)
        np.testing.assert_allclose(self.w.grad.numpy(), 2 * before * x, rtol=1e-6)
        return loss

    @property
    def repeats(self) -> bool:
        """Whether the next call may be a repeat."""
        return self.step._newest("a test").fast_path is not None


HOLDS: dict[str, Callable[[Descent], wg.Tensor]] = {
    "what is recorded": lambda d: d.w * 1.0,
    "the same value under another name": lambda d: d.w.detach(),
    "a view": lambda d: d.w.detach()[0:3],
    "a gradient": lambda d: d.w.grad,
    "what a gradient gives": lambda d: d.w.grad * 1.0,
}
