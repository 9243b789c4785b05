"""What a solve says when it goes wrong: how far it came, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wengert as wg
from tests.ode.problems import real
from wengert.core.errors import ArgumentError, ComputationError, DTypeError, ShapeError


def blown_up(y0: Any, **options: Any) -> Any:
    """y' = y^2, which is infinite at t = 1 / y0."""
    return wg.ode.solve(lambda t, y, _: y * y, y0, [0.0, 5.0], **options).y


def test_too_many_steps() -> None:
    with pytest.raises(
        ComputationError, match=r"max_steps=3 .*after 3 steps, at t = 0\.\d+ with a step size of 0\.\d+"
    ):
        wg.ode.solve(lambda t, y, _: -y, real(1.0), [0.0, 5.0], rtol=1e-10, max_steps=3).y.item()


def test_as_many_steps_as_are_allowed() -> None:
    steps = wg.ode.solve(lambda t, y, _: -y, real(1.0), [0.0, 1.0]).steps.item()
    assert wg.ode.solve(lambda t, y, _: -y, real(1.0), [0.0, 1.0], max_steps=steps).y.item() > 0.3
    with pytest.raises(ComputationError, match=f"after {steps - 1} steps"):
        wg.ode.solve(lambda t, y, _: -y, real(1.0), [0.0, 1.0], max_steps=steps - 1).y.item()


@pytest.mark.parametrize("ts", [[0.0, 5.0], [0.0, 0.5, 5.0]])
@pytest.mark.parametrize("wrapped", [lambda f: f, wg.compile])
def test_a_step_size_that_becomes_too_small(wrapped: Any, ts: list[float]) -> None:
    solve = wrapped(lambda y: wg.ode.solve(lambda t, y, _: y * y, y, ts).y)
    with pytest.raises(ComputationError, match=r"step size has become too small after \d+ steps, at t = 1\.0000"):
        solve(real(1.0)).item()


@pytest.mark.parametrize("method", ["tsit5", "rodas4"])
def test_slopes_that_are_nan(method: str) -> None:
    with pytest.raises(ComputationError, match=r"NaN or infinite after 0 steps, at t = 0 with"):
        wg.ode.solve(lambda t, y, _: wg.sqrt(y - 5), real(1.0), [0.0, 1.0], method=method).y.item()
    with pytest.raises(ComputationError, match=r"NaN or infinite after \d+ steps, at t = 0\.\d+"):
        wg.ode.solve(lambda t, y, _: wg.where(t > 0.5, wg.nan, -y), real(1.0), [0.0, 1.0], method=method).y.item()


def test_a_fixed_step_into_nan() -> None:
    with pytest.raises(ComputationError, match=r"NaN or infinite after \d+ steps, at t = 0\.[345]"):
        slope = lambda t, y, _: wg.where(t > 0.5, wg.nan, -y)
        wg.ode.solve(slope, real(1.0), [0.0, 1.0], method="rk4", step_size=0.1).y.item()


def test_a_trajectory_of_an_ensemble() -> None:
    with pytest.raises(ComputationError, match=r"at t = 0\.5.*trajectory 1, one of 2 that end early"):
        wg.vmap(blown_up)(real([0.1, 2.0, 0.15, 3.0])).numpy()


def test_an_unstable_adjoint_says_so() -> None:
    decay = lambda rate: (
        wg.ode.solve(
            lambda t, y, r: -r * (y - wg.cos(t)), real(1.0), [0.0, 1.0], rate, adjoint="continuous", max_steps=500
        ).y
    )
    with pytest.raises(ComputationError, match="back in time, where a stiff or dissipative system is unstable"):
        wg.grad(decay)(real(100.0)).item()


WRONG: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "an integer state": (DTypeError, "y0 is int64", lambda: blown_up(1)),
    "a complex state": (DTypeError, "real and its imaginary", lambda: blown_up(wg.tensor(1j))),
    "no state": (ArgumentError, "no values", lambda: blown_up(())),
    "a method": (ArgumentError, "one of 'tsit5'", lambda: blown_up(1.0, method="euler")),
    "no step size": (ArgumentError, "say step_size=", lambda: blown_up(1.0, method="rk4")),
    "a step size": (ArgumentError, "first_step=", lambda: blown_up(1.0, step_size=0.1)),
    "a negative step": (ArgumentError, "positive length", lambda: blown_up(1.0, first_step=-0.1)),
    "no tolerance": (ArgumentError, "both 0", lambda: blown_up(1.0, rtol=0, atol=0)),
    "a tolerance": (ArgumentError, "rtol=-1", lambda: blown_up(1.0, rtol=-1)),
    "tolerances": (ArgumentError, "atol has 2 items, but there are 1", lambda: blown_up((1.0,), atol=(1e-3, 1e-4))),
    "steps": (ArgumentError, "max_steps", lambda: blown_up(1.0, max_steps=0)),
    "an adjoint": (ArgumentError, 'adjoint is "discrete"', lambda: blown_up(1.0, adjoint="both")),
    "a direction": (ArgumentError, "event_direction", lambda: blown_up(1.0, event=max, event_direction=2)),
    "an event": (ArgumentError, "one floating-point number", lambda: blown_up(1.0, event=lambda t, y, _: y > 1)),
    "both": (ArgumentError, "no events", lambda: blown_up(1.0, event=lambda t, y, _: y, adjoint="continuous")),
    "one time": (ShapeError, "at least two", lambda: wg.ode.solve(lambda t, y, _: y, 1.0, [0.0])),
    "a shape": (ShapeError, r"float32\[2\]", lambda: wg.ode.solve(lambda t, y, _: wg.ones((2,)), 1.0, [0.0, 1.0])),
    "a structure": (ArgumentError, "tuple", lambda: wg.ode.solve(lambda t, y, _: (y, y), 1.0, [0.0, 1.0])),
}


@pytest.mark.parametrize("what", WRONG)
def test_arguments_that_make_no_sense(what: str) -> None:
    error, said, call = WRONG[what]
    with pytest.raises(error, match=said):
        call()
