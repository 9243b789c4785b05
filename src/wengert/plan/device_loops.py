"""Loops and branches on a GPU whose bodies are programs: a plan per body, and the actions that run the bodies.

In: a `scan`, `while_loop` or `cond` without a kernel of its own. Out: a step that holds the plans of its bodies and a
`DeviceLoop`. A carry overwrites its old value where the body allows that (`donate`); otherwise it has a second buffer
and is copied back at the end of a step. The condition of a loop or branch stays on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN
from wengert.compiler.memory import storage
from wengert.compiler.rewrite import within
from wengert.core.dtypes import bool_
from wengert.core.graph import Graph, Node, recorded_as
from wengert.ops.core import CAST
from wengert.ops.op import Op
from wengert.plan.actions import Action, Choose, Path, RunBody, Shift, While
from wengert.plan.device_scans import ScanWriter
from wengert.plan.loop_writer import LoopWriter, MakePlan, carries_of, makes, moves_of, size_of, slot_of
from wengert.plan.pipeline import planned
from wengert.plan.plan import Body, MakeCodegen, Plan, Step


def body_planner(plan: Plan, codegen: MakeCodegen) -> MakePlan:
    """The planner for bodies of a plan's loops, through all stages. Bodies have no host outputs and no final copies."""
    off = {*plan.off, "host_outputs", "dependent_launch"}

    def planned_body(body: Graph, pairs: Sequence[tuple[int, int]]) -> Plan:
        with within():
            return planned(body, plan.target, codegen, pairs, off, plan.check)

    return planned_body


def device_loop(
    node: Node, reads: Sequence[Node], results: Mapping[int, Node], named: Callable[[Node], str], plan: MakePlan
) -> Step:
    """The step of a loop or branch; `results` are the nodes that pick its results, by number."""
    writer: LoopWriter = _WRITERS[node.op](node, results, named, plan)
    return writer.step(reads)


# --- while and cond ---------------------------------------------------------------------------------------------------


class WhileWriter(LoopWriter):
    def _bodies(self) -> Iterator[Body]:
        n = self.node.attrs["constants"]
        test, step = self.node.attrs["test"], self.node.attrs["step"]
        pairs = tuple((n + k, k) for k in range(len(step.outputs)))
        yield Body(self.plan(_as_boolean(test), ()), (), None, "condition")
        yield Body(self.plan(step, pairs), pairs, None)

    def _actions(self) -> Iterator[Action]:
        n = self.node.attrs["constants"]
        test, step = (body.plan for body in self.bodies)
        carries = carries_of(self, 1, step.graph.inputs[n:], step.graph.outputs)
        ends = [carry.end for carry in carries]
        yield moves_of([(carry.end, self.given[n + carry.number], carry.size) for carry in carries])
        asked = self.fixed(0, dict(zip(test.graph.inputs, [*self.given[:n], *ends])))
        (going,) = test.graph.outputs
        if makes(test, going):
            asked[slot_of(test, going)] = Path((self.room(1),))
        ask = RunBody(0, 1, asked)
        flag = self.path_of(0, going, asked).at(0, 1)
        yield ask
        paths = self.fixed(1, dict(zip(step.graph.inputs, [*self.given[:n], *ends])))
        moved = [carry for carry in carries if carry.other is not None]
        after = []
        for carry in moved:
            assert carry.other is not None
            if carry.owned:
                paths[slot_of(step, carry.made)] = Path((carry.other,))
        for carry in moved:
            if not carry.owned and carry.other is not None:
                after.append(Shift(Path((carry.other,)), self.path_of(1, carry.made, paths), carry.size))
        back = moves_of([(carry.end, carry.other, carry.size) for carry in moved if carry.other is not None])
        run = RunBody(1, 1, paths, after=tuple(after))
        yield While(flag, (run, *([back] if back.moves else []), ask))


def _as_boolean(test: Graph) -> Graph:
    """A condition converted to a one-byte result."""
    (going,) = test.outputs
    if going.dtype is bool_:
        return test
    with recorded_as(going.location, False):
        made = CAST(going, dtype=bool_)
    return Graph(test.inputs, [made], nodes=[*test.nodes, made])


class CondWriter(LoopWriter):
    def _bodies(self) -> Iterator[Body]:
        for name, branch in zip(("where true", "where false"), self.node.attrs["branches"]):
            yield Body(self.plan(branch, ()), (), 1, name)

    def _actions(self) -> Iterator[Action]:
        yield Choose(self.given[0], *(tuple(self._branch(number)) for number in range(2)))

    def _branch(self, number: int) -> Iterator[Action]:
        plan = self.bodies[number].plan
        paths = self.fixed(number, dict(zip(plan.graph.inputs, self.given[1:])))
        owned: dict[Node, int] = {}
        for k, node in enumerate(plan.graph.outputs):
            if makes(plan, node) and owned.setdefault(storage(node), k) == k:
                paths[slot_of(plan, node)] = Path((self.result(k, node),))
        yield RunBody(number, 1, paths)
        rest = [(k, node) for k, node in enumerate(plan.graph.outputs) if owned.get(storage(node)) != k]
        wanted = [(k, node) for k, node in rest if k in self.wanted]
        moves = moves_of([(self.wanted[k], self.path_of(number, n, paths).at(0, 1), size_of(n)) for k, n in wanted])
        if moves.moves:
            yield moves


_WRITERS: dict[Op, type[LoopWriter]] = {SCAN: ScanWriter, WHILE: WhileWriter, COND: CondWriter}
