"""Results in the place of operands: where a program needs most memory, a kernel writes over what it is last to read.

In: a plan, and when each value of the arena is needed. Out: the plan, some of its steps written anew, and whose place a
result takes. Only the step at which most is alive is changed, then the one at which most is alive after that: elsewhere
it would save nothing, and a kernel that is not that of a model's equal layers any more is one more to compile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from wengert.compiler.fuel import spend
from wengert.compiler.liveness import Life, live
from wengert.core.graph import Node
from wengert.kernels.cuda import write_over
from wengert.kernels.launch import Device
from wengert.plan.plan import Plan
from wengert.plan.steps import Step

WORTH = 1 / 50  # of what is alive: what a result must be at least for a kernel of its own


class InPlace(NamedTuple):
    """The steps, the lives of what has a place of its own, and by result the value whose place it takes."""

    steps: list[Step]
    alive: dict[Any, Life]
    aliases: dict[Node, Node]


def in_place(plan: Plan) -> Plan:
    """The plan with results in the place of operands, as long as that takes away from the peak of live bytes."""
    if plan.target.properties is None:
        return plan
    found = InPlace(list(plan.steps), dict(plan.lives), {})
    improves = True
    while improves and found.alive:
        bytes_alive = live(found.alive, plan.sizes)
        most = max(bytes_alive)
        improves = _improve(found, bytes_alive.index(most), plan.target.properties, WORTH * most)
    return replace(plan, steps=tuple(found.steps), lives=found.alive, aliases=found.aliases)


def _improve(found: InPlace, number: int, device: Device, least: float = 0) -> bool:
    """Have a step write a result of at least so many bytes over an operand; whether it can."""
    steps, alive, aliases = found
    step = steps[number]
    if step.kernel is None:
        return False
    names = {node: name for name, node in step.buffers.items()}
    for result, operand in _pairs(found, number, least):
        written = write_over(step.kernel, names[result], names[operand], device)
        if written is not None and spend(result, lambda result=result: f"{result.op.name} is written over an operand"):  # type: ignore[misc]
            kernel, work = written
            buffers = {name: node for name, node in step.buffers.items() if node is not result}
            steps[number] = replace(step, kernel=kernel, parts=work.launches, workspace=work.workspace, buffers=buffers)
            owner = aliases[result] = aliases.get(operand, operand)
            alive[owner] = Life(alive[owner].first, alive.pop(result).last)
            return True
    return False


def _pairs(found: InPlace, number: int, least: float) -> list[tuple[Node, Node]]:
    """Results of a step, the largest first, each with the operands like it that nothing needs afterwards."""
    steps, alive, aliases = found
    used = set(steps[number].buffers.values())
    operands = [node for node in steps[number].reads if node in used and aliases.get(node, node) in alive]
    dying = [node for node in operands if alive[aliases.get(node, node)].last == number]
    results = [node for node in steps[number].writes if node in alive and _bytes(node) >= least]
    results.sort(key=_bytes, reverse=True)
    return [(r, o) for r in results for o in dying if (r.size, r.dtype) == (o.size, o.dtype)]


def _bytes(node: Node) -> int:
    return node.size * node.dtype.itemsize
