"""NumPy's functions called with tensors: what `np.std(t, ddof=1)` and its like give is what they give of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core import tree

RNG = np.random.default_rng(0)
A, B, T, U, v, q = (RNG.normal(size=shape) for shape in ((3, 4), (4, 2), (2, 3, 4), (2, 4, 3), (4,), (3, 3)))
P = q @ q.T + 3 * np.eye(3)

CALLS: list[Callable[[Any], Any]] = [
    lambda f: np.dot(f(A), f(U)),
    lambda f: np.dot(f(A), f(B)),
    lambda f: np.dot(f(v), f(v)),
    lambda f: np.dot(f(A), 2.0),
    lambda f: np.dot(f(T), f(B)),
    lambda f: np.inner(f(A), f(A)),
    lambda f: np.vstack([f(A), f(A)]),
    lambda f: np.hstack([f(A), f(A)]),
    lambda f: np.column_stack([f(v), f(v)]),
    lambda f: np.dstack([f(A), f(A)]),
    lambda f: np.diag(f(v)),
    lambda f: np.vstack(f(A)),
    lambda f: np.column_stack(f(A)),
    lambda f: np.concatenate(f(T)),
    lambda f: np.vstack([f(A), f(A)], dtype=np.float32),
    lambda f: np.rollaxis(f(T), 2),
    lambda f: np.rollaxis(f(T), 0, -1),
    lambda f: np.moveaxis(f(T), source=0, destination=-1),
    lambda f: np.repeat(f(A), repeats=2, axis=1),
    lambda f: np.tile(f(A), reps=(2, 1)),
    lambda f: np.cross(f(q), f(P), axisa=0, axisc=0),
    lambda f: np.pad(f(A), 1),
    lambda f: np.pad(f(A), ((1, 2), (0, 1)), constant_values=((1, 2), (3, 4))),
    lambda f: np.pad(f(T), ((0, 0), (1, 2), (2, 0)), mode="symmetric"),
    lambda f: np.pad(f(A), 2, mode="reflect"),
    lambda f: np.pad(f(A), (0, 2), mode="wrap"),
    lambda f: np.einsum(f(A), [0, 1], f(B), [1, 2], [0, 2]),
    lambda f: np.einsum(f(T), [Ellipsis, 0, 1], f(U), [Ellipsis, 1, 0]),
    lambda f: np.ravel(f(A)),
    lambda f: np.append(f(A), f(v)),
    lambda f: np.append(f(A), f(A), axis=1),
    lambda f: np.split(f(A), [1, 2])[1],
    lambda f: np.split(f(A), 2, axis=1)[1],
    lambda f: np.array_split(f(A), 2)[0],
    lambda f: np.hsplit(f(A), 2)[0],
    lambda f: np.vsplit(f(A), 3)[0],
    lambda f: np.dsplit(f(T), 2)[1],
    lambda f: np.atleast_1d(f(np.array(1.0))),
    lambda f: np.atleast_2d(f(v)),
    lambda f: np.atleast_3d(f(A)),
    lambda f: np.flipud(f(A)),
    lambda f: np.fliplr(f(A)),
    lambda f: np.gradient(f(A)),
    lambda f: np.gradient(f(A), 2.0, axis=1, edge_order=2),
    lambda f: np.gradient(f(v), np.array([0, 1.0, 3, 4])),
    lambda f: np.sinc(f(A)),
    lambda f: np.exp2(f(A)),
    lambda f: np.deg2rad(f(A)),
    lambda f: np.radians(f(A)),
    lambda f: np.rad2deg(f(A)),
    lambda f: np.fabs(f(A)),
    lambda f: np.fmax(f(A), 0.0),
    lambda f: np.nan_to_num(f(A)),
    lambda f: np.logaddexp2(f(A), f(A)),
    lambda f: np.angle(f(A)),
    lambda f: np.select([f(A) > 0, f(A) < -0.5], [f(A), f(A) * 2], 0),
    lambda f: np.partition(f(v), 3),
    lambda f: np.std(f(A), axis=0, ddof=1),
    lambda f: np.var(f(A), ddof=1),
    lambda f: np.clip(f(A), a_min=-0.5, a_max=0.5),
    lambda f: np.clip(f(A), -0.5, 0.5),
    lambda f: np.linalg.svd(f(A), compute_uv=False),
    lambda f: np.linalg.eigh(f(q), "L")[0],
    lambda f: np.linalg.eigvalsh(f(q), UPLO="U"),
    lambda f: np.trace(f(T)),
    lambda f: np.diagonal(f(T)),
    lambda f: np.cumsum(f(A)),
    lambda f: np.cumsum(f(A), axis=1),
    lambda f: np.sort(f(A), axis=None),
    lambda f: np.average(f(A), axis=0, weights=np.array([1.0, 2, 3])),
    lambda f: np.ptp(f(A), axis=0),
    lambda f: np.percentile(f(A), 30),
    lambda f: np.linalg.lstsq(f(A.T), f(v), rcond=None)[0],
    lambda f: np.linalg.cond(f(q)),
    lambda f: np.linalg.matrix_rank(f(A)),
    lambda f: np.linalg.tensorinv(f(P), 1),
    lambda f: np.linalg.pinv(f(A)),
    lambda f: np.linalg.solve(f(P), f(q)),
    lambda f: np.linalg.norm(f(A), axis=(0, 1), ord=1),
    lambda f: np.linalg.eigvals(f(P)),
    lambda f: np.gcd(f(np.array([12, 18])), f(np.array([8, 27]))),
    lambda f: np.lcm(f(np.array([12, 18])), 8),
    lambda f: np.frexp(f(v)),
    lambda f: np.ldexp(f(v), f(np.array([1, 2, 3, 4]))),
    lambda f: np.heaviside(f(v), 0.5),
    lambda f: np.histogram(f(A), bins=4),
    lambda f: np.histogramdd(f(A.T), bins=2)[0],
    lambda f: np.reshape(f(A), (2, 6)),
    lambda f: np.outer(f(A), f(v)),
    lambda f: np.vdot(f(A), f(A)),
    lambda f: np.roll(f(A), 1),
    lambda f: np.tile(f(v), 2),
    lambda f: np.repeat(f(v), 2),
    lambda f: np.where(f(A) > 0, f(A), 0.0),
    lambda f: np.prod(f(A)),
    lambda f: np.mean(f(A), axis=1, keepdims=True),
    lambda f: np.max(f(A)),
    lambda f: np.amax(f(A), axis=0),
    lambda f: np.kron(f(A), f(B)),
    lambda f: np.tensordot(f(A), f(B), axes=1),
    lambda f: np.einsum("ij,jk", f(A), f(B)),
    lambda f: np.cov(f(A)),
    lambda f: np.trapezoid(f(v)),
    lambda f: np.sum(f(A), axis=0, keepdims=True),
    lambda f: np.triu(f(A), 1),
    lambda f: np.stack([f(A), f(A)], axis=-1),
    lambda f: np.expand_dims(f(A), 0),
    lambda f: np.squeeze(f(A[None])),
    lambda f: np.swapaxes(f(A), 0, 1),
    lambda f: np.moveaxis(f(T), 0, -1),
    lambda f: np.rot90(f(A)),
    lambda f: np.abs(np.fft.fft2(f(A))),
    lambda f: np.vander(f(v), 3),
    lambda f: np.cross(f(q), f(P)),
    lambda f: np.diff(f(A), axis=0),
    lambda f: np.median(f(A), axis=0),
    lambda f: np.linalg.slogdet(f(P)),
    lambda f: np.linalg.multi_dot([f(A), f(B)]),
    lambda f: np.quantile(f(A), 0.3, axis=1),
    lambda f: np.argmax(f(A), axis=1),
    lambda f: np.sort(f(A), axis=0),
    lambda f: np.linalg.norm(f(A)),
    lambda f: np.power(f(A), 2),
    lambda f: np.ones_like(f(A)),
    lambda f: np.average(f(A)),
    lambda f: np.copy(f(A)),
    lambda f: np.argsort(f(A), axis=None),
    lambda f: np.argpartition(f(v), (0, 1, 2, 3)),
    lambda f: np.cumprod(f(A), dtype=np.float32),
    lambda f: np.std(f(A), axis=1, dtype=np.float32, keepdims=True),
]


def parts(result: Any) -> list[Any]:
    return tree.flatten(tuple(result) if isinstance(result, (tuple, list)) else result)[0]


def leaves(result: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in parts(result)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numpys_functions_give_of_tensors_what_they_give_of_arrays() -> None:
    for number, call in enumerate(CALLS):
        expected, result = leaves(call(lambda x: x)), call(wg.tensor)
        assert all(isinstance(leaf, wg.Tensor) for leaf in parts(result)), number
        found = leaves(result)
        assert [a.shape for a in found] == [a.shape for a in expected], number
        for a, b in zip(found, expected):
            np.testing.assert_allclose(
                a, b, rtol=1e-6 if b.dtype == np.float32 else 1e-9, atol=1e-12, err_msg=str(number)
            )


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.dot(x, x.T),
        lambda x: np.std(x, axis=0, ddof=1),
        lambda x: np.gradient(x, 0.5, axis=1, edge_order=2),
        lambda x: np.split(x, 2, axis=1)[1],
        lambda x: np.append(x, x, axis=0),
        lambda x: np.select([x > 0], [x**2], 1.0),
        lambda x: np.average(x, axis=0, weights=np.arange(1.0, 4.0)),
        lambda x: np.trace(x @ x.T),
        lambda x: np.linalg.lstsq(x, np.ones(3), rcond=None)[0],
    ],
)
def test_they_have_derivatives(call: Callable[[Any], Any]) -> None:
    wg.check_grads(call, [wg.tensor(A)], order=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: np.ravel(t, order="F"), "memory order"),
        (lambda t: np.split(t, 3, axis=1), "equal parts"),
        (lambda t: np.dsplit(t, 2), "three axes"),
        (lambda t: np.select([t > 0], [t, t]), "1 conditions but 2 choices"),
        (lambda t: np.interp(t, [0, 1], [0, 1]), "no counterpart"),
    ],
)
def test_what_is_refused(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(wg.errors.WengertError, match=message):
        call(wg.tensor(A))


def test_joined_by_indexing() -> None:
    """`wg.r_` and `wg.c_` are NumPy's, which cannot pass tensors on."""
    x, y = wg.tensor([1.0, 2.0]), wg.tensor([3.0, 4.0])
    assert wg.r_[x, 0.0, 1:3, y].tolist() == np.r_[[1.0, 2.0], 0.0, 1:3, [3.0, 4.0]].tolist()
    assert wg.c_[x, y].tolist() == np.c_[[1.0, 2.0], [3.0, 4.0]].tolist()
    assert wg.c_[wg.ones((2, 1)), wg.ones((2, 2))].shape == (2, 3)
    assert wg.grad(lambda x: wg.sum(wg.r_[x, x, 1.0] ** 2))(x).tolist() == [4.0, 8.0]
    with pytest.raises(wg.errors.ArgumentError, match="concat"):
        wg.r_["0,2", x]
