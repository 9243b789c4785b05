"""Operations that a term may add to the exercise `mytorch`, drawn by its seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Cases
from wengert.learn.exercises.mytorch import cases
from wengert.learn.exercises.reference import drawn, positive


@dataclass(frozen=True)
class Operation:
    """A rule that students write: its name, docstring, title, the function it belongs to, and its hidden cases."""

    name: str
    docstring: str
    title: str
    function: Callable[..., Any]
    cases: Cases
    inputs: str = "a: Array"

    @property
    def stub(self) -> str:
        """What the handout has."""
        returned = "Array" if self.inputs == "a: Array" else "tuple[Array, Array]"
        return (
            f"\n\ndef {self.name}(grad_output: Array, {self.inputs}) -> {returned}:\n"
            f'    """{self.docstring}"""\n'
            f'    raise NotImplementedError("TODO: {self.name}")\n'
        )


def _ties(rng: np.random.Generator, *shape: int) -> Any:
    """Few different numbers, so that pairs of them are often equal."""
    return rng.integers(-1, 2, shape).astype(float)


def _softplus(a: Any) -> Any:
    return wg.logaddexp(a, 0 * a)


def _one(name: str, docstring: str, title: str, function: Any, draw: Any = drawn, extremes: Any = ()) -> Operation:
    cases.FUNCTIONS[name] = function
    return Operation(name, docstring, title, function, cases.one_input(name, draw, extremes))


def _two(name: str, docstring: str, title: str, function: Any, draw: Any) -> Operation:
    cases.FUNCTIONS[name] = function
    shapes = [*cases.SAME[:2], *cases.BROADCAST]
    return Operation(name, docstring, title, function, cases.two_inputs(name, shapes, draw), "a: Array, b: Array")


POOL = (
    _one("sqrt_backward", "Of the square root of a.", "sqrt(a)", wg.sqrt, positive),
    _one("square_backward", "Of a * a.", "a ** 2", wg.square, cases.with_zeros),
    _one("sin_backward", "Of sin(a).", "sin(a)", wg.sin, cases.with_zeros),
    _one("cos_backward", "Of cos(a).", "cos(a)", wg.cos, cases.with_zeros),
    _one(
        "softplus_backward",
        "Of log(1 + exp(a)), also where exp(a) would overflow.",
        "log(1 + exp(a)), also far from 0",
        _softplus,
        cases.with_zeros,
        (0.0, 800.0, -800.0),
    ),
    _one(
        "abs_backward",
        "Of the absolute value of a. At 0 the gradient is 0.",
        "abs(a), also at 0",
        wg.abs,
        cases.with_zeros,
    ),
    _one("silu_backward", "Of a / (1 + exp(-a)).", "a * sigmoid(a)", lambda a: a * wg.sigmoid(a), cases.with_zeros),
    _two(
        "maximum_backward",
        "Of the larger of a and b, element by element. Where they are equal, each gets half of the gradient.",
        "maximum(a, b), with ties and broadcasting",
        wg.maximum,
        _ties,
    ),
    _two(
        "minimum_backward",
        "Of the smaller of a and b, element by element. Where they are equal, each gets half of the gradient.",
        "minimum(a, b), with ties and broadcasting",
        wg.minimum,
        _ties,
    ),
)
