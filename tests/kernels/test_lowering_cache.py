"""Groups that are alike share a kernel, and others do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wengert as wg
from tests.compiler.random_graphs import random_graph
from wengert.compiler.memory import storage
from wengert.core.graph import Graph, Node, now
from wengert.kernels.ir.loops import LoopKernel
from wengert.ops.core import placeholder
from wengert.plan import lowering
from wengert.plan.fuse import grouped
from wengert.plan.groups import Grouping
from wengert.plan.lower import lower
from wengert.plan.lowering import inlines

SHAPE = (4, 6)


def planned(function: Callable[..., Any], count: int = 2) -> tuple[Grouping, Callable[[Node], str]]:
    """The groups of a function of some matrices, and what names their buffers."""
    since = now()
    inputs = [placeholder(SHAPE, wg.float32) for _ in range(count)]
    graph = Graph(inputs, [out.node for out in function(*map(wg.Tensor, inputs))], since)
    plan = grouped(graph, inlines, lambda node: node.sources)
    return plan, lambda node: f"n{node.serial}"


def test_equal_layers_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[Any] = []

    def counted(*args: Any) -> LoopKernel:
        lowered.append(args)
        return lower(*args)

    monkeypatch.setattr(lowering, "lower", counted)

    def layers(x: Any, *weights: Any) -> list[Any]:
        for weight in weights:
            x = wg.softmax(x * weight, axis=1) @ x.mT @ x
        return [x]

    plan, named = planned(layers, 5)
    loops = [group for group in plan.groups if group.reduces]
    together = lowering.LoweringCache()
    kernels = [together.lower(group, "kernel", plan.inlined, named) for group in loops]
    assert len(loops) == 4 and len(lowered) == 1
    assert kernels == [lower(group, "kernel", plan.inlined, named) for group in loops]


def test_names_of_one_buffer_are_one() -> None:
    """A result that is written over an operand, as an update of a slot is, makes another kernel than one apart."""
    plan, named = planned(lambda x, y: [x * y])
    (group,) = plan.groups

    def over(node: Node) -> str:
        return named(group.reads[0].leaf if node in group.stored else node)

    together = lowering.LoweringCache()
    apart, joined = (together.lower(group, "kernel", plan.inlined, names) for names in (named, over))
    assert (len(apart.buffers), len(joined.buffers)) == (3, 2)
    assert joined == lower(group, "kernel", plan.inlined, over)


@pytest.mark.parametrize(
    "functions",
    [
        (lambda x: wg.Tensor(x.node * 0.0), lambda x: wg.Tensor(x.node * -0.0)),
        (lambda x: wg.Tensor(x.node * 2.0), lambda x: wg.Tensor(x.node * 3.0)),
        (lambda x: x.sum(axis=1), lambda x: x.sum(axis=0)),
        (lambda x: x.sum(axis=1), lambda x: x.max(axis=1)),
        (lambda x: x[:, ::-1] + 1.0, lambda x: x[::-1] + 1.0),
        (lambda x: x.astype(wg.float64), lambda x: x.astype(wg.float16)),
    ],
)
def test_what_differs_in_more_than_buffers_is_lowered_by_itself(functions: tuple[Any, Any]) -> None:
    together = lowering.LoweringCache()
    for function in functions:
        plan, named = planned(lambda x, f=function: [f(x)], 1)
        (group,) = plan.groups
        kernel = together.lower(group, "kernel", plan.inlined, named)
        assert kernel == lower(group, "kernel", plan.inlined, named)
    assert len(together.kernels) == 2


def test_groups_of_random_graphs_are_lowered_as_by_themselves() -> None:
    """One memory for all of them: what is not alike must not be taken for it."""
    together, count = lowering.LoweringCache(), 0
    for seed in range(60):
        graph, _ = random_graph(seed, 25)
        plan = grouped(graph, inlines, lambda node: node.sources)
        for part in (part for group in plan.groups if not group.opaque for part in group.parts()):
            kernel = together.lower(part, "kernel", plan.inlined, lambda node: f"n{storage(node).serial}")
            assert kernel == lower(part, "kernel", plan.inlined, lambda node: f"n{storage(node).serial}")
            count += 1
    assert len(together.kernels) < count
