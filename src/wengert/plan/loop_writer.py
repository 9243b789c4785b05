"""The step of a loop or branch on a GPU: the parts common to scans, `while_loop` and `cond`.

In: a node with the plans of its bodies. Out: a step that holds them and a `DeviceLoop`. Its temporary is one block: the
arena that the bodies share, followed by the loop's own memory: second buffers of carries, unread values, counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wengert.compiler.memory import storage
from wengert.core.graph import Graph, Node
from wengert.ops.op import PICK
from wengert.plan.actions import (
    Action,
    Address,
    Choose,
    DeviceLoop,
    Move,
    Moves,
    Path,
    Repeat,
    RunBody,
    While,
    nodes_of,
)
from wengert.plan.plan import Body, LibraryCall, Plan, Step, nested

TEMPORARY = "body"  # the loop's own memory

MakePlan = Callable[[Graph, Sequence[tuple[int, int]]], Plan]
"""From a body and its inputs with the outputs that take their place to its plan."""


def size_of(node: Node) -> int:
    """The bytes of a value."""
    return int(node.size * node.dtype.itemsize)


def nodes_of_plan(plan: Plan) -> int:
    """The number of CUDA graph nodes of a plan."""
    count = 0
    for step in plan.steps:
        count += len(step.launches) + (step.library is not None)
        if step.loop is not None:
            bodies = [nodes_of_plan(part.plan) for part in step.parts if isinstance(part, Body)]
            count += nodes_of(step.loop.actions, bodies)
    return count


def host_ops(plan: Plan) -> Iterator[Node]:
    """The ops in a body that the host computes."""
    for step in plan.steps:
        if step.host_op is not None and step.host_op.op is not PICK:
            yield step.host_op
        for part in step.parts:
            if isinstance(part, Body):
                yield from host_ops(part.plan)


class LoopWriter:
    """The parts common to all three kinds."""

    def __init__(self, node: Node, results: Mapping[int, Node], named: Callable[[Node], str], plan: MakePlan) -> None:
        self.node, self.results, self.plan = node, results, plan
        self.given = [Address(named(source)) for source in node.sources]
        self.wanted = {number: Address(named(result)) for number, result in results.items()}
        self.names = {named(value): storage(value) for value in (*node.sources, *results.values())}
        self.bodies = tuple(self._bodies())
        self.size = max(_rounded(body.plan.arena.size) for body in self.bodies)

    def _bodies(self) -> Iterator[Body]:
        raise TypeError("each kind of loop says what its bodies are")

    def _actions(self) -> Iterator[Action]:
        raise TypeError("each kind of loop says what it does")

    def step(self, reads: Sequence[Node]) -> Step:
        """The step."""
        actions = tuple(action for action in self._actions() if not isinstance(action, Moves) or action.moves)
        hosted = next(filter(None, (_why_hosted(body.plan) for body in self.bodies)), "")
        loop = DeviceLoop(self.node, actions, _told(actions, self.bodies), tuple(self.names), hosted)
        workspace = {TEMPORARY: max(self.size, 1)}
        return Step((loop, *self.bodies), reads, list(self.results.values()), self.names, workspace)

    def room(self, size: int) -> Address:
        """Memory of the loop's own, after the arena of its bodies."""
        at, self.size = self.size, self.size + _rounded(size)
        return Address(TEMPORARY, at)

    def result(self, number: int, node: Node) -> Address:
        """The address of a result, or scratch memory if nothing reads it."""
        return self.wanted[number] if number in self.wanted else self.room(size_of(node))

    def fixed(self, number: int, places: Mapping[Node, Address]) -> dict[int, Path]:
        """The paths of a body's inputs that do not move from step to step."""
        return {slot_of(self.bodies[number].plan, node): Path((place,)) for node, place in places.items()}

    def path_of(self, number: int, node: Node, paths: Mapping[int, Path]) -> Path:
        """The path of a body's value that has a slot."""
        slot = slot_of(self.bodies[number].plan, node)
        return paths[slot] if slot in paths else Path((Address(constant_name(number, slot)),))


def _why_hosted(plan: Plan) -> str:
    """Why the host takes part in every step of a body; empty if it does not."""
    if op := next(iter(host_ops(plan)), None):
        return f"in its body {op.op.name} has no CUDA"
    calls = (part for one in nested(plan) for step in one.steps for part in step.parts if isinstance(part, LibraryCall))
    waiting = next((call for call in calls if not call.captured), None)
    return f"in its body {waiting.candidate.name} waits for the device" if waiting is not None else ""


def constant_name(body: int, slot: int) -> str:
    """The name of a body's constant array among the loop's buffers."""
    return f"constant {slot} of body {body}"


def slot_of(plan: Plan, node: Node) -> int:
    return plan.buffers.slots[storage(node)]


def makes(plan: Plan, node: Node) -> bool:
    return storage(node) in plan.buffers.made


def _rounded(size: int) -> int:
    return -(-size // 256) * 256


def _told(actions: Sequence[Action], bodies: Sequence[Body]) -> str:
    for action in actions:
        if isinstance(action, Repeat):
            steps = next(run.steps for run in action.actions if isinstance(run, RunBody))
            return f"a graph repeats {steps} steps {action.trips} times"
        if isinstance(action, While):
            return "a graph repeats its step and its condition"
        if isinstance(action, Choose):
            return "a graph runs one of its branches"
    steps = sum(action.steps for action in actions if isinstance(action, RunBody))
    return f"{steps} steps, one after the other"


def moves_of(pairs: Sequence[tuple[Address, Address, int]]) -> Moves:
    """The copies of values that are not at their destination: to, from, bytes."""
    return Moves(tuple(Move(to, source, size) for to, source, size in pairs if to != source and size))


# --- carries ----------------------------------------------------------------------------------------------------------


class Carry(NamedTuple):
    """A carry of a loop, and how its next value is made."""

    number: int
    given: Node  # the body's input,
    made: Node  # and its output
    end: Address  # where its result belongs
    other: Address | None  # the second place, if it has one
    owned: bool  # whether a step writes it there
    kept: int | None  # the stacked output that holds it, if any

    @property
    def size(self) -> int:
        return size_of(self.given)


def carries_of(
    writer: LoopWriter, number: int, inputs: Sequence[Node], outputs: Sequence[Node], kept: Mapping[Node, int] = {}
) -> list[Carry]:
    """The carries of a body; `kept` are the stacked outputs that hold a step's initial carry."""
    plan, found, owned = writer.bodies[number].plan, list[Carry](), set[Node]()
    for k, (given, made) in enumerate(zip(inputs, outputs)):
        result = storage(made)
        if result is given or plan.donated.get(result) is given:
            found.append(Carry(k, given, made, writer.result(k, given), None, False, None))
            continue
        owns = makes(plan, made) and result not in owned
        owned.add(result)
        stack = kept.get(given) if owns else None
        other = writer.room(size_of(given)) if stack is None else None
        found.append(Carry(k, given, made, writer.result(k, given), other, owns, stack))
    return found
