"""Reverse mode through `while_loop`: equal to the Python it stands for, with few carries kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff import cond
from wengert.core import evaluation
from wengert.core.graph import ancestors


def looped(n: int, memory: Any = None) -> Any:
    """So many steps, which the loop finds out."""

    def run(w: Any, x: Any) -> Any:
        def step(state: Any) -> Any:
            i, x = state
            return i + 1, wg.sin(x * w) + x / (1.0 + i.to(wg.float64))

        return (wg.while_loop(lambda s: s[0] < n, step, (wg.tensor(0), x), memory=memory)[1] ** 2).sum()

    return run


def plain(n: int) -> Any:
    def run(w: Any, x: Any) -> Any:
        for i in range(n):
            x = wg.sin(x * w) + x / (1.0 + i)
        return (x**2).sum()

    return run


W, X = wg.tensor([1.1, 0.7]), wg.tensor([0.3, -0.4])
W, X = W.to(wg.float64), X.to(wg.float64)


def close(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    for a, b in zip(wg.tree.flatten(found)[0], wg.tree.flatten(expected)[0], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("places", [4, 6, 64])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 13, 40])
def test_gradients_are_those_of_the_python_loop(n: int, places: int) -> None:
    run = looped(n, memory=places * 24)  # a counter and two numbers
    close(wg.value_and_grad(run, (0, 1))(W, X), wg.value_and_grad(plain(n), (0, 1))(W, X))


@pytest.mark.parametrize("n", [0, 7])
def test_second_order_and_forward_over_reverse(n: int) -> None:
    run, expected = looped(n, memory=4 * 24), plain(n)
    close(wg.hessian(run, 1)(W, X), wg.hessian(expected, 1)(W, X))
    for transform in (
        lambda f: wg.jvp(wg.grad(f, (0, 1)), (W, X), (X, W))[1],
        lambda f: wg.grad(lambda w, x: (wg.grad(f, 0)(w, x) ** 2).sum() + (wg.grad(f, 1)(w, x) * w).sum(), (0, 1))(
            W, X
        ),
        lambda f: wg.vjp(lambda w: wg.jvp(f, (w, X), (X, W))[1], W)[1](wg.tensor(1.0).to(wg.float64)),
    ):
        close(transform(run), transform(expected))


def test_third_order_and_numeric_differences() -> None:
    def power(a: Any) -> Any:
        return wg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * a), (wg.tensor(0), a))[1]

    assert wg.grad(wg.grad(wg.grad(power)))(2.0).item() == 48.0
    wg.check_grads(looped(9, memory=6 * 24), (W, X), order=2)


def newton(a: Any, x: Any) -> Any:
    """A square root by as many steps as it takes."""
    return wg.while_loop(lambda x: wg.abs(x * x - a) > 1e-13, lambda x: 0.5 * (x + a / x), x)


def test_lanes_that_take_different_numbers_of_steps() -> None:
    a = wg.tensor(np.array([2.0, 9.0, 1e4, 1.5]))
    slope = wg.grad(lambda a: newton(a, a * 0.0 + 1.0))
    expected = 0.5 / np.sqrt(a.numpy())
    np.testing.assert_allclose([slope(one).item() for one in a], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(wg.vmap(slope)(a).numpy(), [slope(one).item() for one in a], rtol=1e-12)
    shared = wg.vmap(wg.grad(newton, (0, 1)), (None, 0))(a[0], wg.stack([a[0], a[1]]))
    one = [wg.grad(newton, (0, 1))(a[0], start) for start in (a[0], a[1])]
    for k in (0, 1):
        np.testing.assert_allclose(shared[k].numpy(), [each[k].item() for each in one], rtol=1e-9, atol=1e-12)


def test_compiled_is_interpreted() -> None:
    run = wg.value_and_grad(looped(21, memory=6 * 24), (0, 1))
    close(wg.compile(run)(W, X), run(W, X), rtol=1e-12)


def test_a_slot_that_is_assigned_inside() -> None:
    total = wg.tensor(0.0)

    def run(x: Any) -> Any:
        def step(y: Any) -> Any:
            total.assign(total + y)
            return y * 1.5

        return wg.while_loop(lambda y: y < 10.0, step, x)

    x = wg.tensor(2.0, requires_grad=True)
    run(x).backward()
    assert x.grad is not None and x.grad.item() == 1.5**4
    np.testing.assert_allclose(total.item(), 2.0 * (1 + 1.5 + 1.5**2 + 1.5**3))


@pytest.mark.parametrize(("n", "places", "bound"), [(300, 64, 2.95), (300, 8, 4.83)])
def test_so_many_steps_are_computed_again(n: int, places: int, bound: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of the loop has a sine, each step walked back a cosine; the loop itself runs once more."""
    counts: dict[str, int] = {}
    apply = evaluation.apply

    def counted(node: Any, arrays: Any, out: Any = None) -> Any:
        counts[node.op.name] = counts.get(node.op.name, 0) + 1
        return apply(node, arrays, out)

    monkeypatch.setattr(evaluation, "apply", counted)
    wg.grad(looped(n, memory=places * 24), 1)(W, X).numpy()
    assert counts["cos"] == n and counts["sin"] <= bound * n


def test_max_steps_is_no_error_where_the_loop_ends() -> None:
    def run(x: Any) -> Any:
        return wg.while_loop(lambda y: y < 10.0, lambda y: y * 1.5, x, max_steps=4)

    assert run(wg.tensor(2.0)).item() == 2.0 * 1.5**4 and wg.grad(run)(2.0).item() == 1.5**4
    assert wg.grad(wg.grad(lambda x: run(x) ** 2))(2.0).item() == 2 * 1.5**8
    np.testing.assert_allclose(wg.vmap(wg.grad(run))(wg.tensor([2.0, 9.0, 20.0])).numpy(), [1.5**4, 1.5, 1.0])
    assert wg.jvp(run, (2.0,), (1.0,))[1].item() == 1.5**4
    with pytest.raises(wg.errors.ComputationError, match="after 4 steps"):
        run(wg.tensor(0.1)).item()
    with pytest.raises(wg.errors.ComputationError, match="after 4 steps"):
        wg.compile(run)(wg.tensor(0.1)).item()
    with pytest.raises(wg.errors.ComputationError, match="after 4 steps"):
        wg.vmap(run)(wg.tensor([2.0, 0.1])).numpy()


def test_memory_is_a_size_and_64_carries_without_one() -> None:
    with pytest.raises(wg.errors.ArgumentError, match="while_loop: memory must be a number of bytes"):
        looped(3, memory="much")(W, X)
    assert cond.checkpoints_for([], None) == 64 and cond.checkpoints_for([X.node], "1 kB") == 62


def test_lanes_with_a_common_condition_share_what_they_do_not_have_of_their_own() -> None:
    """Along many tangents the values are computed once, and how many steps there are is asked once."""

    def root(a: wg.Tensor) -> wg.Tensor:
        return wg.while_loop(lambda x: wg.abs(x * x - a) > 1e-9, lambda x: 0.5 * (x + a / x), a)

    a = wg.tensor(2.0, dtype=wg.float64)
    along = wg.vmap(lambda t: wg.jvp(root, (a,), (t,))[1])(wg.tensor([1.0, -2.0], dtype=wg.float64))
    loops = [node for node in ancestors([along.node]) if node.op is cond.WHILE]
    assert [source.shape for source in loops[-1].sources[-2:]] == [(), (2,)]
    np.testing.assert_allclose(along.numpy(), np.array([1.0, -2.0]) / (2 * np.sqrt(2.0)), rtol=1e-9)
