"""Taylor mode beside nested forward mode, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import ancestors

X = np.array([0.3, 0.7, 1.1])
CURVE = [np.array([1.0, -0.5, 0.3]), np.array([0.2, 0.4, -1.0]), np.array([-0.3, 0.6, 0.5]), np.array([0.1, 0.2, 0.7])]
W = np.random.default_rng(0).normal(size=(3, 3))


@wg.custom_jvp
def cubed(x):
    return x * x * x


cubed.defjvp(lambda primals, tangents: (cubed(*primals), 3 * primals[0] ** 2 * tangents[0]))

FUNCTIONS = {
    "arithmetic": lambda x: 2 * x - x[::-1] + 3 - (-x),
    "products": lambda x: x * x[::-1] * x,
    "quotients": lambda x: (1 + x) / (2 + x[::-1]) + 1 / x,
    "exp": wg.exp,
    "expm1": wg.expm1,
    "log": wg.log,
    "log1p": wg.log1p,
    "sin": wg.sin,
    "cos": wg.cos,
    "sinh": wg.sinh,
    "cosh": wg.cosh,
    "tan": wg.tan,
    "tanh": wg.tanh,
    "sigmoid": wg.sigmoid,
    "sqrt": wg.sqrt,
    "square": wg.square,
    "cube": lambda x: x**3,
    "fifth": lambda x: (x - 0.3) ** 5,  # through zero
    "half powers": lambda x: x**1.5 + x**-2.5 + x**-1,
    "powers by the argument": lambda x: x ** x[::-1],
    "powers of a number": lambda x: 2.0**x,
    "reductions": lambda x: x.sum() * x.prod() + wg.logsumexp(x),
    "matrices": lambda x: wg.tensor(W) @ wg.tanh(wg.tensor(W) @ x) + (x[:, None] * x) @ x,
    "movement": lambda x: wg.concat([x[1:], x[:1] ** 2]).reshape((3, 1)) + x,
    "where": lambda x: wg.where(x > 0.5, wg.sin(x), x**2),
    "without a recurrence": lambda x: wg.erf(x) + wg.atan(x) + abs(x - 0.5) + wg.maximum(x, x[::-1] ** 2),
    "several results": lambda x: wg.linalg.slogdet(wg.tensor(W) + wg.diag(x))[1] + x,
    "solve": lambda x: wg.linalg.solve(wg.tensor(W) + wg.diag(x), wg.sin(x)),
    "cond": lambda x: wg.cond(x.sum() > 0, lambda x: wg.sin(x) * x, lambda x: x, x),
    "scan": lambda x: wg.scan(lambda c, a: (c * a, c + a), wg.tensor(1.0, dtype=wg.float64), x)[1],
    "custom_jvp": cubed,
    "constant": lambda x: wg.ones(2, dtype=wg.float64),
    "piecewise constant": lambda x: wg.floor(x) * x,
}


def nested(f, order):
    """The derivatives along the curve by jvp in jvp of t."""

    def along(t):
        return f(X + sum(c * t ** (k + 1) / float(np.prod(range(1, k + 2))) for k, c in enumerate(CURVE[:order])))

    found, function = [], along
    for _ in range(order):
        function = (lambda g: lambda t: wg.jvp(g, (t,), (np.ones(()),))[1])(function)
        found.append(function(wg.tensor(np.zeros(()))))
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_along_a_curve_are_those_of_nested_forward_mode(name) -> None:
    f = FUNCTIONS[name]
    value, derivatives = wg.jet(f, X, CURVE[:3])
    np.testing.assert_allclose(value.numpy(), f(wg.tensor(X)).numpy(), rtol=1e-14)
    for found, expected in zip(derivatives, nested(f, 3), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


def test_high_orders_of_known_series() -> None:
    _, derivatives = wg.jet(lambda x: 1 / (1 - x), np.array(0.0), [1.0, *[None] * 11])
    np.testing.assert_allclose([d.item() for d in derivatives], [float(np.prod(range(1, k + 1))) for k in range(1, 13)])
    _, derivatives = wg.jet(lambda x: wg.exp(2 * x), np.array(0.0), [1.0, *[None] * 11])
    np.testing.assert_allclose([d.item() for d in derivatives], 2.0 ** np.arange(1, 13), rtol=1e-13)


def test_the_cost_is_quadratic_in_the_order() -> None:
    def nodes(order):
        x = wg.tensor(np.array(0.3))
        derivatives = wg.jet(lambda x: wg.tanh(wg.sin(x) * wg.exp(x)), x, [1.0, *[None] * (order - 1)])[1]
        return len(ancestors([d.node for d in derivatives]))

    assert nodes(16) < 4.5 * nodes(8) < 20 * nodes(4)


def test_containers_and_bad_series() -> None:
    f = lambda p: {"y": p["a"] * p["b"]}
    value, (first, second) = wg.jet(f, {"a": X, "b": X}, [{"a": X, "b": 2 * X}, None])
    np.testing.assert_allclose(value["y"].numpy(), X * X)
    np.testing.assert_allclose(first["y"].numpy(), 3 * X * X)
    np.testing.assert_allclose(second["y"].numpy(), 4 * X * X)
    with pytest.raises(ArgumentError, match="series must be a list"):
        wg.jet(wg.sin, X, X)
    with pytest.raises(ShapeError, match="entry 1 of series"):
        wg.jet(wg.sin, X, [X, X[:2]])


def laplacian(f):
    """The sum of second derivatives, a jet in each direction."""

    def of(x):
        return wg.vmap(lambda v: wg.jet(f, x, [v, None])[1][1])(wg.eye(x.size, dtype=x.dtype)).sum()

    return of


def test_jets_nest_map_differentiate_and_compile() -> None:
    f = lambda x: wg.tanh(wg.tensor(W) @ wg.sin(x)).sum() * x[0]
    expected = lambda x: wg.trace(wg.hessian(f)(x))
    np.testing.assert_allclose(laplacian(f)(wg.tensor(X)).item(), expected(X).item(), rtol=1e-12)
    np.testing.assert_allclose(wg.grad(laplacian(f))(X).numpy(), wg.grad(expected)(X).numpy(), rtol=1e-11)
    np.testing.assert_allclose(wg.compile(laplacian(f))(wg.tensor(X)).item(), expected(X).item(), rtol=1e-12)
    by_direction = wg.grad(lambda v: wg.jet(f, X, [v, None])[1][1])(CURVE[0])
    np.testing.assert_allclose(by_direction.numpy(), 2 * wg.hvp(f, (X,), (CURVE[0],)).numpy(), rtol=1e-12)
