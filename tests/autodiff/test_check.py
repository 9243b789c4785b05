"""check_grads finds what is wrong, says where, and lets what is right pass."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, GradientError
from wengert.ops import registry
from wengert.ops.elementwise import multiply, same
from wengert.ops.recorders import Unary

X = np.array([[0.5, -1.0, 2.0], [0.25, 1.5, -0.75]])


def op_with_derivative(name: str, derivative: object) -> Unary:
    op = Unary(name, np.tanh, (derivative,), same([wg.float64]), "tanh, with some derivative")
    return registry.pop(op.name)  # it is no primitive of the library's


wrong_first = op_with_derivative("tanh with a wrong derivative", lambda y, x: 1 - y)
# Right to first order: the value of the derivative is right, but its own derivative is cut off.
wrong_second = op_with_derivative(
    "tanh with a cut derivative", lambda y, x: wg.ops.core.stop_gradient(1 - multiply(y, y))
)


def apply(op: Unary) -> object:
    return lambda x: wg.Tensor(op(x.node))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_a_wrong_derivative_is_found(mode: str) -> None:
    with pytest.raises(
        AssertionError, match=f"{mode} mode, order 1, with respect to argument 0(.|\\n)*expected(.|\\n)*found"
    ) as caught:
        wg.check_grads(apply(wrong_first), (X,), modes=(mode,))
    assert isinstance(caught.value, GradientError)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_a_wrong_second_derivative_is_found(mode: str) -> None:
    wg.check_grads(apply(wrong_second), (X,), order=1)
    with pytest.raises(AssertionError, match=f"{mode} mode, order 2"):
        wg.check_grads(apply(wrong_second), (X,), order=2, modes=(mode,))


def test_it_names_the_argument_and_the_result() -> None:
    def f(good: wg.Tensor, pair: dict[str, wg.Tensor]) -> tuple[wg.Tensor, wg.Tensor]:
        return good * pair["fine"], apply(wrong_first)(pair["bad"]) + good

    with pytest.raises(AssertionError, match="argument 1, leaf 1: the derivative of result 1"):
        wg.check_grads(f, (X, {"fine": X, "bad": X}), modes=("forward",))


def test_what_is_not_floating_is_held_fixed() -> None:
    wg.check_grads(
        lambda x, i, flag, name: x[i] * 2 if flag and name == "twice" else x, (X, np.array([1, 0]), True, "twice")
    )


def test_float32_arguments_are_checked_in_float64() -> None:
    wg.check_grads(wg.exp, (X.astype("float32"),))


def test_every_nesting_of_modes_is_checked() -> None:
    seen = []
    op = op_with_derivative("watched tanh", lambda y, x: seen.append(x) or 1 - multiply(y, y))
    wg.check_grads(apply(op), (X,), order=3)
    assert len(seen) > 8  # reverse and forward, of reverse and forward, of reverse and forward


def test_nothing_to_check_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="no argument has a floating-point or complex value"):
        wg.check_grads(lambda i: i, (np.array([1, 2]),))
    with pytest.raises(ArgumentError, match="returns no floating-point or complex tensor"):
        wg.check_grads(lambda x: x > 0, (X,))
    with pytest.raises(ArgumentError, match=r"args must be a tuple.*write \(x,\)"):
        wg.check_grads(wg.tanh, wg.ones(3))
    with pytest.raises(ArgumentError, match="a mode must be"):
        wg.check_grads(wg.exp, (X,), modes=("backward",))
