"""A plan as text: its groups, or its steps with their implementation, memory and dependencies."""

from __future__ import annotations

from collections.abc import Iterable

from wengert.core.code import describe
from wengert.core.graph import Node, describe_type
from wengert.kernels.launch import Launch
from wengert.plan.actions import DeviceLoop
from wengert.plan.groups import FusionGroup
from wengert.plan.plan import ARENA, Body, CCode, HostOp, LibraryCall, Part, Plan, Start, Step


def described(plan: Plan) -> str:
    """The plan as text, as far as its stages have run."""
    if plan.steps:
        return "\n".join([_summary(plan), *(_step(plan, number, step) for number, step in enumerate(plan.steps))])
    if plan.grouping.groups:
        return "\n".join(_group(number, group) for number, group in enumerate(plan.grouping.groups))
    lines = [f"{_named(node)} with the epilogue {epilogue.how}" for node, epilogue in plan.epilogues.items()]
    lines += [f"output {k} is computed by the host" for k in plan.host.hosted]
    return "\n".join(lines) if lines else f"{len(plan.graph.nodes)} nodes, and nothing decided about them yet"


def _summary(plan: Plan) -> str:
    external, constants, made, _ = plan.buffers
    buffers = f"{len(external)} inputs, {len(constants)} constants, {len(made)} outputs"
    overwritten = f" ({len(plan.donated)} more over inputs)" if plan.donated else ""
    busy = sum(not step.does_nothing for step in plan.steps)
    return f"{busy} steps over {buffers}{overwritten} and an arena of {plan.arena.size} bytes"


def _group(number: int, group: FusionGroup) -> str:
    kind = "a call" if group.opaque else f"over {group.space}" + (f" reducing {group.axes}" if group.axes else "")
    return f"group {number}: {kind}: {', '.join(map(_named, group.roots))}; stores {len(group.stored)}"


def _step(plan: Plan, number: int, step: Step) -> str:
    if step.does_nothing:
        return f"{number:>4} nothing: the value is there already"
    where = next((describe(node.location) for node in step.writes if node.location), "")
    beside = _beside(plan, number)
    waits = f", after {', '.join(map(str, plan.waits[number]))}" if plan.waits and plan.waits[number] else ""
    parts = "; ".join(map(_part, step.parts))
    values = f"{_placed(plan, step.reads)} -> {_placed(plan, step.writes)}"
    line = f"{number:>4} {parts}{waits}{beside}: {values}  {where}".rstrip()
    bodies = (part for part in step.parts if isinstance(part, Body))
    return "\n".join([line, *(f"{' ' * 9}{one}" for body in bodies for one in _body(body))])


def _body(body: Body) -> list[str]:
    return [f"{body.name}: {_summary(body.plan)}", *described(body.plan).splitlines()[1:]]


def loops(plan: Plan, indent: str = "") -> list[str]:
    """The loops and branches of a program, one line each, with their bodies indented below."""
    return [line for step in plan.steps for line in loop(step, indent)]


def loop(step: Step, indent: str = "") -> list[str]:
    """The lines for a step that is a loop or branch and for its bodies; none for other steps."""
    node = step.host_op
    if node is not None:
        return [f"{indent}{_how(node)}: by its reference, since {step.reason}{_at(node)}"] if step.reason else []
    if step.loop is not None:
        by_host = f"step by step from the host, since {step.loop.hosted}" if step.loop.hosted else ""
        lines = [f"{indent}{_how(step.loop.node)}: {by_host or step.loop.why}{_at(step.loop.node)}"]
    elif step.code is not None and step.code.loop and step.first_result is not None:
        node = step.first_result.sources[0]
        lines = [f"{indent}{_how(node)}: {step.code.loop}{_at(node)}"]
    else:
        return []
    for part in step.parts:
        if isinstance(part, Body):
            lines.append(f"{indent}    {part.name}: {_computed(part.plan)}")
            lines += loops(part.plan, f"{indent}        ")
    return lines


def _how(node: Node) -> str:
    steps = node.attrs.get("steps")
    return node.op.name if steps is None else f"{node.op.name} of {steps} steps"


def _at(node: Node) -> str:
    return f"  {describe(node.location)}" if node.location is not None else ""


def _computed(plan: Plan) -> str:
    """The ops of a body, by kernel."""
    named = []
    for step, group in zip(plan.steps, plan.groups_of_steps):
        if not step.does_nothing:
            named.append("+".join(dict.fromkeys(root.op.name for root in group.roots)))
    return f"{len(named)} kernels a step: {', '.join(named)}" if named else "nothing to compute"


def _beside(plan: Plan, number: int) -> str:
    region = next((region for region in plan.regions if number in region), ())
    others = [str(other) for other in region if other != number]
    return f", beside {', '.join(others)}" if others else ""


def _part(part: Part) -> str:
    if isinstance(part, Launch):
        return f"{part.entry} {part.grid} x {part.block}"
    if isinstance(part, LibraryCall):
        return part.candidate.name
    if isinstance(part, CCode) and part.loop:
        return f"a loop or branch in C ({part.loop})"
    if isinstance(part, CCode):
        return "loops in C" if part.function is not None else "a call in C"
    if isinstance(part, DeviceLoop):
        return f"{part.node.op.name} ({part.hosted or part.why})"
    if isinstance(part, HostOp):
        return f"{part.node.op.name} by its reference"
    if isinstance(part, Body):
        trips = f"{part.trips} trips" if part.trips is not None else "trips"
        return f"{part.name}: {trips} through {len(part.plan.steps)} steps"
    return f"{'start' if isinstance(part, Start) else 'wait for'} {part.token}"


def _placed(plan: Plan, nodes: Iterable[Node]) -> str:
    return ", ".join(f"{_named(node)}{_where(plan, node)}" for node in nodes) or "nothing"


def _where(plan: Plan, node: Node) -> str:
    place = plan.place(node)
    if place is None:
        return ""
    memory, start, _ = place
    return f" at {start}" if memory == ARENA else f" in slot {memory}"


def _named(node: Node) -> str:
    return f"{node.op.name} {describe_type(node)}"
