"""Loops and branches whose bodies are programs: each body is planned like a program, and C runs it step by step.

In: a `scan`, `while_loop` or `cond` whose body cannot be written out element by element (`kernels/loops`). Out: C
functions, one for the loop and one per body, and the plans of the bodies. A body's memory is planned once: sequences
and stacked outputs are pointers that advance, and a carry overwrites its old value where the body allows that
(`donate`) or else alternates between two buffers. If the body has an op without C, or one that waits for other ranks,
the loop runs by its reference instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN
from wengert.compiler.loop_lanes import ends_by_itself
from wengert.compiler.memory import ALIGNMENT, storage
from wengert.core.code import source_line
from wengert.core.graph import Graph, Node
from wengert.kernels.loops.elements import steps_text
from wengert.kernels.writer import Page
from wengert.ops.op import PICK
from wengert.plan.launches import region_text
from wengert.plan.plan import Body, Plan, Step, table_size

if TYPE_CHECKING:
    from wengert.plan.c_codegen import CCodegen

MakePlan = Callable[[Graph, Sequence[tuple[int, int]], Sequence[Node]], Plan]
"""From a body, its inputs with the outputs that take their place, and those that no step changes, to its plan."""


class WrittenLoop(NamedTuple):
    """A loop in C: the function to call, its bytes of scratch memory, and its bodies."""

    name: str
    scratch: int
    bodies: tuple[Body, ...]


def write_loop(node: Node, results: Sequence[bool], plan: MakePlan, codegen: CCodegen) -> WrittenLoop | str:
    """A loop or branch as C functions, added to the code generator; or the reason why it runs by its reference.

    `results` says which results are read. The function takes pointers to all sources, then all results, then its
    scratch memory.
    """
    if node.op not in _WRITERS:
        return f"{node.op.name} runs a function of the user's own"
    if ends_by_itself(node):
        return "it is over lanes that end by themselves"
    writer = _WRITERS[node.op](node, results, plan, codegen)
    reason = next(filter(None, (why_not(body.plan) for body in writer.bodies)), None)
    return reason if reason is not None else writer.written()


def why_not(plan: Plan) -> str | None:
    """Why a body's plan cannot be C; None if it can."""
    for step in plan.steps:
        if step.flight is not None:
            return "its body waits for other ranks"
        if step.host_op is not None and step.host_op.op is not PICK:
            inner = step.host_op
            return f"in its body {step.reason}" if step.reason else f"{inner.op.name} has no C"
    return None


def size_of(node: Node) -> int:
    """The bytes of a value."""
    return int(node.size * node.dtype.itemsize)


class _LoopWriter:
    """The parts common to all three kinds."""

    def __init__(self, node: Node, results: Sequence[bool], plan: MakePlan, codegen: CCodegen) -> None:
        self.node, self.results, self.codegen = node, results, codegen
        self.plan = plan
        self.bodies = tuple(self._bodies())
        self.page = Page()
        self.scratch = max((_rounded(body.plan.arena.size) for body in self.bodies), default=0)

    def _bodies(self) -> Iterator[Body]:
        raise TypeError("each kind of loop says what its bodies are")

    def _write(self) -> None:
        raise TypeError("each kind of loop says what it does")

    def written(self) -> WrittenLoop:
        """Add the functions to the code generator."""
        loops = self.codegen.loops
        self.names = [f"body{len(loops)}_{k}" for k in range(len(self.bodies))]
        name = f"loop{len(loops)}"
        self._write()
        lines = [f"// {self.node.op.name}: {line}" for line in _told(self.node)]
        lines += [f"static void {name}(void **given, char *arena)", "{", *self.page.lines, "}", ""]
        texts = [self._body_text(*pair) for pair in zip(self.names, self.bodies)]
        loops[name] = "\n".join([*texts, *lines])
        return WrittenLoop(name, self.scratch, self.bodies)

    def _body_text(self, name: str, body: Body) -> str:
        """A body's steps as a function over its table of pointers and its arena."""
        plan: Plan = body.plan
        codegen: Any = plan.codegen
        placed, slots = plan.arena.offsets, codegen.numbers.items()
        defined = [f"#define {codegen.prefix}{k} {placed[n]}L" for n, k in slots if n in placed]
        lines: list[str] = []
        for region in plan.regions:
            steps = [plan.steps[number] for number in region]
            if text := region_text(steps):
                lines += [*(f"    // {line}" for line in _user_lines(steps)), f"    {text}"]
        head = ["#undef scratch", f"#define scratch {plan.arena.scratch}L", *defined]
        return "\n".join([*head, f"static void {name}(void **io, char *arena)", "{", *lines, "}", ""])

    def _room(self, size: int) -> str:
        """Memory of the loop's own, after the arena of its bodies."""
        at, self.scratch = self.scratch, self.scratch + _rounded(size)
        return f"(arena + {at}L)"

    def _result(self, number: int, node: Node) -> str:
        """The address of a result, or scratch memory if nothing reads it."""
        if self.results[number]:
            return f"given[{len(self.node.sources) + number}]"
        return self._room(size_of(node))

    def _table(self, number: int) -> _Table:
        """The table of pointers of a body."""
        plan = self.bodies[number].plan
        table = _Table(f"io{number}", plan)
        packed = cast("CCodegen", plan.codegen).packed
        self.page.line(f"void *{table.name}[{table_size(plan) + len(packed) + 1}];")
        for node in plan.buffers.constants:
            self.page.line(f"{table.at(node)} = wg_constants[{self.codegen.held(node)}];")
        return table

    def _pack(self, table: _Table) -> None:
        """Rearrange loop-invariant operands into the layout that their readers want."""
        for packing, slot in cast("CCodegen", table.plan.codegen).packed.items():
            place = f"{table.name}[{slot}]"
            self.page.line(f"{place} = {self._room(packing.size)};")
            self.page.line(packing.text.format(source=table.at(packing.operand), packed=place))

    def _call(self, number: int) -> None:
        self.page.line(f"{self.names[number]}(io{number}, arena);")


class _Table(NamedTuple):
    """The pointers to a body's values outside its arena, by slot."""

    name: str
    plan: Plan

    def at(self, node: Node) -> str:
        """The pointer of a value."""
        return f"{self.name}[{self.plan.buffers.slots[storage(node)]}]"

    def makes(self, node: Node) -> bool:
        """Whether the body writes a value into memory of its own."""
        return storage(node) in self.plan.buffers.made


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _user_lines(steps: Sequence[Step]) -> list[str]:
    """The user's source lines of some steps."""
    written = (node for step in steps for node in step.writes if node.location is not None)
    lines = dict.fromkeys(source_line(node.location) for node in written if node.location is not None)
    return [line.rstrip("\\") for line in lines if line]


def _told(node: Node) -> list[str]:
    if node.op is SCAN:
        return [f"{node.attrs['steps']} steps{', from the last to the first' if node.attrs['reverse'] else ''}"]
    return ["as long as its condition holds" if node.op is WHILE else "one of two branches"]


def _copy(to: str, source: str, node: Node) -> str:
    return f"memcpy({to}, {source}, {size_of(node)}L);"


# --- carries ----------------------------------------------------------------------------------------------------------


class _Carries:
    """The carries of a loop: where they are read and written, and what happens after a step."""

    def __init__(self, writer: _LoopWriter, table: _Table, inputs: Sequence[Node], outputs: Sequence[Node], first: int):
        self.page, self.table = writer.page, table
        self.inputs, self.outputs = inputs, outputs
        self.ends = [writer._result(k, node) for k, node in enumerate(inputs)]
        self.turns: list[tuple[int, str]] = []  # carries with two places, and what the second one is called
        owned = set[Node]()
        for k, (given, made) in enumerate(zip(inputs, outputs)):
            self.page.line(_copy(self.ends[k], f"given[{first + k}]", given))
            self.page.line(f"{table.at(given)} = {self.ends[k]};")
            result = storage(made)
            if result is given or table.plan.donated.get(result) is given:
                continue
            other = f"next{k}"
            self.page.line(f"void *{other} = {writer._room(size_of(given))};")
            self.turns.append((k, other))
            if table.makes(made) and result not in owned:
                owned.add(result)
        self.owned = owned

    def before(self) -> None:
        """The address that a step writes its new value to."""
        told = set[Node]()
        for k, other in self.turns:
            result = storage(self.outputs[k])
            if result in self.owned and result not in told:
                told.add(result)
                self.page.line(f"{self.table.at(result)} = {other};")

    def after(self) -> None:
        """Swap the two buffers, after copying what the step did not write there itself."""
        told = set[Node]()
        for k, other in self.turns:
            result = storage(self.outputs[k])
            if result in self.owned and result not in told:
                told.add(result)
            else:
                self.page.line(_copy(other, self.table.at(result), self.inputs[k]))
        for k, other in self.turns:
            place = self.table.at(self.inputs[k])
            self.page.line(f"{{ void *old = {place}; {place} = {other}; {other} = old; }}")

    def finish(self) -> None:
        """Move each carry to the address of its result."""
        for k, _ in self.turns:
            place, end = self.table.at(self.inputs[k]), self.ends[k]
            self.page.line(f"if ({place} != (void *){end}) {_copy(end, place, self.inputs[k])}")


# --- scan -------------------------------------------------------------------------------------------------------------


class _Scan(_LoopWriter):
    def _bodies(self) -> Iterator[Body]:
        c, n = self.node.attrs["constants"], self.node.attrs["carries"]
        pairs = tuple((c + k, k) for k in range(n))
        body = self.node.attrs["body"]
        yield Body(self.plan(body, pairs, body.inputs[:c]), pairs, self.node.attrs["steps"])

    def _write(self) -> None:
        body = self.bodies[0].plan.graph
        c, n = self.node.attrs["constants"], self.node.attrs["carries"]
        table, page = self._table(0), self.page
        for k, node in enumerate(body.inputs[:c]):
            page.line(f"{table.at(node)} = given[{k}];")
        self._pack(table)
        carries = _Carries(self, table, body.inputs[c : c + n], body.outputs[:n], c)
        ys = list(enumerate(body.outputs[n:], n))
        owned: dict[Node, int] = {}
        for k, node in ys:
            if table.makes(node) and storage(node) not in carries.owned:
                owned.setdefault(storage(node), k)
        places = {k: self._result(k, node) for k, node in ys if self.results[k] or owned.get(storage(node)) == k}
        page.open(steps_text(self.node, "t"))
        for k, node in enumerate(body.inputs[c + n :], c + n):
            page.line(f"{table.at(node)} = (char *)given[{k}] + t * {size_of(node)}L;")
        for k, node in ys:
            if owned.get(storage(node)) == k:
                step = f" + t * {size_of(node)}L" if self.results[k] else ""
                page.line(f"{table.at(node)} = (char *){places[k]}{step};")
        carries.before()
        copied = [(k, node) for k, node in ys if self.results[k] and owned.get(storage(node)) != k]
        given = [(k, node) for k, node in copied if storage(node) in body.inputs]
        for k, node in given:  # before the step, which may write over it
            page.line(_copy(f"(char *){places[k]} + t * {size_of(node)}L", table.at(node), node))
        self._call(0)
        for k, node in copied:
            if (k, node) not in given:
                page.line(_copy(f"(char *){places[k]} + t * {size_of(node)}L", table.at(node), node))
        carries.after()
        page.line("if (wg_stopped()) break;")
        page.close()
        carries.finish()


class _While(_LoopWriter):
    def _bodies(self) -> Iterator[Body]:
        n = self.node.attrs["constants"]
        test, step = self.node.attrs["test"], self.node.attrs["step"]
        pairs = tuple((n + k, k) for k in range(len(step.outputs)))
        yield Body(self.plan(test, (), test.inputs[:n]), (), None, "condition")
        yield Body(self.plan(step, pairs, step.inputs[:n]), pairs, None)

    def _write(self) -> None:
        test, step = (body.plan.graph for body in self.bodies)
        n, page = self.node.attrs["constants"], self.page
        asked, table = self._table(0), self._table(1)
        for k in range(n):
            page.line(f"{table.at(step.inputs[k])} = given[{k}];")
            page.line(f"{asked.at(test.inputs[k])} = given[{k}];")
        self._pack(table)
        self._pack(asked)
        carries = _Carries(self, table, step.inputs[n:], step.outputs, n)
        (going,) = test.outputs
        if asked.makes(going):
            page.line(f"{asked.at(going)} = {self._room(size_of(going))};")
        page.open("while (1)")
        for one, other in zip(test.inputs[n:], step.inputs[n:]):
            page.line(f"{asked.at(one)} = {table.at(other)};")
        self._call(0)
        page.line(f"if (!*(uint8_t *){asked.at(going)} || wg_stopped()) break;")
        carries.before()
        self._call(1)
        carries.after()
        page.close()
        carries.finish()


class _Cond(_LoopWriter):
    def _bodies(self) -> Iterator[Body]:
        for name, branch in zip(("where true", "where false"), self.node.attrs["branches"]):
            yield Body(self.plan(branch, (), ()), (), 1, name)

    def _write(self) -> None:
        for number, body in enumerate(self.bodies):
            self.page.open("if (*(uint8_t *)given[0])" if number == 0 else "else")
            self._branch(number, body.plan.graph)
            self.page.close()

    def _branch(self, number: int, branch: Graph) -> None:
        table, page = self._table(number), self.page
        for k, node in enumerate(branch.inputs, 1):
            page.line(f"{table.at(node)} = given[{k}];")
        owned: dict[Node, int] = {}
        for k, node in enumerate(branch.outputs):
            if table.makes(node) and owned.setdefault(storage(node), k) == k:
                page.line(f"{table.at(node)} = {self._result(k, node)};")
        self._call(number)
        for k, node in enumerate(branch.outputs):
            if self.results[k] and owned.get(storage(node)) != k:
                page.line(_copy(self._result(k, node), table.at(node), node))


_WRITERS: dict[Any, Callable[..., _LoopWriter]] = {SCAN: _Scan, WHILE: _While, COND: _Cond}
