"""Programmatic dependent launch of a program's only kernel, if it is a long one: it is there when the kernel before it
ends.

A graph begins when all before it has ended, and a microsecond later: of a kernel of 130 us that is one part in a
hundred. Launched by itself, its blocks take the places that the last blocks of the kernel before it leave, and wait
there (`wg_follow` in its text) until that has ended and all that it wrote can be seen. It costs the host a little more
than a graph, so that short kernels are not launched so.
"""

from __future__ import annotations

from dataclasses import replace

from wengert.compiler.fuel import spend
from wengert.kernels.cuda.source import following
from wengert.plan.plan import Plan

LONG = 64 << 20  # bytes that a kernel moves: it takes longer than to ask for it


def dependent_launch(plan: Plan) -> Plan:
    """The plan with its kernel, if it is one long one, as a launch that depends on the one before it."""
    busy = [step for step in plan.steps if not step.does_nothing]
    properties = plan.target.properties
    if properties is None or len(busy) != 1 or len(busy[0].parts) != 1 or len(busy[0].launches) != 1:
        return plan
    if int(properties.arch.rstrip("a")) < 90 or busy[0].moved_bytes < LONG:
        return plan
    launch = following(busy[0].launches[0])
    if launch is None or not spend(busy[0].writes[0], lambda: "the kernel is launched ahead of the end of the last"):
        return plan
    changed = replace(busy[0], parts=(launch,))
    return replace(plan, steps=tuple(changed if step is busy[0] else step for step in plan.steps))
