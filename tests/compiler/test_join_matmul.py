"""Narrow products that share an operand, or are added up, become one; and the graph still means what it meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wengert as wg
from tests.compiler.test_layout import assert_means_the_same, gradients, names, recorded
from wengert.compiler import join_matmul as module
from wengert.compiler.cleanup import dce
from wengert.compiler.layout import layout
from wengert.compiler.passes import optimize, verify
from wengert.compiler.rewrite import limited
from wengert.core.devices import Target
from wengert.core.graph import Graph
from wengert.kernels.launch import H200

GPU = Target("cuda:0", H200)


@pytest.fixture(autouse=True)
def small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of these tests count as large."""
    monkeypatch.setattr(module, "LARGE", 0)


def joined(graph: Graph) -> Graph:
    return dce(verify(module.join_matmul(graph, GPU), "join_matmul", graph))


def check(function: Callable[..., Any], *shapes: tuple[int, ...], products: int, dtype: Any = wg.float32) -> Graph:
    """The graph after the pass, of so many products, with the same meaning."""
    graph, _ = optimize(recorded(function, *shapes, dtype=dtype), off=("join_matmul",))
    after = joined(graph)
    if dtype is wg.float32:
        assert_means_the_same(graph, after)
    assert names(after).count("matmul") == products
    return after


def test_a_sum_of_products_is_a_product_over_all_depths() -> None:
    after = check(
        lambda a, b, c, d, e: wg.relu(a @ b + e + (c @ d).reshape(96, 64)),
        *((96, 8), (8, 64), (96, 16), (16, 64), (64,)),
        products=1,
    )
    assert [node.shape for node in after.nodes if node.op.name == "matmul"] == [(96, 64)]


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c, d: (a @ b + c @ d) * (a @ b).sum(),  # a product that is read besides
        lambda a, b, c, d: [a @ b, a @ b + c @ d],
        lambda a, b, c, d: a @ b - c @ d,
    ],
)
def test_products_that_somebody_else_reads_stay(function: Callable[..., Any]) -> None:
    check(function, (96, 8), (8, 64), (96, 8), (8, 64), products=2)


def test_a_sum_whose_operands_are_wider_than_what_it_makes_stays() -> None:
    check(lambda a, b, c, d: a @ b + c @ d, (96, 64), (64, 8), (96, 64), (64, 8), products=2)


def test_products_of_one_value_are_slices_of_one() -> None:
    def function(a: Any, b: Any, c: Any, d: Any) -> Any:
        return wg.tanh(a @ b) * wg.sigmoid(a @ c) + (a @ d).reshape(96, 4, 2).sum(2).mean()

    after = check(function, (96, 64), (64, 8), (64, 8), (64, 8), products=1)
    assert [node.shape for node in after.nodes if node.op.name == "matmul"] == [(96, 24)]


def test_slices_that_would_be_copied_stay_products() -> None:
    check(lambda a, b, c, d: [a @ b, a @ c, (a @ d).sum(0)], (96, 16), (16, 64), (16, 64), (16, 8), products=3)


def test_a_product_that_another_one_needs_stays_apart() -> None:
    check(lambda a, b, c: wg.tanh(a @ (b + (a @ c).sum())).sum(), (96, 64), (64, 8), (64, 8), products=2)


def test_skips_end_in_one_product_and_so_do_their_gradients() -> None:
    """Four layers: the products of skips are one, of their weights one, and of what these are given one."""

    def function(x: Any, *weights: Any) -> Any:
        total: Any = 0
        for across, skip in zip(weights[::2], weights[1::2]):
            y = wg.tanh(x)
            x, total = x + wg.conv1d(y, across), total + wg.conv1d(y, skip)
        return (wg.relu(total) ** 2).sum()

    shapes = ((2, 8, 48), *((8, 8, 1), (64, 8, 1)) * 4)
    graph, _ = optimize(recorded(gradients(function), *shapes), off=("layout", "join_matmul"))
    graph = dce(layout(graph, Target(tf32=True)))
    after = joined(graph)
    assert_means_the_same(graph, after)
    assert names(graph).count("matmul") - names(after).count("matmul") == 3 * 3
    assert sum(node.op.name == "concat" and node.shape == (96, 32) for node in after.nodes) == 1


def test_what_is_not_narrow_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    function = lambda a, b, c, d: a @ b + c @ d
    graph = recorded(function, (96, 8), (8, 64), (96, 8), (8, 64))
    with monkeypatch.context() as patch:
        patch.setattr(module, "INTENSITY", 1)
        assert module.join_matmul(graph, GPU) is graph
    with limited(0):
        assert names(module.join_matmul(graph, GPU)).count("matmul") == 2
    assert names(joined(graph)).count("matmul") == 1
    monkeypatch.undo()
    assert module.join_matmul(graph, GPU) is graph
