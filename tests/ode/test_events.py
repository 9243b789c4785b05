"""Events: where a solve ends, to the last digit, and how that moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ode.problems import real
from wengert import Tensor

G = 9.81


def dropped(height: Tensor, ts: Any = (0.0, 5.0), **options: Any) -> Any:
    """A stone that falls until it is on the ground."""

    def slope(t: Tensor, state: Any, g: float) -> Any:
        return {"x": state["v"], "v": -g + 0 * state["v"]}

    start = {"x": height, "v": real(0.0)}
    return wg.ode.solve(slope, start, list(ts), G, event=lambda t, state, g: state["x"], **options)


@pytest.mark.parametrize("method", ["tsit5", "dopri8", "rodas5"])
def test_the_time_and_state_of_an_event(method: str) -> None:
    found = dropped(real(10.0), method=method)
    assert abs(found.t.item() - np.sqrt(20 / G)) < 1e-9 and found.stopped.item()
    assert abs(found.y["v"].item() + np.sqrt(20 * G)) < 1e-8 and abs(found.y["x"].item()) < 1e-9


def test_derivatives_of_the_time_of_an_event() -> None:
    fallen = lambda height: dropped(height).t
    once = wg.grad(fallen)
    assert abs(once(real(10.0)).item() - 0.5 * np.sqrt(2 / G / 10)) < 1e-9
    assert abs(wg.jvp(fallen, (real(10.0),), (real(1.0),))[1].item() - once(real(10.0)).item()) < 1e-12
    assert abs(wg.grad(once)(real(10.0)).item() + 0.25 * np.sqrt(2 / G) * 10**-1.5) < 1e-9


def test_states_behind_an_event_are_that_of_the_event() -> None:
    found = dropped(real(10.0), np.linspace(0, 5, 11)).ys["x"].numpy()
    t = np.minimum(np.linspace(0, 5, 11), np.sqrt(20 / G))
    assert np.abs(found - (10 - G * t**2 / 2)).max() < 1e-7


@pytest.mark.parametrize(("rising", "at"), [(0, 0.5), (-1, 0.5), (1, 1.5)])
def test_an_event_may_be_one_that_rises_or_falls(rising: int, at: float) -> None:
    level = lambda t, y, _: wg.cos(np.pi * t)
    found = wg.ode.solve(lambda t, y, _: -y, real(1.0), [0.0, 3.0], event=level, event_direction=rising)
    assert abs(found.t.item() - at) < 1e-9 and abs(found.y.item() - np.exp(-at)) < 1e-4


def test_an_event_that_does_not_come() -> None:
    found = wg.ode.solve(lambda t, y, _: -y, real(1.0), [0.0, 1.0], event=lambda t, y, _: y + 1.0)
    assert found.t.item() == 1.0 and not found.stopped.item()


def test_a_solve_that_begins_on_an_event_moves_away_from_it() -> None:
    thrown = wg.ode.solve(
        lambda t, y, _: (y[1], 0 * y[0] - G), (real(0.0), real(5.0)), [0.0, 5.0], event=lambda t, y, _: y[0]
    )
    assert abs(thrown.t.item() - 10 / G) < 1e-9


def test_lanes_end_at_events_of_their_own() -> None:
    heights = np.array([1.0, 5.0, 10.0])
    fallen: Any = wg.vmap(lambda height: dropped(height).t)
    program: Any = wg.compile(fallen)
    for function in (fallen, program):
        assert np.abs(function(real(heights)).numpy() - np.sqrt(2 * heights / G)).max() < 1e-9
