"""Sparse Jacobians and Hessians: entries beside the dense ones, structures beside what is known of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph

import wengert as wg
from wengert.core.errors import ArgumentError, GradientError, ShapeError
from wengert.sparse import acyclic, coloring

N = 8
X = np.random.default_rng(0).uniform(0.5, 1.5, N)
I, FULL = np.eye(N, dtype=bool), np.ones((N, N), bool)
INDEX = np.array([0, 0, 3, 5, 7, 2])


def band(*offsets: int, rows: int = N) -> Any:
    return np.sum([np.eye(rows, N, k) for k in offsets], axis=0).astype(bool)


def scattered() -> Any:
    found = np.zeros((N, N), bool)
    found[INDEX, np.arange(6)] = True
    return found


def scatter_add(values):
    return wg.vjp(lambda x: x[INDEX], np.zeros(N))[1](values)[0]


@wg.custom_vjp
def straight_through(x):
    return wg.round(x)


straight_through.defvjp(lambda x: (wg.round(x), None), lambda needed, g: (g[::-1],))


@wg.custom_jvp
def squared(x):
    return x * x


squared.defjvp(lambda primals, tangents: (squared(*primals), 2 * primals[0] * tangents[0]))


def matrix(x):
    return x.reshape((2, 4))


EXACT: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "elementwise": (lambda x: wg.sin(x) * wg.exp(x), I),
    "tridiagonal": (lambda x: x * wg.pad(x[1:], (0, 1)) + wg.pad(x[:-1], (1, 0)), band(-1, 0, 1)),
    "differences": (lambda x: wg.diff(x) ** 2, band(0, 1, rows=N - 1)),
    "flip and roll": (lambda x: x[::-1] + wg.roll(x, 1), I[::-1] | np.roll(I, 1, axis=0)),
    "concatenation": (lambda x: wg.concat([x[4:], x[:2] ** 2]), np.concatenate([I[4:], I[:2]])),
    "row sums": (lambda x: matrix(x).sum(1), np.kron(np.eye(2), np.ones(4)).astype(bool)),
    "column maxima": (lambda x: matrix(x).max(0), np.kron(np.ones(2), np.eye(4)).astype(bool)),
    "broadcasting": (lambda x: (x[:2, None] * x[None, 2:5]).flatten(), None),
    "a gather": (lambda x: x[INDEX] ** 2, I[INDEX]),
    "a scatter": (wg.grad(lambda x: (x[INDEX] ** 3).sum()), np.diag(np.isin(np.arange(N), INDEX))),
    "another scatter": (lambda x: scatter_add(x[:6] ** 2), scattered()),
    "where": (lambda x: wg.where(x > 1, x**2, x[::-1]), I | I[::-1]),
    "steps": (lambda x: wg.floor(x) + 0.0 * wg.sign(x), np.zeros((N, N), bool)),
    "stop_gradient": (lambda x: x * wg.asarray(x[::-1]).detach(), I),
    "a product of matrices": (
        lambda x: (matrix(x) @ np.arange(12.0).reshape(4, 3)).flatten(),
        np.kron(np.eye(2), np.ones((3, 4))).astype(bool),
    ),
    "running sums in rows": (
        lambda x: wg.cumsum(matrix(x), axis=1).flatten(),
        np.kron(np.eye(2), np.ones((4, 4))).astype(bool),
    ),
    "a dense result": (lambda x: wg.softmax(x), FULL),
    "cond": (lambda x: wg.cond(x.sum() > 0, lambda x: x**2, lambda x: x[::-1], x), I | I[::-1]),
    "checkpoint": (lambda x: wg.checkpoint(lambda x: wg.sin(x) * 2)(x), I),
    "scan": (lambda x: wg.scan(lambda c, a: (c * a, c + a), wg.tensor(1.0, dtype=wg.float64), x)[1], None),
    "while_loop": (lambda x: wg.while_loop(lambda s: s.sum() < 100, lambda s: s * 2 + x, x), I),
    "a fixed point that spreads": (
        lambda x: wg.while_loop(lambda s: s.sum() < 100, lambda s: s + wg.roll(s, 4), x),
        I | np.roll(I, 4, axis=0),
    ),
    "custom_vjp": (lambda x: straight_through(x) * 2, I[::-1]),
    "custom_jvp": (squared, I),
    "two steps": (lambda x: wg.diff(wg.diff(x) ** 2), band(0, 1, 2, rows=N - 2)),
}


@pytest.mark.parametrize("name", EXACT)
def test_entries_are_the_dense_ones_and_the_structure_is_exact(name: str) -> None:
    f, expected = EXACT[name]
    jacobian = wg.sparse_jacobian(f)
    found = jacobian(X)
    assert isinstance(found, scipy.sparse.csr_array) and found.dtype == np.float64
    dense = wg.jacobian(f)(X).numpy()
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-14)
    pattern = jacobian.structure(X).toarray()
    assert not (dense.astype(bool) & ~pattern).any()
    if expected is not None:
        np.testing.assert_array_equal(pattern, expected)
    for mode in ("forward", "reverse"):
        one = wg.sparse_jacobian(f, mode=mode)(X)
        np.testing.assert_allclose(one.toarray(), wg.jacobian(f, mode=mode)(X).numpy(), rtol=1e-12, atol=1e-14)


def test_a_scan_is_followed_step_by_step() -> None:
    f, _ = EXACT["scan"]
    np.testing.assert_array_equal(wg.sparse_jacobian(f).structure(X).toarray(), np.tril(np.ones((N, N), bool)))
    pick = lambda x: wg.scan(lambda c, i: (c + 1, x[i] * x[c]), wg.tensor(0), wg.arange(N)[::-1])[1]
    np.testing.assert_array_equal(wg.sparse_jacobian(pick).structure(X).toarray(), I | I[::-1])


def test_a_tridiagonal_matrix_takes_three_products() -> None:
    x = np.random.default_rng(1).normal(size=1000)
    f = lambda x: wg.pad(x[1:], (0, 1)) * 2 + x**2 + wg.pad(x[:-1], (1, 0)) * x
    jacobian = wg.sparse_jacobian(f)
    found = jacobian(x)
    assert jacobian.colors(x) == ("forward", 3) and found.nnz == 2998
    np.testing.assert_allclose(found.diagonal(), 2 * x + np.concatenate([[0], x[:-1]]), rtol=1e-14)
    np.testing.assert_allclose(found.diagonal(1), 2 * np.ones(999))
    np.testing.assert_allclose(found.diagonal(-1), x[1:])


def test_the_direction_with_fewer_products_is_taken() -> None:
    arrow = lambda x: x * x[0]
    assert wg.sparse_jacobian(arrow).colors(X) == ("forward", 2)
    total = lambda x: wg.concat([x[:1] * x.sum(), x[1:]])
    assert wg.sparse_jacobian(total).colors(X) == ("reverse", 2)


ENERGIES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "a chain": (lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(), 3),
    "an arrow": (lambda x: (x * x[0] ** 2).sum() + (x**4).sum(), 2),
    "alone": (lambda x: wg.exp(x).sum(), 1),
    "linear": (lambda x: (3 * x).sum(), 0),
    "dense": (lambda x: wg.log(wg.exp(x).sum()), N),
}


@pytest.mark.parametrize("name", ENERGIES)
def test_hessians(name: str) -> None:
    f, products = ENERGIES[name]
    hessian = wg.sparse_hessian(f)
    np.testing.assert_allclose(hessian(X).toarray(), wg.hessian(f)(X).numpy(), rtol=1e-12, atol=1e-14)
    assert hessian.colors(X) == ("star", products)


@pytest.mark.parametrize("seed", range(5))
def test_colors_tell_every_entry_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.random((30, 30)) < 0.1
    structure = scipy.sparse.csr_array(dense)
    colors = coloring.column_colors(structure)
    for color in range(coloring.count(colors)):
        assert (dense[:, colors == color].sum(axis=1) <= 1).all()
    both = scipy.sparse.csr_array(dense | dense.T)
    both.sort_indices()
    values = rng.normal(size=(30, 30)) * both.toarray()
    values = values + values.T
    stars = coloring.star_colors(both)
    compressed = coloring.seeds(stars, float) @ values
    product, place = coloring.star_places(both, stars)
    rows = np.repeat(np.arange(30), np.diff(both.indptr))
    np.testing.assert_allclose(compressed[product, place], values[rows, both.indices])


def test_containers_other_arguments_and_further_calls() -> None:
    def f(scale, p):
        return {"a": p["x"] * scale, "b": p["y"][::-1] * p["x"]}

    jacobian = wg.sparse_jacobian(f, argnum=1)
    for scale in (2.0, 3.0):
        found = jacobian(scale, {"x": X[:2], "y": X[2:4]}).toarray()
        y, x = X[3:1:-1], X[:2]
        np.testing.assert_allclose(found, [[scale, 0, 0, 0], [0, scale, 0, 0], [y[0], 0, 0, x[0]], [0, y[1], x[1], 0]])
    assert len(jacobian.found) == 1


def test_other_indices_are_another_structure() -> None:
    jacobian = wg.sparse_jacobian(lambda x, i: x[i] ** 2)
    for index in (np.array([0, 1]), np.array([5, 2])):
        np.testing.assert_array_equal(jacobian.structure(X, wg.tensor(index)).toarray(), I[index])
        np.testing.assert_allclose(jacobian(X, wg.tensor(index)).toarray(), 2 * np.diag(X)[index])


def test_indices_that_depend_on_the_values_raise_unless_the_structure_is_given() -> None:
    shuffled = lambda x: x[wg.argsort(x)] * 2
    with pytest.raises(GradientError, match="an index depends on the values"):
        wg.sparse_jacobian(shuffled)(X)
    given = wg.sparse_jacobian(shuffled, structure=FULL)(X)
    np.testing.assert_allclose(given.toarray(), wg.jacobian(shuffled)(X).numpy())

    def counted(x):
        step = lambda s: (s[0] + 1, s[1] + x[s[0]])
        return wg.while_loop(lambda s: s[0] < 3, step, (wg.tensor(0), x[:2]))[1]

    with pytest.raises(GradientError, match="the counter of a while_loop"):
        wg.sparse_jacobian(counted)(X)
    with pytest.raises(ShapeError, match=r"shape \(2, 2\), but the matrix has shape \(8, 8\)"):
        wg.sparse_jacobian(shuffled, structure=np.ones((2, 2)))(X)
    with pytest.raises(ShapeError, match="a scalar"):
        wg.sparse_hessian(shuffled)(X)
    with pytest.raises(ArgumentError, match="mode"):
        wg.sparse_jacobian(shuffled, mode="both")


def test_without_scipy_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(ArgumentError, match="SciPy is not installed"):
        wg.sparse_jacobian(lambda x: x)(X)


# --- mixed directions and pictures ----------------------------------------------------------------------------------


def arrow(x):
    """The first result reads all variables, every other one the first variable and its own."""
    return wg.concat([(x**2).sum()[None], x[1:] ** 3 * x[0]])


def test_an_arrow_matrix_takes_three_products() -> None:
    x = np.linspace(0.5, 1.5, 40)
    jacobian = wg.sparse_jacobian(arrow)
    assert jacobian.colors(x) == ("mixed", 3)
    assert wg.sparse_jacobian(arrow, mode="forward").colors(x) == ("forward", 40)
    np.testing.assert_allclose(jacobian(x).toarray(), wg.jacobian(arrow)(x).numpy(), rtol=1e-14)
    assert jacobian(x).nnz == 40 + 2 * 39


def test_several_dense_rows_and_columns() -> None:
    rng = np.random.default_rng(2)
    weights = np.where(rng.uniform(size=(30, 50)) < 0.05, 1.0, 0)
    weights[[3, 17]] = 1 + rng.uniform(size=(2, 50))
    weights[:, [5, 40]] = 1 + rng.uniform(size=(30, 2))
    a = wg.sparse.csr(weights)
    f = lambda x: wg.sin(a @ x)
    jacobian, x = wg.sparse_jacobian(f), rng.normal(size=50)
    direction, products = jacobian.colors(x)
    single = [wg.sparse_jacobian(f, mode=mode).colors(x)[1] for mode in ("forward", "reverse")]
    assert direction == "mixed" and products * 2 < min(single)
    np.testing.assert_allclose(jacobian(x).toarray(), wg.jacobian(f)(x).numpy(), rtol=1e-12, atol=1e-14)


def test_a_rule_for_reverse_mode_alone_is_not_mixed() -> None:
    f = lambda x: wg.concat([(x**2).sum()[None], straight_through(x[1:]) * x[0]])
    assert wg.sparse_jacobian(f).colors(X)[0] == "reverse"


def test_the_structure_as_a_picture(tmp_path) -> None:
    x = np.linspace(0.5, 1.5, 9)
    picture = wg.sparse_jacobian(arrow).picture(x)
    root = ElementTree.fromstring(picture.svg)
    squares = root.findall("{*}rect")[1:]
    assert len(squares) == 9 + 2 * 8
    assert len({square.get("fill") for square in squares}) == 3
    assert root.find("{*}text").text == "9 x 9, 25 entries, 3 products (mixed)"
    picture.save(tmp_path / "arrow.svg")
    assert (tmp_path / "arrow.svg").read_text() == picture._repr_svg_()
    large = wg.sparse_hessian(lambda x: (x[1:] * x[:-1] ** 2).sum()).picture(np.ones(1000))
    blocks = ElementTree.fromstring(large.svg).findall("{*}rect")[1:]
    assert len(blocks) == 100 + 2 * 99  # a square for ten rows and columns
    assert len(large.svg) < 50_000


# --- as a value of a program ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [arrow, EXACT["tridiagonal"][0], lambda x: wg.concat([x, x])])
def test_derivatives_as_values_are_compiled_and_differentiated(function) -> None:
    jacobian = wg.sparse_jacobian(function)
    compiled = wg.compile(jacobian.csr)
    for x in (X, X + 0.5):
        np.testing.assert_allclose(compiled(wg.tensor(x)).toscipy().toarray(), jacobian(x).toarray(), rtol=1e-14)
    v = np.arange(1.0, N + 1)
    found = wg.grad(lambda x: ((jacobian.csr(x) @ v) ** 2).sum())(X)
    expected = wg.grad(lambda x: (wg.jvp(function, (x,), (wg.tensor(v),))[1] ** 2).sum())(X)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12, atol=1e-14)


def test_a_newton_step_with_a_sparse_hessian_in_one_program() -> None:
    energy = lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum() + (x**4).sum()
    hessian = wg.sparse_hessian(energy)
    step = wg.compile(lambda x: x - wg.sparse.spsolve(hessian.csr(x), wg.grad(energy)(x)))
    x = wg.tensor(X)
    for _ in range(30):
        x = step(x)
    assert abs(wg.grad(energy)(x).numpy()).max() < 1e-4
    empty = wg.sparse_jacobian(lambda x: wg.floor(x))
    assert empty.csr(X).nnz == 0


# --- acyclic colours ------------------------------------------------------------------------------------------------


def test_acyclic_colours_take_fewer_products_than_star_colours() -> None:
    chain = lambda x: (wg.sin(x[1:]) * x[:-1] ** 2).sum()
    x = np.linspace(0.5, 1.5, 50)
    hessian = wg.sparse_hessian(chain, mode="acyclic")
    assert hessian.colors(x) == ("acyclic", 2) and wg.sparse_hessian(chain).colors(x) == ("star", 3)
    expected = wg.sparse_hessian(chain)(x).toarray()
    np.testing.assert_allclose(hessian(x).toarray(), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        wg.compile(hessian.csr)(wg.tensor(x)).toscipy().toarray(), expected, rtol=1e-11, atol=1e-12
    )
    assert len(ElementTree.fromstring(hessian.picture(x).svg).findall("{*}rect")[1:]) == 50 + 2 * 49
    with pytest.raises(ArgumentError, match='"star" or "acyclic"'):
        wg.sparse_hessian(chain, mode="forward")


@pytest.mark.parametrize("seed", range(6))
def test_acyclic_colours_of_random_structures(seed: int) -> None:
    """No two colours have a cycle, and substitution gives back the entries."""
    rng = np.random.default_rng(seed)
    n = 30
    half = np.triu(np.where(rng.uniform(size=(n, n)) < 0.12, rng.normal(size=(n, n)), 0))
    values = half + half.T
    structure = scipy.sparse.csr_array(values != 0)
    colors = acyclic.acyclic_colors(structure)
    for a in range(colors.max() + 1):
        for b in range(a):
            both = np.flatnonzero((colors == a) | (colors == b))
            edges = scipy.sparse.csr_array(np.triu(values[np.ix_(both, both)] != 0, 1))
            trees, _ = scipy.sparse.csgraph.connected_components(edges, directed=False)
            assert edges.nnz == both.size - trees  # a forest
        same = np.flatnonzero(colors == a)
        assert not np.any(values[np.ix_(same, same)] - np.diag(np.diag(values)[same]))
    assert coloring.count(colors) <= coloring.count(coloring.star_colors(structure))
    found = acyclic.substitution(structure, colors)
    sums = (coloring.seeds(colors, float) @ values)[found.product, found.place]
    entries = found.sums.factors(np.ones(found.sums.count)).solve(sums)[found.unknown]
    np.testing.assert_allclose(entries, values[structure.nonzero()], rtol=1e-9, atol=1e-10)
