"""Complex values that reach a rule of real values only: refused by the op's name, in every mode, never a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import GradientError
from wengert.ops import Op, registry
from wengert.ops.linalg import MATMUL

X = wg.tensor(np.array([1.0, 2.0]))
Function = Callable[[wg.Tensor], wg.Tensor]


@pytest.fixture
def doubled() -> Iterator[Op]:
    """An op that has rules for real values, and does not say that they hold for complex ones."""
    made = Op(
        "doubled_for_the_gate",
        infer=lambda x: (x.shape, x.dtype),
        numpy=lambda x: 2 * x,
        vjp=(lambda g, y, x: g * 2,),
        linear=(0,),
        batch=lambda y, sources, batched: made(*sources),
    )
    yield made
    del registry["doubled_for_the_gate"]


MODES: dict[str, Callable[[Function], Any]] = {
    "reverse": lambda f: wg.grad(lambda x: wg.real(f(x * 1j)).sum())(X),
    "reverse, by a complex argument": lambda f: wg.grad(lambda x: wg.real(f(x)).sum())(X * 1j),
    "forward": lambda f: wg.jvp(lambda x: wg.imag(f(x * 1j)), (X,), (X,)),
    "second order": lambda f: wg.hvp(lambda x: wg.abs(f(wg.exp(x * 1j))).sum(), (X,), (X,)),
    "lanes": lambda f: wg.vmap(wg.grad(lambda x: wg.imag(f(x * 1j))))(X),
    "jacobian": lambda f: wg.jacobian(lambda x: wg.real(f(x * 1j)))(X),
    "compiled": lambda f: wg.compile(wg.grad(lambda x: wg.abs(f(x * 1j)).sum()))(X),
    "backward": lambda f: wg.real(f(wg.tensor([1.0, 2.0], requires_grad=True) * 1j)).sum().backward(),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_rule_of_real_values_refuses_complex_ones_by_name(doubled: Op, mode: str) -> None:
    with pytest.raises(GradientError, match="doubled_for_the_gate has no derivative for complex values"):
        MODES[mode](lambda x: wg.Tensor(doubled(x.node)))


def test_real_values_pass_the_gate(doubled: Op) -> None:
    assert wg.grad(lambda x: wg.Tensor(doubled(x.node)).sum())(X).tolist() == [2.0, 2.0]


def test_values_go_forward_through_the_gate(doubled: Op) -> None:
    assert wg.Tensor(doubled((X * 1j).node)).tolist() == [2j, 4j]


@pytest.mark.parametrize("transform", ["reverse", "forward"])
def test_nothing_is_refused_behind_stop_gradient(doubled: Op, transform: str) -> None:
    function = lambda x: x.sum() * wg.abs(wg.stop_gradient(wg.Tensor(doubled((x * 1j).node)))).sum()
    found = wg.grad(function)(X) if transform == "reverse" else wg.jvp(function, (X,), (wg.tensor([1.0, 0.0]),))[1]
    assert np.ravel(found.numpy())[0] == 6.0


def test_the_hint_says_what_to_do() -> None:
    with pytest.raises(wg.errors.DTypeError, match="holomorphic=True"):
        wg.grad(lambda z: (z * z).sum())(wg.tensor([1j, 2.0]))
    with pytest.raises(wg.errors.DTypeError, match="only floating-point and complex values"):
        wg.grad(lambda n: n)(2)


def test_a_reference_never_drops_an_imaginary_part() -> None:
    """Factors of two kinds, which only a wrong rule would record: the dtype is that of the first."""
    product = wg.Tensor(MATMUL(wg.ones((2, 2)).node, wg.tensor(np.full((2, 2), 1j)).node))
    with pytest.raises(wg.errors.ComputationError, match="complex numbers where float32 was inferred"):
        product.numpy()


def test_only_a_stated_fact_opens_the_gate() -> None:
    silent = Op("silent_for_the_gate", infer=lambda x: (x.shape, x.dtype), numpy=lambda x: x)
    del registry["silent_for_the_gate"]
    assert not silent.complex
