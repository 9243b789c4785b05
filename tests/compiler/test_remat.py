"""Rematerialisation: what is computed again, for whom, and that values stay the same to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cpu import program as cpu
from wengert.backends.cpu.toolchain import compiler
from wengert.compiler.passes import optimize
from wengert.core.devices import Target
from wengert.core.graph import Graph, now
from wengert.ops.core import placeholder, recompute_barrier
from wengert.runtime.debug import explain

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with")
WIDE = (256, 256)


def graph_of(function: Callable[..., Any], count: int) -> Graph:
    since = now()
    inputs = [placeholder(WIDE, wg.float32) for _ in range(count)]
    return Graph(inputs, [function(*map(wg.Tensor, inputs)).node], since)


def programs(graph: Graph, **options: Any) -> list[cpu.CpuProgram]:
    """Without and with rematerialisation."""
    target = Target(**options)
    return [cpu.build(optimize(graph, off=off, target=target)[0]) for off in ({"remat"}, ())]


def peaks(graph: Graph, **options: Any) -> list[int]:
    return [max(moment.live for moment in explain.timeline(p)) for p in programs(graph, **options)]


def deep(x: Any, *weights: Any) -> Any:
    """Products and activations that are read again after all of them, as a backward pass does."""
    kept = []
    for weight in weights:
        product = x @ weight
        x = wg.gelu(product, approximate="tanh")
        kept.append((product, x))
    for product, activation in reversed(kept):
        x = (x @ activation) * wg.exp(product)
    return x


def late(x: Any, weight: Any) -> Any:
    hidden = wg.sigmoid(x * 2)
    return wg.tanh(hidden @ weight) @ weight + hidden


def rectified(x: Any, *weights: Any) -> Any:
    """Layers with a way past them, and what their backward pass reads: the results, and the signs of the arguments."""
    kept = []
    for weight in weights:
        total = x + wg.erf(x @ weight)
        x = wg.relu(total)
        kept.append((total, x))
    for total, activation in reversed(kept):
        x = wg.where(total <= 0, 0, x @ activation)
    return x


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes if node.sources]


def test_what_is_read_late_is_computed_again_from_what_is_there() -> None:
    after = optimize(graph_of(late, 2))[0]
    assert names(after).count("sigmoid") == 2 and names(after).count("recompute_barrier") == 1


def test_what_is_small_or_read_at_once_is_not() -> None:
    graph = graph_of(lambda x, w: wg.softmax(wg.sigmoid(x @ w), axis=1), 2)
    assert "recompute_barrier" not in names(optimize(graph)[0])
    x = placeholder((4, 4), wg.float32)
    assert "recompute_barrier" not in names(optimize(Graph([x], [late(wg.Tensor(x), wg.Tensor(x)).node]))[0])


def test_less_memory_and_the_same_bits() -> None:
    graph = graph_of(deep, 5)
    rng = np.random.default_rng(0)
    arrays = [(rng.normal(size=WIDE) / 16).astype(np.float32) for _ in range(5)]
    without, with_remat = (program(arrays)[0] for program in programs(graph, budget=1))
    np.testing.assert_array_equal(with_remat, without)
    before, after = peaks(graph, budget=1)
    assert after <= 0.75 * before


def test_of_a_relu_the_result_is_kept_and_not_its_argument() -> None:
    graph = graph_of(rectified, 4)
    before, after = peaks(graph)
    assert after <= 0.75 * before
    rng = np.random.default_rng(0)
    arrays = [(rng.normal(size=WIDE) / 16).astype(np.float32) for _ in range(4)]
    arrays[0][:3, 0] = np.nan, np.inf, -np.inf
    without, with_remat = (program(arrays)[0] for program in programs(graph))
    np.testing.assert_array_equal(with_remat, without)


def test_the_argument_stays_where_something_else_reads_it_late() -> None:
    def read(x: Any, weight: Any) -> Any:
        total = x + wg.erf(x @ weight)
        hidden = wg.relu(total)
        return wg.where(total <= 0, 0, wg.erf(hidden @ weight) @ hidden) * wg.erf(total)

    assert not any(
        n.op.name == "less_equal" and n.sources[0].op.name == "recompute_barrier"
        for n in optimize(graph_of(read, 2))[0].nodes
    )


def test_a_budget_takes_what_it_needs_and_no_more() -> None:
    graph = graph_of(deep, 5)
    before, least = peaks(graph, budget=1)
    assert least < peaks(graph, budget=(before + least) // 2)[1] < before
    assert peaks(graph, budget=before)[1] == peaks(graph)[1]


def gradients(rows: int, device: str) -> Graph:
    """The gradients of a loss after five layers, recorded only: with 16384 rows a program of 3 GB."""

    def loss(x: Any, *weights: Any) -> Any:
        for weight in weights:
            x = wg.gelu(x @ weight, approximate="tanh")
        return wg.sum(wg.logsumexp(x.to(wg.float32), axis=1))

    since = now()
    shapes = [(rows, 4096), *[(4096, 4096)] * 4, (4096, 16384)]
    inputs = [placeholder(shape, wg.bfloat16, device) for shape in shapes]
    found = wg.grad(loss, argnums=tuple(range(len(shapes))))(*map(wg.Tensor, inputs))
    return Graph(inputs, [tensor.node for tensor in found], since)


@pytest.mark.parametrize(("rows", "device", "count"), [(16384, "cuda:0", 2), (16384, "cpu", 0), (1024, "cuda:0", 0)])
def test_a_large_program_on_a_gpu_writes_some_values_again_in_passing(rows: int, device: str, count: int) -> None:
    before, after = (names(optimize(gradients(rows, device), off=off)[0]) for off in ({"remat"}, ()))
    assert after.count("gelu_sigmoid") == before.count("gelu_sigmoid") + count  # of five


def test_the_setting_is_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [wg.tensor(np.full(WIDE, 1e-3, np.float32)) for _ in range(4)]
    function = wg.compile(lambda x: deep(x, *weights))
    expected, alone = function(wg.ones(WIDE)).numpy(), function.memory().peak
    monkeypatch.setattr(wg.config, "memory_budget", 1)
    with pytest.raises(wg.errors.MemoryBudgetError) as error:
        function(wg.ones(WIDE))
    least = error.value.least
    monkeypatch.setattr(wg.config, "memory_budget", least)
    np.testing.assert_array_equal(function(wg.ones(WIDE)).numpy(), expected)
    assert function.memory().peak <= least < alone


def test_a_checkpoint_is_compiled_and_saves_memory() -> None:
    weights = [wg.tensor(np.eye(256, dtype=np.float32), requires_grad=True) for _ in range(9)]

    def trained(wrap: Callable[..., Any]) -> tuple[int, Any, Any]:
        def block(x: Any, *some: Any) -> Any:
            for weight in some:
                x = wg.erf(x @ weight)
            return x

        @wg.compile
        def step(x: Any) -> Any:
            for k in range(0, 9, 3):
                x = wrap(block)(x, *weights[k : k + 3])
            return x.sum()

        gradient = wg.compile(wg.grad(step))
        found = gradient(wg.ones(WIDE)).detach().numpy()
        program = gradient._latest[1].program
        assert all(s.host_op is None or s.host_op.op.name == "pick" for s in program.steps)  # all of it is in C
        return max(moment.live for moment in gradient.memory()), found, program

    plain, expected, _ = trained(lambda block: block)
    saved, found, _ = trained(wg.checkpoint)
    assert saved < 0.7 * plain
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("first", [True, False])
def test_what_is_computed_at_every_step_serves_nothing_that_is_computed_once_a_row(first: bool) -> None:
    """A loop that reads a value again computes nothing twice, but where each is computed counts."""
    x, y = placeholder((4, 8), wg.float32), placeholder((4, 1), wg.float32)
    row = wg.Tensor(y)
    wide = wg.broadcast_to(row, x.shape)
    inside, outside = wg.Tensor(x) * wg.Tensor(recompute_barrier(x)) * (wide * wide), wg.exp(row * row)
    graph = Graph([x, y], [(inside + outside if first else outside + inside).sum(axis=1).node])
    arrays = [np.arange(size, dtype=np.float32).reshape(-1, n) / 9 for size, n in ((32, 8), (4, 1))]
    np.testing.assert_allclose(cpu.build(graph)(arrays)[0], graph(*arrays)[0], rtol=1e-6)
