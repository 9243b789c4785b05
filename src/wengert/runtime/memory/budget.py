"""A memory budget as a promise: a program is planned to stay within it, or an error says by how much it does not.

A plan that needs too much is made again with less memory for intermediate values, so that more of them are recomputed
(`compiler/remat`), until it meets the budget or nothing cheap is left to recompute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from wengert.core.errors import MemoryBudgetError
from wengert.plan.plan import Plan
from wengert.runtime.debug.explain import bytes_text
from wengert.runtime.memory.predict import ProgramMemory, predicted

if TYPE_CHECKING:
    from wengert.runtime.capture import Captured

_TRIES = 3  # plans with less for intermediate values, before the one that keeps least


class Promise(NamedTuple):
    """A memory budget for the program of a recorded call."""

    size: int
    captured: Captured


def plan_within(make: Callable[[int | None], Plan], promise: Promise) -> Plan:
    """A plan that stays within the budget, or an error that says by how much it is exceeded.

    `make` plans with a limit in bytes for intermediate values, or without one.
    """
    budget, c = promise

    def takes(plan: Plan) -> ProgramMemory:
        return predicted(plan, c.graph, len(c.arguments), c.unread())

    plan = make(None)
    memory = least = takes(plan)
    for _ in range(_TRIES):
        aim = plan.arena.size - (of_program(memory) - budget)
        if of_program(memory) <= budget or aim <= 0:
            break
        plan = make(aim)
        memory = takes(plan)
        least = min(least, memory, key=of_program)
    if of_program(memory) > budget:
        plan = make(1)
        memory = takes(plan)
        least = min(least, memory, key=of_program)
    if of_program(memory) > budget:
        raise MemoryBudgetError(_too_much(least, budget), least=of_program(least))
    return plan


def of_program(memory: ProgramMemory) -> int:
    """The bytes that a program uses, without the GPU driver's own memory."""
    return memory.peak - memory.parts.get("context", 0)


def _too_much(memory: ProgramMemory, budget: int) -> str:
    parts = {name: size for name, size in memory.parts.items() if name != "context"}
    least, above = of_program(memory), of_program(memory) - budget
    named = ", ".join(f"{name} {bytes_text(size)}" for name, size in sorted(parts.items(), key=lambda item: -item[1]))
    return (
        f"compile: memory_budget is {bytes_text(budget)}, but the program needs {bytes_text(least)}, "
        f"{bytes_text(above)} more ({named}), even after recomputing everything cheap. {_what_helps(memory, above)}"
    )


def _what_helps(memory: ProgramMemory, above: int) -> str:
    """The advice in the error: what grows with the batch, and what does not."""
    if memory.parts.get("intermediates", 0) < above:
        return (
            "That is more than all intermediate values: use a smaller model, half precision (wg.bfloat16), "
            "an optimizer with less state, or smaller batches and results"
        )
    peak = max(memory, key=lambda moment: moment.live)
    lines = "".join(f"\n  {bytes_text(size):>10}  {what}  {where}" for size, what, where in peak.values[:3])
    return (
        "Use a smaller batch (wg.largest_batch finds it), wg.checkpoint around the blocks of a model, or "
        f"wg.autocast. The largest values at the step with peak memory:{lines}"
    )
