"""What the programs use of gymnasium: CartPole, by the equations of Barto, Sutton and Anderson (1983)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np


class Spec(NamedTuple):
    """What is published of an environment; here with a threshold that is reached within a minute."""

    reward_threshold: float = 30.0


class CartPole:
    """A pole on a cart that is pushed to the left or to the right; a reward of 1 a step until it falls."""

    spec = Spec()
    gravity, cart, pole, half_length, force, seconds = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._state = np.zeros(4)
        self._steps = 0

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """A new episode, near rest."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._state, self._steps = self._rng.uniform(-0.05, 0.05, 4), 0
        return self._state.astype(np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A push for a fiftieth of a second: what is seen, the reward, whether it fell, whether time is up."""
        _, speed, angle, turning = self._state
        push = self.force if action == 1 else -self.force
        total, moment = self.cart + self.pole, self.pole * self.half_length
        pushed = (push + moment * turning**2 * math.sin(angle)) / total
        bend = self.half_length * (4 / 3 - self.pole * math.cos(angle) ** 2 / total)
        turned = (self.gravity * math.sin(angle) - math.cos(angle) * pushed) / bend
        moved = pushed - moment * turned * math.cos(angle) / total
        self._state = self._state + self.seconds * np.array([speed, moved, turning, turned])
        self._steps += 1
        fallen = bool(abs(self._state[0]) > 2.4 or abs(self._state[2]) > math.radians(12))
        return self._state.astype(np.float32), 1.0, fallen, self._steps >= 500, {}


def make(name: str, render_mode: str | None = None) -> CartPole:
    """The environment of a name."""
    return CartPole()
