"""Loops and branches on the emulated GPU: one kernel each, a thread a lane, and the values that the references give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.runtime.adaptive import oscillator, starts
from tests.runtime.test_compiled_loops import agree, interpreted
from wengert.kernels.loops import cuda as loops_cuda

ALLOWED = {"float64": 1e-11, "float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}

pytestmark = pytest.mark.usefixtures("gpu")


def compared(function: Callable[..., Any], *arrays: Any, kernels: str = "") -> str:
    """The values of a compiled function on the GPU are those of the references, and no op is left to the host."""
    compiled = wg.compile(function)
    for _ in range(2):  # the second time by a graph
        found = wg.tree.flatten(compiled(*[wg.tensor(array, device="cuda") for array in arrays]))[0]
    with interpreted():
        expected = wg.tree.flatten(function(*[wg.tensor(array) for array in arrays]))[0]
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        x, y = a.numpy(), b.numpy()
        if y.dtype.kind in "biu":
            np.testing.assert_array_equal(x, y)
        else:
            x, y = x.astype(np.float64), y.astype(np.float64)
            allowed = ALLOWED[b.dtype.name] * max(1.0, float(np.abs(y).max(initial=0)))
            np.testing.assert_allclose(x, y, rtol=0, atol=allowed)
    text = compiled.explain()
    assert " 0 ops on the host" in text and kernels in text, text
    return text


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def lorenz(state: Any, dt: float = 0.01) -> Any:
    x, y, z = state
    return x + dt * 10.0 * (y - x), y + dt * (x * (28.0 - z) - y), z + dt * (x * y - 8 / 3 * z)


def ends(*state: Any, steps: int = 20, memory: Any = None) -> Any:
    return wg.scan(lambda s, _: (lorenz(s), None), state, length=steps, memory=memory)[0]


# --- scans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (70,), (300,), (6, 50)], ids=str)
def test_a_thread_takes_a_lane_through_all_steps(shape: tuple[int, ...]) -> None:
    count = int(np.prod(shape))
    told = f"{count} lanes, a thread each" if count > 1 else "one thread"
    compared(ends, *[normal(*shape, seed=k) for k in range(3)], kernels=told)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("reverse", [False, True])
def test_steps_read_and_stack_in_every_dtype(dtype: str, reverse: bool) -> None:
    def function(x: Any, w: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            made = c + x * w
            return made, (made, made > c)

        return wg.scan(step, x[0], x, reverse=reverse)

    array = np.random.default_rng(0).integers(0, 3, (5, 40)).astype(getattr(wg, dtype))
    compared(function, array, array[1], kernels="40 lanes")


def test_lanes_that_are_the_first_axis_lie_apart() -> None:
    def function(x: Any, w: Any) -> Any:
        return wg.scan(lambda c, x: (wg.tanh(c @ w + x), c.sum(axis=1)), x[0], x)

    compared(function, normal(4, 50, 3), normal(3, 3), kernels="50 lanes")


def test_what_lanes_share_is_stored_once() -> None:
    def function(x: Any, c: Any) -> Any:
        return wg.scan(lambda s, x: ((s[0] * s[1] + x, s[1] * 0.5), (s[1], s[0])), (x[0], c), x)

    compared(function, normal(4, 40), normal(), kernels="40 lanes")


def test_random_bits_differ_by_lane() -> None:
    def function(x: Any) -> Any:
        wg.random.manual_seed(3)

        def step(c: Any, _: Any) -> Any:
            return c + wg.random.uniform(x.shape, device=x.device), wg.random.normal(x.shape, device=x.device)

        return wg.scan(step, x, length=4)

    wg.random.manual_seed(3)
    x, compiled = normal(50), wg.compile(function)
    found = [compiled(wg.tensor(x, device="cuda")) for _ in range(2)]
    assert "50 lanes" in compiled.explain() and " 0 ops on the host" in compiled.explain()
    wg.random.manual_seed(3)
    with interpreted():
        for results in found:
            agree(results, function(wg.tensor(x)), 1e-5)


@pytest.mark.parametrize("steps", [0, 1])
def test_no_steps_and_one(steps: int) -> None:
    compared(lambda x: wg.scan(lambda c, _: (c * 2, c), x, length=steps), normal(40))


def test_an_index_out_of_range_is_told(gpu: EmulatedDriver) -> None:
    def function(x: Any, i: Any) -> Any:
        return wg.scan(lambda c, i: (c + wg.one_hot(i, 3, dtype=wg.float32) * c, None), x, i)[0]

    compared(function, normal(3), np.array([0, 2, 1]), kernels="scan")
    with pytest.raises(IndexError):
        wg.compile(function)(wg.tensor(normal(3), device="cuda"), wg.tensor([0, 5, 1], device="cuda")).numpy()


# --- while loops and branches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (50,)], ids=str)
def test_a_while_loop_is_one_kernel(shape: tuple[int, ...]) -> None:
    def function(x: Any, n: Any) -> Any:
        return wg.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, wg.sin(s[1]) + 0.5), (wg.tensor(0, device=x.device), x)
        )

    compared(function, normal(*shape), np.array(7), kernels="while_loop")


@pytest.mark.parametrize("shape", [(), (50,)], ids=str)
@pytest.mark.parametrize("choice", [True, False])
def test_one_branch_runs(shape: tuple[int, ...], choice: bool) -> None:
    def function(x: Any, choice: Any) -> Any:
        return wg.cond(choice, lambda x: (x * 2, x + 1), lambda x: (wg.exp(x), -x), x)

    compared(function, normal(*shape), np.array(choice), kernels="cond")


def test_loops_inside_of_loops() -> None:
    def function(x: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            inner, ys = wg.scan(lambda d, e: (d * 0.5 + e, wg.sin(d)), c, wg.stack([x, c, x * c]))
            grown = wg.while_loop(
                lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] * 1.5), (wg.tensor(0, device=x.device), inner)
            )
            turned = wg.cond(grown[0] > 1, lambda a: a + 1, lambda a: a - 1, grown[1])
            return turned * 0.3, (ys, ys.sum(axis=0))

        return wg.scan(step, x[0], x)

    compared(function, normal(4, 40), kernels="40 lanes")
    compared(function, normal(4), kernels="one thread")


# --- derivatives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [None, 2000, 900], ids=str)
@pytest.mark.parametrize("shape", [(), (40,)], ids=str)
def test_the_gradient_of_an_ensemble(shape: tuple[int, ...], memory: Any) -> None:
    def total(*state: Any) -> Any:
        return sum((end * end).sum() for end in ends(*state, memory=memory)) * 1e-3

    text = compared(wg.grad(total, argnums=(0, 1, 2)), *[normal(*shape, seed=k) for k in range(3)])
    assert text.count("scan") >= 2


@pytest.mark.parametrize("memory", [None, 1500], ids=str)
def test_the_gradient_of_what_lanes_share(memory: Any) -> None:
    def total(x: Any, rate: Any, shift: Any) -> Any:
        end, ys = wg.scan(lambda c, _: (wg.sin(rate * c) + shift, c * rate), x, length=12, memory=memory)
        return (end * end).sum() + ys.sum()

    text = compared(wg.grad(total, argnums=(0, 1, 2)), normal(90), normal(), normal(seed=1), kernels="90 lanes")
    assert "one thread" not in text


@pytest.mark.parametrize("memory", [None, 800], ids=str)
def test_second_order_and_forward(memory: Any) -> None:
    def total(x: Any) -> Any:
        return (wg.scan(lambda c, _: (wg.sin(c) * 1.1, None), x, length=9, memory=memory)[0] ** 2).sum()

    x = normal(40, dtype=np.float64)
    compared(lambda x: wg.grad(lambda x: (wg.grad(total)(x) ** 2).sum())(x), x, kernels="40 lanes")
    compared(lambda x, t: wg.jvp(wg.grad(total), (x,), (t,)), x, normal(40, dtype=np.float64), kernels="40 lanes")


def test_a_batch_of_scans() -> None:
    def one(x: Any, xs: Any) -> Any:
        return wg.scan(lambda c, x: (wg.tanh(c * x), c), x, xs)

    compared(wg.vmap(one), normal(50), normal(50, 6), kernels="50 lanes")
    loss = lambda x, xs: sum((part**2).sum() for part in wg.vmap(one)(x, xs))
    compared(wg.grad(loss, argnums=(0, 1)), normal(50), normal(50, 6), kernels="50 lanes")


# --- lanes that end by themselves -------------------------------------------------------------------------------------


def decay(rate: Any, x: Any, tolerance: float = 1e-3) -> Any:
    """Integrate x' = -rate x^2 from 0 to 1 with steps that adapt: a trajectory has as many as it takes."""

    def slope(x: Any) -> Any:
        return -rate * x * x

    def goes_on(state: Any) -> Any:
        return state[1] < 1.0

    def step(state: Any) -> Any:
        x, t, h = state
        h = wg.minimum(h, 1.0 - t)
        euler = x + h * slope(x)
        heun = x + h * 0.5 * (slope(x) + slope(euler))
        error = wg.abs(heun - euler) + 1e-9
        accepted = error < tolerance
        grown = h * wg.clip(0.9 * wg.sqrt(tolerance / error), 0.2, 3.0)
        return wg.where(accepted, heun, x), wg.where(accepted, t + h, t), grown

    zero = x * 0
    return wg.while_loop(goes_on, step, (x, zero, zero + 0.1))[0]


def test_adaptive_trajectories_are_one_kernel() -> None:
    rate, x = np.float64(1.5), np.random.default_rng(0).uniform(0.1, 4, 50)
    batch = wg.vmap(decay, (None, 0))
    compared(batch, rate, x, kernels="50 lanes, a thread each")
    one = np.random.default_rng(1).uniform(0.5, 2, 50)
    compared(wg.vmap(decay), one, x, kernels="50 lanes, a thread each")


@pytest.mark.parametrize("shared", [True, False])
def test_the_gradient_of_adaptive_trajectories(shared: bool) -> None:
    x = np.random.default_rng(0).uniform(0.1, 4, 50)
    rate = np.float64(1.5) if shared else np.random.default_rng(1).uniform(0.5, 2, 50)
    axes = (None, 0) if shared else (0, 0)

    def loss(rate: Any, x: Any) -> Any:
        return (wg.vmap(decay, axes)(rate, x) ** 2).sum()

    compared(wg.value_and_grad(loss, argnums=(0, 1)), rate, x, kernels="wg_while_gradient")
    compared(wg.vmap(wg.grad(decay, argnums=(0, 1)), axes), rate, x, kernels="wg_while_gradient")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_oscillator_with_error_control(dtype: str) -> None:
    batch = wg.vmap(oscillator)
    arrays = starts(70, most=3.0, dtype=dtype)
    compared(batch, *arrays, kernels="70 lanes, a thread each")
    if dtype == "float64":  # accepted steps have to be the same, to the last
        loss = lambda *a: sum((end**2).sum() for end in batch(*a))
        compared(wg.value_and_grad(loss, argnums=(0, 1, 2)), *arrays, kernels="wg_while_gradient")


@pytest.mark.parametrize("count", [257, 1000, 1024])
def test_threads_take_several_lanes(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops_cuda, "RESIDENT", 1)
    monkeypatch.setattr(loops_cuda, "block_of", lambda count, device: 32)
    monkeypatch.setattr(loops_cuda, "MOST", 5)
    told = f"{count} lanes, 5 a thread"
    compared(wg.vmap(oscillator), *starts(count, most=3.0), kernels=told)
    rate, x = np.float64(1.5), np.random.default_rng(0).uniform(0.1, 4, count)
    compared(wg.vmap(decay, (None, 0)), rate, x, kernels=told)
    ended = lambda x: wg.while_loop(lambda x: x > 1.0, lambda x: x * 0.5, x)  # some take no step
    compared(wg.vmap(ended), x, kernels=told)


def test_one_trajectory_is_a_thread_there_and_back() -> None:
    compared(wg.value_and_grad(decay, argnums=(0, 1)), np.float64(1.5), np.float64(2.0), kernels="wg_while_gradient")


@pytest.mark.slow
def test_lanes_within_lanes_and_second_order() -> None:
    rate, x = np.random.default_rng(1).uniform(0.5, 2, 5), np.random.default_rng(0).uniform(0.1, 4, 7)
    grid = wg.vmap(wg.vmap(decay, (None, 0)), (0, None))
    compared(grid, rate, x, kernels="35 lanes, a thread each")
    loss = lambda rate, x: (grid(rate, x) ** 2).sum()
    compared(wg.grad(loss, argnums=(0, 1)), rate, x, kernels="wg_while_gradient")
    compared(lambda rate, x: wg.jvp(wg.grad(loss), (rate, x), (rate, x)), rate, x)
    compared(wg.grad(lambda rate, x: (wg.grad(loss)(rate, x) ** 2).sum()), rate, x)


def test_trajectories_inside_of_a_scan() -> None:
    def simulated(rate: Any, x: Any) -> Any:
        return wg.scan(lambda x, r: (decay(r, x) + 0.5, x), x, rate)

    rate, x = np.random.default_rng(1).uniform(0.5, 2, (40, 4)), np.random.default_rng(0).uniform(0.1, 4, 40)
    batch = wg.vmap(simulated)
    compared(batch, rate, x, kernels="40 lanes, a thread each")
    loss = lambda rate, x: sum((part**2).sum() for part in batch(rate, x))
    compared(wg.grad(loss, argnums=(0, 1)), rate, x)
