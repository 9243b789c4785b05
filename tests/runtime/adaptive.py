"""A simulation with adaptive steps: van der Pol's equation by Bogacki and Shampine's method."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

TOLERANCE = 1e-4


def oscillator(stiffness: Any, x: Any, v: Any, end: float = 2.0, memory: Any = None) -> Any:
    """Where x'' = stiffness (1 - x^2) x' - x is after a while. A step whose error is too large is taken again."""

    def slope(x: Any, v: Any) -> Any:
        return v, stiffness * (1.0 - x * x) * v - x

    def error_of(h: Any, slopes: Any, before: Any, after: Any) -> Any:
        a, b, c, d = slopes
        error = h * (-5 / 72 * a + 1 / 12 * b + 1 / 9 * c - 1 / 8 * d)
        return wg.abs(error) / (TOLERANCE * (1.0 + wg.maximum(wg.abs(before), wg.abs(after))))

    def step(state: Any) -> Any:
        x, v, dx, dv, t, h = state
        h = wg.minimum(h, end - t)
        dx2, dv2 = slope(x + 0.5 * h * dx, v + 0.5 * h * dv)
        dx3, dv3 = slope(x + 0.75 * h * dx2, v + 0.75 * h * dv2)
        x2 = x + h * (2 / 9 * dx + 1 / 3 * dx2 + 4 / 9 * dx3)
        v2 = v + h * (2 / 9 * dv + 1 / 3 * dv2 + 4 / 9 * dv3)
        dx4, dv4 = slope(x2, v2)
        error = wg.maximum(error_of(h, (dx, dx2, dx3, dx4), x, x2), error_of(h, (dv, dv2, dv3, dv4), v, v2)) + 1e-10
        accepted = error <= 1.0
        moved = [wg.where(accepted, a, b) for a, b in ((x2, x), (v2, v), (dx4, dx), (dv4, dv), (t + h, t))]
        return (*moved, wg.stop_gradient(h * wg.clip(0.9 * error ** (-1 / 3), 0.2, 5.0)))

    start = (x, v, *slope(x, v), x * 0.0, x * 0.0 + 0.01)
    x, v, *_ = wg.while_loop(lambda state: state[4] < end, step, start, memory=memory)
    return x, v


def starts(count: int, most: float = 20.0, dtype: Any = np.float64) -> list[Any]:
    """Stiffnesses that are far apart, and where trajectories begin."""
    rng = np.random.default_rng(0)
    stiffness = np.exp(rng.uniform(np.log(0.5), np.log(most), count))
    return [one.astype(dtype) for one in (stiffness, 1.0 + rng.normal(size=count), rng.normal(size=count))]
