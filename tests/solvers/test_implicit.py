"""Solutions and their derivatives: beside direct solves, unrolled iterations, SciPy and numeric differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import wengert as wg
from wengert.core.errors import ArgumentError, ComputationError, DTypeError, ShapeError

RNG = np.random.default_rng(0)
N = 6
GENERAL = RNG.normal(size=(N, N)) + 4 * np.eye(N)
POSITIVE = GENERAL @ GENERAL.T
B = RNG.normal(size=N)
METHODS = ["dense", "cg", "gmres", "bicgstab"]


def matrix_for(method):
    return POSITIVE if method == "cg" else GENERAL


def close(found, expected, rtol=1e-10):
    found, expected = (a.numpy() if isinstance(a, wg.Tensor) else np.asarray(a) for a in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


# --- linear systems -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_linear_systems_and_their_derivatives_in_every_mode(method) -> None:
    a = matrix_for(method)

    def by_method(a, b):
        return wg.linear_solve(lambda v: (a @ v + a.T @ v) / 2 if method == "cg" else a @ v, b, method=method)

    def directly(a, b):
        return wg.linalg.solve((a + a.T) / 2 if method == "cg" else a, b)

    close(by_method(wg.tensor(a), B), np.linalg.solve(a, B))
    loss = lambda solve: lambda a, b: (solve(a, b) ** 3).sum()
    for found, expected in zip(
        wg.grad(loss(by_method), (0, 1))(a, B), wg.grad(loss(directly), (0, 1))(a, B), strict=True
    ):
        close(found, expected)
    tangents = RNG.normal(size=(N, N)), RNG.normal(size=N)
    close(wg.jvp(by_method, (a, B), tangents)[1], wg.jvp(directly, (a, B), tangents)[1])
    close(wg.hvp(loss(by_method), (a, B), tangents)[0], wg.hvp(loss(directly), (a, B), tangents)[0], 1e-9)
    close(wg.hvp(loss(by_method), (a, B), tangents)[1], wg.hvp(loss(directly), (a, B), tangents)[1], 1e-9)


@pytest.mark.parametrize("method", ["cg", "gmres", "bicgstab"])
def test_lanes_of_linear_systems(method) -> None:
    a, bs = matrix_for(method), RNG.normal(size=(3, N)) * np.array([[1.0], [1e-3], [0.0]])
    solve = wg.vmap(lambda b: wg.linear_solve(wg.tensor(a), b, method=method))
    close(solve(bs), np.linalg.solve(a, bs.T).T)
    gradients = wg.vmap(wg.grad(lambda b: (wg.linear_solve(wg.tensor(a), b, method=method) ** 2).sum()))(bs)
    close(gradients, np.linalg.solve(a.T, 2 * np.linalg.solve(a, bs.T)).T)


@pytest.mark.parametrize("method", ["cg", "gmres", "bicgstab"])
def test_a_preconditioner_saves_iterations_and_changes_no_derivative(method) -> None:
    n = 60
    diagonal = np.geomspace(1, 300, n)
    scale = wg.tensor(1 / diagonal)

    def product(d):
        return lambda v: d * v + 0.1 * (wg.pad(v[1:], (0, 1)) + wg.pad(v[:-1], (1, 0)))

    b = np.ones(n)
    more = {"restart": 20} if method == "gmres" else {}
    plain, slow = wg.linear_solve(product(wg.tensor(diagonal)), b, method=method, info=True, max_steps=5000, **more)
    near = {"preconditioner": lambda v: v * scale, **more}
    x, quick = wg.linear_solve(product(wg.tensor(diagonal)), b, method=method, info=True, **near)
    assert quick.iterations.item() * 2 < slow.iterations.item()
    close(x, plain, 1e-9)
    loss = lambda d: (wg.linear_solve(product(d), b, method=method, **near) ** 2).sum()
    dense = lambda d: (wg.linear_solve(product(d), b, method="dense") ** 2).sum()
    close(wg.grad(loss)(diagonal), wg.grad(dense)(diagonal), 1e-9)


def test_containers_compiled_and_bad_linear_systems() -> None:
    right = {"a": wg.tensor([1.0, 2.0]).astype(wg.float64), "b": wg.tensor(3.0).astype(wg.float64)}
    x = wg.linear_solve(lambda v: {"a": 2 * v["a"], "b": v["b"] + v["a"].sum()}, right)
    close(x["a"], [0.5, 1.0])
    close(x["b"], 1.5)
    solve = lambda b: wg.linear_solve(wg.tensor(POSITIVE), b, method="cg")
    close(wg.compile(solve)(wg.tensor(B)), np.linalg.solve(POSITIVE, B))
    loss = wg.compile(wg.grad(lambda b: (solve(b) ** 2).sum()))
    close(loss(wg.tensor(B)), 2 * np.linalg.solve(POSITIVE, np.linalg.solve(POSITIVE, B)))
    with pytest.raises(ArgumentError, match="one of dense, cg"):
        wg.linear_solve(POSITIVE, B, method="lu")
    with pytest.raises(ShapeError, match="square matrix"):
        wg.linear_solve(POSITIVE[:3], B)
    with pytest.raises(DTypeError, match="one equation for each unknown"):
        wg.linear_solve(lambda v: v[1:], B)
    with pytest.raises(ComputationError, match=r"gmres did not converge after \d+ iterations: the residual is"):
        wg.linear_solve(np.zeros((N, N)), B, method="gmres").numpy()
    with pytest.raises(ComputationError, match="in 1 of 2 lanes"):
        wg.vmap(lambda b: wg.linear_solve(wg.tensor(POSITIVE), b, method="cg", max_steps=1))(
            np.stack([B, np.zeros(N)])
        ).numpy()


def test_float32_systems() -> None:
    for method in METHODS:
        x = wg.linear_solve(matrix_for(method).astype(np.float32), B.astype(np.float32), method=method)
        assert x.dtype == wg.float32
        np.testing.assert_allclose(x.numpy(), np.linalg.solve(matrix_for(method), B), rtol=2e-3, atol=1e-4)


# --- roots ----------------------------------------------------------------------------------------------------------


def equations(x, a):
    return wg.stack([x[0] ** 3 + x[1] - a[0], wg.exp(x[1]) + x[0] * a[1] - 2])


A0, X0 = np.array([1.5, 0.3]), np.array([1.0, 0.5])


def unrolled(a, steps=12):
    x = wg.tensor(X0)
    for _ in range(steps):
        x = x - wg.linalg.solve(wg.jacobian(equations)(x, a), equations(x, a))
    return x


@pytest.mark.parametrize("linear", [None, "gmres", "bicgstab"])
def test_gradients_through_a_root_equal_those_through_its_iterations(linear) -> None:
    solve = lambda a: wg.root(equations, X0, a, linear=linear)
    assert np.abs(equations(solve(A0), wg.tensor(A0)).numpy()).max() < 1e-12
    loss = lambda solve: lambda a: (wg.sin(solve(a)) * a).sum()
    close(wg.grad(loss(solve))(A0), wg.grad(loss(lambda a: unrolled(a, 6)))(A0))
    close(wg.jacobian(solve, mode="forward")(A0), wg.jacobian(lambda a: unrolled(a, 6))(A0))


def test_second_derivatives_through_a_root() -> None:
    solve = lambda a: wg.root(equations, X0, a)
    found = wg.hessian(lambda a: (solve(a) ** 2).sum())(A0)
    gradient = wg.grad(lambda a: (solve(a) ** 2).sum())
    numeric = [(gradient(A0 + e).numpy() - gradient(A0 - e).numpy()) / 2e-5 for e in 1e-5 * np.eye(2)]
    close(found, np.stack(numeric), 1e-8)
    wg.check_grads(solve, (A0,), order=2)


def test_a_root_reads_values_from_outside_and_maps_over_lanes() -> None:
    def cube_root(a):
        return wg.root(lambda x: x**3 - a, np.array(1.0))

    many = np.array([8.0, 27.0, 0.5, 1000.0])
    close(wg.vmap(cube_root)(many), np.cbrt(many))
    close(wg.vmap(wg.grad(cube_root))(many), many ** (-2 / 3) / 3)
    close(wg.grad(wg.grad(cube_root))(8.0 + np.zeros(())), -2 / 9 * 8.0 ** (-5 / 3))
    leaf = wg.tensor(np.array(8.0), requires_grad=True)
    cube_root(leaf).backward()
    close(leaf.grad, 1 / 12)
    close(wg.compile(wg.grad(cube_root))(wg.tensor(np.array(8.0))), 1 / 12)


def test_newton_starts_far_away_and_says_when_it_fails() -> None:
    x, info = wg.root(lambda x: wg.atan(x), np.array([3.0]), info=True)  # plain Newton diverges from 1.4 on
    assert abs(x.item()) < 1e-12 and info.iterations.item() < 20
    with pytest.raises(ComputationError, match=r"root did not converge after \d+ iterations: the residual is"):
        wg.root(lambda x: x**2 + 1, np.array([3.0])).numpy()
    with pytest.raises(DTypeError, match="one equation for each unknown"):
        wg.root(lambda x: x[0], X0)
    with pytest.raises(DTypeError, match="floating-point"):
        wg.root(lambda x: x - 1, 3)


def test_a_large_root_without_its_matrix() -> None:
    """-u'' + u^3 = f on 500 points: beyond the size at which the matrix is formed."""
    n = 500
    f = np.sin(np.linspace(0, np.pi, n))

    def rest(u, f):
        return 4 * u - wg.pad(u[1:], (0, 1)) - wg.pad(u[:-1], (1, 0)) + u**3 - f

    loss = lambda f: (wg.root(rest, np.zeros(n), f) ** 2).sum()
    gradient = wg.grad(loss)(f).numpy()
    v = np.ones(n)
    numeric = (loss(f + 1e-5 * v).item() - loss(f - 1e-5 * v).item()) / 2e-5
    np.testing.assert_allclose(gradient @ v, numeric, rtol=1e-7)


def test_fixed_points_and_their_derivatives_equal_unrolled_ones() -> None:
    w = RNG.normal(size=(N, N)) * 0.15
    step = lambda x, b: wg.tanh(wg.tensor(w) @ x + b)

    def by_hand(b):
        x = wg.zeros(N, dtype=wg.float64)
        for _ in range(60):
            x = step(x, b)
        return x

    solve = lambda b: wg.fixed_point(step, np.zeros(N), b)
    close(solve(B), by_hand(wg.tensor(B)))
    close(wg.grad(lambda b: (solve(b) ** 2).sum())(B), wg.grad(lambda b: (by_hand(b) ** 2).sum())(B))
    close(wg.jvp(solve, (B,), (np.ones(N),))[1], wg.jvp(by_hand, (B,), (np.ones(N),))[1])
    with pytest.raises(ComputationError, match="fixed_point did not converge after 20 iterations"):
        wg.fixed_point(lambda x: 1 - x, np.array(0.2), max_steps=20).numpy()


def test_a_solver_of_the_users_own() -> None:
    def with_scipy(f, x0):
        return scipy.optimize.root(lambda x: f(x).numpy(), x0, tol=1e-13).x

    own = lambda a: wg.custom_root(equations, with_scipy, X0, a)
    solve = lambda a: wg.root(equations, X0, a)
    close(wg.jacobian(own)(A0), wg.jacobian(solve)(A0))
    close(wg.hessian(lambda a: own(a)[0])(A0), wg.hessian(lambda a: solve(a)[0])(A0), 1e-9)
    with pytest.raises(ComputationError, match="custom_root: the solver did not converge"):
        wg.custom_root(equations, lambda f, x0: x0, X0, A0).numpy()


# --- minima ---------------------------------------------------------------------------------------------------------


def rosenbrock(x, a):
    return (a[1] * (x[1:] - x[:-1] ** 2) ** 2 + (a[0] - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("method", ["bfgs", "newton-cg"])
def test_minima_and_their_derivatives(method) -> None:
    a = np.array([1.2, 20.0])
    solve = lambda a: wg.minimize(rosenbrock, np.zeros(4), a, method=method)
    x, info = wg.minimize(rosenbrock, np.zeros(4), a, method=method, info=True)
    reference = scipy.optimize.minimize(lambda x: rosenbrock(wg.tensor(x), a).item(), np.zeros(4), tol=1e-9).x
    np.testing.assert_allclose(x.numpy(), reference, rtol=1e-4)
    assert info.residual.item() <= 1e-9 and info.iterations.item() < 200
    stationary = lambda a: wg.root(lambda x, a: wg.grad(rosenbrock)(x, a), reference, a)
    close(wg.jacobian(solve)(a), wg.jacobian(stationary)(a), 1e-7)
    close(wg.jvp(solve, (a,), (np.ones(2),))[1], wg.jvp(stationary, (a,), (np.ones(2),))[1], 1e-7)
    close(wg.hessian(lambda a: solve(a)[0])(a), wg.hessian(lambda a: stationary(a)[0])(a), 1e-6)


@pytest.mark.parametrize("method", ["bfgs", "newton-cg"])
def test_a_quadratic_minimum_is_a_linear_solve(method) -> None:
    solve = lambda b: wg.minimize(lambda x, b: x @ wg.tensor(POSITIVE) @ x / 2 - b @ x, np.zeros(N), b, method=method)
    close(wg.jacobian(solve)(B), np.linalg.inv(POSITIVE))


def test_minimize_says_when_it_fails() -> None:
    with pytest.raises(ComputationError, match=r"minimize \(bfgs\) did not converge after"):
        wg.minimize(lambda x: -(x**2).sum(), np.ones(2), max_steps=30).numpy()
    with pytest.raises(ArgumentError, match="newton-cg"):
        wg.minimize(rosenbrock, np.zeros(4), A0, method="simplex")


# --- together with the other transforms -----------------------------------------------------------------------------


def cubic(a):
    return wg.root(lambda x, a: x**3 + x - a, np.array(0.5), a)


def test_a_singular_system_is_named_with_its_line() -> None:
    with pytest.raises(ComputationError, match=r"(?s)Singular matrix.*test_implicit\.py"):
        wg.root(lambda x: wg.stack([x[0] + x[1] - 1, 2 * x[0] + 2 * x[1] - 2.5]), np.zeros(2)).numpy()


def test_solutions_nest_map_and_have_jets_and_sparse_jacobians() -> None:
    inner = wg.minimize(lambda y: (cubic(y[0]) - 1.0) ** 2, np.array([1.0]))
    close(inner, [2.0], 1e-6)
    a = np.linspace(1, 3, 4)
    values, slopes = wg.compile(wg.vmap(wg.value_and_grad(cubic)))(wg.tensor(a))
    close(values.numpy() ** 3 + values.numpy(), a)
    close(slopes, 1 / (3 * values.numpy() ** 2 + 1))
    many = lambda a: wg.root(lambda x, a: x**3 + x - a, np.ones(4), a, linear="gmres")
    close(wg.vmap(wg.grad(lambda a: many(a).sum()))(np.stack([a, a]))[1], slopes)
    close(wg.sparse_jacobian(many)(a).toarray(), np.diag(slopes.numpy()))
    derivatives = wg.jet(lambda a: wg.root(lambda x, a: x * x - a, np.array(1.0), a), np.array(4.0), [1.0, None, None])[
        1
    ]
    close(np.stack([d.numpy() for d in derivatives]), [1 / 4, -1 / 32, 3 / 256])


def test_gradients_take_a_tenth_of_the_memory_of_the_iterations(monkeypatch) -> None:
    """By what a compiled step needs: unrolled, every state is kept; through the solution, a few vectors are."""
    n, steps = 2000, 300
    zero = wg.zeros(n, dtype=wg.float64)
    stiffness, source = wg.tensor(0.95, dtype=wg.float64), wg.tensor(RNG.normal(size=n))

    def sweep(x, k, b):
        return wg.tanh(0.45 * k * (wg.pad(x[1:], (0, 1)) + wg.pad(x[:-1], (1, 0)))) + b

    def by_iterations(k, b):
        return (wg.scan(lambda x, _: (sweep(x, k, b), None), zero, length=steps)[0] ** 2).sum()

    def by_solution(k, b):
        return (wg.fixed_point(sweep, zero, k, b) ** 2).sum()

    gradients, peaks = [], []
    monkeypatch.setattr(wg.config, "tier", "auto")
    for loss in (by_iterations, by_solution):
        step = wg.compile(wg.grad(loss, (0, 1)))
        gradients.append(step(stiffness, source))
        peaks.append(step.memory().peak)
    for expected, found in zip(*gradients):
        close(found, expected, 1e-10)
    assert peaks[1] * 10 < peaks[0]
