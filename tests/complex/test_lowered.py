"""What of complex numbers is C: every rule's ops but those of LAPACK, loops and branches among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.complex.cases import RULES, Case, complex_
from tests.complex.checks import assert_same, loss_of, single
from tests.replay import adapt
from tests.replay.adapt import Recorded
from wengert.backends.cpu.toolchain import compiler
from wengert.core import tree
from wengert.core.dtypes import COMPLEX
from wengert.core.graph import Graph, now
from wengert.ops.core import placeholder

# what NumPy calls LAPACK for, and windows, which have no C of real numbers either
BY_REFERENCE = {
    "solve",
    "triangular_solve",
    "inv",
    "det",
    "cofactor",
    "slogdet",
    "cholesky",
    "qr",
    "svd",
    "pinv",
    "eigh",
}
BY_REFERENCE |= {"unfold", "fold", "pick"}
STRIDED = {"svd of a batch"}  # whose products are of matrices that BLAS cannot step through

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def by_reference(case: Case, function: Callable[..., Any]) -> set[str]:
    """The ops of a program that are computed by their references."""
    since = now()
    inputs = [placeholder(array.shape, single(array).dtype) for array in case.operands]
    results = tree.flatten(function(*map(wg.Tensor, inputs)))[0]
    graph = Graph(inputs, [leaf.node for leaf in results if isinstance(leaf, wg.Tensor)], since)
    with adapt.without_toolchains(False):
        described, _ = adapt.build(Recorded(graph))
    return set(described.get("host_ops", []))


@pytest.mark.parametrize("case", RULES, ids=lambda case: case.name)
def test_nothing_but_lapack_is_left_to_references(case: Case) -> None:
    gradient = wg.grad(loss_of(case.function), tuple(range(len(case.operands))))
    allowed = BY_REFERENCE | ({"matmul"} if case.name in STRIDED else set())
    assert by_reference(case, case.function) <= allowed
    assert by_reference(case, gradient) <= allowed


def newton(z: Any) -> Any:
    """Newton's iterations for the cube roots of 1, from many points at once."""
    step = lambda z, _: (z - (z**3 - 1) / (3 * z * z), wg.abs(z))
    return wg.scan(step, z, wg.zeros((12,)))


def rotated(z: Any) -> Any:
    """A recurrence over few elements, with a branch in it."""

    def step(z: Any, turn: Any) -> Any:
        z = wg.cond(wg.abs(z).sum() > 3, lambda z: z / 2, lambda z: z * 1.1, z * turn)
        return z, wg.real(z)

    return wg.scan(step, z[:3], wg.exp(wg.real(z).astype(z.dtype) * 1j))


def until_small(z: Any) -> Any:
    return wg.while_loop(lambda z: wg.abs(z).sum() > 1, lambda z: z * (0.5 + 0.5j), z[:4])


@needs_compiler
@pytest.mark.parametrize("dtype", COMPLEX, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("function", [newton, rotated, until_small], ids=lambda function: function.__name__)
def test_loops_are_c(function: Callable[..., Any], dtype: Any) -> None:
    points = wg.tensor((complex_(100) + 2).astype(dtype))
    results = lambda z: tree.flatten(function(z))[0]
    both = lambda z: [*results(z), *([] if function is until_small else [wg.grad(loss_of(results))(z)])]
    step = wg.compile(both)
    assert_same(step(points), both(points), 1e-3 if dtype.itemsize == 8 else 1e-9)
    assert "by their references" not in str(step.explain())


@needs_compiler
@pytest.mark.parametrize("dtype", COMPLEX, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("sizes", [(3, 4, 5), (70, 129, 65), (130, 64, 200)], ids=str)
def test_products_are_numpys(sizes: tuple[int, int, int], dtype: Any) -> None:
    """By BLAS and in tiles, with operands that lie transposed, and an epilogue."""
    m, k, n = sizes
    a, b = complex_(m, k).astype(dtype), complex_(k, n).astype(dtype)
    ways = {
        (False, False): (lambda x, y: wg.exp((x @ y) * 0.01) + 1, a, b),
        (True, False): (lambda x, y: wg.exp((x.mT @ y) * 0.01) + 1, np.ascontiguousarray(a.T), b),
        (False, True): (lambda x, y: wg.exp((x @ y.mT) * 0.01) + 1, a, np.ascontiguousarray(b.T)),
    }
    expected = np.exp((a.astype(np.complex128) @ b) * 0.01) + 1
    for function, x, y in ways.values():
        found = wg.compile(function)(wg.tensor(x), wg.tensor(y)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype.itemsize == 8 else 1e-12)


@needs_compiler
@pytest.mark.parametrize("dtype", COMPLEX, ids=lambda dtype: dtype.name)
def test_long_sums_are_exact(dtype: Any) -> None:
    """Sums of many numbers of the same sign, over rows, columns and all: in parts, and of complex64 in complex128."""
    x = np.full((3, 1 << 18), 0.1 + 0.7j, dtype)
    step = wg.compile(
        lambda x: (wg.sum(x), wg.sum(x, axis=1), wg.sum(x.mT, axis=0), wg.mean(x), wg.prod(x[:, :9], axis=1))
    )
    found = step(wg.tensor(x))
    exact = x.astype(np.complex128)
    expected = [exact.sum(), exact.sum(axis=1), exact.sum(axis=1), exact.mean(), exact[:, :9].prod(axis=1)]
    for got, want in zip(found, expected):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-6 if dtype.itemsize == 8 else 1e-12)
