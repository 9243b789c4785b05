"""Loops and branches on the GPU against the references: random programs of them, and ensembles with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.fuzz import joined, passes_off
from tests.compiler.loop_graphs import loop_graph
from tests.compiler.wide_graphs import differs
from tests.runtime.adaptive import oscillator, starts
from tests.runtime.test_compiled_loops import interpreted
from wengert.backends.cuda.memory import download
from wengert.backends.cuda.program import build
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph
from wengert.ops.core import to_device

UNIT = 10  # graphs to a program


@pytest.mark.parametrize("start", range(0, 300, UNIT))
def test_random_loops_on_the_gpu_equal_the_references(start: int) -> None:
    whole = joined([loop_graph(9000 + seed) for seed in range(start, start + UNIT)])
    moved = [to_device(node, "cuda:0") for node in whole.graph.outputs]
    graph, _ = optimize(Graph(whole.graph.inputs, moved, nodes=[*whole.graph.nodes, *moved]), off=passes_off(start))
    program = build(graph)
    first, second = ([np.asarray(download(array)) for array in program(whole.arrays)] for _ in range(2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, second))
    problems = [differs(*result) for result in zip(first, whole.expected, whole.allowed)]
    assert not any(problems), [problem for problem in problems if problem]


def lorenz(state: Any, dt: float = 0.005) -> Any:
    x, y, z = state
    return x + dt * 10.0 * (y - x), y + dt * (x * (28.0 - z) - y), z + dt * (x * y - 8 / 3 * z)


@pytest.mark.parametrize("count", [1, 70, 20_000])
@pytest.mark.parametrize("memory", [None, 9000])
def test_an_ensemble_and_its_gradient(count: int, memory: Any) -> None:
    rng = np.random.default_rng(0)
    state = [rng.normal(size=count) for _ in range(3)]

    def total(rate: Any, *state: Any) -> Any:
        found = wg.scan(lambda s, _: (lorenz(s, rate), s[0]), state, length=50, memory=memory and memory * count)
        return sum((end * end).mean() for end in found[0]) + found[1].mean()

    function = wg.value_and_grad(total, argnums=(0, 1, 2, 3))
    compiled = wg.compile(function)
    given = [wg.tensor(np.float64(0.004), device="cuda"), *[wg.tensor(part, device="cuda") for part in state]]
    found = wg.tree.flatten(compiled(*given))[0]
    again = wg.tree.flatten(compiled(*given))[0]
    assert all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in zip(found, again))
    assert " 0 ops on the host" in compiled.explain()
    with interpreted():
        expected = wg.tree.flatten(function(wg.tensor(np.float64(0.004)), *map(wg.tensor, state)))[0]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("count", [1, 70, 20_000, 300_000])  # of the last a thread has two
def test_adaptive_trajectories_and_their_gradient(count: int) -> None:
    args = starts(count)
    batch = wg.vmap(oscillator)
    function = wg.value_and_grad(lambda *a: sum((end * end).mean() for end in batch(*a)), (0, 1, 2))
    compiled = wg.compile(function)
    found, again = ([x.numpy() for x in wg.tree.flatten(compiled(*on_gpu))[0]] for on_gpu in [on("cuda", args)] * 2)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, again))
    text = compiled.explain()
    assert " 0 ops on the host" in text and "wg_while_gradient" in text
    expected = wg.tree.flatten(wg.compile(function)(*on("cpu", args)))[0]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-8)


def on(device: str, arrays: list[Any]) -> list[wg.Tensor]:
    return [wg.tensor(array, device=device) for array in arrays]
