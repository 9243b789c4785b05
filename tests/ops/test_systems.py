"""LU, least squares, eigenvalues of any matrix and the matrix exponential: what cases do not say."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.linalg

import wengert as wg
from tests.ops.cases_linalg import invertible

SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])


def test_functions_with_info_say_where_they_fail_and_do_not_raise() -> None:
    stack = wg.tensor(np.stack([SINGULAR, np.eye(2)]))
    assert wg.linalg.lu_factor_ex(stack).info.tolist() == [2, 0]
    for found in (wg.linalg.inv_ex(stack), wg.linalg.solve_ex(stack, wg.tensor(np.ones((2, 1))))):
        assert found.info.tolist() == [2, 0]
        assert np.isnan(found[0].numpy()[0]).all() and np.isfinite(found[0].numpy()[1]).all()
    found = wg.linalg.cholesky_ex(wg.tensor(np.stack([INDEFINITE, np.eye(2), -np.eye(2)])))
    assert found.info.tolist() == [2, 0, 1]
    np.testing.assert_array_equal(found.L.numpy()[1], np.eye(2))


def test_gradients_of_the_lanes_that_did_not_fail_are_finite() -> None:
    stack = wg.tensor(np.stack([SINGULAR, np.diag([2.0, 4.0])]))
    gradient = wg.grad(lambda x: wg.sum(wg.linalg.inv_ex(x).inverse[1]))(stack).numpy()
    np.testing.assert_allclose(gradient[1], -np.outer([0.5, 0.25], [0.5, 0.25]))
    assert not gradient[0].any()


def test_the_gradient_of_complex_eigenvectors_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    x = invertible(301, 4, 4)
    theirs = torch.tensor(x, requires_grad=True)
    values, vectors = torch.linalg.eig(theirs)
    order = np.arange(1.0, 5.0)
    ((values.abs() * torch.tensor(order)).sum() + (vectors.abs() ** 3 * torch.tensor(order)).sum()).backward()

    def loss(x: wg.Tensor) -> wg.Tensor:
        found = wg.linalg.eig(x)
        weights = wg.tensor(order)
        return wg.sum(wg.abs(found.eigenvalues) * weights) + wg.sum(wg.abs(found.eigenvectors) ** 3 * weights)

    np.testing.assert_allclose(wg.grad(loss)(wg.tensor(x)).numpy(), theirs.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_eigenvalues_of_real_matrices_come_in_pairs() -> None:
    values = wg.linalg.eigvals(wg.tensor([[0.0, 3.0], [-1.0, 0.2]], dtype=wg.float64)).numpy()
    assert values[0] == values[1].conj()


@pytest.mark.parametrize("size", [1e-8, 1e-2, 1.0, 5.3, 5.5, 40.0])
def test_matrix_exp_against_50_digits(size: float) -> None:
    x = invertible(302, 4, 4)
    x = x / np.abs(x).sum(0).max() * size
    with mpmath.workdps(50):
        exact = np.array(mpmath.expm(mpmath.matrix(x.tolist())).tolist(), dtype=float)
    found = wg.linalg.matrix_exp(wg.tensor(x)).numpy()
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-14 * np.abs(exact).max())


def test_matrix_exp_of_each_matrix_of_a_stack_is_scaled_by_itself() -> None:
    stack = np.stack([np.zeros((3, 3)), invertible(303, 3, 3), 20 * invertible(304, 3, 3) / 5])
    found = wg.linalg.matrix_exp(wg.tensor(stack)).numpy()
    np.testing.assert_allclose(found, np.stack([scipy.linalg.expm(x) for x in stack]), rtol=1e-11)


def test_least_squares_of_less_than_full_rank_is_the_shortest() -> None:
    a = np.outer(np.arange(1.0, 5.0), [1.0, 2.0, 3.0])
    b = np.array([1.0, 0.0, 2.0, 1.0])
    found = wg.linalg.lstsq(wg.tensor(a), wg.tensor(b))
    np.testing.assert_allclose(found.solution.numpy(), np.linalg.lstsq(a, b)[0], atol=1e-14)
    assert found.rank.item() == 1


def test_condition_numbers_of_singular_matrices_are_infinite() -> None:
    for p in (None, 1, "fro"):
        assert wg.linalg.cond(wg.tensor(np.zeros((2, 2))), p=p).item() == np.inf
    assert wg.linalg.cond(wg.tensor(SINGULAR), p=1).item() == np.inf


def test_lu_of_matrices_without_a_leading_inverse_still_multiplies_to_them() -> None:
    for x in (SINGULAR, np.zeros((3, 2)), invertible(305, 3, 3)[::-1].copy()):
        p, lower, upper = wg.linalg.lu(wg.tensor(x))
        np.testing.assert_allclose((p @ lower @ upper).numpy(), x, atol=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wg.linalg.lu_solve(wg.ones((2, 2)), wg.ones((2,))), "pair of factors"),
        (lambda: wg.linalg.lu_solve((wg.ones((2, 2)), wg.ones((2,))), wg.ones((2,))), "pivots must be integers"),
        (lambda: wg.linalg.eigh(wg.ones((2, 2)), UPLO="X"), "UPLO"),
        (lambda: wg.linalg.eig(wg.ones((2, 3))), "square"),
        (lambda: wg.linalg.lstsq(wg.ones((3, 2)), wg.ones((2,))), "right-hand side"),
        (lambda: wg.linalg.tensorinv(wg.ones((2, 3)), 1), "different numbers"),
        (lambda: wg.linalg.tensorsolve(wg.ones((2, 3)), wg.ones((2,))), "as many unknowns"),
        (lambda: wg.linalg.vander(wg.tensor(1.0)), "single number"),
        (lambda: wg.linalg.matrix_rank(wg.ones((2, 2)), 0.1, atol=0.1), "another name"),
        (lambda: wg.linalg.householder_product(wg.ones((2, 3)), wg.ones((2,))), "as many rows"),
    ],
)
def test_bad_arguments(call: object, message: str) -> None:
    with pytest.raises(wg.errors.WengertError, match=message):
        call()  # type: ignore[operator]
