"""`linearize`, `linear_transpose`, chunked Jacobians and products with curvature, each beside another way to it."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, GradientError, ShapeError

X = np.random.default_rng(0).normal(size=5)
T = np.random.default_rng(1).normal(size=5)


def f(x):
    return wg.sin(x) * x[::-1].sum() + wg.exp(x / 3)


def test_a_linearized_function_gives_what_jvp_gives() -> None:
    out, derivative = wg.linearize(f, X)
    np.testing.assert_allclose(out.numpy(), f(wg.tensor(X)).numpy())
    for t in (T, 2 * T, T[::-1].copy()):
        np.testing.assert_allclose(derivative(t).numpy(), wg.jvp(f, (X,), (t,))[1].numpy(), rtol=1e-14)


def test_linearize_runs_the_function_once_and_keeps_what_it_reads() -> None:
    calls = []

    def counted(x):
        calls.append(1)
        return wg.cumsum(wg.exp(x), axis=0)

    _, derivative = wg.linearize(counted, X)
    for _ in range(3):
        np.testing.assert_allclose(derivative(T).numpy(), np.cumsum(np.exp(X) * T), rtol=1e-14)
    assert len(calls) == 1


def test_linearize_takes_containers_and_several_arguments() -> None:
    def g(p, y):
        return {"a": p["w"] * y, "b": (p["w"] ** 2).sum()}

    _, derivative = wg.linearize(g, {"w": X}, T)
    moved = derivative({"w": T}, X)
    np.testing.assert_allclose(moved["a"].numpy(), T * T + X * X)
    np.testing.assert_allclose(moved["b"].item(), 2 * X @ T)
    with pytest.raises(ArgumentError, match="1 tangents for 2 arguments"):
        derivative({"w": T})


def test_a_linearized_function_can_be_differentiated() -> None:
    """By its tangents, and by the point it was taken at."""
    by_tangent = wg.grad(lambda t: wg.linearize(f, X)[1](t)[0])(T)
    np.testing.assert_allclose(by_tangent.numpy(), wg.jacobian(f)(X).numpy()[0], rtol=1e-13)
    _, derivative = wg.linearize(f, X)
    np.testing.assert_allclose(wg.grad(lambda t: derivative(t)[0])(T).numpy(), by_tangent.numpy(), rtol=1e-13)
    by_point = wg.grad(lambda x: wg.linearize(f, x)[1](T).sum())(X)
    expected = wg.grad(lambda x: wg.jvp(f, (x,), (T,))[1].sum())(X)
    np.testing.assert_allclose(by_point.numpy(), expected.numpy(), rtol=1e-13)


def test_a_pullback_can_be_differentiated_by_its_cotangent() -> None:
    _, pullback = wg.vjp(wg.sin, X)
    np.testing.assert_allclose(wg.grad(lambda c: pullback(c)[0].sum())(T).numpy(), np.cos(X), rtol=1e-14)


def test_the_transpose_of_a_linear_function() -> None:
    matrix = np.random.default_rng(2).normal(size=(3, 5))
    back = wg.linear_transpose(lambda x: wg.tensor(matrix) @ x, X)
    np.testing.assert_allclose(back(np.arange(3.0))[0].numpy(), matrix.T @ np.arange(3.0), rtol=1e-14)
    both = wg.linear_transpose(lambda x, y: x[1:] - 2 * y[:-1], X, T)
    dx, dy = both(np.ones(4))
    np.testing.assert_array_equal(dx.numpy(), [0, 1, 1, 1, 1])
    np.testing.assert_array_equal(dy.numpy(), [-2, -2, -2, -2, 0])


def test_a_function_that_is_not_linear_is_named_with_its_line() -> None:
    with pytest.raises(GradientError, match="not linear"):
        wg.linear_transpose(lambda x: wg.sin(x), X)
    with pytest.raises(GradientError, match="not linear"):
        wg.linear_transpose(lambda x, y: x * y, X, T)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("mode", [wg.jacfwd, wg.jacrev])
def test_chunks_give_the_jacobian(mode, chunk) -> None:
    whole = wg.jacobian(f)(X).numpy()
    np.testing.assert_allclose(mode(f, chunk=chunk)(X).numpy(), whole, rtol=1e-13)


def test_chunks_of_containers_constants_and_second_order() -> None:
    def g(x):
        return {"constant": wg.ones(2), "matrix": x[:, None] * x}

    whole, chunked = wg.jacobian(g)(X), wg.jacobian(g, chunk=2)(X)
    for name in whole:
        np.testing.assert_allclose(chunked[name].numpy(), whole[name].numpy(), rtol=1e-14)
    energy = lambda x: (wg.sin(x) * x[0]).sum()
    np.testing.assert_allclose(wg.hessian(energy, chunk=2)(X).numpy(), wg.hessian(energy)(X).numpy(), rtol=1e-13)
    loss = lambda x, chunk: (wg.jacfwd(f, chunk=chunk)(x) ** 2).sum()
    found = wg.grad(lambda x: loss(x, 2))(X).numpy()
    np.testing.assert_allclose(found, wg.grad(lambda x: loss(x, None))(X).numpy(), rtol=1e-12)


def test_a_bad_chunk_is_refused() -> None:
    with pytest.raises(ArgumentError, match="chunk"):
        wg.jacobian(f, chunk=0)


def test_gauss_newton_products_are_those_with_the_matrix() -> None:
    loss = lambda y: wg.log(wg.exp(y).sum()) + (y**2).sum()
    j = wg.jacobian(f)(X).numpy()
    h = wg.hessian(loss)(f(wg.tensor(X))).numpy()
    np.testing.assert_allclose(wg.gnvp(f, loss, (X,), (T,)).numpy(), j.T @ h @ j @ T, rtol=1e-12)


def test_fisher_products_are_those_with_the_matrix() -> None:
    examples = np.random.default_rng(3).normal(size=(4, 5))
    scores = lambda w: -wg.log(1 + wg.exp(-(wg.tensor(examples) @ w)))
    j = wg.jacobian(scores)(X).numpy()
    np.testing.assert_allclose(wg.fisher_product(scores, (X,), (T,)).numpy(), j.T @ j @ T / 4, rtol=1e-12)
    with pytest.raises(ShapeError, match="each example"):
        wg.fisher_product(lambda w: w.sum(), (X,), (T,))
