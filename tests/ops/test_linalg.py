"""What linear algebra, contractions and transforms promise beyond their cases: errors, identities, special points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ops.cases_linalg import invertible, positive
from wengert.core.errors import ArgumentError, ComputationError, DTypeError, ShapeError

SHAPES = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (1, 1), (0, 3, 2), (2, 0), (0, 2)]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(math.prod(shape) + len(shape)).uniform(-1, 1, shape)


def assert_close(found: Any, expected: Any, atol: float = 1e-10) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=atol)


# --- a factorisation gives the matrix back --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_q_times_r_is_the_matrix(shape: tuple[int, ...], mode: str) -> None:
    x = random(*shape)
    q, r = wg.linalg.qr(wg.tensor(x), mode=mode)
    assert_close(q @ r, x)
    assert_close(q.mT @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1])))
    assert_close(r, np.triu(r.numpy()))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_u_s_vh_is_the_matrix(shape: tuple[int, ...], full: bool) -> None:
    x = random(*shape)
    u, s, vh = (part.numpy() for part in wg.linalg.svd(wg.tensor(x), full_matrices=full))
    k = min(shape[-2:])
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, atol=1e-10)
    assert (np.diff(s, axis=-1) <= 0).all() and u.shape[-1] == (shape[-2] if full else k)


def test_eigenvectors_are_what_the_matrix_only_scales() -> None:
    x = positive(1, 2, 4, 4)
    values, vectors = wg.linalg.eigh(wg.tensor(x))
    assert_close(wg.tensor(x) @ vectors, vectors.numpy() * values.numpy()[..., None, :])
    assert_close(wg.linalg.eigvalsh(wg.tensor(x)), values.numpy())


def test_cholesky_times_its_transpose_is_the_matrix() -> None:
    x = positive(2, 2, 4, 4)
    lower, upper = wg.linalg.cholesky(wg.tensor(x)), wg.linalg.cholesky(wg.tensor(x), upper=True)
    assert_close(lower @ lower.mT, x)
    assert_close(upper.mT @ upper, x)
    assert_close(upper, np.triu(upper.numpy()))


def test_complex_matrices_are_factorised() -> None:
    x = random(2, 3, 3) + 1j * random(2, 3, 3)[::-1]
    hermitian = x @ x.conj().mT + 3 * np.eye(3)
    lower = wg.linalg.cholesky(wg.tensor(hermitian)).numpy()
    np.testing.assert_allclose(lower @ lower.conj().mT, hermitian, atol=1e-10)
    u, s, vh = (part.numpy() for part in wg.linalg.svd(wg.tensor(x)))
    np.testing.assert_allclose((u * s[..., None, :]) @ vh, x, atol=1e-10)
    assert s.dtype == np.float64
    q, r = (part.numpy() for part in wg.linalg.qr(wg.tensor(x[:, :2])))
    np.testing.assert_allclose(q @ r, x[:, :2], atol=1e-10)
    values, vectors = (part.numpy() for part in wg.linalg.eigh(wg.tensor(hermitian)))
    np.testing.assert_allclose(hermitian @ vectors, vectors * values[..., None, :], atol=1e-9)
    np.testing.assert_allclose(wg.linalg.pinv(wg.tensor(x)).numpy(), np.linalg.pinv(x), atol=1e-10)
    np.testing.assert_allclose(wg.linalg.det(wg.tensor(x)).numpy(), np.linalg.det(x), atol=1e-10)


def test_results_have_the_names_of_the_standard() -> None:
    x = wg.tensor(positive(3, 2, 2))
    assert wg.linalg.svd(x)._fields == ("U", "S", "Vh")
    assert wg.linalg.qr(x)._fields == ("Q", "R")
    assert wg.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert wg.linalg.slogdet(x)._fields == ("sign", "logabsdet")


# --- derivatives at special points ----------------------------------------------------------------------------------


def test_the_gradient_of_det_is_the_cofactors_of_a_singular_matrix() -> None:
    x = random(3, 3)
    x[2] = x[0] + 2 * x[1]
    minors = [
        [np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) * (-1) ** (i + j) for j in range(3)] for i in range(3)
    ]
    assert_close(wg.grad(wg.linalg.det)(wg.tensor(x)), minors)
    assert_close(wg.grad(wg.linalg.det)(wg.tensor(np.zeros((3, 3)))), np.zeros((3, 3)))
    assert_close(wg.grad(wg.linalg.det)(wg.tensor([[0.0]])), [[1.0]])


def test_invariant_functions_of_equal_singular_values_have_their_gradient() -> None:
    """The sum of the singular values of twice the identity moves by the trace: svd's rule must not divide by 0."""
    x = wg.tensor(2 * np.eye(3))
    assert_close(wg.grad(lambda x: wg.linalg.svdvals(x).sum())(x), np.eye(3))
    assert_close(wg.grad(lambda x: wg.linalg.matrix_norm(x, ord="nuc"))(x), np.eye(3))
    assert_close(wg.grad(lambda x: wg.linalg.eigvalsh(x).sum())(x), np.eye(3))
    assert np.isfinite(wg.grad(lambda x: (wg.linalg.svd(x).U ** 2).sum())(x).numpy()).all()
    polar = lambda x: (lambda f: f.U @ f.Vh)(wg.linalg.svd(x))  # only the skew part of a movement turns it
    moved = wg.jvp(polar, (x,), (wg.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], wg.float64),))[1]
    assert_close(moved, [[0, 0.5, 0], [-0.5, 0, 0], [0, 0, 0]])


def test_the_frobenius_norm_has_derivative_zero_at_zero() -> None:
    assert_close(wg.grad(wg.linalg.matrix_norm)(wg.tensor(np.zeros((2, 2)))), np.zeros((2, 2)))


def test_the_pseudo_inverse_of_a_deficient_matrix_moves_as_differences_do_within_its_rank() -> None:
    a, b = random(4, 2), random(2, 3)
    wg.check_grads(lambda a, b: wg.linalg.pinv(a @ b, rtol=1e-6), (wg.tensor(a), wg.tensor(b)), order=2)


def test_third_derivatives_of_inverse_and_determinant() -> None:
    wg.check_grads(wg.linalg.inv, (wg.tensor(invertible(5, 2, 2)),), order=3)
    wg.check_grads(wg.linalg.det, (wg.tensor(invertible(6, 3, 3)),), order=3)


# --- values that cannot be computed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("solve", lambda x: wg.linalg.solve(x, wg.tensor([1.0, 2.0]))),
        ("inv", wg.linalg.inv),
        ("cholesky", lambda x: wg.linalg.cholesky(-x)),
    ],
)
def test_a_matrix_that_cannot_be_inverted_raises_when_looked_at(name: str, function: Callable[..., Any]) -> None:
    with pytest.raises(ComputationError, match=f"{name} failed") as caught:
        function(wg.tensor([[1.0, 1.0], [1.0, 1.0]])).numpy()
    assert "test_linalg.py" in str(caught.value)


def test_a_failure_names_the_line_that_asked_and_spares_the_rest() -> None:
    singular = wg.tensor(np.zeros((2, 2)))
    broken = wg.linalg.inv(singular)  # this line
    fine = wg.linalg.det(singular)
    with pytest.raises(ComputationError, match="this line"):
        broken.tolist()
    assert fine.item() == 0


# --- arguments that do not fit --------------------------------------------------------------------------------------

ONES = wg.tensor(np.ones((2, 3)))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh"])
def test_square_matrices_are_asked_for(name: str) -> None:
    with pytest.raises(ShapeError, match=rf"{name} takes square matrices; shape \(2, 3\) is 2 by 3"):
        getattr(wg.linalg, name)(ONES)
    with pytest.raises(ShapeError, match=f"{name} takes a matrix"):
        getattr(wg.linalg, name)(wg.tensor([1.0]))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: wg.matmul(ONES, ONES), ShapeError, r"a @ b\.mT would fit"),
        (lambda: wg.matmul(ONES, wg.tensor(np.ones((2, 4)))), ShapeError, r"a\.mT @ b would fit"),
        (lambda: wg.matmul(ONES, wg.tensor(2.0)), ShapeError, r"multiply with \*"),
        (lambda: wg.matmul(np.ones((2, 3, 3)), np.ones((4, 3, 3))), ShapeError, "do not broadcast"),
        (lambda: wg.linalg.solve(wg.tensor(np.eye(3)), ONES), ShapeError, r"x2\.mT would fit"),
        (lambda: wg.linalg.solve(np.ones((2, 3, 3)), ONES), ShapeError, r"x2\[\.\.\., None\]"),
        (lambda: wg.linalg.solve(np.eye(3), np.ones(2)), ShapeError, "needs a right-hand side with 3 rows"),
        (lambda: wg.linalg.solve(np.eye(3), 1.0), ShapeError, "one number"),
        (lambda: wg.linalg.solve(ONES, ONES), ShapeError, "pinv takes any shape"),
        (lambda: wg.linalg.matrix_power(np.eye(2), 0.5), DTypeError, "integer"),
        (lambda: wg.linalg.qr(ONES, mode="full"), ArgumentError, '"reduced" or "complete"'),
        (lambda: wg.linalg.matrix_norm(ONES, ord=3), ArgumentError, "ord is"),
        (lambda: wg.linalg.multi_dot([ONES]), ArgumentError, "at least two"),
        (lambda: wg.linalg.multi_dot([ONES, ONES]), ShapeError, "do not fit"),
        (lambda: wg.linalg.multi_dot([ONES, wg.tensor([1.0]), ONES]), ShapeError, "vectors only at the ends"),
        (lambda: wg.diagonal(wg.tensor([1.0])), ShapeError, "takes a matrix"),
        (lambda: wg.outer(ONES, ONES), ShapeError, "two vectors"),
        (lambda: wg.cross(ONES, wg.tensor([1.0, 2.0])), ShapeError, "3 elements"),
        (lambda: wg.vecdot(ONES, wg.tensor([1.0, 2.0])), ShapeError, "3 and 2 elements"),
        (lambda: wg.tensordot(ONES, ONES, axes=1), ShapeError, "differ in size"),
        (lambda: wg.tensordot(ONES, ONES, axes=3), ArgumentError, "3 axes"),
        (lambda: wg.tensordot(ONES, ONES, axes=((0, 0), (0, 1))), ArgumentError, "pair each axis"),
        (lambda: wg.tensordot(ONES, ONES, axes="ij"), ArgumentError, "two sequences"),
        (lambda: wg.einsum("ij,jk->ik", ONES), ArgumentError, "names 2 operands, but 1 were given"),
        (lambda: wg.einsum("ijk->k", ONES), ShapeError, "names 3 axes"),
        (lambda: wg.einsum("i->i", ONES), ShapeError, "names 1 axes"),
        (lambda: wg.einsum("ij,jk->ik", ONES, ONES), ShapeError, "axis 'j' has 3 elements in one operand and 2"),
        (lambda: wg.einsum("...i,...j", np.ones((2, 2)), np.ones((3, 2))), ShapeError, "ellipsis has 2"),
        (lambda: wg.einsum("ij->ik", ONES), ArgumentError, "'k' stands in no operand"),
        (lambda: wg.einsum("ij->ii", ONES), ArgumentError, "'i' stands twice in the result"),
        (lambda: wg.einsum("i1->i", ONES), ArgumentError, "named by letters"),
        (lambda: wg.einsum("..ij", ONES), ArgumentError, "three dots"),
        (lambda: wg.einsum("ij"), ArgumentError, "no operands"),
        (lambda: wg.einsum(ONES, [0, 1]), DTypeError, "subscripts must be a string"),
        (lambda: wg.fft.fft(ONES, norm="none"), ArgumentError, "norm must be"),
        (lambda: wg.fft.fft(ONES, n=0), ArgumentError, "at least 1"),
        (lambda: wg.fft.rfft(wg.tensor([1j])), DTypeError, "fft takes complex"),
        (lambda: wg.fft.fftn(ONES, s=(2,), axes=(0, 1)), ArgumentError, "1 sizes for 2 axes"),
        (lambda: wg.fft.fftn(ONES, axes=(0, 0)), ArgumentError, "twice"),
        (lambda: wg.fft.irfft(wg.tensor([1.0])), ArgumentError, "at least 1"),
        (lambda: wg.fft.rfftn(wg.tensor(1.0)), ArgumentError, "no axis"),
        (lambda: wg.fft.fftfreq(0), ArgumentError, "at least 1"),
        (lambda: wg.fft.fftfreq(4, dtype=wg.int32), DTypeError, "floating-point"),
    ],
)
def test_what_does_not_fit_is_said(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


# --- dtypes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [wg.int8, wg.int32, wg.uint8, wg.int64])
def test_products_of_integers_stay_integers(dtype: Any) -> None:
    x = wg.tensor([[1, 2], [3, 4]], dtype)
    for product in (x @ x, wg.einsum("ij,jk->ik", x, x), wg.tensordot(x, x, axes=1)):
        assert product.dtype is dtype and product.tolist() == [[7, 10], [15, 22]]
    assert wg.vecdot(x, x).dtype is dtype and wg.vecdot(x, x).tolist() == [5, 25]


def test_integer_matrices_are_inverted_in_the_default_float() -> None:
    inverse = wg.linalg.inv(wg.tensor([[2, 0], [0, 4]]))
    assert inverse.dtype is wg.float32 and inverse.tolist() == [[0.5, 0], [0, 0.25]]


def test_vecdot_conjugates_its_first_operand() -> None:
    x = wg.tensor([1 + 2j, 3j])
    assert wg.vecdot(x, x).item() == 14


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("fft", wg.float32, wg.complex64),
        ("fft", wg.float64, wg.complex128),
        ("fft", wg.complex64, wg.complex64),
        ("fft", wg.float16, wg.complex64),
        ("fft", wg.int32, wg.complex64),
        ("rfft", wg.float32, wg.complex64),
        ("rfft", wg.float64, wg.complex128),
        ("irfft", wg.complex64, wg.float32),
        ("irfft", wg.complex128, wg.float64),
        ("hfft", wg.complex64, wg.float32),
        ("ihfft", wg.float32, wg.complex64),
        ("fftshift", wg.float16, wg.float16),
    ],
)
def test_the_dtype_of_a_transform(name: str, given: Any, expected: Any) -> None:
    result = getattr(wg.fft, name)(wg.tensor([1, 2, 3, 4], given))
    assert result.dtype is expected and result.numpy().dtype == expected


# --- identities -----------------------------------------------------------------------------------------------------


def test_transforms_come_back() -> None:
    x = random(4, 5)
    for there, back, options in (
        ("fft", "ifft", {}),
        ("rfft", "irfft", {"n": 5}),
        ("fftn", "ifftn", {}),
        ("rfftn", "irfftn", {"s": (4, 5)}),
        ("ihfft", "hfft", {"n": 5}),
        ("fftshift", "ifftshift", {}),
    ):
        again = getattr(wg.fft, back)(getattr(wg.fft, there)(wg.tensor(x)), **options)
        np.testing.assert_allclose(again.numpy(), x, atol=1e-12)


def test_einsum_takes_the_cheapest_pair_first() -> None:
    """A large matrix between two vectors: no product of two matrices is ever made."""
    a = wg.tensor(np.ones((50, 50)))
    v = wg.tensor(np.ones(50))
    y = wg.einsum("ij,jk,k->i", a, a, v)
    sizes = [node.size for node in _ancestors(y) if node.op.name == "matmul"]
    assert sizes and max(sizes) == 50
    assert y.numpy()[0] == 2500


def _ancestors(y: wg.Tensor) -> list[Any]:
    from wengert.core.graph import ancestors

    return ancestors([y.node])


def test_a_batch_of_systems_maps_over_either_side() -> None:
    a, b = invertible(8, 4, 3, 3), random(4, 3)
    both = wg.vmap(wg.linalg.solve)(wg.tensor(a), wg.tensor(b))
    assert_close(both, np.linalg.solve(a, b[..., None])[..., 0])
    right = wg.vmap(wg.linalg.solve, in_axes=(None, 0))(wg.tensor(a[0]), wg.tensor(b))
    assert_close(right, np.linalg.solve(a[0], b.T).T)
