"""examples/wengert_in_one_file.py against Wengert: values, derivatives in both modes and orders, batching, C."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert as wg

PATH = Path(__file__).parents[1] / "examples" / "wengert_in_one_file.py"


@pytest.fixture(scope="module")
def small():
    spec = importlib.util.spec_from_file_location("wengert_in_one_file", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RANDOM = np.random.default_rng(0)
X, W, V = RANDOM.uniform(0.5, 1.5, (3, 4)), RANDOM.normal(size=(4, 2)), RANDOM.uniform(0.5, 1.5, 4)


def loss(lib, x, w):
    """A function of both libraries, to one number: a product, broadcasting, sums and every elementwise op."""
    hidden = lib.tanh(x @ w) * 2.0 - lib.relu(x @ w) / 3.0
    return total(lib, lib.exp(-hidden) + lib.sin(hidden) * lib.cos(hidden)) + total(lib, lib.log(x)) / 2.0


def total(lib, x):
    return lib.sum(x) if lib is wg else lib.total(x)


def real(array):
    return wg.tensor(np.asarray(array, float), wg.float64)


def assert_equal(found, expected):
    np.testing.assert_allclose(np.array(found), expected.numpy(), rtol=1e-12, atol=1e-12)


def test_values_and_gradients(small):
    def f(x, w):
        return loss(small, x, w)

    assert_equal(small.to_list(f(small.tensor(X.tolist()), small.tensor(W.tolist()))), loss(wg, real(X), real(W)))
    for argument in (0, 1):
        found = small.grad(f, argument)(X.tolist(), W.tolist())
        assert_equal(small.to_list(found), wg.grad(lambda x, w: loss(wg, x, w), argument)(real(X), real(W)))


def test_forward_mode(small):
    direction = RANDOM.normal(size=X.shape)
    _, found = small.jvp(lambda x: loss(small, x, small.tensor(W.tolist())), [X.tolist()], [direction.tolist()])
    _, expected = wg.jvp(lambda x: loss(wg, x, real(W)), (real(X),), (real(direction),))
    assert_equal(small.to_list(found), expected)


def rowwise(lib, v):
    return total(lib, lib.tanh(v) * v / (1.0 + v * v)) * total(lib, lib.log(v))


@pytest.mark.parametrize("direction", [np.eye(4)[i] for i in range(4)], ids=["0", "1", "2", "3"])
def test_second_derivatives_forward_over_reverse(small, direction):
    _, found = small.jvp(small.grad(lambda v: rowwise(small, v)), [V.tolist()], [direction.tolist()])
    expected = wg.hessian(lambda v: rowwise(wg, v))(real(V)) @ real(direction)
    assert_equal(small.to_list(found), expected)


def test_second_derivatives_reverse_over_reverse_and_over_forward(small):
    def slope(x):
        return small.grad(lambda x: small.sin(x * x) / x)(x)

    expected = wg.grad(wg.grad(lambda x: wg.sin(x * x) / x))(real(0.7))
    assert_equal(small.to_list(small.grad(slope)(0.7)), expected)
    forward = small.grad(lambda x: small.jvp(lambda x: small.sin(x * x) / x, [x], [1.0])[1])(0.7)
    assert_equal(small.to_list(forward), expected)


def test_vmap_of_grad_and_grad_of_vmap(small):
    rows = RANDOM.uniform(0.5, 1.5, (5, 4))
    found = small.vmap(small.grad(lambda v: rowwise(small, v)))(rows.tolist())
    assert_equal(small.to_list(found), wg.vmap(wg.grad(lambda v: rowwise(wg, v)))(real(rows)))
    outer = small.grad(lambda r: small.total(small.vmap(lambda v: rowwise(small, v))(r) * 2.0))(rows.tolist())
    assert_equal(small.to_list(outer), 2 * found_gradient(rows))


def found_gradient(rows):
    return wg.grad(lambda r: wg.sum(wg.vmap(lambda v: rowwise(wg, v))(r)))(real(rows))


def test_vmap_shares_arguments_and_results_that_do_not_move(small):
    found = small.vmap(lambda x, y: x * small.total(y), (0, None))([1.0, 2.0], [3.0, 4.0])
    assert small.to_list(found) == [7.0, 14.0]
    assert small.to_list(small.vmap(lambda x: small.tensor(3.0))([1.0, 2.0])) == [3.0, 3.0]
    assert small.to_list(small.vmap(lambda x: x)([1.0, 2.0])) == [1.0, 2.0]
    nested = small.vmap(small.vmap(lambda x, y: x * y, (None, 0)), (0, None))([1.0, 2.0], [3.0, 4.0])
    assert small.to_list(nested) == [[3.0, 4.0], [6.0, 8.0]]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_compiled_is_interpreted_to_the_last_bit(small):
    def step(x, w):
        return w - 0.1 * small.grad(lambda w: loss(small, x, w))(w)

    fast = small.compiled(step)
    for k in range(3):
        x = (X + k).tolist()
        assert small.to_list(fast(x, W.tolist())) == small.to_list(step(small.tensor(x), small.tensor(W.tolist())))
    sums = 2 + 2  # the loss writes x @ w twice, and each has a sum in its gradient; the loss itself is not needed
    assert fast.source.count("+=") == sums and "tanh" in fast.source and "log" not in fast.source


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_compiled_function_is_recorded_inside_of_a_transform(small):
    fast = small.compiled(lambda v: rowwise(small, v))
    assert small.to_list(small.grad(fast)(V.tolist())) == small.to_list(
        small.grad(lambda v: rowwise(small, v))(V.tolist())
    )
    twice = small.compiled(lambda x, y: x + y)
    assert small.to_list(twice([1.0, 2.0], 3.0)) == [4.0, 5.0] and small.to_list(twice(1.0, 2.0)) == 3.0


def test_what_does_not_depend_on_the_argument_has_a_zero_gradient(small):
    assert small.to_list(small.grad(lambda x: small.tensor(2.0))([1.0, 2.0])) == [0.0, 0.0]
    assert small.to_list(small.jvp(lambda x: small.tensor(2.0), [1.0], [1.0])[1]) == 0.0
    with pytest.raises(ValueError, match=r"add: the shapes \[\(2,\), \(3,\)\] do not agree"):
        small.tensor([1.0, 2.0]) + small.tensor([1.0, 2.0, 3.0])


def test_it_fits_on_a_few_screens_and_needs_nothing_but_python_and_cc():
    assert len(PATH.read_text().splitlines()) <= 300
    run = subprocess.run([sys.executable, "-I", str(PATH)], capture_output=True, text=True, timeout=60, check=True)
    assert "tensor(5.5)" in run.stdout and "tensor(-0.25)" in run.stdout and "void run(double **memory)" in run.stdout
