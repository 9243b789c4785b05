"""Sparse matrices as values: products, sums and systems beside dense ones, with derivatives in every mode."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse

import wengert as wg
from wengert.core.errors import ArgumentError, DTypeError, LinearAlgebraError, ShapeError

RNG = np.random.default_rng(0)
N = 6
DENSE = np.where(RNG.uniform(size=(N, N)) < 0.35, RNG.normal(size=(N, N)), 0) + np.diag(np.arange(2.0, 2 + N))
WIDE = np.where(RNG.uniform(size=(4, N)) < 0.4, RNG.normal(size=(4, N)), 0)
X, COLUMNS = RNG.normal(size=N), RNG.normal(size=(N, 3))


def close(found, expected, rtol=1e-12):
    found = found.numpy() if isinstance(found, wg.Tensor) else found
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("matrix", [DENSE, WIDE], ids=["square", "wide"])
def test_products_transposes_and_conversions(matrix) -> None:
    a = wg.sparse.csr(scipy.sparse.csc_matrix(matrix))
    assert (a.shape, a.nnz, a.dtype) == (matrix.shape, np.count_nonzero(matrix), wg.float64)
    close(a @ X, matrix @ X)
    close(a @ wg.tensor(COLUMNS), matrix @ COLUMNS)
    left = RNG.normal(size=(2, matrix.shape[0]))
    close(left @ a, left @ matrix)
    close(wg.tensor(left[0]) @ a, left[0] @ matrix)
    close(a.T @ left.T, matrix.T @ left.T)
    close(a.todense(), matrix)
    close(a.diagonal(), np.diag(matrix))
    close((2 * a - a / 4 + a).todense(), 2.75 * matrix)
    assert a.T.T.sparsity is a.sparsity
    np.testing.assert_array_equal(a.toscipy().toarray(), matrix)
    again = pickle.loads(pickle.dumps(a.sparsity))
    assert again is a.sparsity


def test_sums_of_matrices_with_entries_elsewhere() -> None:
    a, other = wg.sparse.csr(DENSE), np.roll(DENSE, 2, axis=1)
    close((a + wg.sparse.csr(other)).todense(), DENSE + other)
    close((a - 2 * wg.sparse.eye(N, wg.float64)).todense(), DENSE - 2 * np.eye(N))


def of(data):
    """The matrix with these values, sparse and dense."""
    a = wg.sparse.csr(DENSE)
    s = a.sparsity
    dense = wg.index_add(wg.zeros(N * N, dtype=data.dtype), 0, s.rows.astype(np.int64) * N + s.columns, data)
    return a.with_data(data), wg.reshape(dense, (N, N))


DATA = wg.sparse.csr(DENSE).data.numpy()
PAIRS = {
    "product": (lambda d, x: of(d)[0] @ x, lambda d, x: of(d)[1] @ x),
    "transposed": (lambda d, x: x.T @ of(d)[0], lambda d, x: x.T @ of(d)[1]),
    "solve": (lambda d, x: wg.sparse.spsolve(of(d)[0], x), lambda d, x: wg.linalg.solve(of(d)[1], x)),
    "solve of T": (lambda d, x: wg.sparse.spsolve(of(d)[0].T, x), lambda d, x: wg.linalg.solve(of(d)[1].T, x)),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("x", [X, COLUMNS], ids=["vector", "columns"])
def test_derivatives_in_both_modes_and_second_order_equal_the_dense_ones(name, x) -> None:
    sparse, dense = PAIRS[name]
    loss = lambda f: lambda d, x: (wg.sin(f(d, x)) ** 2).sum()
    for found, expected in zip(wg.grad(loss(sparse), (0, 1))(DATA, x), wg.grad(loss(dense), (0, 1))(DATA, x)):
        close(found, expected.numpy(), 1e-10)
    tangents = RNG.normal(size=DATA.shape), RNG.normal(size=x.shape)
    close(wg.jvp(sparse, (DATA, x), tangents)[1], wg.jvp(dense, (DATA, x), tangents)[1].numpy(), 1e-10)
    for found, expected in zip(
        wg.hvp(loss(sparse), (DATA, x), tangents), wg.hvp(loss(dense), (DATA, x), tangents), strict=True
    ):
        close(found, expected.numpy(), 1e-9)
    wg.check_grads(sparse, (DATA, x), order=2)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_lanes(name, axes) -> None:
    sparse, dense = PAIRS[name]
    d = np.stack([DATA, 2 * DATA, DATA + 0.1]) if axes[0] == 0 else DATA
    x = RNG.normal(size=(3, N, 2)) if axes[1] == 0 else COLUMNS
    close(wg.vmap(sparse, in_axes=axes)(d, x), wg.vmap(dense, in_axes=axes)(d, x).numpy(), 1e-10)
    gradient = lambda f: wg.vmap(wg.grad(lambda d, x: (f(d, x) ** 2).sum(), (0, 1)), in_axes=axes)
    for found, expected in zip(gradient(sparse)(d, x), gradient(dense)(d, x)):
        close(found, expected.numpy(), 1e-9)


@pytest.mark.parametrize("name", PAIRS)
def test_complex_values(name) -> None:
    sparse, dense = PAIRS[name]
    d, x = DATA * (1 + 0.5j), X - 0.3j
    assert sparse(wg.tensor(d), x).dtype == wg.complex128
    close(sparse(d, x), dense(d, x).numpy(), 1e-10)
    loss = lambda f: lambda d, x: (abs(f(d, x)) ** 2).sum()
    for found, expected in zip(wg.grad(loss(sparse), (0, 1))(d, x), wg.grad(loss(dense), (0, 1))(d, x)):
        close(found, expected.numpy(), 1e-10)


def test_a_gradient_with_respect_to_a_matrix_is_a_matrix() -> None:
    a = wg.sparse.csr(DENSE)
    gradient = wg.grad(lambda a: ((a @ X) ** 2).sum())(a)
    assert isinstance(gradient, wg.sparse.CSR) and gradient.sparsity is a.sparsity
    close(gradient.todense(), np.where(DENSE != 0, np.outer(2 * DENSE @ X, X), 0))
    compiled = wg.compile(lambda a, b: wg.sparse.spsolve(a + wg.sparse.eye(N, wg.float64), b))
    for scale in (1.0, 2.0):
        close(compiled(a * scale, wg.tensor(X)), np.linalg.solve(DENSE * scale + np.eye(N), X))
    other = wg.sparse.csr(np.triu(DENSE))  # another structure: another program
    close(compiled(other, wg.tensor(X)), np.linalg.solve(np.triu(DENSE) + np.eye(N), X))


def test_a_sparse_jacobian_sees_through_sparse_products() -> None:
    a = wg.sparse.csr(DENSE)
    jacobian = wg.sparse_jacobian(lambda x: a @ (x**2))
    np.testing.assert_array_equal(jacobian.structure(X).toarray(), DENSE != 0)
    close(jacobian(X).toarray(), DENSE * 2 * X)
    by_data = wg.sparse_jacobian(lambda d: a.with_data(d) @ X)
    assert by_data.structure(DATA).nnz == a.nnz
    close(by_data(DATA).toarray(), wg.jacobian(lambda d: a.with_data(d) @ X)(DATA).numpy())
    hessian = wg.sparse_hessian(lambda x: ((a @ x) ** 4).sum())
    close(hessian(X).toarray(), wg.hessian(lambda x: ((wg.tensor(DENSE) @ x) ** 4).sum())(X).numpy(), 1e-10)


def test_parts_in_any_order_and_bad_ones() -> None:
    a = wg.sparse.csr(([1.0, 2.0, 3.0], [2, 0, 1], [0, 2, 3]), (2, 4))
    close(a.todense(), [[2, 0, 1, 0], [0, 3, 0, 0]])
    close(wg.grad(lambda d: (wg.sparse.csr((d, [2, 0, 1], [0, 2, 3])) @ np.arange(1.0, 4)).sum())(DATA[:3]), [3, 1, 2])
    assert wg.sparse.csr(np.eye(2, dtype=int)).dtype == wg.float32
    with pytest.raises(ShapeError, match="make no matrix"):
        wg.sparse.csr(([1.0], [0, 1], [0, 2]))
    with pytest.raises(ShapeError, match="columns from 0 to 5"):
        wg.sparse.csr(([1.0, 2.0], [0, 5], [0, 2]), (1, 3))
    with pytest.raises(ArgumentError, match="two entries stand in one place"):
        wg.sparse.csr(([1.0, 2.0], [1, 1], [0, 2]))
    with pytest.raises(ShapeError, match=r"times a dense value of shape \(4,\)"):
        wg.sparse.csr(DENSE) @ np.zeros(4)
    with pytest.raises(DTypeError, match="two sparse matrices"):
        a @ a
    with pytest.raises(ShapeError, match="square"):
        wg.sparse.spsolve(a, np.ones(2))


def test_a_singular_system_is_named_on_the_line_that_asked_for_it() -> None:
    a = wg.sparse.csr(([1.0, 1.0], [0, 0], [0, 1, 2]), (2, 2))
    with pytest.raises(LinearAlgebraError, match="2 x 2 matrix is singular") as caught:
        wg.sparse.spsolve(a, np.ones(2)).numpy()
    assert "test_matrix.py" in str(caught.value) and "wg.sparse.spsolve(a" in str(caught.value)
