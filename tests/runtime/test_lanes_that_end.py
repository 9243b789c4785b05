"""`vmap` of loops that take as many steps as they take, in C: each lane ends by itself, and makes room for another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.runtime.adaptive import oscillator, starts
from tests.runtime.test_compiled_loops import agree, check

IN_SLOTS, ONE_BY_ONE = "lanes in slots", "lanes, one after the other"
BATCH = wg.vmap(oscillator)


def tensors(count: int, most: float = 20.0, dtype: Any = np.float64) -> list[Any]:
    return [wg.tensor(one) for one in starts(count, most, dtype)]


def loss(batch: Any) -> Any:
    return lambda *args: sum((end * end).sum() for end in batch(*args))


@pytest.mark.parametrize(("count", "form"), [(3, ONE_BY_ONE), (33, IN_SLOTS), (700, IN_SLOTS)])
def test_an_ensemble_with_adaptive_steps_and_its_gradient(count: int, form: str) -> None:
    args = tensors(count)
    assert check(BATCH, *args, tolerance=1e-9) == [f"{count} {form}"]
    function = wg.value_and_grad(loss(BATCH), (0, 1, 2))
    assert set(check(function, *args, tolerance=1e-6)) == {f"{count} {form}"}


def test_each_trajectory_is_what_it_is_alone() -> None:
    args = tensors(40)
    ends = wg.compile(BATCH)(*args)
    slopes = wg.compile(wg.vmap(wg.grad(lambda *a: oscillator(*a)[0], (0, 1, 2))))(*args)
    one, slope = wg.compile(oscillator), wg.compile(wg.grad(lambda *a: oscillator(*a)[0], (0, 1, 2)))
    for i in (0, 1, 17, 39):
        alone = [arg[i] for arg in args]
        agree([end[i] for end in ends], one(*alone), 1e-10)
        agree([each[i] for each in slopes], slope(*alone), 1e-8)


def test_a_lane_has_the_same_bits_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg.config, "invariant", True)
    function = lambda *args: (BATCH(*args), wg.grad(loss(BATCH), (0, 1, 2))(*args))
    args = tensors(300)
    many, few = wg.compile(function)(*args), wg.compile(function)(*[arg[:3] for arg in args])
    for a, b in zip(wg.tree.flatten(many)[0], wg.tree.flatten(few)[0]):
        np.testing.assert_array_equal(a.numpy()[:3], b.numpy())


def test_what_lanes_share_and_lanes_within_lanes() -> None:
    stiffness, x, v = tensors(50)
    shared = wg.vmap(oscillator, (None, 0, 0))
    check(wg.value_and_grad(loss(shared), (0, 1, 2)), stiffness[0], x, v, tolerance=1e-6)
    grid = wg.vmap(wg.vmap(oscillator, (None, 0, 0)), (0, None, None))
    assert check(grid, stiffness[:4], x, v, tolerance=1e-9) == [f"200 {IN_SLOTS}"]
    check(wg.grad(loss(grid), (0, 1, 2)), stiffness[:4], x, v, tolerance=1e-6)


@pytest.mark.parametrize("memory", [4 * 48, 7 * 48])
def test_few_places_give_the_same_gradient(memory: int) -> None:
    args = tensors(300)
    few = wg.vmap(lambda *a: oscillator(*a, memory=memory))
    found, expected = (wg.compile(wg.grad(loss(batch), (0, 1, 2)))(*args) for batch in (few, BATCH))
    for a, b in zip(found, expected):  # whatever is kept, the same is computed
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_lanes_that_take_no_step_or_a_few(dtype: str) -> None:
    def halved(x: Any, by: Any) -> Any:
        return wg.while_loop(lambda x: x > 1.0, lambda x: x * by, x)

    args = [wg.tensor(np.random.default_rng(k).uniform(a, b, 500)) for k, a, b in ((0, 0, 20), (1, 0.1, 0.9))]
    args = [arg.astype(getattr(wg, dtype)) for arg in args]
    tolerance = {"float64": 1e-12, "float32": 1e-5}.get(dtype, 5e-2)
    batch = wg.vmap(halved)
    assert check(batch, *args, tolerance=tolerance) == [f"500 {IN_SLOTS}"]
    check(wg.grad(lambda *a: batch(*a).sum(), (0, 1)), *args, tolerance=tolerance)
    done = wg.tensor(np.zeros(100))
    check(wg.value_and_grad(lambda x: batch(x, args[1][:100].astype(wg.float64)).sum()), done)


def test_matrices_and_integers_in_a_carry() -> None:
    def power(a: Any, n: Any) -> Any:
        """The power of a matrix, by squaring."""

        def step(state: Any) -> Any:
            result, a, n = state
            return wg.where(n % 2 == 1, result @ a, result), a @ a, n // 2

        return wg.while_loop(lambda s: s[2] > 0, step, (wg.eye(2, dtype=a.dtype), a, n))[0]

    a = wg.tensor(np.random.default_rng(0).normal(size=(90, 2, 2)) * 0.5)
    n = wg.tensor(np.random.default_rng(1).integers(0, 40, 90))
    batch = wg.vmap(power)
    assert check(batch, a, n) == [f"90 {IN_SLOTS}"]
    check(wg.grad(lambda a: (batch(a, n) ** 2).sum()), a)


def test_a_branch_inside_is_a_choice() -> None:
    def collatz(n: Any, x: Any) -> Any:
        def step(state: Any) -> Any:
            n, x = state
            odd = lambda n, x: (3 * n + 1, x * 1.25)
            return wg.cond(n % 2 == 0, lambda n, x: (n // 2, wg.sin(x)), odd, n, x)

        return wg.while_loop(lambda s: s[0] > 1, step, (n, x))

    n, x = wg.tensor(np.arange(1, 100)), wg.tensor(np.random.default_rng(0).normal(size=99))
    batch = wg.vmap(collatz)
    assert check(batch, n, x) == [f"99 {IN_SLOTS}"]
    check(wg.grad(lambda x: batch(n, x)[1].sum()), x)


def test_a_loop_inside_goes_lane_by_lane() -> None:
    def run(x: Any) -> Any:
        def step(x: Any) -> Any:
            x, path = wg.scan(lambda c, _: (wg.sin(c) * 0.9, c), x, length=3)
            return x * 0.8 + path.sum() * 0.01

        return wg.while_loop(lambda x: wg.abs(x) > 0.05, step, x)

    x = wg.tensor(np.random.default_rng(0).normal(size=60))
    assert check(wg.vmap(run), x) == [f"60 {ONE_BY_ONE}"]
    check(wg.grad(lambda x: wg.vmap(run)(x).sum()), x)


def test_forward() -> None:
    args = tensors(40, most=2.0)
    check(lambda *a: wg.jvp(loss(BATCH), a, a), *args, tolerance=1e-7)


@pytest.mark.slow
def test_second_order() -> None:
    args = tensors(40, most=2.0)
    gradient = wg.grad(loss(BATCH), (1, 2))
    check(lambda *a: wg.jvp(gradient, a, a)[1], *args, tolerance=1e-5)


def test_an_index_out_of_range_in_a_lane_is_an_error() -> None:
    def walk(i: Any) -> Any:
        step = lambda s: (s[0] + 1, s[1] + wg.one_hot(s[0], 4, dtype=wg.float64))
        return wg.while_loop(lambda s: s[0] < 4, step, (i, wg.zeros((4,), dtype=wg.float64)))[1]

    i = wg.tensor(np.arange(40) % 6)
    assert check(wg.vmap(walk), i) == [f"40 {ONE_BY_ONE}"]
    with pytest.raises(wg.errors.ComputationError):
        wg.compile(wg.vmap(walk))(i - 1).numpy()
