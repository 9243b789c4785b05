"""Stiff methods with a sparse Jacobian: the same steps as with a dense one, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import wengert as wg
from tests.ode.problems import STIFF, real
from wengert.core.errors import ArgumentError, ShapeError

N = 24


def reacting(t: Any, u: Any, rate: Any) -> Any:
    """Diffusion with a reaction: a tridiagonal Jacobian, whose diagonal depends on the state."""
    beside = wg.pad(u[1:], (0, 1)) + wg.pad(u[:-1], (1, 0))
    return rate * N**2 * (beside - 2 * u) + u * (1 - u)


START = np.sin(np.linspace(0, 3, N)) ** 2


def end(rate: Any, method: str, jacobian: Any, start: Any = START) -> Any:
    return wg.ode.solve(reacting, real(start), [0.0, 0.3], rate, method=method, rtol=1e-7, atol=1e-9, jacobian=jacobian)


@pytest.mark.parametrize("method", STIFF)
def test_a_sparse_jacobian_takes_the_same_steps(method: str) -> None:
    dense, sparse = (end(real(0.1), method, way) for way in ("dense", "sparse"))
    given = end(real(0.1), method, scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(N, N)))
    assert dense.steps.item() == sparse.steps.item() == given.steps.item() > 5
    for found in (sparse, given):
        np.testing.assert_allclose(found.y.numpy(), dense.y.numpy(), rtol=1e-9)
    explicit = wg.ode.solve(reacting, real(START), [0.0, 0.3], real(0.1), rtol=1e-9, atol=1e-11).y
    np.testing.assert_allclose(sparse.y.numpy(), explicit.numpy(), rtol=1e-5)


@pytest.mark.parametrize("method", ["rodas4", "kvaerno5"])
def test_derivatives_in_both_modes_equal_those_of_dense_steps(method: str) -> None:
    loss = lambda way: lambda rate: (end(rate, method, way).y ** 2).sum()
    dense, sparse = (wg.grad(loss(way))(real(0.1)).item() for way in ("dense", "sparse"))
    forward = wg.jvp(loss("sparse"), (real(0.1),), (real(1.0),))[1].item()
    assert abs(sparse / dense - 1) < 1e-8 and abs(forward / sparse - 1) < 1e-10


def test_an_ensemble_and_a_compiled_solve() -> None:
    rates = np.array([0.05, 0.1])
    solve = lambda rate: end(rate, "rodas4", "sparse").y
    alone = np.stack([solve(real(rate)).numpy() for rate in rates])
    np.testing.assert_allclose(wg.vmap(solve)(wg.tensor(rates)).numpy(), alone, rtol=1e-9)
    np.testing.assert_allclose(wg.compile(solve)(real(0.1)).numpy(), alone[1], rtol=1e-12)


def test_bad_jacobians() -> None:
    with pytest.raises(ArgumentError, match='"dense", "sparse" or a sparse structure'):
        end(real(0.1), "rodas4", "banded")
    with pytest.raises(ShapeError, match=r"shape \(3, 3\) for a state of 24"):
        end(real(0.1), "rodas4", np.eye(3))
