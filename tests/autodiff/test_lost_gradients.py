"""Conversions that would lose a gradient raise, on the user's line, and say what to write instead."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import GradientError

X = np.array([0.5, 1.5])


def _stored(x: Any) -> Any:
    a = np.zeros(2)
    a[0] = x[0]
    return (a * x).sum()


def _filled(x: Any) -> Any:
    a = np.zeros(2)
    a[:] = x
    return (a * x).sum()


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "float": lambda x: float(x[0]) * x[1],
    "int": lambda x: int(x[0] * 4) * x[1],
    "complex": lambda x: complex(x[0]).real * x[1],
    "math.sin": lambda x: math.sin(x[0]) * x[1],
    "math.exp": lambda x: math.exp(x[0]) * x[1],
    "math.pow": lambda x: math.pow(x[0], 2) * x[1],
    "round": lambda x: round(float(x[0])) * x[1],
    "item": lambda x: x[0].item() * x[1],
    "tolist": lambda x: x.tolist()[0] * x[1],
}
ARRAYS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: (wg.tensor(x.numpy()) * x).sum(),
    "np.asarray": lambda x: (np.asarray(x) * x).sum(),
    "np.array": lambda x: (np.array(x) * x).sum(),
    "np.array of a list": lambda x: (np.array([x[0] ** 2, x[1]]) * x).sum(),
    "np.asarray of a list": lambda x: (np.asarray([x[0] ** 2, x[1]]) * x).sum(),
    "np.r_": lambda x: (np.r_[x[0], 1.0] * x).sum(),
    "np.c_": lambda x: (np.c_[x, x] * x).sum(),
    "a[0] = x": _stored,
    "a[:] = x": _filled,
    "np.fromiter": lambda x: (np.fromiter((v for v in x), float) * x).sum(),
    "np.vectorize": lambda x: (np.vectorize(lambda v: v * 2)(x) * x).sum(),
    "np.float64": lambda x: np.float64(x[0]) * x[1],
    "dlpack": lambda x: (np.from_dlpack(x) * x).sum(),
}
MADE: dict[str, Callable[[Any], Any]] = {
    "wg.tensor of a list": lambda x: (wg.tensor([x[0] ** 2, x[1]]) * x).sum(),
    "wg.tensor": lambda x: (wg.tensor(x) * x).sum(),
    "nested": lambda x: (wg.tensor([[x[0]], [x[1]]]) * x).sum(),
    "pickled": lambda x: (pickle.loads(pickle.dumps(x)) * x).sum(),
}
LOST = NUMBERS | ARRAYS | MADE


def _jvp(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: wg.jvp(f, (x,), (wg.ones_like(x),))[1]


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": wg.grad,
    "value_and_grad": wg.value_and_grad,
    "vjp": lambda f: lambda x: wg.vjp(f, x)[0],
    "jvp": _jvp,
    "jacobian": wg.jacobian,
    "hessian": wg.hessian,
    "second order": lambda f: wg.grad(lambda x: wg.grad(f)(x).sum()),
}


def _raised(run: Callable[[], Any]) -> str:
    """The text of a GradientError on a line of this file; NumPy says in front of it that an array takes numbers."""
    with pytest.raises((GradientError, ValueError)) as caught:
        run()
    error = caught.value if isinstance(caught.value, GradientError) else caught.value.__cause__
    assert isinstance(error, GradientError) and "\n  at test_lost_gradients.py:" in str(error), repr(error)
    return str(error)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", LOST)
def test_inside_a_transform_they_raise(name: str, transform: str) -> None:
    error = _raised(lambda: TRANSFORMS[transform](LOST[name])(wg.tensor(X)))
    assert "differentiates with respect to this value" in error and "detach()" in error


@pytest.mark.parametrize("name", ["float", "numpy", "np.array of a list", "a[0] = x", "wg.tensor of a list"])
def test_the_error_says_what_to_write(name: str) -> None:
    error = _raised(lambda: wg.grad(LOST[name])(wg.tensor(X)))
    assert "grad differentiates" in error and "wg.stack([a, b])" in error


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_a_tensor_that_requires_grad_can_be_looked_at(name: str) -> None:
    x = wg.tensor(X, requires_grad=True)
    NUMBERS[name](x)
    wg.grad(lambda y: (y * float(x[0])).sum())(wg.tensor(X))  # x is none of what grad differentiates by


@pytest.mark.parametrize("name", sorted(ARRAYS.keys() - {"np.float64", "np.fromiter"}))  # these ask for numbers
def test_arrays_of_a_tensor_that_requires_grad_raise(name: str) -> None:
    x = wg.tensor(X, requires_grad=True)
    assert "requires grad" in _raised(lambda: ARRAYS[name](x))
    assert "requires grad" in _raised(lambda: ARRAYS[name](x * 2))


@pytest.mark.parametrize("name", LOST)
def test_what_is_detached_converts(name: str) -> None:
    f = LOST[name]
    assert wg.grad(lambda x: (f(x.detach()) * x).sum())(wg.tensor(X)).shape == (2,)
    f(wg.tensor(X, requires_grad=True).detach())
    f(wg.tensor(X))


def test_what_no_grad_computes_converts() -> None:
    def f(x: Any) -> Any:
        with wg.no_grad():
            scale = float(x.max())
            assert np.asarray(x).shape == (2,)
        return (x / scale).sum()

    assert wg.grad(f)(wg.tensor(X)).tolist() == pytest.approx([1 / 1.5] * 2)
    with wg.no_grad():
        assert wg.tensor(X, requires_grad=True).numpy().shape == (2,)


def test_branching_printing_and_formatting_stay(capsys: Any) -> None:
    def f(x: Any) -> Any:
        print(x, f"{x[0]:.2f}", repr(x))
        assert x.sum() > 0 and bool(x[0])
        while x[0] < 1:
            x = x * 2
        return x.sum() if x[1] >= 0 else -x.sum()

    assert wg.grad(f)(wg.tensor(X)).tolist() == [2.0, 2.0]
    assert "0.50" in capsys.readouterr().out


def test_what_does_not_depend_on_the_variables_converts() -> None:
    other = wg.tensor([3.0])

    def f(x: Any) -> Any:
        place = int(x.argmax())  # an integer: its derivative is zero
        return x[place] * float(other[0]) * other.numpy()[0] * len(x) * x.shape[0]

    assert wg.grad(f)(wg.tensor(X)).tolist() == [0.0, 36.0]


def test_after_the_transform_everything_converts() -> None:
    kept = []
    value, slope = wg.value_and_grad(lambda x: (kept.append(x * 1), (x * x).sum())[1])(wg.tensor(X))
    assert float(value) == 2.5 and slope.numpy().tolist() == [1.0, 3.0] and kept[0].tolist() == X.tolist()
    with pytest.raises(ZeroDivisionError):
        wg.grad(lambda x: 1 / 0)(1.0)
    assert float(wg.tensor(1.0) * 2) == 2.0


def test_a_graph_that_backward_let_go_loses_nothing() -> None:
    x = wg.tensor(X, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    assert loss.numpy() == 2.5 and x.grad.numpy().tolist() == [1.0, 3.0]
    with pytest.raises(GradientError):
        x.numpy()
    assert x.detach().numpy().tolist() == X.tolist() and x.tolist() == X.tolist()


def test_copies_and_pickles_of_parameters_are_as_before() -> None:
    x = wg.tensor(X, requires_grad=True)
    assert pickle.loads(pickle.dumps(x)).requires_grad and copy.deepcopy(x).tolist() == X.tolist()


def test_numpys_protocols_keep_the_gradient() -> None:
    functions = [
        lambda x: (np.stack([x[0] ** 2, x[1]]) * x).sum(),
        lambda x: (np.array([x[0] ** 2, x[1]], like=x) * x).sum(),
        lambda x: (np.asarray([x[0] ** 2, x[1]], like=x) * x).sum(),
        lambda x: (wg.asarray([x[0] ** 2, x[1]]) * x).sum(),
        lambda x: (np.concatenate([x[:1] ** 2, x[1:]]) * x).sum(),
    ]
    for function in functions:
        assert wg.grad(function)(wg.tensor(X)).tolist() == pytest.approx([0.75, 3.0])


def test_numeric_derivatives_of_numpy_code_go_on() -> None:
    numeric = wg.autodiff.numeric.grad
    assert numeric(lambda x: math.sin(x[0]) + np.sum(np.asarray(x) ** 2))(X).tolist() == pytest.approx(
        [math.cos(0.5) + 1.0, 3.0]
    )


def test_questions_of_numpy_are_answered() -> None:
    def f(x: Any) -> Any:
        assert np.allclose(x, X) and np.shape(x) == (2,) and np.ndim(x) == 1
        return x.sum()

    assert wg.grad(f)(wg.tensor(X)).tolist() == [1.0, 1.0]
