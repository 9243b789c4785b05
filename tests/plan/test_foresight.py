"""What the plan foresees: steps that hold plans (loops), and steps that start and wait, on a small machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import wengert as wg
from tests.plan.machine import TOY, Machine, ToyCodegen, plan_of
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, Node, now
from wengert.ops import elementwise as e
from wengert.ops.core import placeholder
from wengert.plan import memory as memory
from wengert.plan.describe import described
from wengert.plan.memory import arena, liveness, waits
from wengert.plan.plan import Body, Buffers, HostOp, Plan, Start, Step, Wait
from wengert.plan.verify import verify


@pytest.fixture(autouse=True)
def shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs share memory, too."""
    monkeypatch.setattr(memory, "APART", -1)


def laid_out(graph: Graph, steps: list[Step], output: Node) -> Plan:
    """A plan of these steps, whose memory the stages plan as any other's."""
    slots = {node: i for i, node in enumerate([*graph.inputs, output])}
    buffers = Buffers(list(graph.inputs), [], [output], slots)
    plan = Plan(graph, TOY, ToyCodegen(), steps=tuple(steps), buffers=buffers)
    return verify(waits(arena(liveness(plan))), "the stages")


def step_of(node: Node) -> Step:
    return Step((HostOp(node),), list(node.sources), [node])


def test_the_small_machine_computes_what_a_plan_says() -> None:
    since = now()
    x = placeholder((4, 5), wg.float32)
    y = wg.softmax(wg.tanh(wg.Tensor(x)) * wg.Tensor(x), axis=1)
    graph = Graph([x], [y.node], since)
    array = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    plan = plan_of(graph)
    assert len({*plan.arena.offsets.values()}) < len(plan.arena.offsets)  # values share places
    np.testing.assert_allclose(Machine(plan)([array])[0], graph(array)[0], rtol=1e-6)


def body() -> tuple[Plan, Graph]:
    """One trip of a loop: h becomes sin(h) * 2 + w, and w stays."""
    since = now()
    h, w = placeholder((8,), wg.float32), placeholder((8,), wg.float32)
    graph = Graph([h, w], [e.add(e.multiply(e.sin(h), h), w)], since)
    return plan_of(graph), graph


def test_a_step_may_hold_a_plan_with_carries() -> None:
    inner, trip = body()
    x, w = placeholder((8,), wg.float32), placeholder((8,), wg.float32)
    before = e.exp(x)
    loop = Node(e.exp, (before, w), {}, (8,), before.dtype, "cpu", False, None)  # what the loop makes
    after = e.negative(loop)
    steps = [
        step_of(before),
        Step((Body(inner, ((0, 0),), trips=5),), [before, w], [loop], workspace={"body": inner.arena.size}),
        step_of(after),
    ]
    graph = Graph([x, w], [after], nodes=[before, loop, after])
    plan = laid_out(graph, steps, after)
    assert plan.waits == ((), (0,), (1,)) and "5 trips through" in described(plan)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=8).astype(np.float32) for _ in range(2)]
    h = np.exp(arrays[0])
    for _ in range(5):
        (h,) = trip(h, arrays[1])
    np.testing.assert_allclose(Machine(plan)(arrays)[0], -h, rtol=1e-6)


def test_the_memory_of_a_body_is_the_step_s_alone() -> None:
    """A body's arena lies over nothing that its step reads: verify says so where it does."""
    inner, _ = body()
    x, w = placeholder((8,), wg.float32), placeholder((8,), wg.float32)
    before = e.exp(x)
    loop = Node(e.exp, (before, w), {}, (8,), before.dtype, "cpu", False, None)
    step = Step((Body(inner, ((0, 0),), 2),), [before, w], [loop], workspace={"body": inner.arena.size})
    plan = laid_out(Graph([x, w], [loop], nodes=[before, loop]), [step_of(before), step], loop)
    offsets = {**plan.arena.offsets, (1, "body"): plan.arena.offsets[before]}
    with pytest.raises(CompilerError, match="whose workspace 'body' lies over it"):
        verify(replace(plan, arena=plan.arena._replace(offsets=offsets)), "arena")


def collective(between: int = 0) -> tuple[Graph, list[Step], Node]:
    """A gradient that is summed over processes while something else is computed."""
    x, y = placeholder((8,), wg.float32), placeholder((8,), wg.float32)
    gradient, other = e.sin(x), e.cos(y)
    summed = Node(e.sin, (gradient,), {}, (8,), gradient.dtype, "cpu", False, None)
    result = e.multiply(summed, other)
    steps = [
        step_of(gradient),
        Step((Start("all_reduce 0"),), [gradient], [summed]),
        step_of(other),
        Step((Wait("all_reduce 0"),), [gradient], [summed]),
        step_of(result),
    ]
    if between:
        steps.insert(3, steps.pop(4))  # the result is computed before the sum is there
    return Graph([x, y], [result], nodes=[gradient, other, summed, result]), steps, result


def test_steps_may_start_and_wait() -> None:
    graph, steps, result = collective()
    plan = laid_out(graph, steps, result)
    assert plan.waits[2] == ()  # computed meanwhile
    assert plan.waits[3] == () and 1 in plan.waits[4]  # who reads the sum waits for the call that makes it
    gradient, summed = steps[0].writes[0], steps[1].writes[0]
    assert plan.lives[gradient].last == 3 and plan.lives[summed].first == 1  # in flight from the start to the wait
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=8).astype(np.float32) for _ in range(2)]
    np.testing.assert_allclose(Machine(plan)(arrays)[0], 2 * np.sin(arrays[0]) * np.cos(arrays[1]), rtol=1e-6)


def test_what_is_in_flight_is_not_touched() -> None:
    graph, steps, result = collective(between=1)
    with pytest.raises(CompilerError, match="touches what 'all_reduce 0' is still working on"):
        laid_out(graph, steps, result)
    graph, steps, result = collective()
    with pytest.raises(CompilerError, match="waits for 'all_reduce 0', which was not started"):
        laid_out(graph, [steps[0], *steps[2:]], result)
    del steps[3]
    with pytest.raises(CompilerError, match=r"touches|never waited for"):
        laid_out(graph, steps, result)
