"""Loops and branches in C: the same values as the interpreted ones, in the form that their bodies allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN

RNG = np.random.default_rng(0)
VARIABLES, HOST = "every element a variable", "by its reference"


def tensor(*shape: int) -> wg.Tensor:
    return wg.tensor(RNG.normal(size=shape))


@contextmanager
def interpreted() -> Iterator[None]:
    before, wg.config.tier = wg.config.tier, "interpret"
    try:
        yield
    finally:
        wg.config.tier = before


def arrays_of(results: Any) -> list[Any]:
    return [leaf.numpy() for leaf in wg.tree.flatten(results)[0]]


def agree(found: Any, expected: Any, tolerance: float) -> None:
    for a, b in zip(arrays_of(found), arrays_of(expected), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance)


def forms(compiled: Any) -> list[str]:
    """How each loop of a compiled function goes: its form, the steps of its bodies, or that the host runs it."""
    found = []
    for step in compiled._latest[1].program.steps:
        if step.host_op is not None and step.host_op.op in (SCAN, WHILE, COND):
            found.append(HOST)
        elif step.code is not None and step.code.loop:
            found.append(step.code.loop)
    return found


def check(function: Any, *args: wg.Tensor, tolerance: float = 1e-10) -> list[str]:
    """Compiled and interpreted agree; the forms of the loops."""
    compiled = wg.compile(function)
    found = compiled(*args)
    with interpreted():
        agree(found, function(*args), tolerance)
    return forms(compiled)


# --- small bodies -----------------------------------------------------------------------------------------------------


def lorenz(state: Any) -> Any:
    x, y, z = state
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z


def runge_kutta(state: Any, h: float = 0.01) -> Any:
    def moved(by: Any, far: float) -> Any:
        return tuple(s + far * k for s, k in zip(state, by))

    a = lorenz(state)
    b = lorenz(moved(a, h / 2))
    c = lorenz(moved(b, h / 2))
    d = lorenz(moved(c, h))
    return tuple(s + h / 6 * (i + 2 * j + 2 * k + l) for s, i, j, k, l in zip(state, a, b, c, d))


def trajectory(x: Any, y: Any, z: Any, steps: int = 20) -> Any:
    return wg.scan(lambda s, _: (runge_kutta(s), s[0]), (x, y, z), length=steps)


def energy(x: Any, y: Any, z: Any) -> Any:
    (x, y, z), path = trajectory(x, y, z)
    return (x * y + z).sum() + (path * path).sum()


@pytest.mark.parametrize(("n", "form"), [(1, VARIABLES), (1000, "1000 lanes")])
def test_a_trajectory_and_its_derivatives(n: int, form: str) -> None:
    args = [tensor(n) + shift for shift in (1.0, 1.0, 20.0)]
    (found,) = check(trajectory, *args)
    assert form in found
    for how in check(wg.grad(energy, (0, 1, 2)), *args):
        assert how != HOST
    check(lambda *a: wg.jvp(energy, a, a)[1], *args)


def populations(rates: wg.Tensor, start: wg.Tensor, steps: int) -> wg.Tensor:
    """Predators and prey, by Runge and Kutta's method: each step's state."""

    def change(y: Any) -> Any:
        return wg.stack([rates[0] * y[0] - rates[1] * y[0] * y[1], rates[3] * y[0] * y[1] - rates[2] * y[1]])

    def step(y: Any, _: Any) -> Any:
        a = change(y)
        b = change(y + 0.025 * a)
        c = change(y + 0.025 * b)
        d = change(y + 0.05 * c)
        y = y + 0.05 / 6 * (a + 2 * b + 2 * c + d)
        return y, y

    return wg.scan(step, start, length=steps)[1]


@pytest.mark.parametrize("steps", [1, 200, 1000])
def test_a_carry_has_one_value(steps: int) -> None:
    """gcc kept a carry twice, in a vector and alone, rounded in different ways: after 200 steps they were 28 apart."""
    rates, start = wg.tensor([1.3, 0.9, 2.8, 1.1]), wg.tensor([1.0, 1.0])
    check(lambda p: populations(p, start, steps), rates, tolerance=1e-3)
    check(wg.grad(lambda p: wg.mean(populations(p, start, steps) ** 2)), rates, tolerance=1e-2)


def test_second_derivatives() -> None:
    check(wg.hessian(energy, 0), *[tensor(1) + shift for shift in (1.0, 1.0, 20.0)], tolerance=1e-8)


@pytest.mark.parametrize("n", [1000, 5000])
def test_gradients_of_what_lanes_share_are_totals(n: int) -> None:
    def loss(rate: Any, matrix: Any, rows: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            return wg.tanh(h @ matrix + rate * h), None

        h, _ = wg.scan(step, rows, length=5)
        return (h * h).mean()

    found = check(wg.grad(loss, (0, 1, 2)), tensor(3), tensor(3, 3), tensor(n, 3))
    assert all("lanes" in form or "step" in form for form in found)
    (form,) = check(
        lambda x, w: wg.scan(
            lambda c, _: ((c[0] * w, c[1] + (c[0] * w).sum(), c[2] - c[0].sum()), None),
            (x, wg.tensor(1.5, dtype=wg.float64), wg.tensor(0.0, dtype=wg.float64)),
            length=4,
        ),
        tensor(n),
        tensor(n),
    )
    assert "calls its step" in form  # a difference is no total
    (form,) = check(
        lambda x, w: wg.scan(
            lambda c, _: ((c[0] * w, c[1] + (c[0] * w).sum()), None), (x, wg.tensor(1.5, dtype=wg.float64)), length=4
        ),
        tensor(n),
        tensor(n),
    )
    assert f"{n} lanes" in form


def test_vmap_of_a_trajectory_has_lanes() -> None:
    args = [tensor(300) + shift for shift in (1.0, 1.0, 20.0)]
    (form,) = check(wg.vmap(trajectory), *args)
    assert "300 lanes" in form


def test_a_small_matrix_product_is_written_out() -> None:
    a, h = tensor(3, 3), tensor(3)
    assert check(lambda a, h: wg.scan(lambda h, _: (wg.tanh(a @ h), h.max()), h, length=6), a, h) == [VARIABLES]
    rows = tensor(500, 3)
    (form,) = check(lambda a, h: wg.scan(lambda h, _: (wg.tanh(h @ a), h.sum(axis=1)), h, length=6), a, rows)
    assert "500 lanes" in form


# --- carries ----------------------------------------------------------------------------------------------------------

SMALL, LARGE = (3,), (80, 80)


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_carries_may_change_places(shape: tuple[int, ...]) -> None:
    a, b = tensor(*shape), tensor(*shape)
    check(lambda a, b: wg.scan(lambda c, _: ((c[1], c[0] * 0.5), c[0]), (a, b), length=5), a, b)
    check(lambda a, b: wg.scan(lambda c, _: ((c[1], c[0]), c), (a, b), length=5), a, b)
    check(lambda a, b: wg.scan(lambda c, _: ((c[0], c[0]), c[1]), (a, b), length=5), a, b)


def test_carries_of_a_body_that_is_called() -> None:
    def step(c: Any, x: Any) -> Any:
        p, q, r = c
        n = p @ q / 90 + x
        return (n, p, r), (n, r, p, x, n)

    a, b = tensor(*LARGE), tensor(*LARGE)
    xs = tensor(4, *LARGE)
    (form,) = check(lambda a, b, xs: wg.scan(step, (a, b, a), xs), a, b, xs)
    assert form == "calls its step"
    check(lambda a, b, xs: wg.scan(step, (a, b, a), xs, reverse=True)[1], a, b, xs)
    check(lambda a, b, xs: wg.scan(step, (a, b, a), xs)[0][1], a, b, xs)


@pytest.mark.parametrize("shape", [SMALL, (1000,), LARGE])
def test_no_steps(shape: tuple[int, ...]) -> None:
    check(lambda a: wg.scan(lambda c, _: (c.T @ c if c.ndim > 1 else c * 2, c), a, length=0), tensor(*shape))


@pytest.mark.parametrize("shape", [SMALL, (1000,), (70, 70)])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64", "float16", "bfloat16", "bool", "complex64"])
def test_dtypes(dtype: str, shape: tuple[int, ...]) -> None:
    def step(c: Any, _: Any) -> Any:
        if dtype == "bool":
            return wg.logical_not(c), c
        return (c * c + c if "int" in dtype else c * c / 3 + c), c

    a = wg.tensor(RNG.integers(0, 3, size=shape)).astype(getattr(wg, dtype))
    found = check(lambda a: wg.scan(step, a, length=4), a, tolerance=2e-2 if "float16" in dtype else 1e-6)
    assert found != [HOST]


def test_lanes_share_what_does_not_differ() -> None:
    def step(c: Any, x: Any) -> Any:
        count, h = c
        return (count + 1.0, h * 0.9 + x * count), (count, h)

    start = wg.tensor(0.0, dtype=wg.float64)
    (form,) = check(lambda a, xs: wg.scan(step, (start, a), xs), tensor(777), tensor(5, 777))
    assert "777 lanes" in form


def test_what_crosses_lanes_is_no_lane() -> None:
    found = check(lambda a: wg.scan(lambda c, _: (wg.roll(c, 1) * 0.5, c.sum()), a, length=4), tensor(1000))
    assert len(found) == 1 and "lanes" not in found[0] and found != [HOST]


# --- while_loop and cond ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_while_loop(shape: tuple[int, ...]) -> None:
    def run(a: Any, b: Any) -> Any:
        return wg.while_loop(lambda c: wg.abs(c[0]).sum() < 1e5, lambda c: (c[1] * 1.5 + b, c[0], c[2] + 1), (a, b, 0))

    args = tensor(*shape), tensor(*shape)
    assert HOST not in check(run, *args)
    check(lambda a, b: wg.jvp(lambda a: run(a, b)[0], (a,), (b,))[1], *args)
    check(lambda a: wg.while_loop(lambda c: c.sum() < -1e9, lambda c: c + 1, a), args[0])  # not once
    lanes = wg.tensor([[1.0, 2.0], [30.0, 4.0]])
    check(wg.vmap(lambda a: wg.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, a)), lanes)


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond(shape: tuple[int, ...], sign: float) -> None:
    def run(a: Any, b: Any) -> Any:
        return wg.cond((a * a).sum() * sign > 0, lambda a, b: (a * b, b, b), lambda a, b: (wg.sin(a), a, b), a, b)

    args = tensor(*shape), tensor(*shape)
    assert HOST not in check(run, *args)
    check(lambda a, b: wg.grad(lambda a: (run(a, b)[0] ** 2).sum())(a), *args)
    check(lambda a, b: run(a, b)[1], *args)


# --- nested -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [SMALL, (70, 70)])
def test_loops_in_loops(shape: tuple[int, ...]) -> None:
    def inner(c: Any, x: Any) -> Any:
        c, path = wg.scan(lambda d, y: (d * 0.5 + y, wg.tanh(d)), c, wg.stack([c, x, c]), reverse=True)
        c = wg.while_loop(lambda d: (d * d).sum() > 4.0, lambda d: d * 0.7, c)
        return wg.cond(c.sum() > x.sum(), lambda c: c - 1, lambda c: c + 1.5, c), path

    xs = tensor(4, *shape)
    assert HOST not in check(lambda a, xs: wg.scan(inner, a, xs), tensor(*shape), xs)

    def smooth(a: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return wg.scan(lambda d, y: (wg.tanh(d * 0.5 + y), d), c, wg.stack([c, x]))

        c, ys = wg.scan(step, a, xs)
        return (c * c).sum() + (ys**2).sum()

    assert HOST not in check(wg.grad(smooth, (0, 1)), tensor(*shape), xs)


@pytest.mark.parametrize("shape", [SMALL, (500,), LARGE])
def test_random_numbers_and_slots_inside(shape: tuple[int, ...]) -> None:
    count = wg.tensor(0.0)

    def step(h: Any, x: Any) -> Any:
        count.assign(count + 1.0)
        return h * 0.5 + wg.random.normal(shape, dtype=h.dtype) * count, h

    def run(h: Any) -> Any:
        return wg.scan(step, h, length=3)

    start = tensor(*shape)
    compiled = wg.compile(run)
    wg.random.manual_seed(7)
    found, again = compiled(start), compiled(start)
    assert count.item() == 6.0 and forms(compiled) not in ([], [HOST])
    count.assign(wg.tensor(0.0))
    wg.random.manual_seed(7)
    with interpreted():
        agree(found, run(start), 1e-6)
        agree(again, run(start), 1e-6)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [3, 5000])
def test_an_index_out_of_range_inside_is_the_same_error(width: int) -> None:
    table = tensor(4, width)

    def run(start: Any, places: Any) -> Any:
        return wg.scan(lambda c, k: (c + table[k], c.sum()), start, places)

    compiled = wg.compile(run)
    good, bad = wg.tensor([0, 3, -4]), wg.tensor([0, 4, 1])
    start = tensor(width)
    compiled(start, good)
    errors = []
    for one in (compiled, run):
        with pytest.raises(wg.errors.ComputationError) as caught, interpreted():
            arrays_of(one(start, bad))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    agree(compiled(start, good), run(start, good), 1e-12)


def test_why_a_loop_is_not_compiled() -> None:
    compiled = wg.compile(lambda a: wg.scan(lambda c, _: (wg.sort(c), c), a, length=3))
    compiled(tensor(5))
    assert forms(compiled) == [HOST]
    assert "scan of 3 steps: by its reference, since argsort has no C" in compiled._latest[1].program.described()


def test_explain_shows_loops(capsys: pytest.CaptureFixture[str]) -> None:
    def step(c: Any, x: Any) -> Any:
        return wg.while_loop(lambda d: (d * d).sum() > 4.0, lambda d: d @ d / 9, c) + x, None

    xs, start = tensor(4, 70, 70), tensor(70, 70)
    compiled = wg.compile(lambda a, xs: wg.scan(step, a, xs))
    compiled(start, xs)
    text = compiled.explain()
    assert "scan of 4 steps: calls its step" in text
    assert "        while_loop: calls its condition and its step" in text
    assert "matmul" in compiled.explain("arena") and "step: 4 trips" in compiled.explain("arena")
    source = compiled.source()
    assert "lambda d: d @ d / 9" in source and "for (long t = 0; t < 4; t++)" in source and "while (1)" in source
    small = wg.compile(lambda x: trajectory(x, x, x))
    small(tensor(1))
    assert "// return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z" in small.source()


def test_dynamic_code_compiles_a_loop_when_it_comes_back() -> None:
    from wengert.runtime.dynamic import tiers

    start = tensor(3)
    tiers.structures.clear()
    results = [arrays_of(wg.scan(lambda c, _: (c * 1.5 + 1.0, c), start, length=6)) for _ in range(4)]
    for found in results[1:]:
        for a, b in zip(found, results[0]):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert any(one.program is not None for one in tiers.structures.values())
