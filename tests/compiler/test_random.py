"""Random graphs through the passes: the optimised graph gives what the recorded one does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.random_graphs import assert_close, random_graph, tolerance
from wengert.compiler.cleanup import cse, dce
from wengert.compiler.passes import optimize, verify


@pytest.mark.parametrize("block", range(10))
def test_optimised_is_reference(block):
    fewer = 0
    for seed in range(20 * block, 20 * block + 20):
        graph, arrays = random_graph(seed, 40)
        optimized, _ = optimize(graph)
        for found, expected in zip(optimized(*arrays), graph(*arrays), strict=True):
            assert_close(found, expected, tolerance(graph))
        fewer += len(graph.nodes) - len(optimized.nodes)
    assert fewer > 100  # the graphs give the passes something to do


def test_cse_and_dce_change_no_bit():
    for seed in range(100):
        graph, arrays = random_graph(seed, 40)
        found = verify(dce(cse(graph)), "cse and dce", graph)(*arrays)
        assert [a.tobytes() for a in found] == [a.tobytes() for a in graph(*arrays)]


def test_any_amount_of_fuel_gives_a_graph_that_is_right():
    graph, arrays = random_graph(7, 40)
    expected = graph(*arrays)
    total = sum(report.rewrites for report in optimize(graph)[1])
    assert total > 5
    for fuel in range(total + 1):
        optimized, reports = optimize(graph, fuel=fuel)
        assert sum(report.rewrites for report in reports) <= fuel
        for found, value in zip(optimized(*arrays), expected, strict=True):
            assert_close(found, value, tolerance(graph))


def test_the_same_seed_is_the_same_graph():
    (one, first), (two, second) = random_graph(3, 40), random_graph(3, 40)
    assert [n.op for n in one.nodes] == [n.op for n in two.nodes]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
