"""Selection: the step that carries out each group, by the candidate that won when they were timed or the first."""

from __future__ import annotations

from dataclasses import replace

from wengert.plan.plan import Plan


def tune(plan: Plan) -> Plan:
    """The plan; where tuning was asked for, candidates are timed before one is selected."""
    tuned = plan.codegen.tune(plan)
    return plan if tuned is None else replace(plan, tuned=tuned)


def select(plan: Plan) -> Plan:
    """The plan with a step for each group. Without fuel the first candidate that works is taken."""
    return replace(plan, steps=tuple(plan.codegen.steps(plan)))
