"""The methods: their coefficients satisfy the order conditions, and solutions converge with their orders."""

from __future__ import annotations

from functools import lru_cache
from math import factorial
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ode.problems import ADAPTIVE, EXPLICIT, STIFF, real, turning
from wengert.ode.kvaerno import KVAERNO5
from wengert.ode.rosenbrock_tableaus import RODAS4, RODAS5, Rosenbrock
from wengert.ode.steps import METHODS
from wengert.ode.tableaus import DOPRI5, DOPRI8, RK4, TSIT5, Tableau

Tree = tuple[Any, ...]


@lru_cache
def trees(size: int) -> list[Tree]:
    """The rooted trees with so many nodes: each stands for an order condition."""
    found: set[Tree] = set()

    def grow(left: int, most: int, branches: Tree) -> None:
        if left == 0:
            found.add(tuple(sorted(branches)))
        for part in range(1, min(left, most) + 1):
            for tree in trees(part):
                grow(left - part, part, (*branches, tree))

    grow(size - 1, size - 1, ())
    return sorted(found)


def size(tree: Tree) -> int:
    return 1 + sum(map(size, tree))


def density(tree: Tree) -> int:
    """In the exact solution the weight of a tree is one over this."""
    return size(tree) * int(np.prod([density(branch) for branch in tree] or [1]))


def weights(tree: Tree, alpha: Any, beta: Any) -> Any:
    """The weight of a tree in each stage; of Rosenbrock methods an only branch goes through the Jacobian, too."""
    if len(tree) == 1:
        return beta @ weights(tree[0], alpha, beta)
    found = np.ones(len(alpha))
    for branch in tree:
        found = found * (alpha @ weights(branch, alpha, beta))
    return found


def residual(b: Any, alpha: Any, beta: Any, order: int, theta: float = 1.0) -> float:
    """How far the conditions of an order are off."""
    return max(abs(b @ weights(tree, alpha, beta) - theta**order / density(tree)) for tree in trees(order))


def square(rows: Any) -> Any:
    return np.array([[*row, *[0.0] * (len(rows) - len(row))] for row in rows])


def test_there_are_as_many_trees_as_order_conditions() -> None:
    assert [len(trees(n)) for n in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]
    assert density(((((),),),)) == factorial(4)  # a tall tree


@pytest.mark.parametrize("tableau", [TSIT5, DOPRI5, DOPRI8, RK4], ids=lambda tableau: tableau.name)
def test_explicit_coefficients_satisfy_all_conditions_of_their_order(tableau: Tableau) -> None:
    a, b = square(tableau.a), np.array(tableau.b)
    assert np.abs(a.sum(1) - tableau.c).max() < 1e-14
    assert max(residual(b, a, a, order) for order in range(1, tableau.order + 1)) < 2e-14
    assert residual(b, a, a, tableau.order + 1) > 1e-6
    if tableau.error is not None:
        lower = b - np.array(tableau.error)
        assert max(residual(lower, a, a, order) for order in range(1, tableau.error_order)) < 2e-14
        assert residual(lower, a, a, tableau.error_order) > 1e-6
    if tableau.within is not None:
        for theta in (0.3, 0.7):
            part = theta ** np.arange(1, 5) @ tableau.within
            assert max(residual(part, a, a, order, theta) for order in range(1, 5)) < 2e-14


@pytest.mark.parametrize("tableau", [RODAS4, RODAS5], ids=lambda tableau: tableau.name)
def test_rosenbrock_coefficients_satisfy_all_conditions_of_their_order(tableau: Rosenbrock) -> None:
    a, stages = square(tableau.a), len(tableau.a)
    gamma = np.linalg.inv(np.eye(stages) / tableau.gamma - square(tableau.c_matrix))
    alpha, beta = a @ gamma, a @ gamma + gamma
    assert np.abs(alpha.sum(1) - tableau.c).max() < 1e-12
    assert np.abs(gamma.sum(1) - tableau.d).max() < 1e-12
    b, lower = tableau.m @ gamma, a[-1] @ gamma
    assert max(residual(b, alpha, beta, order) for order in range(1, tableau.order + 1)) < 1e-12
    assert max(residual(lower, alpha, beta, order) for order in range(1, tableau.order)) < 1e-12
    assert residual(b, alpha, beta, tableau.order + 1) > 1e-3
    for theta in (0.3, 0.7, 1.0):
        part = theta ** np.arange(1, len(tableau.within) + 1) @ tableau.within @ gamma
        assert max(residual(part, alpha, beta, order, theta) for order in range(1, tableau.order)) < 1e-11


def test_the_coefficients_of_kvaerno_s_method_satisfy_all_conditions_of_its_order() -> None:
    a = square(KVAERNO5.a) + np.diag([0.0, *[KVAERNO5.gamma] * 6])
    assert np.abs(a.sum(1) - KVAERNO5.c).max() < 1e-14
    b, lower = np.array(KVAERNO5.b), np.array(KVAERNO5.b) - np.array(KVAERNO5.error)
    assert np.array_equal(b, a[-1]) and np.allclose(lower, a[-2])  # stiffly accurate, both
    assert max(residual(b, a, a, order) for order in range(1, 6)) < 1e-14
    assert max(residual(lower, a, a, order) for order in range(1, 5)) < 1e-14
    assert residual(b, a, a, 6) > 1e-5 and residual(lower, a, a, 5) > 1e-5
    z = 1e9  # R(z) at -infinity is 0: L-stable
    assert abs(1 - z * b @ np.linalg.solve(np.eye(7) + z * a, np.ones(7))) < 1e-5
    assert abs(1 - z * lower @ np.linalg.solve(np.eye(7) + z * a, np.ones(7))) < 1


def errors(name: str, steps: int) -> tuple[float, float]:
    """With so many equal steps from 0 to 2: the error at the end, and the largest in the middle of the last step."""
    method, h = METHODS[name], 2.0 / steps

    def f(t: Any, y: Any) -> Any:
        return list(turning(t, y, None))

    def step(now: Any, _: Any) -> Any:
        t, y, slope = now
        made = method.attempt(f, t, y, slope, real(h))
        return (t + h, made.y, made.slope), None

    start = [real(0.0), real(1.0)]
    first = (real(0.0), start, f(real(0.0), start))
    (t, y, slope), _ = wg.scan(step, first, length=steps - 1)
    end = method.attempt(f, t, y, slope, real(h)).y
    half = [
        sum(0.5**i * one for i, one in enumerate(column)) for column in zip(*method.within(f, t, y, slope, real(h)))
    ]
    middle = 2.0 - h / 2
    return (
        max(abs(end[0].item() - np.sin(2.0)), abs(end[1].item() - np.cos(2.0))),
        max(abs(half[0].item() - np.sin(middle**2 / 2)), abs(half[1].item() - np.cos(middle**2 / 2))),
    )


@pytest.mark.parametrize(
    ("name", "steps", "order", "within"),
    [("rk4", 16, 4, 4), ("tsit5", 16, 5, 5), ("dopri5", 16, 5, 5), ("dopri8", 8, 8, 7)]
    + [("rodas4", 16, 4, 4), ("rodas5", 16, 5, 5), ("kvaerno5", 16, 5, 5)],
)
def test_solutions_converge_with_the_order_of_the_method(name: str, steps: int, order: int, within: int) -> None:
    coarse, fine = errors(name, steps), errors(name, 2 * steps)
    assert np.log2(coarse[0] / fine[0]) > order - 0.3
    assert np.log2(coarse[1] / fine[1]) > within - 0.4


@pytest.mark.parametrize("method", ADAPTIVE)
def test_the_error_falls_with_the_tolerance(method: str) -> None:
    start = (real(0.0), real(1.0))
    found = [wg.ode.solve(turning, start, [0.0, 2.0], method=method, rtol=tol, atol=tol) for tol in (1e-4, 1e-7)]
    wrong = [abs(one.y[0].item() - np.sin(2.0)) for one in found]
    assert wrong[0] < 2e-3 and wrong[1] < 2e-6 and wrong[1] < wrong[0] / 20
    assert found[0].steps.item() < found[1].steps.item()


@pytest.mark.parametrize("method", ADAPTIVE)
def test_values_between_steps_are_as_good_as_steps(method: str) -> None:
    ts = np.linspace(0, 2, 23)
    found = wg.ode.solve(turning, (real(0.0), real(1.0)), ts, method=method, rtol=1e-8, atol=1e-8)
    assert np.abs(found.ys[0].numpy() - np.sin(ts**2 / 2)).max() < 1e-6
    assert np.array_equal(found.ys[1].numpy()[0], 1.0) and found.ys[1].shape == (23,)
    alone = wg.ode.solve(turning, (real(0.0), real(1.0)), [0.0, 2.0], method=method, rtol=1e-8, atol=1e-8)
    assert found.steps.item() == alone.steps.item()  # times between do not shorten steps


@pytest.mark.parametrize("method", [EXPLICIT[0], STIFF[0]])
def test_time_may_go_back(method: str) -> None:
    found = wg.ode.solve(lambda t, y, _: -y * t, real(1.0), [1.0, 0.5, -0.5], method=method, rtol=1e-9, atol=1e-9)
    assert np.abs(found.ys.numpy() - np.exp(0.5 - np.array([1.0, 0.5, -0.5]) ** 2 / 2)).max() < 1e-7
    assert found.t.item() == -0.5


def test_fixed_steps_and_a_short_last_one() -> None:
    found = wg.ode.solve(lambda t, y, _: -y, real(1.0), [0.0, 0.55, 1.05], method="rk4", step_size=0.1)
    assert found.steps.item() == 11 and found.rejected.item() == 0
    assert np.abs(found.ys.numpy() - np.exp([0.0, -0.55, -1.05])).max() < 1e-6


def test_no_way_to_go_is_no_step() -> None:
    found = wg.ode.solve(lambda t, y, _: -y, real(3.0), [1.0, 1.0])
    assert found.steps.item() == 0 and found.y.item() == 3.0
    repeated = wg.ode.solve(lambda t, y, _: -y, real(3.0), [0.0, 0.0, 1.0, 1.0]).ys.numpy()
    assert np.abs(repeated - 3 * np.exp([0.0, 0.0, -1.0, -1.0])).max() < 1e-5


def test_the_state_s_dtype_is_that_of_the_solution() -> None:
    start = {"a": wg.tensor(1.0), "b": [wg.ones((2, 2))]}
    found = wg.ode.solve(lambda t, y, _: wg.tree.map(lambda one: -one, y), start, np.array([0.0, 1.0]))
    assert found.ys["a"].dtype == wg.float32 == found.t.dtype and found.ys["b"][0].shape == (2, 2, 2)
    assert abs(found.y["b"][0].numpy() - np.exp(-1)).max() < 1e-5
