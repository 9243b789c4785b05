"""Reports on a program on a GPU: its launches, the text of their kernels, and which candidates won."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wengert.core.code import describe
from wengert.plan.describe import loop
from wengert.plan.plan import Body, Step, nested

if TYPE_CHECKING:
    from wengert.backends.cuda.program import CudaProgram


def described(program: CudaProgram) -> str:
    """The launches in order: how each launch shape was derived, and which library calls and host ops take part."""
    steps = [step for plan in nested(program.plan) for step in plan.steps]
    launches = sum(len(step.launches) for step in steps)
    libraries = sum(step.library is not None for step in steps)
    on_host = [step.host_op.op.name for step in steps if step.host_op is not None]
    named = f": {', '.join(sorted(set(on_host)))}" if on_host else ""
    lines = [
        "",
        f"{program.driver.name} ({program.device}): {launches} launches of our kernels, "
        f"{libraries} calls of libraries, {len(on_host)} ops on the host{named}; "
        f"{program.plan.arena.size / 1e6:.1f} MB of arena",
    ]
    lines += [f"  {program.plan.tuned}"] if program.plan.tuned is not None else []
    for step in program.steps:
        lines += _lines_of(step, "  ")
    return "\n".join(lines)


def _lines_of(step: Step, indent: str) -> list[str]:
    """The launches and calls of a step; those of a loop's bodies are indented below it."""
    where = next((describe(node.location) for node in step.writes if node.location), "")
    lines = loop(step, indent)[:1]
    for part in step.parts:
        if isinstance(part, Body):
            lines.append(f"{indent}  {part.name}:")
            lines += [line for inner in part.plan.steps for line in _lines_of(inner, f"{indent}    ")]
    if step.host_op is not None:
        lines.append(f"{indent}{step.host_op.op.name}: on the host, by its reference  {where}")
    if step.library is not None:
        lines.append(f"{indent}{step.writes[0].op.name}: {step.library.candidate.name}  {where}")
    lines += [
        f"{indent}{launch.entry} {launch.grid} x {launch.block}: {launch.why}  {where}" for launch in step.launches
    ]
    return [*lines, *([f"{indent}  {step.choice}"] if step.choice is not None else [])]


def text_of(step: Step) -> str:
    """The CUDA C++ of a step, each kernel after the derivation of its launch shape."""
    bodies = [
        inner for part in step.parts if isinstance(part, Body) for plan in nested(part.plan) for inner in plan.steps
    ]
    launches = {launch.entry: launch for one in (step, *bodies) for launch in one.launches}
    return "\n".join(f"// {x.grid} blocks of {x.block} threads: {x.why}\n{x.source}" for x in launches.values())


def tuning(program: CudaProgram) -> str:
    """The winning candidates: the time of each, compared with the default."""
    chosen = [step for step in program.steps if step.choice is not None]
    by_time = f"{len(chosen)} of {len(program.steps)} steps chosen by time"
    head = by_time if program.plan.tuned is None else str(program.plan.tuned)
    lines = [f"  {step.writes[0].op.name}: {step.choice.winner}: {step.choice}" for step in chosen if step.choice]
    return "\n".join([head, *(f"{n} x{line}" for line, n in Counter(lines).items())])
