"""Compile time: the work of passes, fusion and memory planning grows in step with the graph.

Counts decide, seconds are only printed: a busy machine must not fail a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter
from typing import Any

import pytest

import wengert as wg
from wengert.autodiff.reverse import reverse
from wengert.compiler import rewrite
from wengert.compiler.memory import best_fit, lives, storage
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph, now
from wengert.kernels import c_ops
from wengert.ops.core import placeholder
from wengert.plan.fuse import _Fusion, grouped
from wengert.plan.lowering import inlines

WIDTH = 32


def training_step(layers: int) -> Graph:
    """Forward, backward and update of a residual network, about 140 nodes a layer."""
    since = now()
    x = placeholder((16, WIDTH), wg.float32)
    shapes = [(WIDTH, WIDTH), (WIDTH,), (WIDTH,), (WIDTH,)] * layers
    parameters = [placeholder(shape, wg.float32) for shape in shapes]
    h, tensors = wg.Tensor(x), [wg.Tensor(node) for node in parameters]
    for i in range(0, len(tensors), 4):
        weight, bias, scale, shift = tensors[i : i + 4]
        h = h + wg.gelu(wg.layer_norm(h, (WIDTH,), scale, shift) @ weight + bias)
    loss = (h * h).mean()
    outputs = [loss.node]
    for parameter, gradient in zip(parameters, reverse([loss.node], [wg.ones(()).node], parameters)):
        assert gradient is not None
        moment, square = gradient * 0.1 + parameter * 0.9, gradient * gradient * 0.01
        outputs += [parameter - moment * 0.01 / (square**0.5 + 1e-8), moment, square]
    return Graph([x, *parameters], outputs, since)


def counting(patch: pytest.MonkeyPatch, counts: Counter[str], where: Any, name: str) -> None:
    original: Callable[..., Any] = getattr(where, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        counts[name] += 1
        return original(*args, **kwargs)

    patch.setattr(where, name, counted)


@pytest.mark.slow
def test_work_grows_in_step_with_the_graph(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    for name in ("may_merge", "reads_of", "merge", "producers"):
        counting(monkeypatch, counts, _Fusion, name)
    counting(monkeypatch, counts, rewrite, "over")
    rows = []
    for layers in (7, 36, 143):
        graph = training_step(layers)
        counts.clear()
        times = [perf_counter()]
        optimized, _ = optimize(graph)
        times.append(perf_counter())
        groups = grouped(optimized, inlines, c_ops.operands).groups
        times.append(perf_counter())
        alive = lives([([storage(read.leaf) for read in group.reads], group.stored) for group in groups])
        best_fit(alive, {node: max(node.size * 4, 1) for node in alive})
        times.append(perf_counter())
        seconds = [after - before for before, after in pairwise(times)]
        rows.append((len(graph.nodes), len(groups), dict(counts), seconds))
    with capsys.disabled():
        print("\n nodes groups  passes    fuse  memory  seconds; attempts to merge, reads looked at")
        for nodes, groups, work, (passes, fusing, memory) in rows:
            attempts = f"{work['may_merge']:>6} {work['reads_of']:>6}"
            print(f"{nodes:>6} {groups:>6} {passes:>7.3f} {fusing:>7.3f} {memory:>7.3f}  {attempts}")
    (small, _, few, _), *_, (large, _, many, _) = rows
    assert large > 15 * small and large > 18_000
    for name, count in many.items():
        assert count / large <= 1.2 * few[name] / small, f"{name} grows faster than the graph"
