"""The pipeline: every stage can be left out, has its share of fuel, and is found when it is at fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler import fuzz
from tests.compiler.wide_graphs import wide_graph
from tests.plan.stages import STAGES, with_stage
from tests.plan.test_faults import overlapping
from wengert.backends.cpu import toolchain
from wengert.backends.cpu.program import CpuProgram
from wengert.compiler.rewrite import fuel, limited
from wengert.core.devices import HOST_TARGET
from wengert.core.graph import Graph, now
from wengert.ops.core import placeholder
from wengert.plan.c_codegen import CCodegen
from wengert.plan.pipeline import StageReport, compiled_plan, planned
from wengert.plan.plan import Plan
from wengert.runtime.debug.bisect import find_in

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="there is no C compiler to build kernels with")
NAMES = [stage.__name__ for stage in STAGES]
SHAPES = ((32, 32), (32, 32), (32,))


def step_graph() -> Graph:
    """Layers, a loss with its gradient's terms, and updates of two inputs."""
    since = now()
    inputs = [placeholder(shape, wg.float32) for shape in SHAPES]
    x, w, b = map(wg.Tensor, inputs)
    hidden = wg.tanh(x @ w + b)
    loss = (wg.softmax(hidden @ w, axis=1) * x).sum()
    gradient = hidden.T @ x
    outputs = [loss, w - 0.1 * gradient, b - 0.1 * gradient.sum(axis=0)]
    return Graph(inputs, [y.node for y in outputs], since)


def arrays_for(graph: Graph) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=node.shape).astype(node.dtype) / 4 for node in graph.inputs]


def assert_right(plan: Plan, graph: Graph) -> None:
    arrays = arrays_for(graph)
    for found, expected in zip(CpuProgram(plan)(arrays), graph(*arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*NAMES, "all of them"])
def test_without_a_stage_the_values_are_the_same(name: str) -> None:
    graph = step_graph()
    off = NAMES if name == "all of them" else [name]
    plan = planned(graph, HOST_TARGET, CCodegen, ((1, 1), (2, 2)), off)
    assert_right(plan, graph)
    assert all(report.rewrites == 0 for report in plan.reports if report.name in off)


def test_stages_do_something_and_report_it() -> None:
    plan = planned(step_graph(), HOST_TARGET, CCodegen, ((1, 1), (2, 2)))
    made = {report.name: report.rewrites for report in plan.reports if isinstance(report, StageReport)}
    assert list(made) == NAMES
    assert {name for name, rewrites in made.items() if rewrites} >= {"fuse", "schedule", "donate", "liveness", "arena"}
    without = planned(step_graph(), HOST_TARGET, CCodegen, ((1, 1), (2, 2)), NAMES)
    assert len(without.steps) > len(plan.steps) and without.arena.size > plan.arena.size and not without.donated


@pytest.mark.parametrize("left", [0, 1, 3, 6, 10, 14])
def test_fuel_stops_the_stages_wherever_it_ends(left: int) -> None:
    graph = step_graph()
    before = fuel.spent
    with limited(left):
        plan = planned(graph, HOST_TARGET, CCodegen, ((1, 1), (2, 2)))
    assert fuel.spent - before <= left
    assert_right(plan, graph)


def test_passes_and_stages_share_one_supply_of_fuel() -> None:
    graph = step_graph()
    before = fuel.spent
    plan = compiled_plan(graph, HOST_TARGET, CCodegen, fuel=4)
    assert fuel.spent - before == 4
    assert sum(report.rewrites for report in plan.reports) == 4


def test_a_stage_at_fault_is_found_by_bisection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arena lays values over each other where it has the fuel to share memory: that rewrite is named."""
    original = next(stage for stage in STAGES if stage.__name__ == "arena")

    def arena(plan: Plan) -> Plan:
        before = fuel.spent
        found = original(plan)
        return overlapping(found) if fuel.spent > before else found

    with_stage(monkeypatch, "arena", arena)
    graph = step_graph()
    fault = find_in(graph, arrays_for(graph))
    assert fault is not None and fault.rewrite is not None
    assert fault.rewrite.name == "arena" and "in arena: values are placed" in fault.text


def test_steps_whose_results_nobody_reads_are_planned() -> None:
    """Without dead-code elimination a loop may store nothing; a random graph found that a region begins with one."""
    sample = wide_graph(1272)
    assert fuzz.problem_of(sample, ["dce", "transpose_matmul"]) is None


def test_a_plan_is_a_value() -> None:
    plan = planned(step_graph(), HOST_TARGET, CCodegen)
    with pytest.raises(AttributeError):
        plan.steps = ()  # type: ignore[misc]
    assert replace(plan, steps=()).steps == () and plan.steps
