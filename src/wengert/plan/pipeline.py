"""The pipeline: from a recorded graph to a plan, through the graph passes and then the plan stages, in order.

In: a graph and a target. Out: a plan with a report of every pass and stage. A stage is a plain function from plan to
plan, named for what it does. It calls `spend` before each change, and without fuel does the minimum: stages (and
passes) named in `wg.config.passes_off` get no fuel. The plan is verified after all stages, and on failure again after
each, to name the stage at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from time import perf_counter

from wengert.compiler.passes import PASSES, PassReport, optimize
from wengert.compiler.rewrite import Pass, begin, limited
from wengert.compiler.rewrite import fuel as tank
from wengert.core.devices import Target
from wengert.core.graph import Graph
from wengert.plan.epilogues import library_epilogues
from wengert.plan.fuse import fuse
from wengert.plan.groups import schedule
from wengert.plan.launches import dependent_launch, hoist, horizontal_fusion, parallel_regions
from wengert.plan.lowering import attention_partials, column_partials, expand
from wengert.plan.memory import arena, in_place, liveness, waits
from wengert.plan.outputs import donate, host_outputs
from wengert.plan.plan import MakeCodegen, Plan
from wengert.plan.verify import verify


def tune(plan: Plan) -> Plan:
    """The plan; if tuning was requested, candidates are timed before `select` chooses one."""
    tuned = plan.codegen.tune(plan)
    return plan if tuned is None else replace(plan, tuned=tuned)


def select(plan: Plan) -> Plan:
    """The plan with a step for each group. Without fuel the first candidate that works is taken."""
    return replace(plan, steps=tuple(plan.codegen.steps(plan)))


# --- pipeline -------------------------------------------------------------------------------------------------------


Stage = Callable[[Plan], Plan]

STAGES: tuple[Stage, ...] = (
    *(expand, host_outputs, library_epilogues, fuse, schedule, donate, tune, select),
    *(column_partials, attention_partials, horizontal_fusion, dependent_launch, hoist, parallel_regions),
    *(liveness, in_place, arena, waits),
)
"""In the order they run: what is computed together, by which kernels, in how many launches, over which memory."""


UNFIXED = frozenset(("library_epilogues", "column_partials", "attention_partials"))
"""Stages that cut sums into parts by their sizes, or leave them to a library: none under `config.invariant`."""


@dataclass(frozen=True)
class StageReport:
    """What a stage did: number of rewrites, seconds, and the resulting plan; see `PassReport`."""

    name: str
    rewrites: int
    seconds: float
    plan: Plan
    rules: Mapping[str, int] = field(default_factory=dict)


def compiled_plan(
    graph: Graph,
    target: Target,
    codegen: MakeCodegen,
    pairs: Sequence[tuple[int, int]] = (),
    off: Collection[str] = (),
    fuel: int | None = None,
    check: bool = True,
    passes: Sequence[Pass] = PASSES,
    before: Sequence[PassReport] = (),
) -> Plan:
    """The plan of a recorded graph, through all passes and stages, with one fuel budget.

    `pairs` are inputs and the outputs that replace them, by number. `off` names passes and stages to leave out; `check`
    verifies the graph and the plan. `before` are the reports of passes that have already run.
    """
    with limited(fuel):
        optimized, reports = optimize(graph, passes, off, check=check, target=target)
        return planned(optimized, target, codegen, pairs, off, check, [*before, *reports])


def planned(
    graph: Graph,
    target: Target,
    codegen: MakeCodegen,
    pairs: Sequence[tuple[int, int]] = (),
    off: Collection[str] = (),
    check: bool = True,
    reports: Sequence[PassReport] = (),
) -> Plan:
    """The plan of an optimised graph."""
    left = tank.left
    off = {*off, *UNFIXED} if target.invariant else off

    def begin() -> Plan:
        tank.left = left
        return Plan(graph, target, codegen(target), tuple(pairs), frozenset(off), check, reports=tuple(reports))

    try:
        plan = _uncontracted(_through(begin(), off))
        return verify(plan, "the stages") if check else plan
    except Exception:
        if check:
            _through(begin(), off, after_each=True)
        raise


def _uncontracted(plan: Plan) -> Plan:
    """The plan, under `config.invariant` with kernels compiled without floating-point contraction.

    Which multiplications and additions contract would otherwise depend on what else is in a kernel.
    """
    return replace(plan, steps=tuple([step.exact() for step in plan.steps])) if plan.target.invariant else plan


def _through(plan: Plan, off: Collection[str], after_each: bool = False) -> Plan:
    for stage in STAGES:
        begin(stage.__name__)
        rewrites, start = tank.spent, perf_counter()
        with limited(0) if stage.__name__ in off else nullcontext():
            result = stage(plan)
        seconds = perf_counter() - start
        if after_each:
            verify(result, stage.__name__)
        report = StageReport(stage.__name__, tank.spent - rewrites, seconds, result, dict(tank.rules))
        plan = replace(result, reports=(*result.reports, report))
    return plan
