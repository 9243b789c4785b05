"""`wg.scipy` inside SciPy's own functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse

import wengert as wg
from wengert.core.errors import ArgumentError

X = np.linspace(0.2, 0.8, 6)


def rosenbrock(x, scale=100.0):
    return (scale * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


F = wg.scipy(rosenbrock)
R = wg.scipy(lambda x: wg.concat([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]]))


def test_values_and_derivatives_are_arrays_equal_to_scipys() -> None:
    assert isinstance(F.fun(X), float) and F(X) == F.fun(X)
    np.testing.assert_allclose(F.fun(X), scipy.optimize.rosen(X), rtol=1e-14)
    np.testing.assert_allclose(F.jac(X), scipy.optimize.rosen_der(X), rtol=1e-12)
    np.testing.assert_allclose(F.fun_and_grad(X)[1], scipy.optimize.rosen_der(X), rtol=1e-12)
    np.testing.assert_allclose(F.hess(X), scipy.optimize.rosen_hess(X), rtol=1e-12)
    np.testing.assert_allclose(F.hessp(X, X), scipy.optimize.rosen_hess_prod(X, X), rtol=1e-12)
    np.testing.assert_allclose(F.sparse_hess(X).toarray(), scipy.optimize.rosen_hess(X), rtol=1e-12)
    for found in (F.jac(X), F.hess(X), F.hessp(X, X), R.fun(X), R.jac(X)):
        assert type(found) is np.ndarray and found.dtype == np.float64
    np.testing.assert_allclose(R.sparse_jac(X).toarray(), R.jac(X), rtol=1e-14)
    np.testing.assert_array_equal(R.sparsity(X).toarray(), R.jac(X + 1) != 0)


def test_what_scipy_does_with_its_arrays_changes_no_result() -> None:
    x = X.copy()
    before = F.jac(x)
    kept = before.copy()
    x += 1
    F.jac(x)
    np.testing.assert_array_equal(before, kept)
    assert not before.flags.writeable  # it is the value itself, not a copy


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("BFGS", {}),
        ("L-BFGS-B", {}),
        ("Newton-CG", {"hessp": F.hessp}),
        ("trust-exact", {"hess": F.hess}),
        ("trust-constr", {"hess": F.sparse_hess}),
    ],
)
def test_minimize(method, more) -> None:
    found = scipy.optimize.minimize(F.fun_and_grad, X, jac=True, method=method, **more)
    np.testing.assert_allclose(found.x, np.ones(6), atol=2e-4)
    apart = scipy.optimize.minimize(F.fun, X, args=(50.0,), jac=F.jac, method="BFGS")
    np.testing.assert_allclose(apart.x, np.ones(6), atol=2e-4)


def test_least_squares_and_root() -> None:
    for jac in (R.jac, R.sparse_jac):
        np.testing.assert_allclose(scipy.optimize.least_squares(R.fun, X, jac=jac).x, np.ones(6), atol=1e-6)
    sparse = scipy.optimize.least_squares(R.fun, X, jac_sparsity=R.sparsity(X))
    np.testing.assert_allclose(sparse.x, np.ones(6), atol=1e-5)
    square = wg.scipy(lambda x: x**3 - wg.roll(x, 1) - 1)
    found = scipy.optimize.root(square.fun, np.full(4, 1.5), jac=square.jac)
    assert found.success and np.abs(square.fun(found.x)).max() < 1e-8


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_solve_ivp_with_jacobians(method) -> None:
    def rate(t, y):  # Robertson's reactions
        a, b = 0.04 * y[0], 1e4 * y[1] * y[2]
        c = 3e7 * y[1] ** 2
        return wg.stack([b - a, a - b - c, c]) + 0 * t

    f = wg.scipy(rate, argnum=1)
    start = np.array([1.0, 0.0, 0.0])
    paths = [
        scipy.integrate.solve_ivp(f.fun, (0, 40), start, method=method, jac=jac, rtol=1e-6, atol=1e-9)
        for jac in (f.jac, f.sparse_jac)
    ]
    for path in paths:  # the published values at t = 40
        np.testing.assert_allclose(path.y[:, -1], [0.7158270688, 9.185534765e-6, 0.2841637458], rtol=1e-4)


def test_bad_functions() -> None:
    with pytest.raises(ArgumentError, match="takes a function"):
        wg.scipy(3)
    with pytest.raises(ArgumentError, match="hessp differentiates with respect to the first argument"):
        wg.scipy(rosenbrock, argnum=1).hessp(X, X)
